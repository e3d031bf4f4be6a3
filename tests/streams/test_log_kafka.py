"""What only Kafka does: a broker that is not there, open transactions, outsiders, restarts."""

import threading
import time
import uuid

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource
from tests.kafka_broker import free_port

from duraton_streams.errors import (
    DoubtError,
    LogError,
    LogMismatchError,
    LogUnreachableError,
    RecordTooLargeError,
    TopicsMissingError,
)
from duraton_streams.logs.base import EVENTS, JOURNAL, MESSAGES, NewRecord
from duraton_streams.logs.kafka import KafkaLog, KafkaSettings

WAKE_S = 20.0


@pytest.fixture
def prefix():
    return f"t{uuid.uuid4().hex[:10]}."


@pytest.fixture
def make_log(kafka_bootstrap, prefix):
    logs = []

    def make(partitions=1, **settings):
        KafkaLog.create_topics(kafka_bootstrap, partitions, 1, prefix)
        logs.append(KafkaLog(kafka_bootstrap, KafkaSettings(**settings), prefix))
        return logs[-1]

    yield make
    for log in logs:
        log.close()


def values(records):
    return [record.value for record in records]


class Follower:
    def __init__(self, log, topic, partition=0, offset=0):
        self.woken = threading.Event()
        self.tail = log.tail(topic, partition, offset, self.woken.set)

    def next(self, count):
        found = []
        while len(found) < count:
            self.woken.clear()
            while batch := self.tail.take(count - len(found)):
                found += batch
            if len(found) < count:
                assert self.woken.wait(WAKE_S), f"not woken after {len(found)}"
        return found


class TestNoBroker:
    def test_is_said_soon_and_with_its_address(self):
        address = f"127.0.0.1:{free_port()}"
        settings = KafkaSettings(connect_s=0.5)
        with pytest.raises(LogUnreachableError, match=address):
            KafkaLog(address, settings)
        with pytest.raises(LogUnreachableError, match=address):
            KafkaLog.create_topics(address, 1, 1, settings=settings)

    def test_wrong_settings_are_named(self):
        with pytest.raises(LogError, match=r"no\.such\.setting"):
            KafkaLog("127.0.0.1:1", KafkaSettings(client={"no.such.setting": 1}))


@pytest.mark.kafka
class TestTopics:
    def test_that_are_missing_are_named(self, kafka_bootstrap, prefix):
        with pytest.raises(TopicsMissingError, match=prefix + JOURNAL):
            KafkaLog(kafka_bootstrap, prefix=prefix)

    def test_are_made_once(self, kafka_bootstrap, prefix):
        made = KafkaLog.create_topics(kafka_bootstrap, 3, 1, prefix)
        assert prefix + JOURNAL in made
        assert KafkaLog.create_topics(kafka_bootstrap, 3, 1, prefix) == []

    def test_keep_their_partitions(self, kafka_bootstrap, prefix):
        KafkaLog.create_topics(kafka_bootstrap, 3, 1, prefix)
        with pytest.raises(LogMismatchError, match="3 partitions, not 4"):
            KafkaLog.create_topics(kafka_bootstrap, 4, 1, prefix)
        with pytest.raises(LogMismatchError, match="3 partitions, not 1"):
            KafkaLog(kafka_bootstrap, prefix=prefix, partitions=1)

    def test_cannot_have_more_copies_than_brokers(self, kafka_bootstrap, prefix):
        with pytest.raises(LogMismatchError, match="does not make the topic"):
            KafkaLog.create_topics(kafka_bootstrap, 1, 30, prefix)

    def test_of_a_cluster_made_anew_are_another_cluster(self, kafka_bootstrap, make_log, prefix):
        first = make_log()
        assert make_log().cluster == first.cluster
        admin = AdminClient({"bootstrap.servers": kafka_bootstrap})
        names = [prefix + JOURNAL]
        for future in admin.delete_topics(names, operation_timeout=20).values():
            future.result()
        while prefix + JOURNAL in admin.list_topics(timeout=10).topics:
            pass
        assert make_log().cluster != first.cluster


@pytest.mark.kafka
class TestTransactions:
    @pytest.fixture
    def dead_owner(self, make_log, kafka_bootstrap, prefix):
        """A log with one committed fact, and one of an owner that died before its commit."""
        log = make_log(read_s=0.5)
        log.writer(0).commit([NewRecord(JOURNAL, 0, b"committed")])
        assert values(Follower(log, JOURNAL).next(1)) == [b"committed"]
        owner = Producer(
            {
                "bootstrap.servers": kafka_bootstrap,
                "transactional.id": f"{prefix}duraton-{log.cluster}-0",
                "logger": None,
            }
        )
        owner.init_transactions(20)
        owner.begin_transaction()
        owner.produce(prefix + JOURNAL, b"never", partition=0)
        owner.flush(20)
        return log, owner

    def test_what_is_open_is_not_read(self, dead_owner):
        log, _ = dead_owner
        assert values(log.read(JOURNAL, 0, 0, 10)) == [b"committed"]
        assert log.read(JOURNAL, 0, 1, 10) == []

    def test_a_read_to_an_end_waits_for_what_is_open_below_it(self, dead_owner):
        log, _ = dead_owner
        _, end = log.bounds(JOURNAL, 0)
        assert values(log.read(JOURNAL, 0, 0, 10, end)) == [b"committed"]
        with pytest.raises(LogUnreachableError, match="still open"):
            log.read(JOURNAL, 0, 1, 10, end)

    def test_the_next_owner_ends_it(self, dead_owner):
        log, _ = dead_owner
        writer = log.writer(0)
        _, end = log.bounds(JOURNAL, 0)
        assert values(log.read(JOURNAL, 0, 0, 10, end)) == [b"committed"]
        assert log.read(JOURNAL, 0, 1, 10, end) == []
        writer.commit([NewRecord(JOURNAL, 0, b"next")])
        follower = Follower(log, JOURNAL)
        assert values(follower.next(2)) == [b"committed", b"next"]

    def test_a_topic_that_takes_less_than_it_should(self, make_log, kafka_bootstrap, prefix):
        log = make_log()
        admin = AdminClient({"bootstrap.servers": kafka_bootstrap})
        small = ConfigEntry(
            "max.message.bytes", "5000", incremental_operation=AlterConfigOpType.SET
        )
        resource = ConfigResource("topic", prefix + JOURNAL, incremental_configs=[small])
        for future in admin.incremental_alter_configs([resource]).values():
            future.result(20)
        writer = log.writer(0)
        with pytest.raises(RecordTooLargeError, match="refuses"):
            writer.commit([NewRecord(MESSAGES, 0, b"never"), NewRecord(JOURNAL, 0, b"x" * 9_000)])
        with pytest.raises(DoubtError, match="make a new one"):
            writer.commit([NewRecord(JOURNAL, 0, b"never")])
        log.writer(0).commit([NewRecord(JOURNAL, 0, b"next")])
        _, end = log.bounds(JOURNAL, 0)
        assert values(log.read(JOURNAL, 0, 0, 10, end)) == [b"next"]
        assert log.read(MESSAGES, 0, 0, 10) == []


@pytest.mark.kafka
class TestOutside:
    def test_records_of_others_are_read_as_they_are(self, make_log, kafka_bootstrap, prefix):
        log = make_log()
        outsider = Producer({"bootstrap.servers": kafka_bootstrap})
        headers = [("ce_id", b"1"), ("none", None)]
        outsider.produce(prefix + EVENTS, b'{"a":1}', b"k", partition=0, headers=headers)
        outsider.flush(20)
        (record,) = Follower(log, EVENTS).next(1)
        assert (record.topic, record.value, record.key) == (EVENTS, b'{"a":1}', b"k")
        assert record.headers == (("ce_id", b"1"), ("none", b""))

    def test_the_broker_tells_the_time(self, make_log):
        log = make_log()
        first, second = log.now_ms(), log.now_ms()
        assert first <= second
        assert (
            abs(second - time.time() * 1_000) < 3_600_000
        )  # the same machine, or its clock is off

    def test_a_tail_that_is_not_taken_from_holds_nobody_up(self, make_log):
        log = make_log(partitions=2, tail_records=10)
        slow, quick = Follower(log, EVENTS, 0), Follower(log, EVENTS, 1)
        expected = [b"%d" % n for n in range(6_000)]
        log.append([NewRecord(EVENTS, 0, value) for value in expected])
        slow.woken.wait(WAKE_S)
        for n in range(20):
            log.append([NewRecord(EVENTS, 1, b"%d" % n)])
            assert values(quick.next(1)) == [b"%d" % n]
        assert values(slow.next(6_000)) == expected


@pytest.mark.kafka
class TestRestart:
    def test_a_broker_that_is_killed_and_comes_back(self, kafka_broker):
        KafkaLog.create_topics(kafka_broker.bootstrap, 1, 1)
        settings = KafkaSettings(commit_s=2, append_s=2, connect_s=2)
        log = KafkaLog(kafka_broker.bootstrap, settings)
        writer = log.writer(0)
        facts, events = Follower(log, JOURNAL), Follower(log, EVENTS)
        writer.commit([NewRecord(JOURNAL, 0, b"before")])
        log.append([NewRecord(EVENTS, 0, b"before")])
        assert values(facts.next(1)) == values(events.next(1)) == [b"before"]

        kafka_broker.kill()
        with pytest.raises(DoubtError):
            writer.commit([NewRecord(JOURNAL, 0, b"doubt")])
        with pytest.raises(LogUnreachableError):
            log.append([NewRecord(EVENTS, 0, b"doubt")])
        with pytest.raises(LogUnreachableError):
            log.bounds(JOURNAL, 0)

        kafka_broker.start()
        with pytest.raises(DoubtError):
            writer.commit([NewRecord(JOURNAL, 0, b"never")])
        writer = log.writer(0)
        writer.commit([NewRecord(JOURNAL, 0, b"after")])
        assert values(facts.next(1)) == [b"after"]
        _, end = log.bounds(JOURNAL, 0)
        assert values(log.read(JOURNAL, 0, 0, 10, end)) == [b"before", b"after"]
        log.append([NewRecord(EVENTS, 0, b"after")])
        found = values(events.next(1))
        assert (found if found == [b"after"] else found + values(events.next(1)))[-1] == b"after"
        log.close()
