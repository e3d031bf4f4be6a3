"""The log of a test's engine: what survives its crashes, and whether all of it was read."""

import os
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from duraton_api.node.core import Core
from duraton_streams.logs.base import COMMANDS, EVENTS, MESSAGES, REGISTRY, Log, NewRecord, Writer
from duraton_streams.logs.memory import MemoryLog
from duraton_streams.logs.sqlite import SqliteLog

INPUTS = (EVENTS, COMMANDS, MESSAGES, REGISTRY)


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
        self._written: dict[tuple[str, int], int] = {}

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
        log = KafkaLog(bootstrap, prefix=self._prefix)
        return cast("Log", _WatchedLog(log, self._written))

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
        if core.appender is None:
            return False
        if core.appender.busy:
            return True
        for (topic, part), end in list(self._written.items()):
            readers = core.processors if topic == REGISTRY else (core.processors[part],)
            if any(processor.next_of(topic) < end for processor in readers):
                return True
        return False


class _WatchedLog:
    """A log on a broker, and up to where its inputs were written from here.

    A broker hands records out some time after they were written. Everybody who writes to
    a test's cluster is in its process, so what was written tells what is still to come.
    """

    def __init__(self, log: Log, written: dict[tuple[str, int], int]) -> None:
        self._log = log
        self._written = written

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    def append(self, records: Sequence[NewRecord]) -> list[int]:
        return self.note(records, self._log.append(records))

    def writer(self, partition: int) -> Writer:
        return cast("Writer", _WatchedWriter(self._log.writer(partition), self))

    def note(self, records: Sequence[NewRecord], offsets: list[int]) -> list[int]:
        """Remember where inputs were written."""
        written = self._written
        for record, offset in zip(records, offsets, strict=True):
            if record.topic in INPUTS:
                place = (record.topic, record.partition)
                written[place] = max(written.get(place, 0), offset + 1)
        return offsets


class _WatchedWriter:
    def __init__(self, writer: Writer, log: _WatchedLog) -> None:
        self._writer = writer
        self._log = log

    def __getattr__(self, name: str) -> Any:
        return getattr(self._writer, name)

    def commit(self, records: Sequence[NewRecord]) -> list[int]:
        return self._log.note(records, self._writer.commit(records))
