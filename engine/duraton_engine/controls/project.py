"""What is counted across workflows: the project's ceiling and the groups of `together`.

Both are counted at the project slot. A run that all local controls and a runner would let
start asks there for a place under its gate keys (DESIGN 4, gates).
"""

from duraton_engine.controls.look import Block, Look
from duraton_engine.state import tables
from duraton_engine.state.flow import PROJECT
from duraton_engine.state.lanes import split_scope
from duraton_schemas.records.journal import RunStarted
from duraton_streams.partition.machine import Transition
from duraton_streams.partition.transition import first_slot

CEILING = "ceiling"
_GROUP = "group"


def keys_of(look: Look) -> tuple[str, ...]:
    """The gate keys of a run, its group's before the ceiling; none where nothing counts it.

    onFailure counts for the ceiling only (P39).
    """
    ceiling = (CEILING,) if look.engine.registrations.ceiling else ()
    flow = look.flow
    together = flow.controls.together if flow is not None and look.kind == "main" else None
    if together is None or together.group is None:
        return ceiling
    scope = look.scopes.together if look.scopes is not None else None
    return (group_key(together.group, scope or ""), *ceiling)


def gates_applied(tx: Transition) -> int:
    """The version of gate keys that this partition counts by."""
    own = first_slot(tx.partition, tx.partitions)
    row = tx.state.get(tables.GATES_APPLIED, (own,))
    return row.version if row is not None else 0


def group_key(group: str, scope: str) -> str:
    """The gate key of a group and a flow's key; flows may name its field differently."""
    value = split_scope(scope)[1]
    return f"{_GROUP}\0{group}" if value is None else f"{_GROUP}\0{group}\0{value}"


def group_of(key: str) -> str | None:
    """The group that a gate key is of, or None for the ceiling."""
    return key.split("\0", 2)[1] if key.startswith(_GROUP + "\0") else None


def check(look: Look) -> Block | None:
    """Held back until the project slot has given a place under each key.

    A run that is stopped for a start leaves it its places (P25).
    """
    keys = keys_of(look)
    if not keys or look.granted == keys:
        return None
    if look.victim is not None and look.victim.gates == keys:
        look.granted, look.takes_over = keys, True
        return None
    return Block(PROJECT)


def claim(look: Look, started: RunStarted) -> None:
    """A start is counted under the keys that were granted."""
    if look.granted is not None:
        started.gates = list(look.granted)
