"""Singleton: at most one unended run a scope (flow control seed, P15).

Unended runs stand in a table by their key from the fact that creates them to the one that
ends them: the lock has no lifetime of its own.
"""

from duraton_engine.controls.look import Block, Look
from duraton_engine.state.lanes import SINGLETON, gate_of
from duraton_engine.state.objects import RunState
from duraton_schemas.records.common import Scopes


def check(look: Look) -> RunState | None:
    """The newest unended run in the way, or None."""
    control = look.flow.controls.singleton if look.flow is not None else None
    scope = look.scopes.singleton if look.scopes is not None else None
    if control is None or scope is None:
        return None
    return look.newest(SINGLETON, scope)


def gate(look: Look) -> Block:
    """Where a firing is held until the live run ends."""
    scope = look.scopes.singleton if look.scopes is not None else None
    return Block(gate_of(SINGLETON, scope or ""))


def release(scopes: Scopes) -> tuple[str, ...]:
    """The key is free for a firing that was held."""
    return () if scopes.singleton is None else (gate_of(SINGLETON, scopes.singleton),)
