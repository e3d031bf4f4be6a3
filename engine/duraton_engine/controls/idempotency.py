"""Idempotency: one run for a key's value within a time (flow control seed, P8, P17)."""

from typing import Any

from duraton_engine.controls.look import Look
from duraton_engine.state import tables
from duraton_schemas.records.common import Claimed


def check(look: Look, data: Any) -> bool:
    """Whether the key of an event is taken; it is free the moment its time is over (P17)."""
    flow = look.flow
    control = flow.controls.idempotency if flow is not None else None
    if flow is None or control is None:
        return False
    row = look.tx.state.get(tables.KEYS, (*look.of, flow.scope(control.key, data)))
    return row is not None and look.tx.now < row.until


def claim(look: Look, data: Any) -> Claimed | None:
    """What a start, or an event taken into a window or buffer, claims."""
    flow = look.flow
    control = flow.controls.idempotency if flow is not None else None
    if flow is None or control is None:
        return None
    scope = flow.scope(control.key, data)
    return Claimed(scope=scope, until=look.tx.now + control.period_ms)
