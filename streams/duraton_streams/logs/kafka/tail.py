"""Tails on Kafka: one consumer and one thread feed them all.

The thread takes what has come, lays it before each tail, and wakes those that got
something. A tail that is not taken from is paused, so that it holds nobody up.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from duraton_streams.errors import LogError, OffsetGoneError
from duraton_streams.logs.base import LogRecord
from duraton_streams.logs.kafka.convert import to_record
from duraton_streams.logs.kafka.errors import CLIENT_FAILURES, reason
from duraton_streams.logs.kafka.settings import LOGGER, KafkaSettings

POLL_S = 0.02
"""How long the thread waits for records before it looks at what it was asked to do."""
_BATCH = 1_000


class KafkaTail:
    """Follows one partition; filled by the follower's thread, taken from by any one other."""

    def __init__(
        self,
        follower: "Follower",
        name: str,
        topic: str,
        partition: int,
        offset: int,
        wake: Callable[[], None],
    ) -> None:
        self.place = TopicPartition(name, partition, offset)
        self.topic = topic
        self.partition = partition
        self.position = offset
        self.wake = wake
        self.error: LogError | None = None
        self.lock = threading.Lock()
        self.ready: deque[LogRecord] = deque()
        self.ready_bytes = 0
        self.reached = offset
        self._follower = follower

    def take(self, limit: int, bytes_limit: int = 8 << 20) -> list[LogRecord]:
        found: list[LogRecord] = []
        ready = self.ready
        size = 0
        with self.lock:
            while ready and len(found) < limit:
                length = len(ready[0].value or b"")
                size += length
                if size > bytes_limit and found:
                    break
                self.ready_bytes -= length
                found.append(ready.popleft())
            if not ready:
                # Beyond the last record only markers were seen, if anything.
                self.position = self.reached
            elif found:
                self.position = found[-1].offset + 1
            if not found and self.error is not None:
                raise self.error
        return found

    def pass_over(self, offset: int) -> None:
        """Nothing: what is on its way here comes."""

    def close(self) -> None:
        self.wake = _nothing
        self._follower.drop(self)


class Follower:
    """One consumer of many places, and the thread that reads it.

    Only that thread speaks to the consumer (to assign from another thread while one
    polls can lock both up); the others leave it notes, which it reads between polls.

    Args:
        consumer: A consumer of committed records, without an assignment.
        settings: How Kafka is used.
        first: The first offset of a place that is there, for errors.
    """

    def __init__(
        self, consumer: Consumer, settings: KafkaSettings, first: Callable[[str, int], int]
    ) -> None:
        self._consumer = consumer
        self._settings = settings
        self._first = first
        self._lock = threading.Lock()
        self._tails: dict[tuple[str, int], KafkaTail] = {}
        self._added: list[KafkaTail] = []
        self._dropped: list[KafkaTail] = []
        self._paused: list[KafkaTail] = []
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="duraton-tails", daemon=True)
        self._thread.start()

    def follow(self, tail: KafkaTail) -> bool:
        """Begin to feed a tail; False where its place is followed already.

        A place that was just let go of may still have records on their way here, so it
        counts as followed until the thread has let go of it too.
        """
        key = (tail.place.topic, tail.partition)
        with self._lock:
            if self._closed or key in self._tails:
                return False
            self._tails[key] = tail
            self._added.append(tail)
            return True

    def drop(self, tail: KafkaTail) -> None:
        """Feed a tail no longer."""
        with self._lock:
            followed = self._tails.get((tail.place.topic, tail.partition)) is tail
            if followed and tail not in self._dropped:
                self._dropped.append(tail)

    def _room(self, tail: KafkaTail, share: int = 1) -> bool:
        """Whether a tail holds less than one `share` of what it may."""
        settings = self._settings
        return (
            len(tail.ready) * share < settings.tail_records
            and tail.ready_bytes * share < settings.tail_bytes
        )

    def _run(self) -> None:
        consumer = self._consumer
        while not self._closed:
            try:
                if self._added or self._dropped:
                    self._reassign()
                if self._paused:
                    self._resume()
                first = consumer.poll(POLL_S)
                if first is None:
                    continue
                messages = [first, *consumer.consume(_BATCH, 0)]
            except CLIENT_FAILURES as failure:
                LOGGER.warning("reading from Kafka: %s", reason(failure).str())
                continue
            for tail in self._lay_out(messages):
                if not self._room(tail) and tail not in self._paused:
                    consumer.pause([tail.place])
                    self._paused.append(tail)
                try:
                    tail.wake()
                except Exception:  # noqa: BLE001 - one that fails must not stop the others
                    LOGGER.exception("a follower of %s/%s failed", tail.topic, tail.partition)

    def _reassign(self) -> None:
        with self._lock:
            added, self._added = self._added, []
            dropped, self._dropped = self._dropped, []
        if added:
            self._consumer.incremental_assign([tail.place for tail in added])
        if dropped:
            self._consumer.incremental_unassign([tail.place for tail in dropped])
            self._paused = [tail for tail in self._paused if tail not in dropped]
        with self._lock:
            for tail in dropped:
                del self._tails[tail.place.topic, tail.partition]

    def _resume(self) -> None:
        ready = [tail for tail in self._paused if self._room(tail, 2)]
        if ready:
            self._consumer.resume([tail.place for tail in ready])
            self._paused = [tail for tail in self._paused if tail not in ready]

    def _lay_out(self, messages: list[Message]) -> Iterable[KafkaTail]:
        """Give messages to their tails; those that have something new."""
        woken: dict[KafkaTail, None] = {}
        tails = self._tails
        for message in messages:
            name, number, offset = message.topic(), message.partition(), message.offset()
            if name is None or number is None or offset is None:
                continue
            tail = tails.get((name, number))
            if tail is None:
                continue
            error = message.error()
            if error is None:
                record = to_record(message, tail.topic, number, offset)
                with tail.lock:
                    if offset < tail.reached:
                        continue
                    tail.ready.append(record)
                    tail.ready_bytes += len(record.value or b"")
                    tail.reached = offset + 1
                woken[tail] = None
            elif self._note(tail, error, offset):
                woken[tail] = None
        return woken

    def _note(self, tail: KafkaTail, error: KafkaError, offset: int) -> bool:
        """Handle what is no record; whether there is something to see."""
        code = error.code()
        if code == KafkaError._PARTITION_EOF:  # noqa: SLF001 - librdkafka's name
            with tail.lock:
                if offset <= tail.reached:
                    return False
                # Only markers and aborted records were left below it.
                tail.reached = offset
            return True
        if code == KafkaError._AUTO_OFFSET_RESET:  # noqa: SLF001 - librdkafka's name
            first = self._first(tail.topic, tail.partition)
            tail.error = OffsetGoneError(tail.topic, tail.partition, tail.reached, first)
            return True
        # The client goes on by itself after everything else.
        LOGGER.info("%s/%s: %s", tail.topic, tail.partition, error.str())
        return False

    def close(self) -> None:
        self._closed = True
        self._thread.join()
        for tail in self._tails.values():
            tail.wake = _nothing
        self._consumer.close()


def _nothing() -> None:
    pass
