"""Lanes and gates by name: which runs wait as one, and before what.

A lane holds the queued runs of a workflow that no gate tells apart, so that one look at
its first run speaks for all of them. A gate is a control and a scope.
"""

from hashlib import blake2b

from duraton_engine.state.objects import RunState
from duraton_schemas.records.common import Scopes

CONCURRENCY, THROTTLE, TOKEN_THROTTLE = "concurrency", "throttle", "tokenThrottle"
TOGETHER, SINGLETON, BUDGET = "together", "singleton", "budget"

_LENGTH_MAX = 200
"""Longer names are hashed: they stand in many keys."""


def gate_of(control: str, scope: str) -> str:
    """The gate that a control is in a scope."""
    return f"{control}\0{scope}"


def split_gate(gate: str) -> tuple[str, str]:
    """The control and the scope that a gate names."""
    control, _, scope = gate.partition("\0")
    return control, scope


def scope_of(path: str, value: str | None) -> str:
    """The scope of a key's path and canonical text; unresolved ones share the empty one (P2)."""
    if value is None:
        return ""
    if len(value) > _LENGTH_MAX:
        value = "#" + _hashed(value)
    return f"{path}\0{value}"


def split_scope(scope: str) -> tuple[str, str | None]:
    """The path and the value that a scope names; None where it is that of unresolved keys."""
    path, found, value = scope.partition("\0")
    return path, value if found else None


def lane_of(run: RunState) -> str:
    """The lane that a run would queue in."""
    return lane_name(
        run.scopes,
        kind=run.kind,
        first=run.started_at is None,
        exempt=run.exempt,
        waits=run.waits,
    )


def lane_name(
    scopes: Scopes | None, *, kind: str, first: bool, exempt: bool, waits: bool = False
) -> str:
    """A lane's name.

    Args:
        scopes: Where its runs are counted.
        kind: `main` or `onFailure`, which no control but the ceiling holds back (P39).
        first: Whether its runs have not started before; a later start is none that a
            throttle counts, and is never refused or stopped for (P6, P27).
        exempt: Whether the budget does not hold its runs.
        waits: Whether `together` lets its runs wait whatever the flow says (P40).
    """
    if kind != "main":
        return "f"
    mark = "x" if exempt else ""
    if scopes is None:
        return mark
    parts = [scopes.concurrency, scopes.together]
    starts = (scopes.throttle, scopes.token_throttle)
    if first and (scopes.together is not None or starts != (None, None)):
        mark += "w1" if waits else "1"
        parts.extend(starts)
    text = "".join("-" if part is None else f"{len(part)}:{part}" for part in parts)
    return f"{mark}|{text if len(text) <= _LENGTH_MAX else '#' + _hashed(text)}"


def _hashed(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
