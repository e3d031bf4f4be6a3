"""Inputs written to Kafka outside transactions, by many threads at once."""

import threading
from collections.abc import Mapping, Sequence
from functools import partial

from confluent_kafka import KafkaError, Producer

from duraton_streams.errors import LogError, LogUnreachableError, RecordTooLargeError
from duraton_streams.logs.base import NewRecord
from duraton_streams.logs.kafka.deliveries import AwaitedDeliveries
from duraton_streams.logs.kafka.errors import CLIENT_FAILURES, is_too_large, reason
from duraton_streams.logs.kafka.settings import LOGGER, KafkaSettings, Pairs, appender_config
from duraton_streams.logs.limits import no_such_place

POLL_S = 0.5
"""How long the thread waits for acknowledgements before it looks whether it should end."""
_FULL_QUEUE_S = 0.1


class Appender:
    """One idempotent producer, and a thread that hears its acknowledgements.

    Args:
        bootstrap: The broker's address.
        settings: How Kafka is used.
        topics: Names on Kafka by (topic, partition) of ours.
    """

    def __init__(
        self, bootstrap: str, settings: KafkaSettings, topics: Mapping[tuple[str, int], str]
    ) -> None:
        self._bootstrap = bootstrap
        self._settings = settings
        self._topics = topics
        self._lock = threading.Lock()
        self._producer: Producer | None = None
        self._thread: threading.Thread | None = None
        self._closed = False
        # Now, because an idempotent producer takes half a second to get its id.
        self._running()

    def append(self, records: Sequence[NewRecord]) -> list[int]:
        """Write records and wait until the broker has them.

        Raises:
            LogUnreachableError: It did not say so in time; they may be there or not.
            RecordTooLargeError: The topic takes smaller records than it should.
        """
        for record in records:
            if (record.topic, record.partition) not in self._topics:
                raise no_such_place(record.topic, record.partition)
        return self._send(records).offsets if records else []

    def stamp(self, record: NewRecord) -> int:
        """Write one record and return the time that the broker gave it."""
        return self._send([record]).stamp_ms

    def _send(self, records: Sequence[NewRecord]) -> AwaitedDeliveries:
        batch = AwaitedDeliveries(len(records))
        producer = self._running()
        for index, (topic, number, value, key, headers, at) in enumerate(records):
            name = self._topics[topic, number]
            done = partial(batch.delivered, index)
            pairs: Pairs | None = list(headers) if headers else None
            try:
                try:
                    producer.produce(name, value, key, number, done, timestamp=at, headers=pairs)
                except BufferError:
                    producer.flush(_FULL_QUEUE_S)
                    producer.produce(name, value, key, number, done, timestamp=at, headers=pairs)
            except BufferError:
                self._fail(batch, KafkaError(KafkaError._QUEUE_FULL), len(records) - index)  # noqa: SLF001 - librdkafka's name
                break
            except CLIENT_FAILURES as failure:
                self._fail(batch, reason(failure), len(records) - index)
                break
        if not batch.done.wait(self._settings.append_s):
            raise LogUnreachableError(f"Kafka at {self._bootstrap} did not answer in time")
        if batch.error is not None:
            raise self._explain(producer, batch.error)
        return batch

    @staticmethod
    def _fail(batch: AwaitedDeliveries, error: KafkaError, left: int) -> None:
        batch.fail(error)
        batch.count(left)

    def _explain(self, producer: Producer, error: KafkaError) -> LogError:
        if is_too_large(error):
            return RecordTooLargeError(f"Kafka refuses a record: {error.str()}")
        if error.fatal() or error.code() == KafkaError._FATAL:  # noqa: SLF001 - librdkafka's name
            # An idempotent producer ends at its first gap; the next call makes another.
            with self._lock:
                if self._producer is producer:
                    self._producer = None
        return LogUnreachableError(f"Kafka at {self._bootstrap} does not answer: {error.str()}")

    def _running(self) -> Producer:
        with self._lock:
            if self._closed:
                raise LogError("the log is closed")
            if self._producer is None:
                producer = Producer(appender_config(self._bootstrap, self._settings))
                self._producer = producer
                self._thread = threading.Thread(
                    target=self._hear, args=(producer,), name="duraton-append", daemon=True
                )
                self._thread.start()
            return self._producer

    def _hear(self, producer: Producer) -> None:
        # A producer that was replaced is heard until nothing of it is awaited.
        while (self._producer is producer and not self._closed) or len(producer):
            try:
                producer.poll(POLL_S)
            except CLIENT_FAILURES as failure:
                LOGGER.warning("writing inputs: %s", reason(failure).str())

    def close(self) -> None:
        with self._lock:
            self._closed = True
            producer, thread = self._producer, self._thread
        if producer is not None and thread is not None:
            producer.purge(in_queue=True, in_flight=True, blocking=False)
            thread.join()
        self._producer = None
