"""Throttle: one start every `perMs / limit` in a scope (flow control seed, P5, P6).

The time of the last start is kept, not times handed out in advance: idle time earns no
credit, and one that waited and was cancelled leaves no hole.
"""

from duraton_engine.controls.look import Block, Look
from duraton_engine.state import tables
from duraton_engine.state.flow import NS_PER_MS
from duraton_engine.state.lanes import THROTTLE, gate_of
from duraton_schemas.controls import Throttle
from duraton_schemas.records.common import Scopes, Throttled
from duraton_schemas.records.journal import RunStarted


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
    now = look.tx.now * NS_PER_MS
    allowed = _allowed(look, control, scope)
    # Within the millisecond that the clock can tell, the exact time counts, so that the
    # fractions of an interval add up instead of being lost.
    exact = allowed is not None and -_slack(control) <= now - allowed < NS_PER_MS
    last = allowed if allowed is not None and exact else now
    started.throttled = Throttled(last=last, next=_opens(control, last + _spacing(control)))


def release(scopes: Scopes) -> tuple[str, ...]:
    """Nothing is given back: only time opens the gate."""
    return ()


def due(look: Look, scope: str) -> int | None:
    """When the next start is allowed by the newest rate, milliseconds since 1970 UTC."""
    control = look.flow.controls.throttle if look.flow is not None else None
    if control is None:
        return None
    allowed = _allowed(look, control, scope)
    return None if allowed is None else _opens(control, allowed)


def _spacing(control: Throttle) -> int:
    return control.per_ms * NS_PER_MS // control.limit


def _slack(control: Throttle) -> int:
    """How much earlier than its exact time a start may be.

    Several fit into a millisecond where the spacing is below it; the clock tells no less.
    """
    return max(0, NS_PER_MS - _spacing(control))


def _opens(control: Throttle, allowed: int) -> int:
    """The first millisecond of a start that is allowed from a time in nanoseconds on."""
    return -((_slack(control) - allowed) // NS_PER_MS)


def _stated(look: Look) -> tuple[Throttle | None, str | None]:
    if not look.first or look.flow is None or look.scopes is None:
        return None, None
    return look.flow.controls.throttle, look.scopes.throttle


def _allowed(look: Look, control: Throttle, scope: str) -> int | None:
    row = look.tx.state.get(tables.THROTTLES, (*look.of, scope))
    return None if row is None else row.last + _spacing(control)
