"""The clusters over which the scenarios run: every log, with one partition and with twelve."""

import itertools

import pytest

from duraton.testing import Engine

COMBINATIONS = [
    pytest.param(
        (log, partitions),
        id=f"{log}-{partitions}",
        marks=[pytest.mark.kafka] if log == "kafka" else [],
    )
    for log, partitions in itertools.product(("memory", "sqlite", "kafka"), (1, 12))
]


@pytest.fixture(params=COMBINATIONS)
def cluster(request, monkeypatch):
    """Makes engines over a log and with so many partitions: `async with cluster(app)`."""
    log, partitions = request.param
    if log == "kafka":
        monkeypatch.setenv("DURATON_TEST_KAFKA", request.getfixturevalue("kafka_bootstrap"))

    def make(*apps, **more):
        return Engine(*apps, log=log, partitions=partitions, **more)

    return make
