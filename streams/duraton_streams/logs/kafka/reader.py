"""Reading Kafka from an offset to an end that is known, for recovery, views and tools."""

import threading
import time
from collections import deque
from collections.abc import Callable

from confluent_kafka import Consumer, KafkaError, TopicPartition

from duraton_streams.errors import LogError, LogUnreachableError, OffsetGoneError
from duraton_streams.logs.base import LogRecord
from duraton_streams.logs.kafka.convert import to_record

READER_FETCH_WAIT_MS = 5
"""A reader only fetches while somebody reads; then the end should be seen at once."""
IDLE_READERS = 2
"""Readers kept for the next read."""
_BATCH = 1_000
_POLL_S = 0.5


class Reader:
    """One consumer that reads one place at a time, going on where it was."""

    def __init__(self, consumer: Consumer) -> None:
        self.consumer = consumer
        self.at: tuple[str, int, int] | None = None
        self._ready: deque[LogRecord] = deque()
        self._reached = 0

    def seek(self, name: str, topic: str, partition: int, offset: int) -> None:
        """Go to an offset, unless it is there already."""
        if self.at == (topic, partition, offset):
            return
        self._ready.clear()
        self._reached = offset
        self.at = (topic, partition, offset)
        self.consumer.assign([TopicPartition(name, partition, offset)])

    def rest(self) -> None:
        """Fetch no more until the next seek."""
        self.at = None
        self._ready.clear()
        self.consumer.unassign()

    def take(self, limit: int, end: int, deadline: float) -> list[LogRecord]:
        """The next records below an end; empty once all below it were read."""
        assert self.at is not None
        topic, partition, _ = self.at
        ready = self._ready
        while True:
            found: list[LogRecord] = []
            while ready and len(found) < limit and ready[0].offset < end:
                found.append(ready.popleft())
            if found:
                self.at = (topic, partition, found[-1].offset + 1)
                return found
            if ready or self._reached >= end:
                return []
            if time.monotonic() > deadline:
                raise LogUnreachableError(
                    f"{topic}/{partition} could not be read to {end}: the broker does not "
                    f"answer, or a transaction at {self._reached} is still open"
                )
            self._fetch(topic, partition)

    def _fetch(self, topic: str, partition: int) -> None:
        first = self.consumer.poll(_POLL_S)
        if first is None:
            return
        for message in (first, *self.consumer.consume(_BATCH, 0)):
            offset = message.offset()
            error = message.error()
            if offset is None:
                continue
            if error is None:
                if offset >= self._reached:
                    self._ready.append(to_record(message, topic, partition, offset))
                    self._reached = offset + 1
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - librdkafka's name
                # Only markers and aborted records were left below it.
                self._reached = max(self._reached, offset)
            elif error.code() == KafkaError._AUTO_OFFSET_RESET:  # noqa: SLF001 - as above
                raise OffsetGoneError(topic, partition, self._reached, -1)


class Readers:
    """Readers for whoever reads now, and a few that wait.

    Args:
        make: Makes a consumer of committed records.
        bounds: The first offset and the end of a place, for the error's text.
        stable: The end of what is committed of a place.
        read_s: Seconds that one read may wait.
    """

    def __init__(
        self,
        make: Callable[[], Consumer],
        bounds: Callable[[str, int], tuple[int, int]],
        stable: Callable[[str, int], int],
        read_s: float,
    ) -> None:
        self._make = make
        self._bounds = bounds
        self._stable = stable
        self._read_s = read_s
        self._lock = threading.Lock()
        self._idle: list[Reader] = []
        self._closed = False

    def read(
        self, name: str, topic: str, partition: int, offset: int, limit: int, end: int | None
    ) -> list[LogRecord]:
        """Read a place; see `Log.read`."""
        stop = self._stable(topic, partition) if end is None else end
        if offset >= stop:
            return []
        reader = self._borrow((topic, partition, offset))
        found: list[LogRecord] = []
        try:
            reader.seek(name, topic, partition, offset)
            found = reader.take(limit, stop, time.monotonic() + self._read_s)
        except OffsetGoneError as gone:
            first, _ = self._bounds(topic, partition)
            raise OffsetGoneError(topic, partition, gone.wanted, first) from None
        finally:
            self._give_back(reader, done=not found)
        return found

    def _borrow(self, at: tuple[str, int, int]) -> Reader:
        with self._lock:
            if self._closed:
                raise LogError("the log is closed")
            if self._idle:
                fitting = next((r for r in self._idle if r.at == at), None)
                resting = next((r for r in self._idle if r.at is None), None)
                reader = fitting or resting or self._idle[0]
                self._idle.remove(reader)
                return reader
        return Reader(self._make())

    def _give_back(self, reader: Reader, *, done: bool) -> None:
        if done:
            reader.rest()
        with self._lock:
            self._idle.append(reader)
            spare = []
            if self._closed or len(self._idle) > IDLE_READERS:
                spare.append(self._idle.pop(0))
        for one in spare:
            one.consumer.close()

    def close(self) -> None:
        """Close those that wait; one that reads is closed when it is done."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for reader in idle:
            reader.consumer.close()
