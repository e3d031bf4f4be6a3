"""Windows: the first keys of a range, kept in memory and exact.

Queues are walked from their head, and what has left the head would otherwise be
walked over again in the store, where a removed row is a mark until compaction.
A window holds every live key of a range below `covered`, changed and stored ones
alike; what is above is not known to it and is read when the window runs short.
"""

from bisect import bisect_left, insort

from duraton_streams.state.table import Key

WINDOW_KEYS_MAX = 2048
"""A window above it is cut to half, since a queue may hold a hundred thousand."""


class Window:
    """The live keys of a range up to `covered`.

    Args:
        low: The range's lowest key.
        high: The key above its highest.

    Attributes:
        raws: The keys' bytes, in order.
        keys: The keys by their bytes.
        covered: All live keys below it are here.
        high: As given; the range is whole once `covered` reaches it.
        used: Whether it was scanned since the cache last turned.
    """

    __slots__ = ("covered", "high", "keys", "raws", "used")

    def __init__(self, low: bytes, high: bytes) -> None:
        self.raws: list[bytes] = []
        self.keys: dict[bytes, Key] = {}
        self.covered = low
        self.high = high
        self.used = True

    @property
    def whole(self) -> bool:
        """Whether it holds the whole range."""
        return self.covered >= self.high

    def add(self, raw: bytes, key: Key) -> None:
        """A key below `covered` came to life."""
        if raw not in self.keys:
            self.keys[raw] = key
            insort(self.raws, raw)
            if len(self.raws) > WINDOW_KEYS_MAX:
                self.cut(self.raws[WINDOW_KEYS_MAX // 2])

    def remove(self, raw: bytes) -> None:
        """A key below `covered` died."""
        if self.keys.pop(raw, None) is not None:
            del self.raws[bisect_left(self.raws, raw)]

    def extend(self, found: list[tuple[bytes, Key]], covered: bytes) -> None:
        """Take in the live keys from `covered` up to a new `covered`, in order."""
        self.raws.extend([raw for raw, _ in found])
        self.keys.update(found)
        self.covered = covered

    def cut(self, raw: bytes) -> None:
        """Know nothing from a key on."""
        if raw < self.covered:
            at = bisect_left(self.raws, raw)
            for gone in self.raws[at:]:
                del self.keys[gone]
            del self.raws[at:]
            self.covered = raw
