"""Logs for tests: each kind made in the same way, and made again as the next process would."""

import contextlib
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from duraton_streams.logs.base import Log
from duraton_streams.logs.memory import MemoryLog
from duraton_streams.logs.sqlite import SqliteLog


class LogKit:
    """One cluster's log: opened, closed, and opened again."""

    kind: str
    partitions: int

    def open(self) -> Log:
        """A handle, as a process that starts would make it."""
        raise NotImplementedError

    def delete_below(self, topic: str, partition: int, offset: int) -> None:
        """Remove records as retention does."""
        raise NotImplementedError

    def stop(self) -> None:
        """Close all that is open."""


class MemoryKit(LogKit):
    kind = "memory"

    def __init__(self, partitions: int) -> None:
        self.partitions = partitions
        self._log = MemoryLog(partitions)

    def open(self) -> Log:
        return self._log

    def delete_below(self, topic, partition, offset):
        self._log.delete_below(topic, partition, offset)


class SqliteKit(LogKit):
    kind = "sqlite"

    def __init__(self, partitions: int, path: Path) -> None:
        self.partitions = partitions
        self.path = path
        self._log: SqliteLog | None = None

    def open(self) -> Log:
        self.stop()
        self._log = SqliteLog(self.path, self.partitions)
        return self._log

    def delete_below(self, topic, partition, offset):
        self._log.delete_below(topic, partition, offset)

    def stop(self) -> None:
        if self._log is not None:
            self._log.close()


class KafkaKit(LogKit):
    kind = "kafka"

    def __init__(self, partitions: int, bootstrap: str) -> None:
        from duraton_streams.logs.kafka import KafkaLog

        self.partitions = partitions
        self.bootstrap = bootstrap
        self.prefix = f"t{uuid.uuid4().hex[:10]}."
        self._logs: list[Log] = []
        KafkaLog.create_topics(bootstrap, partitions, 1, self.prefix)

    def open(self) -> Log:
        from duraton_streams.logs.kafka import KafkaLog

        log = KafkaLog(self.bootstrap, prefix=self.prefix)
        self._logs.append(log)
        return log

    def delete_below(self, topic, partition, offset):
        from confluent_kafka import TopicPartition
        from confluent_kafka.admin import AdminClient

        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        place = TopicPartition(self.prefix + topic, partition, offset)
        for future in admin.delete_records([place]).values():
            future.result(10)

    def stop(self) -> None:
        for log in self._logs:
            log.close()


MakeKit = Callable[..., LogKit]


@pytest.fixture(params=["memory", "sqlite", pytest.param("kafka", marks=pytest.mark.kafka)])
def make_log_kit(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MakeKit]:
    """A maker of clusters' logs, over every kind of log: `make_log_kit(partitions=12)`."""
    with contextlib.ExitStack() as stack:

        def make(partitions: int = 1) -> LogKit:
            kit: LogKit
            if request.param == "memory":
                kit = MemoryKit(partitions)
            elif request.param == "sqlite":
                kit = SqliteKit(partitions, tmp_path / f"{uuid.uuid4().hex[:6]}" / "log.db")
            else:
                kit = KafkaKit(partitions, request.getfixturevalue("kafka_bootstrap"))
            stack.callback(kit.stop)
            return kit

        yield make
