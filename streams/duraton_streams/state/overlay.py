"""The state of a partition: a store, and over it what has changed since it was written.

Reads see, in this order: what the open transition did, what the batch did, decoded
objects of before, the store. The first three are one dictionary a table, so that a
read that needs no store is one look-up; what the transition did is undone from a
note of what was there, and what the batch did is known by its keys.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import msgspec

from duraton_streams.errors import StoreMismatchError
from duraton_streams.state.keys import encode_key
from duraton_streams.state.level import ABSENT, MAYBE_BELOW, NEVER_BELOW, NOT_BELOW, Level
from duraton_streams.state.store import Row, Store
from duraton_streams.state.table import Key, Table
from duraton_streams.state.timers import TIMER_ROW, TIMERS, Timers

V = TypeVar("V")

META_PREFIX = b"\x00"
"""The table of meta rows: the state's own position, cluster, epoch, form."""
TABLES = 256
_ROW_BYTES_GUESS = 200
_copy = msgspec.Struct.__copy__  # type: ignore[attr-defined]  # its stub leaves it out


@dataclass(frozen=True)
class CacheSettings:
    """How much a state keeps decoded in memory, in each of two generations.

    Attributes:
        objects: Objects.
        bytes: About the most bytes, counted as they are stored.
    """

    objects: int = 16_384
    bytes: int = 16 << 20


class Pending(NamedTuple):
    """What has changed and is not in the store.

    Attributes:
        entries: Keys.
        bytes: About how many bytes, by the mean of the rows written before.
    """

    entries: int
    bytes: int


class State:
    """Implements `StateReader` and `StateWriter` over a store.

    It belongs to one thread. Without an open transition, writes are not undoable and
    `edit` changes objects where they are: that is how facts are replayed.

    Args:
        store: What holds the rows; empty, or written by a state of the same tables.
        tables: All tables but the timers'.
        cache: How much is kept decoded.

    Attributes:
        watch: Where not None, the keys that each transition changed are added to it,
            for shadows; whoever set it empties it.

    Raises:
        StoreMismatchError: The store holds rows of a table that is not among them.
    """

    def __init__(
        self, store: Store, tables: Iterable[Table[Any]], cache: CacheSettings | None = None
    ) -> None:
        self._store = store
        self._cache = cache or CacheSettings()
        ordered = sorted((TIMERS, *tables), key=lambda table: table.number)
        self._levels: dict[Table[Any], Level] = {table: Level(table, store) for table in ordered}
        if len({table.number for table in ordered}) < len(ordered) or ordered[0].number < 1:
            raise ValueError("each table needs a number of its own, from 2 on")
        self._timers_level = self._levels[TIMERS]
        self._meta: dict[str, Any] = {}
        self._open = False
        self._touched: list[Level] = []
        self._written = 0
        self._written_bytes = 0
        self._row_bytes = _ROW_BYTES_GUESS
        self._scratch_mark = 0
        self.timers = Timers(self._timers_level)
        self.scratch: dict[str, Any] = {}
        self.watch: set[tuple[Table[Any], Key]] | None = None
        self._refuse_unknown(table.number for table in ordered)

    def get(self, table: Table[V], key: Key) -> V | None:
        level = self._levels[table]
        value: Any = level.live.get(key)
        if value is None:
            value = self._load(level, key)
        found: V | None = None if value is ABSENT else value
        return found

    def scan(
        self, table: Table[V], prefix: Key, limit: int, after: Key | None = None
    ) -> list[tuple[Key, V]]:
        level = self._levels[table]
        found: list[tuple[Key, V]] = []
        for key in level.keys(prefix, limit, after):
            value = level.live.get(key)
            found.append((key, level.load(key) if value is None else value))
        return found

    def keys(
        self,
        table: Table[Any],
        prefix: Key,
        limit: int,
        after: Key | None = None,
        below: Key | None = None,
    ) -> list[Key]:
        """As `scan`, the keys alone; `below` gives only keys below that one."""
        return self._levels[table].keys(prefix, limit, after, below)

    def put(self, table: Table[V], key: Key, value: V) -> None:
        self._put(self._levels[table], key, value)

    def insert(self, table: Table[V], key: Key, value: V) -> None:
        level = self._levels[table]
        if key not in level.live and key not in level.aged:
            level.live[key] = ABSENT
        self._put(level, key, value, NEVER_BELOW)

    def edit(self, table: Table[V], key: Key) -> V:
        level = self._levels[table]
        value: Any = level.live.get(key)
        if value is None:
            value = self._load(level, key)
        if value is ABSENT:
            raise KeyError((table.name, key))
        if self._open:
            undo = level.undo
            if key in undo:
                own: V = value
                return own
            if not undo:
                self._touched.append(level)
            undo[key] = (value, level.dirty.get(key))
            value = level.live[key] = _copy(value)
        if key not in level.dirty:
            level.live[key] = value
            level.change(key, MAYBE_BELOW)
        changed: V = value
        return changed

    def delete(self, table: Table[Any], key: Key) -> None:
        self._delete(self._levels[table], key)

    def set_timer(self, due: int, target: Key) -> None:
        self._put(self._timers_level, (due, *target), TIMER_ROW)

    def clear_timer(self, due: int, target: Key) -> None:
        self._delete(self._timers_level, (due, *target))

    def begin(self) -> None:
        """Set a savepoint: the start of a transition."""
        if self._open:
            raise RuntimeError("a transition is open")
        self._open = True
        self._scratch_mark = len(self.scratch)

    def rollback(self) -> None:
        """Undo everything since `begin`, which ends the transition.

        What `scratch` got since then goes too; what was replaced in it stays replaced.
        """
        self._open = False
        for level in self._touched:
            level.rollback()
        self._touched.clear()
        while len(self.scratch) > self._scratch_mark:
            self.scratch.popitem()

    def commit_transition(self) -> None:
        """Keep everything since `begin`, which ends the transition."""
        self._open = False
        if self.watch is not None:
            for level in self._touched:
                self.watch.update((level.table, key) for key in level.undo)
        for level in self._touched:
            level.commit()
        self._touched.clear()

    @property
    def size(self) -> Pending:
        """What has changed since the last flush."""
        entries = sum(len(level.dirty) for level in self._levels.values())
        return Pending(entries, entries * self._row_bytes)

    @property
    def tables(self) -> tuple[Table[Any], ...]:
        """Its tables, the timers' included, by number."""
        return tuple(self._levels)

    def changed(self) -> set[tuple[Table[Any], Key]]:
        """The keys that were changed since the last flush."""
        return {(table, key) for table, level in self._levels.items() for key in level.dirty}

    def kept(self) -> list[tuple[Table[Any], Key]]:
        """The keys whose objects, or absence, are in memory now; for shadows."""
        return [
            (table, key)
            for table, level in self._levels.items()
            for key in (level.live.keys() | level.aged.keys())
        ]

    def meta(self, name: str) -> Any:
        """What was last flushed under a name, or None."""
        if name not in self._meta:
            raw = self._store.get(encode_key(META_PREFIX, (name,)))
            self._meta[name] = None if raw is None else msgspec.msgpack.decode(raw)
        return self._meta[name]

    def flush(self, meta: Mapping[str, Any]) -> None:
        """Write all changes and some meta rows to the store in one batch.

        Args:
            meta: By name, such as the position on the journal; plain values.
        """
        if self._open:
            raise RuntimeError("a transition is open")
        puts: list[Row] = []
        deletes: list[bytes] = []
        size = 0
        for level in self._levels.values():
            if level.dirty:
                size += _collect(level, puts, deletes)
        entries = len(puts)
        for name, value in meta.items():
            puts.append((encode_key(META_PREFIX, (name,)), msgspec.msgpack.encode(value)))
        self._store.write(puts, deletes)
        for level in self._levels.values():
            if level.dirty:
                level.flushed()
        self._meta.update(meta)
        if entries:
            self._row_bytes = size // entries + 1
        self._written += entries + len(deletes)
        self._written_bytes += size
        self._make_room()

    def drop(self) -> None:
        """Forget all that is not in the store, an open transition included."""
        self._open = False
        self._touched.clear()
        self._meta.clear()
        self.scratch.clear()
        for level in self._levels.values():
            level.drop()

    def dump(self) -> Iterator[tuple[str, Key, Any]]:
        """Every row as (table name, key, value), by table number and key, for `verify`.

        Values are as they would be read back from the store. Nothing may be written
        while it is walked.
        """
        for table, level in self._levels.items():
            for key, value in level.rows():
                yield table.name, key, value

    def close(self) -> None:
        """Close the store; what was not flushed is forgotten."""
        self.drop()
        self._store.close()

    def _load(self, level: Level, key: Key) -> Any:
        value = level.load(key)
        if level.loaded > self._cache.objects and not self._open:
            self._make_room()
        return value

    def _put(self, level: Level, key: Key, value: Any, below: int = NOT_BELOW) -> None:
        old = level.live.get(key)
        if old is None:
            old = level.aged.get(key)
        if level.windows and (old is None or old is ABSENT):
            old = level.born(key, old)
        if self._open:
            undo = level.undo
            if key not in undo:
                if not undo:
                    self._touched.append(level)
                undo[key] = (old, level.dirty.get(key))
        level.live[key] = value
        if key not in level.dirty:
            level.change(key, below if old is ABSENT else MAYBE_BELOW)

    def _delete(self, level: Level, key: Key) -> None:
        old = level.live.get(key)
        if old is None:
            old = level.aged.get(key)
        if old is ABSENT:
            return
        if level.windows:
            old = level.died(key, old)
            if old is ABSENT:
                return
        if self._open:
            undo = level.undo
            if key not in undo:
                if not undo:
                    self._touched.append(level)
                undo[key] = (old, level.dirty.get(key))
        level.live[key] = ABSENT
        below = level.dirty.get(key)
        if below is None:
            level.change(key, MAYBE_BELOW)
        elif below == NEVER_BELOW:
            if self._open:
                level.gone.append(key)
            else:
                level.forget(key)

    def _make_room(self) -> None:
        """Begin a generation where this one is full."""
        levels = self._levels.values()
        size = self._written_bytes + sum(level.loaded_bytes for level in levels)
        added = self._written + sum(level.loaded for level in levels)
        if size <= self._cache.bytes and added <= self._cache.objects:
            return
        held = sum(len(level.live) for level in levels)
        self._written, self._written_bytes = 0, 0
        for level in levels:
            level.loaded, level.loaded_bytes = 0, 0
        if size <= self._cache.bytes and held <= self._cache.objects:
            # much was written, but the same few objects again and again
            self._written, self._written_bytes = held, size
            return
        for level in levels:
            level.turn()

    def _refuse_unknown(self, numbers: Iterable[int]) -> None:
        known = [0, *numbers, TABLES]
        for lower, upper in pairwise(known):
            low = bytes((lower + 1,))
            high = bytes((upper,)) if upper < TABLES else b"\xff\xff"
            if lower + 1 < upper and (rows := self._store.scan(low, high, 1)):
                raise StoreMismatchError(
                    f"the store holds rows of table {rows[0][0][0]}, which this program lacks"
                )


def _collect(level: Level, puts: list[Row], deletes: list[bytes]) -> int:
    """Add a table's changes to a batch; the bytes of the values."""
    encode = level.table.encoder.encode
    prefix, live = level.prefix, level.live
    size = 0
    for key, below in level.dirty.items():
        value = live[key]
        if value is not ABSENT:
            stored = encode(value)
            size += len(stored)
            puts.append((encode_key(prefix, key), stored))
        elif below == MAYBE_BELOW:
            deletes.append(encode_key(prefix, key))
    return size
