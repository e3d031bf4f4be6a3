"""The embedded log: one SQLite file, synced at every commit, owned by one process.

It survives `kill -9` and power loss with nothing lost (WAL, synchronous=FULL), and
anyone may read it while the engine runs: `SqliteLog.open_readonly`, or SQLite itself.
"""

import os
import sqlite3
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

from duraton_streams.errors import DoubtError, FencedError, LogError, OffsetGoneError
from duraton_streams.logs import sqlite_file
from duraton_streams.logs.base import LogRecord, NewRecord
from duraton_streams.logs.limits import check_partitions, check_sizes, no_such_place, places
from duraton_streams.logs.lockfile import LockFile
from duraton_streams.logs.sqlite_file import SqliteSettings

Place = tuple[str, int]

_NO_END = 1 << 62


class SqliteLog:
    """A cluster's log in one SQLite file.

    Args:
        path: The file; it and its directory are made where they are missing.
        partitions: How many partitions the cluster has; None takes what the file says,
            and 1 for a new one.
        settings: How the file is used.

    Raises:
        LogInUseError: Another process owns the file; the message names it.
        LogMismatchError: The file was made with other partitions, or is no log.
        LogError: It cannot be opened.
    """

    embedded = True

    def __init__(
        self, path: Path, partitions: int | None = None, settings: SqliteSettings | None = None
    ) -> None:
        if partitions is not None:
            check_partitions(partitions)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise LogError(f"cannot make {path.parent}: {error.strerror}") from error
        lock = LockFile(path.with_name(path.name + ".lock"), str(path))
        try:
            self._open(path, settings or SqliteSettings(), lock, partitions)
        except BaseException:
            lock.release()
            raise

    @classmethod
    def open_readonly(cls, path: Path, settings: SqliteSettings | None = None) -> "SqliteLog":
        """Read a log, whether or not an engine runs on it.

        Its tails are not woken: they look at the file whenever they are asked.

        Raises:
            LogMismatchError: The file is no log.
            LogError: It is not there or cannot be opened.
        """
        log = cls.__new__(cls)
        log._open(  # noqa: SLF001 - the other half of the constructor
            path, settings or SqliteSettings(), None, None
        )
        return log

    def _open(
        self, path: Path, settings: SqliteSettings, lock: LockFile | None, partitions: int | None
    ) -> None:
        self._path = path
        self._settings = settings
        self._lock_file = lock
        self._write_lock = threading.Lock()
        self._read_lock = threading.Lock()
        self._owners: dict[int, SqliteWriter] = {}
        self._tails: dict[Place, list[SqliteTail]] = defaultdict(list)
        self._closed = False
        readonly = lock is None
        self._connection, identity = sqlite_file.open_log(
            path, settings, partitions, readonly=readonly
        )
        self.cluster, self.partitions = identity.cluster, identity.partitions
        file = path.stat()
        self._file = (file.st_dev, file.st_ino)
        self._topics = identity.topics
        try:
            # Readers have a connection of their own: they must not wait for a sync.
            self._reader = sqlite_file.connect(path, settings, readonly=True)
        except BaseException:
            self._connection.close()
            raise
        self._known = dict.fromkeys(places(self.partitions))
        self._ends: dict[Place, int] = {}
        self._firsts: dict[Place, int] = {}
        self._look()

    def _look(self) -> None:
        """Take every partition's bounds from the file."""
        for topic, partition in self._known:
            first, end = self._bounds_in_file(topic, partition)
            self._firsts[topic, partition], self._ends[topic, partition] = first, end

    def _bounds_in_file(self, topic: str, partition: int) -> tuple[int, int]:
        with self._read_lock:
            self._check_open()
            try:
                # Removing moves `below` only up to the end, so the two may be of two moments.
                last = sqlite_file.last(self._reader, topic, partition)
                below = self._reader.execute(
                    "SELECT below FROM cleared WHERE topic = ? AND partition = ?",
                    (self._topics.get(topic, 0), partition),
                ).fetchone()
            except sqlite3.Error as error:
                raise LogError(f"cannot read {self._path}: {error}") from error
        first = below[0] if below is not None else 0
        return first, first if last is None else max(first, last + 1)

    def now_ms(self) -> int | None:
        return None

    def writer(self, partition: int) -> "SqliteWriter":
        if not 0 <= partition < self.partitions:
            raise ValueError(f"the cluster has no partition {partition}")
        with self._write_lock:
            self._check_writable()
            # After a commit that failed, only the file knows where it ends.
            self._look()
            owner = self._owners[partition] = SqliteWriter(self, partition)
        return owner

    def append(self, records: Sequence[NewRecord]) -> list[int]:
        check_sizes(records)
        with self._write_lock:
            self._check_writable()
            offsets, tails = self._write(records)
        _wake(tails)
        return offsets

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        place = (topic, partition)
        if place not in self._known:
            raise no_such_place(topic, partition)
        if self._lock_file is None:
            return self._bounds_in_file(topic, partition)
        return self._firsts[place], self._ends[place]

    def read(
        self, topic: str, partition: int, offset: int, limit: int, end: int | None = None
    ) -> list[LogRecord]:
        first, _ = self.bounds(topic, partition)
        if offset < first:
            raise OffsetGoneError(topic, partition, offset, first)
        return self._read(topic, partition, offset, limit, end, self._settings.read_bytes)

    def _read(
        self, topic: str, partition: int, offset: int, limit: int, end: int | None, bytes_limit: int
    ) -> list[LogRecord]:
        stop = _NO_END if end is None else end
        at = (partition, offset, stop, limit)
        with self._read_lock:
            self._check_open()
            try:
                return sqlite_file.select(self._reader, topic, at, bytes_limit)
            except sqlite3.Error as error:
                raise LogError(f"cannot read {self._path}: {error}") from error

    def tail(
        self, topic: str, partition: int, offset: int, wake: Callable[[], None]
    ) -> "SqliteTail":
        if (topic, partition) not in self._known:
            raise no_such_place(topic, partition)
        tail = SqliteTail(self, topic, partition, offset, wake)
        with self._write_lock:
            self._check_open()
            self._tails[topic, partition].append(tail)
        return tail

    def close(self) -> None:
        with self._write_lock, self._read_lock:
            if self._closed:
                return
            self._closed = True
            self._owners.clear()
            for tails in self._tails.values():
                for tail in tails:
                    tail.wake = _nothing
            self._tails.clear()
            self._reader.close()
            self._connection.close()
            if self._lock_file is not None:
                self._lock_file.release()

    def delete_below(self, topic: str, partition: int, offset: int) -> None:
        """Remove the records below an offset, durably; the end stays where it is."""
        first, end = self.bounds(topic, partition)
        first = max(first, min(offset, end))
        at = (self._topics[topic], partition, first)
        with self._write_lock:
            self._check_writable()
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                self._connection.execute("INSERT OR REPLACE INTO cleared VALUES (?, ?, ?)", at)
                sqlite_file.delete(self._connection, topic, partition, first)
                self._connection.execute("COMMIT")
            except sqlite3.Error as error:
                self._undo()
                raise LogError(f"cannot write to {self._path}: {error}") from error
            self._firsts[topic, partition] = first

    def _commit(self, writer: "SqliteWriter", records: Sequence[NewRecord]) -> list[int]:
        with self._write_lock:
            if self._owners.get(writer.partition) is not writer:
                raise FencedError(f"partition {writer.partition} has another owner")
            offsets, tails = self._write(records)
        _wake(tails)
        return offsets

    def _write(self, records: Sequence[NewRecord]) -> tuple[list[int], "list[SqliteTail]"]:
        if not records:
            return [], []
        self._check_file()
        now = time.time_ns() // 1_000_000
        offsets: list[int] = []
        rows: dict[Place, list[sqlite_file.Row]] = {}
        ends: dict[Place, int] = {}
        for topic, partition, value, key, headers, at in records:
            place = (topic, partition)
            written = rows.get(place)
            if written is None:
                if place not in self._known:
                    raise no_such_place(topic, partition)
                written = rows[place] = []
                ends[place] = self._ends[place]
            offset = ends[place]
            ends[place] = offset + 1
            offsets.append(offset)
            written.append((value, key, headers or None, at or now))
        segments = [
            (place[0], segment)
            for place, written in rows.items()
            for segment in sqlite_file.pack(place[1], self._ends[place], written)
        ]
        try:
            sqlite_file.insert(self._connection, segments)
        except sqlite3.Error as error:
            self._undo()
            raise DoubtError(f"cannot write to {self._path}: {error}") from error
        self._ends.update(ends)
        return offsets, [tail for place in ends for tail in self._tails.get(place, ())]

    def _check_file(self) -> None:
        """Refuse to write into a file that others no longer find: nothing of it would be kept."""
        try:
            found = os.stat(self._path)  # noqa: PTH116 - at every commit; Path costs as much again
        except OSError as error:
            raise LogError(f"{self._path} was removed while in use: {error.strerror}") from error
        if (found.st_dev, found.st_ino) != self._file:
            raise LogError(f"{self._path} was replaced while in use")

    def _undo(self) -> None:
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def _release(self, writer: "SqliteWriter") -> None:
        with self._write_lock:
            if self._owners.get(writer.partition) is writer:
                del self._owners[writer.partition]

    def _drop(self, tail: "SqliteTail", place: Place) -> None:
        with self._write_lock:
            tail.wake = _nothing  # also for a commit that is about to wake it
            if tail in self._tails.get(place, ()):
                self._tails[place].remove(tail)

    def _check_open(self) -> None:
        if self._closed:
            raise LogError(f"{self._path} is closed")

    def _check_writable(self) -> None:
        self._check_open()
        if self._lock_file is None:
            raise LogError(f"{self._path} is open for reading only")


class SqliteWriter:
    """A partition's owner in the file; after a commit that raised, make a new one."""

    def __init__(self, log: SqliteLog, partition: int) -> None:
        self.partition = partition
        self._log = log
        self._broken = False

    def commit(self, records: Sequence[NewRecord]) -> list[int]:
        check_sizes(records)
        if self._broken:
            raise DoubtError("this writer's last commit failed; make a new one")
        try:
            return self._log._commit(self, records)  # noqa: SLF001 - one class in two halves
        except DoubtError:
            self._broken = True
            raise

    def close(self) -> None:
        self._log._release(self)  # noqa: SLF001 - one class in two halves


class SqliteTail:
    """Follows one partition of the file."""

    def __init__(
        self, log: SqliteLog, topic: str, partition: int, offset: int, wake: Callable[[], None]
    ) -> None:
        self.position = offset
        self.wake = wake
        self._log = log
        self._topic = topic
        self._partition = partition

    def take(self, limit: int, bytes_limit: int = 8 << 20) -> list[LogRecord]:
        first, end = self._log.bounds(self._topic, self._partition)
        if first <= self.position >= end:
            return []
        if self.position < first:
            raise OffsetGoneError(self._topic, self._partition, self.position, first)
        found = self._log._read(  # noqa: SLF001 - one class in two halves
            self._topic, self._partition, self.position, limit, end, bytes_limit
        )
        if found:
            self.position = found[-1].offset + 1
        return found

    def pass_over(self, offset: int) -> None:
        self.position = max(self.position, offset)

    def close(self) -> None:
        self._log._drop(self, (self._topic, self._partition))  # noqa: SLF001 - as above


def _nothing() -> None:
    pass


def _wake(tails: Sequence[SqliteTail]) -> None:
    # Outside the lock: a wake may take at once.
    for tail in tails:
        tail.wake()
