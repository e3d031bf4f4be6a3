"""A log in memory, for tests: everything a log does, and nothing that outlives the process.

It grows without a limit, since its records live as long as it does.
"""

import threading
import time
import uuid
from bisect import bisect_left
from collections.abc import Callable, Sequence
from operator import attrgetter

from duraton_streams.errors import DoubtError, FencedError, OffsetGoneError
from duraton_streams.logs.base import LogRecord, NewRecord
from duraton_streams.logs.limits import check_partitions, check_sizes, no_such_place, places

Faults = Callable[[str, int, Sequence[NewRecord]], None]
"""Called as (point, partition, records) at "before_commit" and "after_commit" of a writer.

What it raises comes out of `commit`: before, nothing is written; after, all is.
"""

_OFFSET = attrgetter("offset")


class _Place:
    """One partition of one topic."""

    __slots__ = ("end", "first", "records", "tails")

    def __init__(self) -> None:
        self.records: list[LogRecord] = []
        self.first = 0
        self.end = 0
        self.tails: list[MemoryTail] = []


class MemoryLog:
    """A log in memory that successive owners in one process may share.

    A test that crashes an owner drops the owner and keeps the log. Closing it closes
    its writers and tails; its records stay, and new writers and tails may be made.

    Args:
        partitions: How many partitions it has.
        cluster: The cluster's id; made up where None.
        faults: Called at named points of each commit, to make it fail.
        markers: Whether each transaction takes one more offset in every partition it
            wrote to, as on Kafka.
    """

    embedded = True

    def __init__(
        self,
        partitions: int = 1,
        cluster: str | None = None,
        faults: Faults | None = None,
        *,
        markers: bool = False,
    ) -> None:
        check_partitions(partitions)
        self.partitions = partitions
        self.cluster = cluster or uuid.uuid4().hex
        self.faults = faults
        self._markers = markers
        self._places = {place: _Place() for place in places(partitions)}
        self._owners: dict[int, MemoryWriter] = {}
        self._lock = threading.Lock()

    def now_ms(self) -> int | None:
        return None

    def writer(self, partition: int) -> "MemoryWriter":
        if not 0 <= partition < self.partitions:
            raise ValueError(f"the cluster has no partition {partition}")
        with self._lock:
            owner = self._owners[partition] = MemoryWriter(self, partition)
        return owner

    def append(self, records: Sequence[NewRecord]) -> list[int]:
        check_sizes(records)
        with self._lock:
            offsets, tails = self._write(records)
        _wake(tails)
        return offsets

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        place = self._place(topic, partition)
        return place.first, place.end

    def read(
        self, topic: str, partition: int, offset: int, limit: int, end: int | None = None
    ) -> list[LogRecord]:
        place = self._place(topic, partition)
        with self._lock:
            if offset < place.first:
                raise OffsetGoneError(topic, partition, offset, place.first)
            start = bisect_left(place.records, offset, key=_OFFSET)
            found = place.records[start : start + limit]
        if end is not None and found and found[-1].offset >= end:
            del found[bisect_left(found, end, key=_OFFSET) :]
        return found

    def tail(
        self, topic: str, partition: int, offset: int, wake: Callable[[], None]
    ) -> "MemoryTail":
        place = self._place(topic, partition)
        tail = MemoryTail(self, place, topic, partition, offset, wake)
        with self._lock:
            place.tails.append(tail)
        return tail

    def close(self) -> None:
        with self._lock:
            self._owners.clear()
            for place in self._places.values():
                for tail in place.tails:
                    tail.wake = _nothing
                place.tails.clear()

    def delete_below(self, topic: str, partition: int, offset: int) -> None:
        """Remove the records below an offset, as retention does."""
        place = self._place(topic, partition)
        with self._lock:
            place.first = max(place.first, min(offset, place.end))
            del place.records[: bisect_left(place.records, place.first, key=_OFFSET)]

    def _place(self, topic: str, partition: int) -> _Place:
        try:
            return self._places[topic, partition]
        except KeyError:
            raise no_such_place(topic, partition) from None

    def _commit(self, writer: "MemoryWriter", records: Sequence[NewRecord]) -> list[int]:
        with self._lock:
            if self._owners.get(writer.partition) is not writer:
                raise FencedError(f"partition {writer.partition} has another owner")
            offsets, tails = self._write(records)
            if self._markers:
                for topic, partition in {(r.topic, r.partition) for r in records}:
                    self._places[topic, partition].end += 1
        _wake(tails)
        return offsets

    def _write(self, records: Sequence[NewRecord]) -> tuple[list[int], "list[MemoryTail]"]:
        written = [self._place(record.topic, record.partition) for record in records]
        now = time.time_ns() // 1_000_000
        offsets = []
        for record, place in zip(records, written, strict=True):
            topic, partition, value, key, headers, at = record
            offsets.append(place.end)
            place.records.append(
                LogRecord(topic, partition, place.end, value, key, headers, at or now)
            )
            place.end += 1
        return offsets, [tail for place in dict.fromkeys(written) for tail in place.tails]

    def _release(self, writer: "MemoryWriter") -> None:
        with self._lock:
            if self._owners.get(writer.partition) is writer:
                del self._owners[writer.partition]

    def _drop(self, place: _Place, tail: "MemoryTail") -> None:
        with self._lock:
            tail.wake = _nothing  # also for a commit that is about to wake it
            if tail in place.tails:
                place.tails.remove(tail)


class MemoryWriter:
    """A partition's owner in memory; after a commit that raised, make a new one."""

    def __init__(self, log: MemoryLog, partition: int) -> None:
        self.partition = partition
        self._log = log
        self._broken = False

    def commit(self, records: Sequence[NewRecord]) -> list[int]:
        check_sizes(records)
        if self._broken:
            raise DoubtError("this writer's last commit failed; make a new one")
        faults = self._log.faults
        if faults is None:
            return self._log._commit(self, records)  # noqa: SLF001 - one class in two halves
        try:
            faults("before_commit", self.partition, records)
            offsets = self._log._commit(self, records)  # noqa: SLF001 - as above
            faults("after_commit", self.partition, records)
        except BaseException:
            self._broken = True
            raise
        return offsets

    def close(self) -> None:
        self._log._release(self)  # noqa: SLF001 - one class in two halves


class MemoryTail:
    """Follows one partition in memory."""

    def __init__(
        self,
        log: MemoryLog,
        place: _Place,
        topic: str,
        partition: int,
        offset: int,
        wake: Callable[[], None],
    ) -> None:
        self.position = offset
        self.wake = wake
        self._log = log
        self._place = place
        self._topic = topic
        self._partition = partition

    def take(self, limit: int, bytes_limit: int = 8 << 20) -> list[LogRecord]:
        if limit < 1 or self._place.first <= self.position >= self._place.end:
            return []
        end = self._place.end
        found = self._log.read(self._topic, self._partition, self.position, limit, end)
        size = 0
        for index, record in enumerate(found):
            size += len(record.value or b"")
            if size > bytes_limit and index:
                del found[index:]
                break
        self.position = found[-1].offset + 1 if found else end
        return found

    def pass_over(self, offset: int) -> None:
        self.position = max(self.position, offset)

    def close(self) -> None:
        self._log._drop(self._place, self)  # noqa: SLF001 - one class in two halves


def _nothing() -> None:
    pass


def _wake(tails: Sequence[MemoryTail]) -> None:
    # Outside the lock: a wake may take at once.
    for tail in tails:
        tail.wake()
