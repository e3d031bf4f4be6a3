"""What only the memory log does: faults on demand, markers, and many owners in turn."""

import pytest

from duraton_streams.errors import DoubtError
from duraton_streams.logs.base import EVENTS, JOURNAL, NewRecord
from duraton_streams.logs.memory import MemoryLog


def values(records):
    return [record.value for record in records]


class FailOnce:
    """Raises doubt at one point of the next commit."""

    def __init__(self, point):
        self.point = point

    def __call__(self, point, partition, records):
        if point == self.point:
            self.point = None
            raise DoubtError(f"{point} of {partition} with {len(records)}")


@pytest.mark.parametrize(("point", "left"), [("before_commit", []), ("after_commit", [b"a"])])
def test_a_commit_can_fail_before_or_after_it_is_written(point, left):
    log = MemoryLog(faults=FailOnce(point))
    writer = log.writer(0)
    with pytest.raises(DoubtError, match=f"{point} of 0 with 1"):
        writer.commit([NewRecord(JOURNAL, 0, b"a")])
    with pytest.raises(DoubtError, match="make a new one"):
        writer.commit([NewRecord(JOURNAL, 0, b"b")])
    log.writer(0).commit([NewRecord(JOURNAL, 0, b"c")])
    assert values(log.read(JOURNAL, 0, 0, 10)) == [*left, b"c"]


def test_markers_take_offsets_as_on_kafka():
    log = MemoryLog(2, markers=True)
    writer = log.writer(0)
    assert writer.commit([NewRecord(JOURNAL, 0, b"a"), NewRecord(JOURNAL, 0, b"b")]) == [0, 1]
    assert log.bounds(JOURNAL, 0) == (0, 3)
    assert log.read(JOURNAL, 0, 2, 10, end=3) == []
    assert writer.commit([NewRecord(JOURNAL, 0, b"c")]) == [3]
    tail = log.tail(JOURNAL, 0, 0, lambda: None)
    assert [record.offset for record in tail.take(10)] == [0, 1, 3]
    assert (tail.position, tail.take(10), tail.position) == (4, [], 5)
    assert log.append([NewRecord(EVENTS, 0, b"e"), NewRecord(EVENTS, 0, b"f")]) == [0, 1]


def test_it_can_be_told_its_cluster():
    assert MemoryLog(cluster="mine").cluster == "mine"
