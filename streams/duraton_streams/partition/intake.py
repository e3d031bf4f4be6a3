"""What waits to be decided about: records of the inputs, calls, submitted inputs, later calls."""

import heapq
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from duraton_schemas.errors import SchemaError
from duraton_schemas.records.common import Cause
from duraton_schemas.records.journal import InputGap
from duraton_schemas.records.messages import Message
from duraton_streams.errors import OffsetGoneError, PartitionStoppedError
from duraton_streams.logs.base import (
    COMMANDS,
    DEAD_LETTERS,
    EVENTS,
    MESSAGES,
    REGISTRY,
    Headers,
    Log,
    LogRecord,
    NewRecord,
    Tail,
)
from duraton_streams.logs.limits import MAX_RECORD_BYTES, record_bytes
from duraton_streams.partition.deciding import Decider
from duraton_streams.partition.machine import Input, Machine
from duraton_streams.partition.recovery import Standing
from duraton_streams.partition.settings import ProcessorSettings
from duraton_streams.partition.transition import Batch
from duraton_streams.state.timers import TIMERS

Taken = Callable[[int | None], None]
"""Told the offset of a submitted record once it is committed, or None where it is not known."""

INPUTS = (REGISTRY, MESSAGES, COMMANDS, EVENTS)
_GATED = (COMMANDS, EVENTS)

REASON_LENGTH_MAX = 2_000
"""Letters of the reason on a dead letter; some quote what was written."""
CUT_KEY_BYTES = 64 << 10
"""Bytes of the key that a dead letter keeps where it cannot be kept whole."""


@dataclass(slots=True)
class Submitted:
    """An input that its owner writes itself, in the transaction that decides about it.

    Attributes:
        record: What is written.
        value: What it says.
        taken: Told once it is committed.
    """

    record: NewRecord
    value: Any
    taken: Taken


class Intake:
    """One partition's inputs and calls, and how far each input was read.

    Args:
        log: The cluster's log.
        partition: The partition.
        machine: Reads records.
        settings: Bounds of a batch.
        wake: Called from any thread when something may be there.
    """

    def __init__(
        self,
        log: Log,
        partition: int,
        machine: Machine,
        settings: ProcessorSettings,
        wake: Callable[[], None],
    ) -> None:
        self._log = log
        self._partition = partition
        self._machine = machine
        self._settings = settings
        self._wake = wake
        self._tails: dict[str, Tail] = {}
        self._held: dict[str, deque[LogRecord]] = {topic: deque() for topic in INPUTS}
        self._submitted: dict[str, deque[Submitted]] = {topic: deque() for topic in _GATED}
        self._calls: deque[object] = deque()
        self._later: list[tuple[int, int, object]] = []
        self._later_number = 0
        self._next: dict[str, int] = {}
        self._moved: set[str] = set()
        self._read = False

    # What reaches it --------------------------------------------------------------

    def follow(self, standing: Standing) -> None:
        """Follow the inputs from where the partition stands."""
        self.leave()
        for topic in INPUTS:
            part = self._part(topic)
            offset = standing.inputs.get(f"{topic}/{part}")
            if offset is None:
                offset = self._log.bounds(topic, part)[0]
            self._next[topic] = offset
            self._tails[topic] = self._log.tail(topic, part, offset, self._wake)

    def leave(self) -> None:
        """Follow no longer; calls and submitted inputs stay."""
        for tail in self._tails.values():
            tail.close()
        self._tails.clear()
        self._moved.clear()
        for held in self._held.values():
            held.clear()

    def offer(self, call: object) -> None:
        """Add a call."""
        self._calls.append(call)

    def offer_again(self, calls: list[object]) -> None:
        """Put calls before all others, in their order."""
        self._calls.extendleft(reversed(calls))

    def submit(self, submitted: Submitted) -> None:
        """Add an input that the owner writes itself."""
        self._submitted[submitted.record.topic].append(submitted)

    def call_at(self, at: int, call: object) -> None:
        """Offer a call at a time."""
        self._later_number += 1
        heapq.heappush(self._later, (at, self._later_number, call))

    @property
    def next_later(self) -> int | None:
        """When the next later call is due."""
        return self._later[0][0] if self._later else None

    @property
    def backlog(self) -> int:
        """Events and commands that wait in memory."""
        return sum(len(self._submitted[topic]) + len(self._held[topic]) for topic in _GATED)

    @property
    def more(self) -> bool:
        """Whether the last `fill` may have left something that nobody will wake it for."""
        return (
            self._read
            or bool(self._calls)
            or any(self._submitted.values())
            or any(self._held.values())
        )

    def next_of(self, topic: str) -> int:
        """The next offset to be read of an input, whether or not that is committed."""
        return self._next[topic]

    def take_moved(self) -> list[tuple[str, int, int]]:
        """The inputs that moved since this was last asked: topic, partition, next offset."""
        moved = [(topic, self._part(topic), self._next[topic]) for topic in sorted(self._moved)]
        self._moved.clear()
        return moved

    def _part(self, topic: str) -> int:
        return 0 if topic == REGISTRY else self._partition

    # Taking it ----------------------------------------------------------------------

    def fill(self, batch: Batch, decider: Decider) -> None:
        """Decide about what is there, each kind its share, up to a cap.

        What others wait for comes first, new work last; timers come before events,
        so that a window whose time is over is closed before a late event (P11).
        """
        settings = self._settings
        self._read = False
        self._take_log(batch, decider, REGISTRY, settings.messages_max)
        self._take_log(batch, decider, MESSAGES, settings.messages_max)
        self._take_calls(batch, decider)
        self._take_timers(batch, decider)
        for topic, limit in ((COMMANDS, settings.commands_max), (EVENTS, settings.events_max)):
            self._take_log(batch, decider, topic, limit)
            self._take_submitted(batch, decider, topic, limit)

    def _full(self, batch: Batch) -> bool:
        settings = self._settings
        return len(batch.records) >= settings.records_max or batch.bytes >= settings.bytes_max

    def _take_calls(self, batch: Batch, decider: Decider) -> None:
        while self._later and self._later[0][0] <= batch.now:
            self._calls.append(heapq.heappop(self._later)[2])
        if not self._calls:
            return
        cause = Cause(kind="call")
        for _ in range(min(len(self._calls), self._settings.calls_max)):
            if self._full(batch):
                return
            call = self._calls.popleft()
            batch.calls.append(call)
            decider.decide(batch, Input(cause, call))

    def _take_timers(self, batch: Batch, decider: Decider) -> None:
        first = decider.state.timers.next_due()
        if first is None or first > batch.now:
            return
        for due, target in decider.state.timers.due(batch.now, self._settings.timers_max):
            if self._full(batch):
                return
            # What was decided about an earlier one may have taken this one back.
            if decider.state.get(TIMERS, (due, *target)) is not None:
                decider.decide(batch, Input(Cause(kind="timer", offset=due), target))

    def _take_submitted(self, batch: Batch, decider: Decider, topic: str, limit: int) -> None:
        queue = self._submitted[topic]
        if not queue or self._held[topic]:
            return
        # The log's end does not know what a batch before this one is about to write.
        end, offset = self._log.bounds(topic, self._partition)[1], self._next[topic]
        if offset < end:
            if self._log.read(topic, self._partition, offset, 1, end):
                return  # what others wrote stands before it and was not taken yet
            offset = end
        # Whatever else stands there was read by now; what this writes needs no reading.
        tail = self._tails[topic]
        while queue and limit and not self._full(batch):
            submitted = queue[0]
            record = submitted.record
            written = LogRecord(topic, self._partition, offset, *record[2:])
            if record.headers and self._waits(self._machine.wants_registry(written), decider):
                return
            queue.popleft()
            batch.taken.append((submitted.taken, offset))
            batch.add(record)
            cause = Cause(kind=topic, partition=self._partition, offset=offset)
            decider.decide(batch, Input(cause, submitted.value, written))
            offset += 1
            limit -= 1
            self._next[topic] = offset
            self._moved.add(topic)
            tail.pass_over(offset)

    def _take_log(self, batch: Batch, decider: Decider, topic: str, limit: int) -> None:
        held = self._held[topic]
        if not held:
            try:
                held.extend(self._tails[topic].take(limit))
            except OffsetGoneError as error:
                self._gap(batch, decider, error)
                self._read = True
                return
            if held:
                self._read = True  # a tail gives a part, and wakes for what is new only
        while held and limit and not self._full(batch):
            record = held[0]
            # The owner's own inputs come by the tail again; they are behind the position.
            if record.offset >= self._next[topic]:
                wanted = self._machine.wants_registry(record) if topic in _GATED else 0
                if self._waits(wanted, decider):
                    return
                if not self._take_record(batch, decider, record):
                    return
                self._next[topic] = record.offset + 1
                self._moved.add(topic)
            held.popleft()
            limit -= 1

    def _waits(self, wanted: int, decider: Decider) -> bool:
        """Whether a version of the registry is to be applied first.

        A stamp beyond all that was registered holds nothing up: people write headers too.
        """
        if wanted <= decider.registry:
            return False
        end = self._log.bounds(REGISTRY, 0)[1]
        return bool(self._held[REGISTRY]) or self._tails[REGISTRY].position < end

    def _gap(self, batch: Batch, decider: Decider, error: OffsetGoneError) -> None:
        if error.topic == MESSAGES:
            raise PartitionStoppedError(f"{error}; messages between slots are lost") from error
        gap = InputGap(
            topic=error.topic,
            partition=error.partition,
            lost_from=error.wanted,
            lost_to=error.first,
        )
        decider.note(batch, Cause(kind=error.topic, partition=error.partition), gap)
        self._next[error.topic] = error.first
        self._moved.add(error.topic)
        self._tails[error.topic].close()
        self._tails[error.topic] = self._log.tail(
            error.topic, error.partition, error.first, self._wake
        )

    def _take_record(self, batch: Batch, decider: Decider, record: LogRecord) -> bool:
        """Decide about a record; False where it has to wait for the registry."""
        cause = Cause(kind=record.topic, partition=record.partition, offset=record.offset)
        try:
            value = self._machine.decode(record)
        except SchemaError as error:
            batch.add(self._dead_letter(record, error.code, str(error)))
            return True
        envelope = value.envelope if isinstance(value, Message) else None
        if envelope is not None and envelope.registry > decider.registry:
            return False  # its sender knew registrations that this partition has not read yet
        decider.decide(batch, Input(cause, value, record))
        return True

    def _dead_letter(self, record: LogRecord, code: str, reason: str) -> NewRecord:
        headers = (
            *record.headers,
            ("duraton_topic", record.topic.encode()),
            ("duraton_partition", str(record.partition).encode()),
            ("duraton_offset", str(record.offset).encode()),
            ("duraton_code", code.encode()),
            ("duraton_reason", reason[:REASON_LENGTH_MAX].encode(errors="backslashreplace")),
        )
        letter = NewRecord(
            DEAD_LETTERS, self._partition, record.value, record.key, headers, record.timestamp_ms
        )
        return letter if record_bytes(letter) <= MAX_RECORD_BYTES else _cut(letter, headers[-5:])


def _cut(letter: NewRecord, headers: Headers) -> NewRecord:
    """A dead letter that no record can hold whole: the beginning, without foreign headers."""
    value = letter.value or b""
    headers = (*headers, ("duraton_bytes", str(len(value)).encode()))
    key = letter.key[:CUT_KEY_BYTES] if letter.key is not None else None
    cut = letter._replace(value=b"", key=key, headers=headers)
    return cut._replace(value=value[: MAX_RECORD_BYTES - record_bytes(cut)])
