"""The log of a test's engine: what survives its crashes, and whether all of it was read."""

import os
import uuid
from pathlib import Path
from typing import Any

from duraton_api.node.core import Core
from duraton_streams.logs.base import COMMANDS, EVENTS, MESSAGES, REGISTRY, Log
from duraton_streams.logs.memory import MemoryLog
from duraton_streams.logs.sqlite import SqliteLog


class LogHolder:
    """Opens the log of a kind, again after each crash.

    Args:
        kind: `memory`, `sqlite` or `kafka`.
        partitions: How many partitions.
        folder: Where a file may stand.
        faults: Faults of the memory log.
    """

    def __init__(self, kind: str, partitions: int, folder: Path, faults: Any) -> None:
        if kind not in ("memory", "sqlite", "kafka"):
            raise ValueError(f"log is 'memory', 'sqlite' or 'kafka', not {kind!r}")
        self._kind = kind
        self._partitions = partitions
        self._path = folder / "log.sqlite"
        self._faults = faults
        self._prefix = f"test-{uuid.uuid4().hex[:12]}-"
        self._log: Log | None = None

    def open(self) -> Log:
        """The log, as a process that starts finds it."""
        if self._log is not None:
            return self._log
        if self._kind == "memory":
            self._log = MemoryLog(self._partitions, faults=self._faults)
        elif self._kind == "sqlite":
            self._log = SqliteLog(self._path, self._partitions)
        else:
            self._log = self._kafka()
        return self._log

    def _kafka(self) -> Log:
        from duraton_streams.logs.kafka import KafkaLog  # noqa: PLC0415 - loads librdkafka

        bootstrap = os.environ.get("DURATON_TEST_KAFKA")
        if not bootstrap:
            raise ValueError("log='kafka' needs DURATON_TEST_KAFKA, a broker's address")
        KafkaLog.create_topics(bootstrap, self._partitions, 1, self._prefix)
        return KafkaLog(bootstrap, prefix=self._prefix)

    def crash(self) -> None:
        """The process dies: what is on the log stays."""
        if self._kind != "memory":
            self.close()

    def close(self) -> None:
        """Let the log go."""
        if self._log is not None:
            self._log.close()
            self._log = None

    def behind(self, core: Core) -> bool:
        """Whether inputs are on their way to a broker, or stand there and were not taken yet."""
        log = self._log
        if log is None or log.embedded:
            return False
        if core.appender is not None and core.appender.busy:
            return True
        for processor in core.processors:
            for topic in (EVENTS, COMMANDS, MESSAGES, REGISTRY):
                part = 0 if topic == REGISTRY else processor.partition
                if processor.next_of(topic, part) < log.data_end(topic, part):
                    return True
        return False
