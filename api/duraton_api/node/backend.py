"""The node as the HTTP API uses it: implements `duraton_api.http.backend.Backend`."""

import asyncio
from collections.abc import Mapping, Sequence

from duraton_api.http.backend import (
    EventResult,
    HttpSettings,
    PendingAnswer,
    Readiness,
    RunnerInfo,
    answer_of,
)
from duraton_api.http.metrics import Metrics
from duraton_api.node.core import Core
from duraton_api.node.waiting import EventOutcome
from duraton_api.view import View
from duraton_engine.effects import Reply
from duraton_schemas.errors import SchemaError
from duraton_schemas.records.commands import Command
from duraton_schemas.records.common import Fact
from duraton_schemas.records.public import Event
from duraton_streams.errors import LogError
from duraton_streams.logs.base import JOURNAL

FAN_OUT_TIMEOUT_S = 5.0
"""How long `POST /events` waits for the workflows' answers (P46)."""
COMMAND_TIMEOUT_S = 5.0


class NodeBackend:
    """What the HTTP API needs of a node.

    Args:
        core: The node's parts.
        metrics: The node's counters.
        settings: What the API allows.
    """

    def __init__(self, core: Core, metrics: Metrics, settings: HttpSettings) -> None:
        self.core = core
        self.metrics = metrics
        self.settings = settings
        self.stopped: list[str] = []

    @property
    def view(self) -> View:
        return self.core.view

    async def append_events(self, events: Sequence[Event]) -> list[EventResult]:
        post = await self.core.append_events(events, FAN_OUT_TIMEOUT_S)
        return [
            _result(event, outcome) for event, outcome in zip(events, post.outcomes, strict=True)
        ]

    async def command(self, command: Command) -> Reply:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + COMMAND_TIMEOUT_S
        reply = await self.core.command(command, COMMAND_TIMEOUT_S)
        if reply.version:
            await self.core.applied(reply.version, max(deadline - loop.time(), 0.0))
        return reply

    def journal_ends(self) -> Mapping[int, int]:
        return self.core.journal_ends()

    def now_ms(self) -> int:
        return self.core.processors[0].clock_ms

    async def read_facts(self, partition: int, offsets: Sequence[int]) -> list[Fact | None]:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(None, self._read_facts, partition, offsets)

    def _read_facts(self, partition: int, offsets: Sequence[int]) -> list[Fact | None]:
        log, codec = self.core.log, self.core.codec
        found: list[Fact | None] = []
        for offset in offsets:
            try:
                records = log.read(JOURNAL, partition, offset, 1)
                record = records[0] if records and records[0].offset == offset else None
                fact = codec.decode(record.value or b"") if record is not None else None
            except (LogError, SchemaError):
                fact = None
            found.append(fact if isinstance(fact, Fact) else None)
        return found

    def readiness(self) -> Readiness:
        owned = [each.partition for each in self.core.processors]
        away = [
            f"partition {each.partition} is being taken over again"
            for each in self.core.processors
            if not each.owns
        ]
        reasons = [*self.stopped, *away]
        return Readiness(ready=not reasons, reasons=reasons, partitions=owned)

    def runners(self) -> list[RunnerInfo]:
        return [
            RunnerInfo(
                name=seat.name,
                boot=seat.boot,
                transport=seat.transport,
                offers=sorted(seat.offers),
                capacity=seat.capacity,
                busy=len(seat.tokens),
                draining=seat.draining,
            )
            for seat in self.core.room.seats.values()
        ]


def _result(event: Event, outcome: EventOutcome) -> EventResult:
    if outcome.event_id is None:
        return EventResult(event_id=event.id, recorded=False)
    if outcome.repeated:
        return EventResult(event_id=event.id, duplicate_of=outcome.event_id)
    return EventResult(
        event_id=outcome.event_id,
        answers=[answer_of(answer) for answer in outcome.answers],
        pending=[PendingAnswer(app, workflow) for app, workflow in sorted(outcome.pending)],
    )
