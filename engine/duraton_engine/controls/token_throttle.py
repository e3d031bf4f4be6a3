"""Token throttle: first starts wait while their bucket of AI tokens is empty (P32).

The bucket holds `tokens`, fills evenly in `perMs`, and may go below 0 without bound. It is
kept as the time at which its level is 0.
"""

from duraton_engine.context import EngineContext
from duraton_engine.controls.look import Block, Look
from duraton_engine.state import tables
from duraton_engine.state.flow import NS_PER_MS, Late
from duraton_engine.state.lanes import TOKEN_THROTTLE, gate_of
from duraton_engine.state.objects import RunState
from duraton_schemas.records.common import Drained, Scopes, StepSpend
from duraton_schemas.records.journal import RunStarted
from duraton_streams.partition.machine import Transition


def check(look: Look) -> Block | None:
    """Held back until the level is above 0; only a first start is."""
    if not look.first or look.flow is None or look.scopes is None:
        return None
    scope = look.scopes.token_throttle
    if look.flow.controls.token_throttle is None or scope is None:
        return None
    opens = due(look, scope)
    if opens is None or look.tx.now >= opens:
        return None
    return Block(gate_of(TOKEN_THROTTLE, scope), opens)


def claim(look: Look, started: RunStarted) -> None:
    """A start takes nothing: what its steps use is debited as it is recorded."""


def release(scopes: Scopes) -> tuple[str, ...]:
    """Nothing is given back: only time fills the bucket."""
    return ()


def due(look: Look, scope: str) -> int | None:
    """The first millisecond in which the level is above 0, or None for a full bucket."""
    row = look.tx.state.get(tables.BUCKETS, (*look.of, scope))
    return None if row is None else row.opens_at


def debit(
    tx: Transition, engine: EngineContext, slot: int, run: RunState | Late, spend: StepSpend | None
) -> Drained | None:
    """What a step's tokens make of its run's bucket, for the fact that records the step."""
    if spend is None or spend.tokens <= 0:
        return None
    flow = engine.registrations.flow(run.app, run.workflow)
    control = flow.controls.token_throttle if flow is not None else None
    if isinstance(run, Late):
        scope = run.scope
    else:
        scope = run.scopes.token_throttle if run.scopes is not None else None
    if control is None or scope is None:
        return None
    now = tx.now * NS_PER_MS
    full = now - control.per_ms * NS_PER_MS
    row = tx.state.get(tables.BUCKETS, (slot, run.app, run.workflow, scope))
    level = full if row is None else max(row.empty_at, full)
    empty_at = level + spend.tokens * control.per_ms * NS_PER_MS // control.tokens
    return Drained(empty_at=empty_at, tokens=control.tokens, per_ms=control.per_ms)
