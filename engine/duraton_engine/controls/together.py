"""Together: how many runs of a flow's key work at once, and what becomes of a start over that.

The rules are the together seed's, P22 to P28 and P52. This module is about flows that are
counted at their own home; a group spans workflows and is counted at the project slot.
"""

from duraton_engine.controls.look import Block, Look
from duraton_engine.state import tables
from duraton_engine.state.lanes import TOGETHER, gate_of
from duraton_engine.state.objects import RunState
from duraton_schemas.records.common import Scopes
from duraton_schemas.records.journal import RunStarted
from duraton_streams.state.table import scan_all


def check(look: Look) -> Block | None:
    """Held back while as many runs work as may; a first start with `stop` takes a place over."""
    flow = look.flow
    control = flow.controls.together if flow is not None else None
    scope = look.scopes.together if look.scopes is not None else None
    if control is None or scope is None or control.group is not None:
        return None
    if look.executing(TOGETHER, scope) < control.max:
        return None
    if look.first and not look.waits and control.then == "stop":
        look.victim = longest(look, scope)
        if look.victim is not None:
            return None
    return Block(gate_of(TOGETHER, scope))


def claim(look: Look, started: RunStarted) -> None:
    """A start takes a place by executing; there is nothing more to say."""


def release(scopes: Scopes) -> tuple[str, ...]:
    """A place in the scope is free."""
    return () if scopes.together is None else (gate_of(TOGETHER, scopes.together),)


def due(look: Look, scope: str) -> int | None:
    """No time gives a place back."""
    return None


def gate(look: Look) -> Block:
    """Where a firing is held until a place is free."""
    scope = look.scopes.together if look.scopes is not None else None
    return Block(gate_of(TOGETHER, scope or ""))


def full(look: Look, without: RunState | None = None) -> bool:
    """Whether a start is over `max`, where it is asked for (P28).

    Args:
        look: The run that would start.
        without: A run that would end for it, or None.
    """
    control = look.flow.controls.together if look.flow is not None else None
    scope = look.scopes.together if look.scopes is not None else None
    if control is None or scope is None or control.group is not None:
        return False
    works = look.executing(TOGETHER, scope)
    if without is not None and without.epoch and without.scopes is not None:
        works -= without.scopes.together == scope
    return works >= control.max


def longest(look: Look, scope: str) -> RunState | None:
    """The run of the flow and the key that has worked longest; of equals the older start (P25)."""
    state, now = look.tx.state, look.tx.now
    found: tuple[int, int, int, RunState] | None = None
    for key, _ in scan_all(state, tables.WORKING, (*look.of, scope)):
        run = state.get(tables.RUNS, (look.slot, str(key[4])))
        assert run is not None, "a run that works exists"
        rank = (-(run.worked_ms + now - run.since), run.started_at or 0, run.seq)
        if found is None or rank < found[:3]:
            found = (*rank, run)
    return found[3] if found is not None else None


def joinable(look: Look) -> RunState | None:
    """The newest run of the flow and key that has not ended, whatever `max` says (P26)."""
    scope = look.scopes.together if look.scopes is not None else None
    if scope is None:
        return None
    return look.newest(TOGETHER, scope)
