"""Throttle: one start every `perMs / limit` in a scope (flow control seed, P5, P6).

The time of the last start is kept, not times handed out in advance: idle time earns no
credit, and one that waited and was cancelled leaves no hole.
"""

from duraton_engine.controls.flow import Flow
from duraton_engine.controls.look import Block, Look
from duraton_engine.state import tables
from duraton_engine.state.lanes import THROTTLE, gate_of
from duraton_schemas.controls import Throttle
from duraton_schemas.records.common import Scopes, Throttled
from duraton_schemas.records.journal import RunStarted

_NS = 1_000_000
"""Nanoseconds of a millisecond: times keep the fraction of an interval that is not whole."""


def check(look: Look) -> Block | None:
    """Held back until the spacing since the last start has passed; only a first start is."""
    control, scope = _stated(look)
    if control is None or scope is None:
        return None
    opens = due(look, scope)
    if opens is None or look.tx.now >= opens:
        return None
    return Block(gate_of(THROTTLE, scope), opens)


def claim(look: Look, started: RunStarted) -> None:
    """A first start is the last one from here on."""
    control, scope = _stated(look)
    if control is None or scope is None:
        return
    now = look.tx.now * _NS
    allowed = _allowed(look, control, scope)
    # Within the millisecond that the clock can tell, the exact time counts, so that the
    # fractions of an interval add up instead of being lost.
    last = allowed if allowed is not None and 0 <= now - allowed < _NS else now
    after = last + control.per_ms * _NS // control.limit
    started.throttled = Throttled(last=last, next=-(-after // _NS))


def release(flow: Flow | None, scopes: Scopes) -> tuple[str, ...]:
    """Nothing is given back: only time opens the gate."""
    return ()


def due(look: Look, scope: str) -> int | None:
    """When the next start is allowed by the newest rate, milliseconds since 1970 UTC."""
    control = look.flow.controls.throttle if look.flow is not None else None
    if control is None:
        return None
    allowed = _allowed(look, control, scope)
    return None if allowed is None else -(-allowed // _NS)


def _stated(look: Look) -> tuple[Throttle | None, str | None]:
    if not look.first or look.flow is None or look.scopes is None:
        return None, None
    return look.flow.controls.throttle, look.scopes.throttle


def _allowed(look: Look, control: Throttle, scope: str) -> int | None:
    row = look.tx.state.get(tables.THROTTLES, (*look.of, scope))
    return None if row is None else row.last + control.per_ms * _NS // control.limit
