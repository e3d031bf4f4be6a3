"""A cluster's log on Kafka."""

import contextlib
import threading
import time
from collections.abc import Callable, Sequence

from confluent_kafka import Consumer, KafkaException, TopicPartition

from duraton_streams.errors import LogError, LogUnreachableError
from duraton_streams.logs.base import LogRecord, NewRecord
from duraton_streams.logs.kafka import topics as topics_of
from duraton_streams.logs.kafka.append import Appender
from duraton_streams.logs.kafka.errors import ask_error, is_moving, reason
from duraton_streams.logs.kafka.reader import READER_FETCH_WAIT_MS, Readers
from duraton_streams.logs.kafka.settings import KafkaSettings, consumer_config, polled, silent
from duraton_streams.logs.kafka.tail import Follower, KafkaTail
from duraton_streams.logs.kafka.writer import KafkaWriter
from duraton_streams.logs.limits import check_sizes, no_such_place, places

_MOVING_S = 0.02
"""Seconds between two questions about a partition that has no leader at the moment."""


class KafkaLog:
    """A cluster's log on Kafka; its topics must be there (`create_topics`).

    Args:
        bootstrap: The brokers' addresses, `host:port` with commas between.
        settings: How Kafka is used.
        prefix: What the topics' names begin with, so that clusters may share brokers.
        partitions: How many partitions are expected; None takes what is there.

    Raises:
        LogUnreachableError: No broker answers.
        TopicsMissingError: Topics are missing.
        LogMismatchError: The topics disagree about the number of partitions.
    """

    embedded = False

    def __init__(
        self,
        bootstrap: str,
        settings: KafkaSettings | None = None,
        prefix: str = "",
        partitions: int | None = None,
    ) -> None:
        self._bootstrap = bootstrap
        self._settings = settings = settings or KafkaSettings()
        found = topics_of.look(bootstrap, partitions, prefix, settings)
        self.cluster, self.partitions = found.cluster, found.partitions
        self._name = f"{prefix}duraton-{self.cluster}"
        self._names = {(t, p): prefix + t for t, p in places(self.partitions)}
        self._clock = NewRecord(topics_of.CLOCK, 0, b"")
        self._lock = threading.Lock()
        self._closed = False
        self._writers: dict[int, KafkaWriter] = {}
        self._followers: list[Follower] = []
        clock = {(topics_of.CLOCK, 0): prefix + topics_of.CLOCK}
        self._appender = Appender(bootstrap, settings, {**self._names, **clock})
        # Nobody polls these two: they only answer where partitions begin and end.
        self._all = self._consumer(committed=False, heard=False)
        self._stable_only = self._consumer(committed=True, heard=False)
        self._readers = Readers(self._make_reader, self.bounds, self._stable, settings.read_s)

    @staticmethod
    def create_topics(
        bootstrap: str,
        partitions: int,
        replication: int,
        prefix: str = "",
        settings: KafkaSettings | None = None,
    ) -> list[str]:
        """Make a cluster's topics, those that are not there yet.

        Args:
            bootstrap: The brokers' addresses.
            partitions: How many partitions the cluster has, for ever.
            replication: How many brokers hold each record.
            prefix: What the topics' names begin with.
            settings: How Kafka is used.

        Returns:
            The names of the topics that were made.

        Raises:
            LogUnreachableError: No broker answers.
            LogMismatchError: Topics are there with other partitions, or Kafka refuses.
        """
        return topics_of.create(
            bootstrap, partitions, replication, prefix, settings or KafkaSettings()
        )

    @staticmethod
    def brokers(bootstrap: str, settings: KafkaSettings | None = None) -> int:
        """How many brokers there are.

        Raises:
            LogUnreachableError: None answers.
        """
        return topics_of.brokers(bootstrap, settings or KafkaSettings())

    def now_ms(self) -> int | None:
        """The broker's time: that which it stamps on a record of a topic made for this.

        It takes one round trip.

        Raises:
            LogUnreachableError: The broker does not answer.
        """
        return self._appender.stamp(self._clock)

    def writer(self, partition: int) -> KafkaWriter:
        """Become a partition's owner; see `Log.writer`.

        Raises:
            LogUnreachableError: The broker did not make it the owner in time.
        """
        if not 0 <= partition < self.partitions:
            raise ValueError(f"the cluster has no partition {partition}")
        self._check_open()
        # The id is the partition's, so that the broker fences whoever had it before.
        name = f"{self._name}-{partition}"
        owner = KafkaWriter(self._bootstrap, self._settings, name, partition, self._names)
        with self._lock:
            self._writers[partition] = owner
        return owner

    def append(self, records: Sequence[NewRecord]) -> list[int]:
        """Write inputs; see `Log.append`.

        Raises:
            LogUnreachableError: The broker did not acknowledge them in time; they may be
                there or not.
        """
        check_sizes(records)
        return self._appender.append(records)

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        return self._watermarks(self._all, topic, partition)

    def _stable(self, topic: str, partition: int) -> int:
        """The end of what no open transaction holds back."""
        return self._watermarks(self._stable_only, topic, partition)[1]

    def _watermarks(self, consumer: Consumer, topic: str, partition: int) -> tuple[int, int]:
        place = TopicPartition(self._place(topic, partition), partition)
        deadline = time.monotonic() + self._settings.connect_s
        while True:
            self._check_open()
            try:
                found = consumer.get_watermark_offsets(place, timeout=self._settings.connect_s)
            except KafkaException as failure:
                if is_moving(reason(failure)) and time.monotonic() < deadline:
                    time.sleep(_MOVING_S)
                    continue
                raise ask_error(failure, self._bootstrap, f"asking for {topic}'s end") from failure
            if found is None:
                raise LogUnreachableError(f"Kafka does not say where {topic}/{partition} ends")
            return found

    def read(
        self, topic: str, partition: int, offset: int, limit: int, end: int | None = None
    ) -> list[LogRecord]:
        name = self._place(topic, partition)
        return self._readers.read(name, topic, partition, offset, limit, end)

    def tail(self, topic: str, partition: int, offset: int, wake: Callable[[], None]) -> KafkaTail:
        name = self._place(topic, partition)
        with self._lock:
            self._check_open()
            for follower in self._followers:
                tail = KafkaTail(follower, name, topic, partition, offset, wake)
                if follower.follow(tail):
                    return tail
            # One consumer has one position in a partition: a second tail needs another.
            follower = Follower(
                self._consumer(committed=True, heard=True),
                self._settings,
                lambda topic, partition: self.bounds(topic, partition)[0],
            )
            self._followers.append(follower)
            tail = KafkaTail(follower, name, topic, partition, offset, wake)
            follower.follow(tail)
            return tail

    def close(self) -> None:
        with self._lock:
            if self._closed:
                return
            self._closed = True
        for writer in self._writers.values():
            writer.close()
        for follower in self._followers:
            follower.close()
        self._readers.close()
        self._appender.close()
        for consumer in (self._all, self._stable_only):
            with contextlib.suppress(KafkaException):
                consumer.close()

    def _make_reader(self) -> Consumer:
        return self._consumer(committed=True, heard=True, fetch_wait_ms=READER_FETCH_WAIT_MS)

    def _consumer(
        self, *, committed: bool, heard: bool, fetch_wait_ms: int | None = None
    ) -> Consumer:
        settings = self._settings
        wait = settings.fetch_wait_ms if fetch_wait_ms is None else fetch_wait_ms
        config = consumer_config(
            self._bootstrap, settings, self._name, committed=committed, fetch_wait_ms=wait
        )
        consumer = Consumer(polled(config) if heard else silent(config))
        try:
            # A consumer that meets a topic only later takes a second to find its leader.
            consumer.list_topics(timeout=settings.connect_s)
        except KafkaException as failure:
            consumer.close()
            raise ask_error(failure, self._bootstrap, "asking for topics") from failure
        return consumer

    def _place(self, topic: str, partition: int) -> str:
        try:
            return self._names[topic, partition]
        except KeyError:
            raise no_such_place(topic, partition) from None

    def _check_open(self) -> None:
        if self._closed:
            raise LogError("the log is closed")
