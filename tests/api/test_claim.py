"""Who has a cluster on a broker, while rivals take partitions in between."""

import pytest

from duraton_api.node.claim import TAKES_MAX, Claim
from duraton_engine.machine import EngineMachine
from duraton_engine.room import Room
from duraton_engine.state.tables import TABLES
from duraton_schemas.codec import Codec
from duraton_streams.errors import FencedError
from duraton_streams.logs.memory import MemoryLog
from duraton_streams.partition.clock import ManualClock
from duraton_streams.partition.processor import PartitionProcessor
from duraton_streams.state.memory import MemoryStore
from duraton_streams.state.overlay import State


class Nothing:
    def committed(self, partition, facts):
        pass

    def effects(self, partition, effects):
        pass


class Engine:
    """The processors of one engine on a log that several share, and its claim."""

    def __init__(self, log, node):
        self.processors = [
            PartitionProcessor(
                log,
                number,
                EngineMachine(number, Room(), codec=Codec()),
                State(MemoryStore(), TABLES),
                Nothing(),
                ManualClock,
                codec=Codec(),
                node=node,
                version="test",
            )
            for number in range(log.partitions)
        ]
        self.claim = Claim(self.processors[0])

    def take(self, number):
        self.claim.take(number, self.processors[number].open)


@pytest.fixture
def log():
    return MemoryLog(2)


@pytest.fixture
def engines(log):
    first, second = Engine(log, "one"), Engine(log, "two")
    first.processors[0].open()
    second.processors[0].open()
    return first, second


def test_who_lost_the_first_partition_takes_no_other(engines):
    first, second = engines
    with pytest.raises(FencedError, match="two, took the cluster over"):
        first.take(1)
    second.take(1)
    second.claim.check()
    assert second.processors[1].standing.epoch == 1


def test_what_a_loser_took_between_two_looks_is_taken_again(engines):
    first, second = engines
    taken = iter((True, True, False))

    def take():
        second.processors[1].close()
        if next(taken):
            first.processors[1].open()
            raise FencedError("the rival was faster")
        second.processors[1].open()

    second.claim.take(1, take)
    assert second.processors[1].standing.epoch == 3
    assert first.processors[1].successor().node == "two"


def test_it_gives_up_where_that_does_not_end(engines):
    _, second = engines
    tries = []

    def take():
        tries.append(1)
        raise FencedError("the rival was faster")

    with pytest.raises(FencedError, match="faster"):
        second.claim.take(1, take)
    assert len(tries) == TAKES_MAX


def test_the_first_partition_is_not_taken_again(engines):
    first, second = engines
    with pytest.raises(FencedError, match="took the cluster over"):
        first.claim.take(0, first.processors[0].doubt)
    assert second.processors[0].successor() is None
