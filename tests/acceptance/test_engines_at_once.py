"""Engines that meet on one cluster: one has it, and the others say so and end."""

import signal
import uuid

import pytest
from engine_rig import Cluster

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(240)]  # real processes on a busy machine

ROUNDS = (3, 2)
"""How many engines start at once, again and again on the same cluster."""
PARTITIONS = 6


@pytest.fixture
def cluster(tmp_path, kafka_bootstrap):
    cluster = Cluster(tmp_path, kafka_bootstrap, f"t{uuid.uuid4().hex[:10]}.", PARTITIONS)
    yield cluster
    cluster.end()


def lost(engine):
    """It ended by itself and said why."""
    assert engine.wait_end() == 1
    assert "(log-fenced)" in engine.said
    assert "Traceback" not in engine.said
    engine.end()


def test_of_engines_started_at_once_one_stays(cluster):
    # The topics are not there either: the first who come make them together.
    for count in ROUNDS:
        engines = [cluster.engine() for _ in range(count)]
        cluster.wait(
            "one engine is left",
            lambda started=engines: sum(each.process.poll() is None for each in started) == 1,
        )
        [winner] = [each for each in engines if each.process.poll() is None]
        for each in engines:
            if each is not winner:
                lost(each)
        winner.wait_ready()
        cluster.set_ceiling(winner, 9)
        winner.check_alive()
        assert winner.ready
        winner.kill("engine")


def test_an_engine_without_work_notices_its_successor(cluster):
    first = cluster.engine()
    first.wait_ready()
    second = cluster.engine()
    cluster.wait("the first is not ready", lambda: not first.ready)
    lost(first)
    second.wait_ready()
    # One that slept through it ends as well, and takes nothing back.
    second.signal(signal.SIGSTOP)
    third = cluster.engine()
    third.wait_ready()
    second.signal(signal.SIGCONT)
    lost(second)
    cluster.set_ceiling(third, 9)
    assert third.ready
    assert third.stop("engine") == 0
    assert "fenced" not in third.said
