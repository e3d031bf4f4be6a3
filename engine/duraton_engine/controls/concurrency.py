"""Concurrency: at most `limit` runs of a scope execute at once (flow control seed, P19).

Executing runs are counted by the facts that start them and end their tokens.
"""

from duraton_engine.controls.look import Block, Look
from duraton_engine.state.lanes import CONCURRENCY, gate_of
from duraton_schemas.records.common import Scopes
from duraton_schemas.records.journal import RunStarted


def check(look: Look) -> Block | None:
    """Held back while the scope is full by the newest limit (P20)."""
    limit = look.flow.controls.concurrency if look.flow is not None else None
    scope = look.scopes.concurrency if look.scopes is not None else None
    if limit is None or scope is None or look.executing(CONCURRENCY, scope) < limit.limit:
        return None
    return Block(gate_of(CONCURRENCY, scope))


def claim(look: Look, started: RunStarted) -> None:
    """A start takes a place by executing; there is nothing more to say."""


def release(scopes: Scopes) -> tuple[str, ...]:
    """A place in the scope is free."""
    return () if scopes.concurrency is None else (gate_of(CONCURRENCY, scopes.concurrency),)


def due(look: Look, scope: str) -> int | None:
    """No time gives a place back."""
    return None
