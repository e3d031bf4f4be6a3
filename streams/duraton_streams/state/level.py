"""One table's part of a `State`: its decoded objects, its changes, its windows."""

from bisect import bisect_left
from collections.abc import Iterator
from typing import Any, Final

from duraton_streams.state.keys import after, decode_key, encode_key, prefix_range
from duraton_streams.state.store import Store, reached_end
from duraton_streams.state.table import Key, Table
from duraton_streams.state.window import WINDOW_KEYS_MAX, Window


class Absent:
    """Stands where a key is known to have no value."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = Absent()

DUMP_ROWS = 1000
READ_AHEAD = 64
"""How many rows a window that runs short reads at least: queues are taken one by one."""
WINDOW_SCAN_MAX = 512
"""Longer scans are not the head of a queue and leave windows alone."""
WINDOWS_MAX = 4096
"""Windows of one table; the unused ones go first, all of them if there are too many."""
WINDOWS_KEYS_MAX = 65_536
"""Keys in one table's windows; above it each is cut to what it would read at once."""

MAYBE_BELOW: Final = 0
"""A changed key that the store may hold."""
NOT_BELOW: Final = 1
"""One that it does not hold."""
NEVER_BELOW: Final = 2
"""One that it has never held: it was new for ever when it was inserted."""

Old = tuple[Any, int | None]
"""What a key was before a transition: its object, ABSENT, or None where nobody had
looked; and its entry in `dirty`, None where it had not been changed."""


class Level:
    """A table's objects in memory.

    Args:
        table: The table.
        store: What lies below.

    Attributes:
        live: Objects, or ABSENT, by key; all changed ones and the newer clean ones.
        aged: Clean ones of the generation before; `live` goes before it.
        dirty: Keys that differ from the store, in order of change, each with what is
            known of the store: `MAYBE_BELOW`, `NOT_BELOW` or `NEVER_BELOW`.
        undo: What the open transition changed.
        gone: Keys deleted in the open transition that the store has never held.
        windows: By prefix; every table that was ever scanned has its `depths`.
        loaded: How many objects came from the store since that was last asked.
        loaded_bytes: Their bytes.
    """

    __slots__ = (
        "_fresh",
        "_order",
        "_store",
        "aged",
        "depths",
        "dirty",
        "gone",
        "live",
        "loaded",
        "loaded_bytes",
        "prefix",
        "ranged",
        "table",
        "undo",
        "windows",
    )

    def __init__(self, table: Table[Any], store: Store) -> None:
        self.table = table
        self.prefix = table.prefix
        self._store = store
        self.live: dict[Key, Any] = {}
        self.aged: dict[Key, Any] = {}
        self.dirty: dict[Key, int] = {}
        self.undo: dict[Key, Old] = {}
        self.gone: list[Key] = []
        self.windows: dict[Key, Window] = {}
        self.depths: tuple[int, ...] = ()
        self.ranged = False
        self.loaded = 0
        self.loaded_bytes = 0
        self._order: list[tuple[bytes, Key]] = []
        self._fresh: list[Key] = []

    def load(self, key: Key) -> Any:
        """The object of a key that is not in `live`, or ABSENT; it is in `live` then."""
        value = self.aged.get(key)
        if value is None:
            raw = self._store.get(encode_key(self.prefix, key))
            self.loaded += 1
            if raw is None:
                value = ABSENT
            else:
                self.loaded_bytes += len(raw)
                value = self.table.decoder.decode(raw)
        self.live[key] = value
        return value

    def change(self, key: Key, below: int) -> None:
        """A key that was clean becomes dirty."""
        self.dirty[key] = below
        if self.ranged:
            self._fresh.append(key)

    def forget(self, key: Key) -> None:
        """A key that was inserted and deleted between two flushes leaves no trace.

        Most runs are such, so what is in memory grows with the runs that live, not with
        those that lived, and stays where the processor's caches have it.
        """
        if self.live.get(key) is ABSENT and self.dirty.get(key) == NEVER_BELOW:
            del self.live[key], self.dirty[key]
            self.aged.pop(key, None)

    def commit(self) -> None:
        """Keep what the open transition did."""
        self.undo.clear()
        if self.gone:
            for key in self.gone:
                self.forget(key)
            self.gone.clear()

    def born(self, key: Key, known: Any) -> Any:
        """A key comes to life: windows take it in.

        Args:
            key: The key.
            known: ABSENT, or None where it may have lived before.

        Returns:
            `known`, or ABSENT where a window tells that it did not live before.
        """
        for depth in self.depths:
            window = self.windows.get(key[:depth])
            if window is not None:
                raw = encode_key(self.prefix, key)
                if raw < window.covered:
                    if raw not in window.keys:
                        known = ABSENT
                    window.add(raw, key)
        return known

    def died(self, key: Key, known: Any) -> Any:
        """A key dies: windows let it go; the same answer as `born`."""
        for depth in self.depths:
            window = self.windows.get(key[:depth])
            if window is not None:
                raw = encode_key(self.prefix, key)
                if raw < window.covered:
                    if known is None and raw not in window.keys:
                        known = ABSENT
                    window.remove(raw)
        return known

    def rollback(self) -> None:
        """Make everything what it was before the open transition."""
        for key, (old, was_dirty) in self.undo.items():
            if old is None:
                self.live.pop(key, None)
            else:
                self.live[key] = old
            if was_dirty is None:
                self.dirty.pop(key, None)
            if old is None:
                self._doubt(key)
            elif old is ABSENT:
                self.died(key, old)
            else:
                self.born(key, old)
        self.undo.clear()
        self.gone.clear()

    def _doubt(self, key: Key) -> None:
        """Nobody knows whether a key lives: windows know nothing from it on."""
        for depth in self.depths:
            window = self.windows.get(key[:depth])
            if window is not None:
                window.cut(encode_key(self.prefix, key))

    def flushed(self) -> None:
        """All that was dirty is in the store."""
        self.dirty.clear()
        self._order.clear()
        self._fresh.clear()

    def turn(self) -> None:
        """Begin a generation: what nobody looks at until the next one is let go."""
        live = self.live
        self.aged = live
        self.live = {key: live[key] for key in self.dirty}
        self.turn_windows()

    def turn_windows(self) -> None:
        """Let go of windows that nobody scanned since last time, and of long tails."""
        self.windows = {prefix: w for prefix, w in self.windows.items() if w.used}
        crowded = sum(len(w.raws) for w in self.windows.values()) > WINDOWS_KEYS_MAX
        for window in self.windows.values():
            window.used = False
            if crowded and len(window.raws) > READ_AHEAD:
                window.cut(window.raws[READ_AHEAD])

    def drop(self) -> None:
        """Forget everything that is not in the store."""
        self.flushed()
        self.live, self.aged, self.windows = {}, {}, {}
        self.undo.clear()
        self.gone.clear()

    def keys(
        self, prefix: Key, limit: int, above: Key | None = None, below: Key | None = None
    ) -> list[Key]:
        """Live keys that begin with a prefix, in order.

        Args:
            prefix: Whole parts.
            limit: The most keys.
            above: Give only keys above this one.
            below: Give only keys below this one.
        """
        if limit <= 0:
            return []
        window = self.windows.get(prefix)
        if window is None:
            if limit > WINDOW_SCAN_MAX:
                # Left open, it would be asked at every key that comes or goes from then on.
                return self._walk_between(prefix, limit, above, below)
            window = self._open_window(prefix)
        window.used = True
        raws, high = window.raws, window.high
        if below is not None:
            high = min(high, encode_key(self.prefix, below))
        low, start = b"", 0
        if above is not None:
            low = after(encode_key(self.prefix, above))
            start = bisect_left(raws, low)
        while len(raws) - start < limit and window.covered < high:
            paging = start > 0 and len(raws) >= WINDOW_KEYS_MAX // 2
            if paging or limit > WINDOW_SCAN_MAX or low >= window.covered:
                head = [window.keys[raw] for raw in raws[start:]]
                rest = self._walk(max(low, window.covered), high, limit - len(head))
                return head + [key for _, key in rest]
            window.extend(*self._merged(window.covered, window.high, max(limit, READ_AHEAD)))
        end = min(start + limit, len(raws))
        if below is not None:
            end = min(end, bisect_left(raws, high))
        return [window.keys[raw] for raw in raws[start:end]]

    def _open_window(self, prefix: Key) -> Window:
        if len(self.windows) >= WINDOWS_MAX:
            self.turn_windows()
            if len(self.windows) > WINDOWS_MAX // 2:
                self.windows.clear()
        if len(prefix) not in self.depths:
            self.depths = (*self.depths, len(prefix))
        window = self.windows[prefix] = Window(*prefix_range(self.prefix, prefix))
        return window

    def _walk_between(
        self, prefix: Key, limit: int, above: Key | None, below: Key | None
    ) -> list[Key]:
        """As `keys`, without a window."""
        low, high = prefix_range(self.prefix, prefix)
        if above is not None:
            low = max(low, after(encode_key(self.prefix, above)))
        if below is not None:
            high = min(high, encode_key(self.prefix, below))
        return [key for _, key in self._walk(low, high, limit)]

    def _walk(self, low: bytes, high: bytes, limit: int) -> list[tuple[bytes, Key]]:
        """The first live keys of a range, read past the windows."""
        found: list[tuple[bytes, Key]] = []
        while len(found) < limit and low < high:
            part, low = self._merged(low, high, limit - len(found))
            found += part
        return found[:limit]

    def _merged(self, low: bytes, high: bytes, limit: int) -> tuple[list[tuple[bytes, Key]], bytes]:
        """Live keys of a range, changed and stored ones merged; objects read are kept.

        Args:
            low: The lowest key.
            high: The key above the highest.
            limit: About the most rows to read, at least 1.

        Returns:
            The keys in order, and up to where they are all there are: `high` where
            the range was read whole. They may be none although there are more.
        """
        rows = self._store.scan(low, high, limit)
        upto = high if reached_end(rows, limit) else after(rows[-1][0])
        found: dict[bytes, Key] = {}
        for raw, value in rows:
            key = found[raw] = decode_key(raw)
            if key not in self.live and key not in self.aged:
                self.live[key] = self.table.decoder.decode(value)
                self.loaded += 1
                self.loaded_bytes += len(value)
        count = 0
        for raw, key in self._changed(low, upto):
            if self.live[key] is ABSENT:
                found.pop(raw, None)
                continue
            found[raw] = key
            count += 1
            if count >= limit:
                upto = min(upto, after(raw))
                break
        keys = sorted(found)
        return [(raw, found[raw]) for raw in keys[: bisect_left(keys, upto)]], upto

    def rows(self) -> Iterator[tuple[Key, Any]]:
        """Every key and its value as it would be read back; nothing is kept."""
        low, high = prefix_range(self.prefix, ())
        while low < high:
            rows = self._store.scan(low, high, DUMP_ROWS)
            upto = high if reached_end(rows, DUMP_ROWS) else after(rows[-1][0])
            page = dict(rows)
            for raw, key in self._changed(low, upto):
                value = self.live[key]
                if value is ABSENT:
                    page.pop(raw, None)
                else:
                    page[raw] = self.table.encoder.encode(value)
            for raw in sorted(page):
                yield decode_key(raw), self.table.decoder.decode(page[raw])
            low = upto

    def _changed(self, low: bytes, high: bytes) -> Iterator[tuple[bytes, Key]]:
        """The changed keys of a range in order; one may come twice."""
        order = self._ordered()
        for at in range(bisect_left(order, (low,)), len(order)):
            raw, key = order[at]
            if raw >= high:
                break
            if key in self.dirty:
                yield raw, key

    def _ordered(self) -> list[tuple[bytes, Key]]:
        """As `_changed`, all of them; some may be no longer changed."""
        if not self.ranged:
            self.ranged = True
            self._fresh = list(self.dirty)
        if self._fresh:
            self._order.extend([(encode_key(self.prefix, key), key) for key in self._fresh])
            self._order.sort(key=_by_bytes)
            self._fresh.clear()
        return self._order


def _by_bytes(entry: tuple[bytes, Key]) -> bytes:
    return entry[0]
