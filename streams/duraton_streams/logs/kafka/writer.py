"""A partition's owner on Kafka: one transactional producer."""

import contextlib
import threading
import time
from collections.abc import Mapping, Sequence
from functools import partial

from confluent_kafka import KafkaError, Producer

from duraton_streams.errors import (
    DoubtError,
    FencedError,
    LogError,
    LogUnreachableError,
    RecordTooLargeError,
)
from duraton_streams.logs.base import NewRecord
from duraton_streams.logs.kafka.deliveries import Deliveries
from duraton_streams.logs.kafka.errors import (
    CLIENT_FAILURES,
    commit_error,
    is_fenced,
    is_too_large,
    reason,
)
from duraton_streams.logs.kafka.settings import KafkaSettings, Pairs, writer_config
from duraton_streams.logs.limits import check_sizes, no_such_place

ABORT_S = 5.0
"""Seconds to abort a transaction that a record was too large for."""
_FULL_QUEUE_S = 0.1
_RETRY_S = 0.05


class KafkaWriter:
    """A partition's owner; after a commit that raised, make a new one.

    Positions travel in the journal, so offsets are never sent to the transaction.

    Args:
        bootstrap: The broker's address.
        settings: How Kafka is used.
        name: The transactional id, the same for every owner of this partition.
        partition: The partition.
        topics: Names on Kafka by (topic, partition) of ours.

    Raises:
        FencedError: Another owner came at the same moment.
        LogUnreachableError: The broker did not make it the owner in time.
    """

    def __init__(
        self,
        bootstrap: str,
        settings: KafkaSettings,
        name: str,
        partition: int,
        topics: Mapping[tuple[str, int], str],
    ) -> None:
        self.partition = partition
        self._topics = topics
        self._settings = settings
        self._lock = threading.Lock()
        self._broken: LogError | None = None
        producer = Producer(writer_config(bootstrap, settings, name))
        deadline = time.monotonic() + settings.own_s
        while True:
            try:
                producer.init_transactions(max(0.1, deadline - time.monotonic()))
            except CLIENT_FAILURES as failure:
                error = reason(failure)
                if error.retriable() and time.monotonic() < deadline:
                    producer.poll(_RETRY_S)
                    continue
                if is_fenced(error):
                    raise commit_error(error, "becoming the owner") from failure
                raise LogUnreachableError(
                    f"Kafka at {bootstrap} does not make this process the owner of partition "
                    f"{partition}: {error.str()}"
                ) from failure
            break
        self._producer: Producer | None = producer

    def commit(self, records: Sequence[NewRecord]) -> list[int]:
        """Write all records in one transaction.

        1. Refuse what is too large, before anything is sent.
        2. Begin, and hand the records to the client.
        3. Wait until the broker has them all.
        4. Commit, again and again while the client says that this may help.
        """
        # 1
        check_sizes(records)
        with self._lock:
            if self._broken is not None:
                raise self._broken
            for record in records:
                if (record.topic, record.partition) not in self._topics:
                    raise no_such_place(record.topic, record.partition)
            producer = self._producer
            if producer is None:
                raise FencedError(f"partition {self.partition} was given up")
            if not records:
                return []
            try:
                return self._transact(producer, records)
            except LogError as error:
                # Also after a record that Kafka refused: the client's sequence has a gap.
                self._give_up(error)
                raise

    def _transact(self, producer: Producer, records: Sequence[NewRecord]) -> list[int]:
        deadline = time.monotonic() + self._settings.commit_s
        sent = Deliveries(len(records))
        waiting = 0
        try:
            # 2
            producer.begin_transaction()
            self._produce(producer, records, sent, deadline)
            # 3
            waiting = producer.flush(max(0.0, deadline - time.monotonic()))
        except CLIENT_FAILURES as failure:
            # It says why; the records of a client that ended say only that it did.
            sent.error = self._reason(producer, failure)
        if sent.error is not None:
            raise self._refusal(producer, sent.error)
        if waiting:
            raise DoubtError(f"{waiting} records were not acknowledged in time")
        # 4
        self._commit(producer, deadline)
        if -1 in sent.offsets:
            raise DoubtError("the broker did not say where records stand")
        return sent.offsets

    def _produce(
        self, producer: Producer, records: Sequence[NewRecord], sent: Deliveries, deadline: float
    ) -> None:
        produce, topics, delivered = producer.produce, self._topics, sent.delivered
        for index, (topic, number, value, key, headers, at) in enumerate(records):
            done = partial(delivered, index)
            pairs: Pairs | None = list(headers) if headers else None
            name = topics[topic, number]
            while True:
                try:
                    produce(name, value, key, number, done, timestamp=at, headers=pairs)
                except BufferError:
                    # The client's queue is full: let it send.
                    if time.monotonic() > deadline:
                        raise DoubtError("the broker did not take the records in time") from None
                    producer.poll(_FULL_QUEUE_S)
                    continue
                break

    @staticmethod
    def _reason(producer: Producer, failure: BaseException) -> KafkaError:
        """Why a call failed; where it lost its reason on the way, the client is asked again.

        A fatal error that meets a callback may come as a bare SystemError. Whoever took
        it for a doubt would become the owner again and fence the one that fenced it.
        """
        error = reason(failure)
        if error.code() != KafkaError.UNKNOWN:
            return error
        try:
            producer.abort_transaction(ABORT_S)
        except CLIENT_FAILURES as again:
            return reason(again)
        return error

    def _refusal(self, producer: Producer, error: KafkaError) -> LogError:
        """What it means that a record was not written."""
        if not is_too_large(error):
            return commit_error(error, "writing records")
        try:
            producer.abort_transaction(ABORT_S)
        except CLIENT_FAILURES as failure:
            return commit_error(reason(failure), "aborting after a record that is too large")
        return RecordTooLargeError(f"Kafka refuses a record: {error.str()}")

    def _commit(self, producer: Producer, deadline: float) -> None:
        while True:
            try:
                producer.commit_transaction(max(0.1, deadline - time.monotonic()))
            except CLIENT_FAILURES as failure:
                error = reason(failure)
                again = error.retriable() and not error.fatal() and not error.txn_requires_abort()
                if again and time.monotonic() < deadline:
                    continue
                raise commit_error(error, "committing") from failure
            return

    def _give_up(self, error: LogError) -> None:
        # What is left in the client belongs to a transaction that the next owner's
        # start resolves; it must not keep this process waiting for acknowledgements.
        self._broken = (
            error
            if isinstance(error, FencedError)
            else DoubtError("this writer's last commit failed; make a new one")
        )
        producer, self._producer = self._producer, None
        if producer is not None:
            with contextlib.suppress(*CLIENT_FAILURES):
                producer.purge(in_queue=True, in_flight=True, blocking=False)

    def close(self) -> None:
        with self._lock:
            self._producer = None
            if self._broken is None:
                self._broken = FencedError(f"partition {self.partition} was given up")
