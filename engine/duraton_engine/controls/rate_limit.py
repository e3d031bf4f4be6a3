"""Rate limit: at most `limit` admissions in any span of `perMs` (flow control seed, P7).

Admissions are logged; what is rejected is not, so that it does not prolong the block.
"""

from typing import Any

from duraton_engine.controls.look import Look
from duraton_engine.state import tables
from duraton_schemas.records.common import Rated


def check(look: Look, data: Any) -> bool:
    """Whether one more admission is over the limit."""
    flow = look.flow
    control = flow.controls.rate_limit if flow is not None else None
    if flow is None or control is None:
        return False
    key = (*look.of, flow.scope(control.key, data))
    row = look.tx.state.get(tables.RATES, key)
    if row is None or row.count < control.limit:
        return False
    # The admission that makes the newest `limit` full: what is older does not matter.
    older = row.count - control.limit
    rows = look.tx.state.scan(tables.ADMISSIONS, key, older + 1)
    return int(rows[older][0][4]) > look.tx.now - control.per_ms


def claim(look: Look, data: Any) -> Rated | None:
    """What an admission uses."""
    flow = look.flow
    control = flow.controls.rate_limit if flow is not None else None
    if flow is None or control is None:
        return None
    now = look.tx.now
    return Rated(
        scope=flow.scope(control.key, data), floor=now - control.per_ms, until=now + control.per_ms
    )
