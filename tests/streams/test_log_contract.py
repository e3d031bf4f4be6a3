"""What every log does in the same way."""

import threading

import pytest

from duraton_streams.errors import DoubtError, FencedError, OffsetGoneError, RecordTooLargeError
from duraton_streams.logs.base import (
    COMMANDS,
    EVENTS,
    JOURNAL,
    MESSAGES,
    OUTCOMES,
    REGISTRY,
    TOPICS,
    NewRecord,
)
from duraton_streams.logs.limits import MAX_RECORD_BYTES

WAKE_S = 10.0  # a wake that never comes; on a busy machine a broker's takes a while


@pytest.fixture
def kit(make_log_kit):
    return make_log_kit(partitions=2)


@pytest.fixture
def log(kit):
    return kit.open()


def fact(value, partition=0, topic=JOURNAL, **more):
    return NewRecord(topic, partition, value, **more)


def nothing():
    pass


def read_all(log, topic, partition=0, start=0):
    """All committed records, read as recovery does: until the end that stood before."""
    _, end = log.bounds(topic, partition)
    found = []
    at = start
    while batch := log.read(topic, partition, at, 100, end):
        found += batch
        at = batch[-1].offset + 1
    return found


def values(records):
    return [record.value for record in records]


class Follower:
    """A tail and what it has taken."""

    def __init__(self, log, topic, partition=0, offset=0):
        self._woken = threading.Event()
        self.wakes = 0
        self.tail = log.tail(topic, partition, offset, self._wake)

    def _wake(self):
        self.wakes += 1
        self._woken.set()

    def next(self, count):
        """The next `count` records, waiting for wakes only."""
        found = []
        while True:
            self._woken.clear()
            while batch := self.tail.take(count - len(found)):
                found += batch
            if len(found) >= count:
                return found
            assert self._woken.wait(WAKE_S), f"not woken after {values(found)}"

    def reach(self, end):
        """Wait until all below `end` was seen, of which nothing is left to take."""
        while self.tail.position < end:
            self._woken.clear()
            assert self.tail.take(1) == []
            if self.tail.position < end:
                assert self._woken.wait(WAKE_S), f"at {self.tail.position}, not {end}"


class TestCommit:
    def test_gives_each_record_the_offset_at_which_it_is_read(self, log):
        writer = log.writer(0)
        offsets = writer.commit([fact(b"a"), fact(b"b"), fact(b"c")])
        assert offsets == sorted(set(offsets)) and len(offsets) == 3
        assert [(r.offset, r.value) for r in read_all(log, JOURNAL)] == list(
            zip(offsets, [b"a", b"b", b"c"], strict=True)
        )

    def test_offsets_grow_from_commit_to_commit(self, log):
        writer = log.writer(0)
        first = writer.commit([fact(b"a")])
        second = writer.commit([fact(b"b"), fact(b"c")])
        assert first[0] < second[0] < second[1]
        assert values(read_all(log, JOURNAL)) == [b"a", b"b", b"c"]

    def test_writes_to_several_topics_and_partitions_at_once(self, log):
        log.writer(0).commit(
            [
                fact(b"fact"),
                NewRecord(MESSAGES, 1, b"to the other"),
                NewRecord(OUTCOMES, 0, b"ended", key=b"run_1"),
                NewRecord(REGISTRY, 0, b"prices", key=b"prices"),
                NewRecord(MESSAGES, 1, b"again"),
            ]
        )
        assert values(read_all(log, JOURNAL)) == [b"fact"]
        assert values(read_all(log, MESSAGES, 0)) == []
        assert values(read_all(log, MESSAGES, 1)) == [b"to the other", b"again"]
        assert values(read_all(log, OUTCOMES)) == [b"ended"]
        assert values(read_all(log, REGISTRY)) == [b"prices"]

    def test_of_nothing_writes_nothing(self, log):
        assert log.writer(0).commit([]) == []
        assert read_all(log, JOURNAL) == []

    def test_keeps_keys_headers_tombstones_and_times(self, log):
        headers = (("ce_id", b"1"), ("ce_id", b"2"), ("empty", b""), ("ä", "ö".encode()))
        log.writer(0).commit(
            [
                NewRecord(OUTCOMES, 0, b"v", b"k", headers, 1_700_000_000_123),
                NewRecord(OUTCOMES, 0, None, b"k"),
                NewRecord(OUTCOMES, 0, b"", None, (), 1_700_000_000_124),
            ]
        )
        first, tombstone, empty = read_all(log, OUTCOMES)
        assert (first.topic, first.partition) == (OUTCOMES, 0)
        assert (first.value, first.key, first.headers) == (b"v", b"k", headers)
        assert first.timestamp_ms == 1_700_000_000_123
        assert (tombstone.value, tombstone.key, tombstone.headers) == (None, b"k", ())
        assert (empty.value, empty.key, empty.timestamp_ms) == (b"", None, 1_700_000_000_124)

    def test_a_record_without_a_time_gets_that_of_writing(self, log):
        log.writer(0).commit([fact(b"a")])
        assert read_all(log, JOURNAL)[0].timestamp_ms > 1_700_000_000_000

    def test_takes_many_records_at_once(self, log):
        many = [b"%d" % n for n in range(3_000)]
        offsets = log.writer(0).commit([fact(value) for value in many])
        assert offsets == list(range(offsets[0], offsets[0] + len(many)))
        assert values(read_all(log, JOURNAL)) == many

    def test_takes_a_record_of_seven_mebibytes(self, log):
        big = b"x" * (7 << 20)
        log.writer(0).commit([fact(b"before"), fact(big), fact(b"after")])
        assert values(read_all(log, JOURNAL)) == [b"before", big, b"after"]

    @pytest.mark.parametrize("part", ["value", "key", "headers"])
    def test_refuses_a_record_that_is_too_large_and_writes_nothing(self, log, part):
        big = b"x" * (MAX_RECORD_BYTES + 1)
        record = {
            "value": fact(big),
            "key": fact(b"", key=big),
            "headers": fact(b"", headers=(("h", big),)),
        }[part]
        writer = log.writer(0)
        with pytest.raises(RecordTooLargeError, match=JOURNAL):
            writer.commit([fact(b"small"), record])
        with pytest.raises(RecordTooLargeError):
            log.append([record])
        writer.commit([fact(b"next")])
        assert values(read_all(log, JOURNAL)) == [b"next"]

    def test_refuses_a_place_that_the_cluster_does_not_have(self, log):
        writer = log.writer(0)
        for record in (NewRecord("other", 0, b""), fact(b"", partition=2), fact(b"", partition=-1)):
            with pytest.raises(ValueError, match="has no"):
                writer.commit([fact(b"good"), record])
        with pytest.raises(ValueError, match="no partition 2"):
            log.writer(2)
        assert read_all(log, JOURNAL) == []

    def test_owner_writes_inputs_of_its_partition_where_embedded(self, log):
        if not log.embedded:
            pytest.skip("others write inputs there")
        follower = Follower(log, EVENTS)
        offsets = log.writer(0).commit(
            [NewRecord(EVENTS, 0, b"event"), fact(b"fact"), NewRecord(COMMANDS, 0, b"command")]
        )
        assert [r.offset for r in follower.next(1)] == offsets[:1]
        assert values(read_all(log, COMMANDS)) == [b"command"]


class TestFencing:
    def test_a_new_owner_fences_the_last(self, log):
        old = log.writer(0)
        old.commit([fact(b"old")])
        new = log.writer(0)
        with pytest.raises(FencedError):
            old.commit([fact(b"never"), NewRecord(MESSAGES, 1, b"never")])
        new.commit([fact(b"new")])
        with pytest.raises((FencedError, DoubtError)):
            old.commit([fact(b"never")])
        assert values(read_all(log, JOURNAL)) == [b"old", b"new"]
        assert read_all(log, MESSAGES, 1) == []

    def test_owners_of_other_partitions_are_left_alone(self, log):
        first, second = log.writer(0), log.writer(1)
        assert (first.partition, second.partition) == (0, 1)
        log.writer(1)
        first.commit([fact(b"a")])
        with pytest.raises(FencedError):
            second.commit([fact(b"b", partition=1)])
        assert values(read_all(log, JOURNAL)) == [b"a"]

    def test_an_owner_that_gave_up_commits_no_more(self, log):
        writer = log.writer(0)
        writer.close()
        writer.close()
        with pytest.raises(FencedError):
            writer.commit([fact(b"never")])
        log.writer(0).commit([fact(b"next")])
        assert values(read_all(log, JOURNAL)) == [b"next"]


class TestAppend:
    def test_anyone_appends_inputs(self, log):
        offsets = log.append([NewRecord(EVENTS, 0, b"a"), NewRecord(EVENTS, 1, b"b")])
        offsets += log.append([NewRecord(EVENTS, 0, b"c"), NewRecord(COMMANDS, 0, b"d")])
        assert offsets == [0, 0, 1, 0]
        assert values(read_all(log, EVENTS)) == [b"a", b"c"]
        assert values(read_all(log, EVENTS, 1)) == [b"b"]

    def test_many_threads_append_at_once(self, log):
        def run(name):
            got[name] = [log.append([NewRecord(EVENTS, 0, b"%d" % name)])[0] for _ in range(20)]

        got: dict[int, list[int]] = {}
        threads = [threading.Thread(target=run, args=(name,)) for name in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        by_offset = {record.offset: record.value for record in read_all(log, EVENTS)}
        assert len(by_offset) == 80
        for name, offsets in got.items():
            assert offsets == sorted(offsets)
            assert {by_offset[offset] for offset in offsets} == {b"%d" % name}


class TestRead:
    def test_bounds_of_an_empty_partition(self, log):
        assert log.bounds(JOURNAL, 0) == (0, 0)
        assert log.read(JOURNAL, 0, 0, 10) == []
        assert log.read(JOURNAL, 0, 0, 10, end=0) == []

    def test_bounds_hold_all_that_was_written(self, log):
        offsets = log.writer(0).commit([fact(b"a"), fact(b"b")])
        first, end = log.bounds(JOURNAL, 0)
        assert first == 0
        assert end > offsets[-1]

    def test_reads_from_an_offset_at_most_a_limit(self, log):
        offsets = log.append([NewRecord(EVENTS, 0, b"%d" % n) for n in range(10)])
        assert values(log.read(EVENTS, 0, offsets[3], 4)) == [b"3", b"4", b"5", b"6"]
        assert values(log.read(EVENTS, 0, offsets[8], 4, offsets[9] + 1)) == [b"8", b"9"]

    def test_reads_only_below_an_end(self, log):
        offsets = log.append([NewRecord(EVENTS, 0, b"%d" % n) for n in range(10)])
        assert values(log.read(EVENTS, 0, offsets[6], 10, offsets[8])) == [b"6", b"7"]
        assert log.read(EVENTS, 0, offsets[8], 10, offsets[8]) == []

    def test_an_empty_answer_means_all_below_the_end_was_read(self, log):
        writer = log.writer(0)
        for n in range(5):
            writer.commit([fact(b"%d" % n)])
        _, end = log.bounds(JOURNAL, 0)
        writer.commit([fact(b"later")])
        found, at = [], 0
        while batch := log.read(JOURNAL, 0, at, 2, end):
            assert len(batch) <= 2
            found += batch
            at = batch[-1].offset + 1
        assert values(found) == [b"0", b"1", b"2", b"3", b"4"]

    def test_beyond_the_end_is_nothing(self, log):
        log.append([NewRecord(EVENTS, 0, b"a")])
        assert log.read(EVENTS, 0, 1, 10, end=1) == []

    def test_partitions_are_apart(self, log):
        log.append([NewRecord(EVENTS, 1, b"a")])
        assert log.bounds(EVENTS, 0) == (0, 0)
        assert values(read_all(log, EVENTS, 1)) == [b"a"]

    def test_says_where_records_that_are_gone_would_begin(self, kit, log):
        log.append([NewRecord(EVENTS, 0, b"%d" % n) for n in range(5)])
        kit.delete_below(EVENTS, 0, 3)
        assert log.bounds(EVENTS, 0) == (3, 5)
        with pytest.raises(OffsetGoneError) as raised:
            log.read(EVENTS, 0, 1, 10)
        assert (raised.value.topic, raised.value.wanted, raised.value.first) == (EVENTS, 1, 3)
        assert values(log.read(EVENTS, 0, 3, 10, end=5)) == [b"3", b"4"]

    def test_where_all_is_gone_the_end_stays(self, kit, log):
        log.append([NewRecord(EVENTS, 0, b"%d" % n) for n in range(5)])
        kit.delete_below(EVENTS, 0, 5)
        log = kit.open()
        assert log.bounds(EVENTS, 0) == (5, 5)
        assert log.append([NewRecord(EVENTS, 0, b"next")]) == [5]


class TestTail:
    def test_gives_what_is_there_and_what_comes(self, log):
        writer = log.writer(0)
        writer.commit([fact(b"a"), fact(b"b")])
        follower = Follower(log, JOURNAL)
        assert values(follower.next(2)) == [b"a", b"b"]
        writer.commit([fact(b"c")])
        assert values(follower.next(1)) == [b"c"]
        for n in range(5):
            writer.commit([fact(b"%d" % n)])
        assert values(follower.next(5)) == [b"0", b"1", b"2", b"3", b"4"]
        assert follower.tail.take(10) == []

    def test_begins_at_an_offset(self, log):
        offsets = log.append([NewRecord(EVENTS, 0, b"%d" % n) for n in range(5)])
        follower = Follower(log, EVENTS, offset=offsets[2])
        assert follower.tail.position == offsets[2]
        assert values(follower.next(3)) == [b"2", b"3", b"4"]
        assert follower.tail.position == offsets[4] + 1

    def test_begins_at_the_end(self, log):
        log.append([NewRecord(EVENTS, 0, b"before")])
        follower = Follower(log, EVENTS, offset=log.bounds(EVENTS, 0)[1])
        log.append([NewRecord(EVENTS, 0, b"after")])
        assert values(follower.next(1)) == [b"after"]

    def test_position_reaches_the_end_once_all_was_taken(self, log):
        writer = log.writer(0)
        follower = Follower(log, JOURNAL)
        for n in range(3):
            offset = writer.commit([fact(b"%d" % n)])[0]
            assert values(follower.next(1)) == [b"%d" % n]
            assert follower.tail.position > offset
            follower.reach(log.bounds(JOURNAL, 0)[1])

    def test_takes_at_most_a_limit_of_records_and_bytes(self, log):
        log.append([NewRecord(EVENTS, 0, b"x" * 1_000) for _ in range(6)])
        follower = Follower(log, EVENTS)
        found = follower.next(2)
        assert len(found) == 2
        # The rest is there by now, or comes with the next wakes.
        rest = []
        while len(rest) < 4:
            batch = follower.tail.take(10, bytes_limit=1_500)
            assert len(batch) <= 1
            rest += batch
        assert [r.offset for r in found + rest] == list(range(6))

    def test_gives_one_record_whatever_its_size(self, log):
        log.append([NewRecord(EVENTS, 0, b"x" * 50_000)])
        follower = Follower(log, EVENTS)
        while not (found := follower.tail.take(10, bytes_limit=1)):
            pass
        assert len(found[0].value) == 50_000

    def test_what_is_passed_over_need_not_be_given(self, log):
        follower = Follower(log, EVENTS)
        follower.tail.pass_over(3)  # the owner knows what it is about to write itself
        log.append([NewRecord(EVENTS, 0, b"%d" % n) for n in range(5)])
        found = []
        while b"4" not in values(found):
            found += follower.next(1)
        known = [] if log.embedded else [b"0", b"1", b"2"]
        assert values(found) == [*known, b"3", b"4"]

    def test_many_tails_each_get_all_of_theirs(self, log):
        followers = {
            (topic, n): Follower(log, topic, n) for topic in (EVENTS, COMMANDS) for n in (0, 1)
        }
        second = Follower(log, EVENTS)
        for n in range(50):
            log.append([NewRecord(topic, p, b"%d" % n) for topic, p in followers])
        expected = [b"%d" % n for n in range(50)]
        for follower in (*followers.values(), second):
            assert values(follower.next(50)) == expected

    def test_another_handle_sees_what_is_committed(self, kit, log):
        if kit.kind == "sqlite":
            pytest.skip("one process owns the file")
        follower = Follower(kit.open(), JOURNAL)
        log.writer(0).commit([fact(b"a")])
        assert values(follower.next(1)) == [b"a"]

    def test_is_not_woken_once_closed(self, log):
        closed = Follower(log, EVENTS)
        other = Follower(log, EVENTS)
        closed.tail.close()
        closed.tail.close()
        wakes = closed.wakes
        log.append([NewRecord(EVENTS, 0, b"a")])
        assert values(other.next(1)) == [b"a"]
        assert closed.wakes == wakes

    def test_says_when_its_records_are_gone(self, kit, log):
        log.append([NewRecord(EVENTS, 0, b"%d" % n) for n in range(5)])
        kit.delete_below(EVENTS, 0, 3)
        follower = Follower(log, EVENTS, offset=1)
        with pytest.raises(OffsetGoneError) as raised:
            follower.next(1)
        assert (raised.value.wanted, raised.value.first) == (1, 3)
        with pytest.raises(OffsetGoneError):
            follower.tail.take(1)
        follower.tail.close()
        assert values(Follower(log, EVENTS, offset=3).next(2)) == [b"3", b"4"]

    def test_lags_far_behind_and_misses_nothing(self, log):
        follower = Follower(log, EVENTS)
        for start in range(0, 20_000, 2_000):
            log.append([NewRecord(EVENTS, 0, b"%d" % n) for n in range(start, start + 2_000)])
        assert values(follower.next(20_000)) == [b"%d" % n for n in range(20_000)]

    def test_of_a_place_that_is_not_there(self, log):
        with pytest.raises(ValueError, match="has no"):
            log.tail(EVENTS, 2, 0, nothing)


class TestReopening:
    def test_what_was_committed_is_there_and_goes_on(self, kit, log):
        cluster = log.cluster
        log.writer(1).commit([fact(b"a", partition=1), fact(b"b", partition=1)])
        log.append([NewRecord(EVENTS, 0, b"event")])
        log = kit.open()
        assert (log.cluster, log.partitions) == (cluster, 2)
        assert values(read_all(log, JOURNAL, 1)) == [b"a", b"b"]
        offsets = log.writer(1).commit([fact(b"c", partition=1)])
        assert offsets[0] > 1
        assert values(read_all(log, JOURNAL, 1)) == [b"a", b"b", b"c"]
        assert log.append([NewRecord(EVENTS, 0, b"event 2")]) == [1]

    def test_every_topic_of_twelve_partitions(self, make_log_kit):
        log = make_log_kit(partitions=12).open()
        assert log.partitions == 12
        for topic in TOPICS:
            last = 0 if topic == REGISTRY else 11
            assert log.bounds(topic, last) == (0, 0)
            with pytest.raises(ValueError, match="has no"):
                log.bounds(topic, last + 1)

    def test_clusters_differ(self, make_log_kit):
        assert make_log_kit().open().cluster != make_log_kit().open().cluster

    def test_closing_stops_writers_and_tails(self, log):
        writer = log.writer(0)
        follower = Follower(log, JOURNAL)
        wakes = follower.wakes
        log.close()
        log.close()
        with pytest.raises(FencedError):
            writer.commit([fact(b"never")])
        assert follower.wakes == wakes
