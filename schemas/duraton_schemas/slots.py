"""Slots and partitions: where whatever has a key lives (DESIGN 3).

There are 1,024 slots for ever. A partition holds a run of neighbouring slots,
so the number of partitions can differ between clusters while ids, facts and
keys stay the same.
"""

from functools import lru_cache
from hashlib import blake2b

SLOTS = 1024
PROJECT_SLOT = 0
"""The slot of what spans workflows: the registry, and later gates and jobs."""

PARTITIONS_MAX = SLOTS


@lru_cache(maxsize=65_536)
def slot_of(kind: str, *parts: str) -> int:
    """The slot of a canonical key.

    Args:
        kind: What sort of key it is, so that equal texts of two sorts part ways.
        parts: The key's texts, in order; their lengths are hashed with them.

    Returns:
        A whole number from 0 to 1023.
    """
    digest = blake2b(digest_size=8)
    for part in (kind, *parts):
        raw = part.encode()
        digest.update(len(raw).to_bytes(4, "big"))
        digest.update(raw)
    return int.from_bytes(digest.digest(), "big") % SLOTS


def home_slot(app: str, workflow: str) -> int:
    """The slot where a workflow, its runs and its counters live for ever."""
    return slot_of("workflow", app, workflow)


def partition_of(slot: int, partitions: int) -> int:
    """The partition that holds a slot in a cluster of that many partitions."""
    return slot * partitions // SLOTS


def slots_of(partition: int, partitions: int) -> range:
    """The slots that a partition holds."""
    first = -(-partition * SLOTS // partitions)
    last = -(-(partition + 1) * SLOTS // partitions)
    return range(first, last)
