"""The partition processor: takes what is there, decides, commits, hands on (DESIGN 7)."""

import heapq
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import msgspec

from duraton_schemas.codec import Codec
from duraton_schemas.errors import SchemaError
from duraton_schemas.records.common import Cause, ErrorInfo, Fact
from duraton_schemas.records.journal import (
    CommandParked,
    InputGap,
    InputPosition,
    OwnerAlive,
    OwnerTook,
    Positions,
)
from duraton_streams.errors import DoubtError, OffsetGoneError, PartitionStoppedError
from duraton_streams.logs.base import (
    COMMANDS,
    DEAD_LETTERS,
    EVENTS,
    JOURNAL,
    MESSAGES,
    REGISTRY,
    Log,
    LogRecord,
    NewRecord,
    Tail,
    Writer,
)
from duraton_streams.partition.clock import Clock
from duraton_streams.partition.machine import Applier, Input, Machine, Outlet
from duraton_streams.partition.recovery import (
    Progress,
    Standing,
    note_fact,
    read_standing,
    replay,
    standing_meta,
)
from duraton_streams.partition.settings import ProcessorSettings
from duraton_streams.partition.shadow import Shadow
from duraton_streams.partition.transition import Batch, Counters, OpenTransition, first_slot
from duraton_streams.state.overlay import State

OPENS_MAX = 5
"""Times that taking a partition over is tried in a row while it is in doubt whether the
first commit was written; the log's own deadlines stand between them."""

Taken = Callable[[int | None], None]
"""Told the offset of a submitted record once it is committed, or None where it is not known."""


@dataclass
class Submitted:
    """An input that its owner writes itself, in the transaction that decides about it."""

    record: NewRecord
    taken: Taken


@dataclass
class Owned:
    """What a processor holds between recovery and its end."""

    writer: Writer
    standing: Standing
    tails: dict[str, Tail] = field(default_factory=dict)


class PartitionProcessor:
    """Owns one partition: everything about its slots is decided here, in order.

    Args:
        log: The cluster's log.
        partition: The partition.
        machine: Decides, and says how facts change state.
        state: The partition's state.
        outlet: Where committed facts and effects go.
        make_clock: Makes the engine's clock, given the newest fact's time.
        codec: Encodes and decodes records.
        node: The owner's name, for `owner.took`.
        version: The program's version.
        settings: Bounds.
        wake: Called when something was offered, so that the driver takes a turn.

    Attributes:
        shadow: Compares the state with what its journal gives; None in production.
        points: Told each numbered point that is passed, so that tests can stop there.
        in_doubt: Called on the driver's thread after the partition was rebuilt, since
            what was handed on before may not have been delivered.
    """

    def __init__(
        self,
        log: Log,
        partition: int,
        machine: Machine,
        state: State,
        outlet: Outlet,
        make_clock: Callable[[int], Clock],
        *,
        codec: Codec,
        node: str,
        version: str,
        settings: ProcessorSettings | None = None,
        wake: Callable[[], None] = lambda: None,
        in_doubt: Callable[[], None] = lambda: None,
    ) -> None:
        self.partition = partition
        self.state = state
        self.settings = settings or ProcessorSettings()
        self.wake = wake
        self.in_doubt = in_doubt
        self.shadow: Shadow | None = None
        self.points: Callable[[str], None] | None = None
        self._log = log
        self._machine = machine
        self._appliers: Mapping[type[Fact], Applier] = machine.appliers
        self._outlet = outlet
        self._make_clock = make_clock
        self._clock: Clock = make_clock(0)
        self._codec = codec
        self._node = node
        self._version = version
        self._slot = first_slot(partition, log.partitions)
        self._calls: deque[object] = deque()
        self._submitted: dict[str, deque[Submitted]] = {COMMANDS: deque(), EVENTS: deque()}
        self._held: dict[str, deque[LogRecord]] = {
            topic: deque() for topic in (REGISTRY, MESSAGES, COMMANDS, EVENTS)
        }
        self._taken: list[tuple[Taken, int]] = []
        self._later: list[tuple[int, int, object]] = []
        self._later_number = 0
        self._moved: dict[tuple[str, int], int] = {}
        self._counters = Counters()
        self._owned: Owned | None = None
        self._unkept = 0
        self._batch: Batch | None = None

    # Taking the partition over ---------------------------------------------------

    def open(self, progress: Progress | None = None) -> None:
        """Recover and become the owner. It blocks.

        Where it is in doubt whether its first commit was written, it begins anew: what
        stands on the journal is read then.

        Raises:
            StreamError: As `replay` and `Log.writer` say.
        """
        for left in reversed(range(OPENS_MAX)):
            try:
                self._take_over(progress)
            except DoubtError:
                self.close()
                self.state.drop()
                if not left:
                    raise
            else:
                return

    def _take_over(self, progress: Progress | None) -> None:
        """Recover once.

        1. fence the last owner
        2. take the journal's end
        3. apply the journal from where the store stands up to that end
        4. commit `owner.took` with the next epoch
        5. go on: follow the inputs, rebuild what is kept in memory
        """
        # 1
        writer = self._log.writer(self.partition)
        self._at("open:fenced")
        # 2
        end = self._log.bounds(JOURNAL, self.partition)[1]
        # 3
        standing = read_standing(self.state, self._log, self.partition)
        replay(
            self._log,
            self.state,
            standing,
            self._appliers,
            self._codec,
            end=end,
            batch=self.settings.replay_batch,
            progress=progress,
        )
        if self.shadow is not None:
            self.shadow.opened(self.state, standing)
        self._at("open:replayed")
        self._clock = self._make_clock(standing.clock)
        # 4
        self._counters.epoch = standing.epoch + 1
        self._counters.seq = standing.seq
        self._counters.registry = standing.registry
        self._owned = Owned(writer, standing)
        took = OwnerTook(
            cluster=self._log.cluster,
            partitions=self._log.partitions,
            node=self._node,
            version=self._version,
        )
        self._commit_alone(took)
        self._at("open:took")
        # 5
        self._follow()
        self._moved.clear()
        now = self._now()
        for call in self._machine.started(self.state, now):
            self._calls.append(call)
        self.wake()

    def close(self) -> None:
        """End: give the partition up. What was not committed is not done."""
        if self._owned is not None:
            if self._batch is not None:
                # What was decided but not committed must not reach the store.
                self.state.drop()
                self._batch = None
            elif self._unkept:
                self._keep_now()
            for tail in self._owned.tails.values():
                tail.close()
            self._owned.writer.close()
            self._owned = None

    @property
    def deciding(self) -> bool:
        """Whether a batch was prepared and is not finished."""
        return self._batch is not None

    @property
    def standing(self) -> Standing:
        """Where the partition stands."""
        assert self._owned is not None, "the processor is open"
        return self._owned.standing

    @property
    def clock(self) -> Clock:
        """The clock of this ownership."""
        return self._clock

    @property
    def clock_ms(self) -> int:
        """The engine's time now, never below the newest fact's."""
        return self._now()

    def _follow(self) -> None:
        assert self._owned is not None
        for held in self._held.values():
            held.clear()
        for tail in self._owned.tails.values():
            tail.close()
        for topic in (REGISTRY, MESSAGES, COMMANDS, EVENTS):
            part = 0 if topic == REGISTRY else self.partition
            first = self._log.bounds(topic, part)[0]
            key = f"{topic}/{part}"
            offset = self._owned.standing.inputs.setdefault(key, first)
            self._owned.tails[topic] = self._log.tail(topic, part, offset, self.wake)

    # What reaches it ---------------------------------------------------------------

    def offer(self, call: object) -> None:
        """Add a call: a runner's answer, or that runners came or went."""
        self._calls.append(call)
        self.wake()

    def submit(self, record: NewRecord, taken: Taken) -> None:
        """Add an event or command that this owner writes itself (embedded logs only)."""
        self._submitted[record.topic].append(Submitted(record, taken))
        self.wake()

    def call_at(self, at: int, call: object) -> None:
        """Offer a call at a time; forgotten if the process ends."""
        self._later_number += 1
        heapq.heappush(self._later, (at, self._later_number, call))
        self.wake()

    @property
    def backlog(self) -> int:
        """Events and commands that wait in memory; above `backlog_max` new ones are refused."""
        waiting = sum(len(queue) for queue in self._submitted.values())
        return waiting + len(self._held[EVENTS]) + len(self._held[COMMANDS])

    def next_of(self, topic: str, partition: int) -> int:
        """The next offset of an input, whether or not it is committed that it was read."""
        moved = self._moved.get((topic, partition))
        return self.standing.next_of(topic, partition) if moved is None else moved

    def next_due(self) -> int | None:
        """When the next timer or later call is due, milliseconds since 1970 UTC."""
        timer = self.state.timers.next_due()
        later = self._later[0][0] if self._later else None
        if timer is None or later is None:
            return later if timer is None else timer
        return min(timer, later)

    # A batch ------------------------------------------------------------------------

    def prepare(self) -> Batch | None:
        """Steps 1 and 2 of DESIGN 7: take what is there, decide about it.

        Returns:
            The batch to commit, or None where there was nothing.
        """
        assert self._owned is not None, "the processor is open"
        now = self._now()
        batch = self._batch = Batch(now)
        self._taken = []
        self._take_log(batch, REGISTRY, self.settings.messages_max)
        self._take_log(batch, MESSAGES, self.settings.messages_max)
        self._take_calls(batch)
        self._take_timers(batch)
        self._take_log(batch, COMMANDS, self.settings.commands_max)
        self._take_submitted(batch, COMMANDS, self.settings.commands_max)
        self._take_log(batch, EVENTS, self.settings.events_max)
        self._take_submitted(batch, EVENTS, self.settings.events_max)
        self._moved.update(batch.moved)
        if not batch.records and not batch.effects and not batch.later:
            self._batch = None
            return None
        if batch.records:
            self._add_positions(batch)
        self._at("prepare:decided")
        return batch

    def commit(self, batch: Batch) -> list[int]:
        """Step 3: write it all in one transaction. It blocks; it may run in another thread.

        Raises:
            FencedError: Another owner took the partition.
            DoubtError: It is not known whether it was written.
        """
        assert self._owned is not None
        return self._owned.writer.commit(batch.records) if batch.records else []

    def finish(self, batch: Batch, offsets: list[int], took_ms: int = 0) -> None:
        """Steps 4 and 5: write the state, then hand on.

        4. the overlay and the position go to the store in one batch, once enough has come
        5. facts go to the view, effects to whom they are for
        """
        assert self._owned is not None
        standing = self._owned.standing
        # 4
        facts = [
            (offsets[place], fact)
            for place, fact in zip(batch.fact_places, batch.facts, strict=True)
        ]
        for _, fact in facts:
            note_fact(standing, fact)
        self._at("finish:committed")
        if facts:
            standing.journal = facts[-1][0] + 1
            self._show(batch, standing)
        self._batch = None
        if facts:
            self._keep(len(facts))
        # 5
        self._at("finish:kept")
        if took_ms > self.settings.alive_after_ms:
            self._commit_alone(OwnerAlive())
        for at, call in batch.later:
            self.call_at(at, call)
        if facts:
            self._outlet.committed(self.partition, facts)
        self._at("finish:shown")
        if batch.effects:
            self._outlet.effects(self.partition, batch.effects)
        self._at("finish:done")
        taken, self._taken = self._taken, []
        for tell, offset in taken:
            tell(offset)

    def doubt(self, batch: Batch) -> list[Taken]:
        """After a `DoubtError`: drop the overlay, rebuild from the journal, go on. It blocks.

        Calls of the batch are offered again; the engine knows those it has by
        (run, step, attempt).

        Returns:
            Whom to tell, on the loop's thread, that it is not known whether their
            submitted input was written.
        """
        taken, self._taken = self._taken, []
        calls = list(batch.calls)
        self._unkept = 0
        self.close()
        self.open()
        self._calls.extendleft(reversed(calls))
        return [tell for tell, _ in taken]

    def turn(self) -> bool:
        """One batch from beginning to end, inline.

        Returns:
            Whether there was anything to do.
        """
        batch = self.prepare()
        if batch is None:
            return False
        try:
            offsets = self.commit(batch)
        except DoubtError:
            for tell in self.doubt(batch):
                tell(None)
            self.in_doubt()
            return True
        self.finish(batch, offsets)
        return True

    def _at(self, point: str) -> None:
        """A numbered point is passed; tests stop there."""
        if self.points is not None:
            self.points(point)

    def _show(self, batch: Batch, standing: Standing) -> None:
        """Let the shadow, where there is one, apply what was committed and compare."""
        if self.shadow is not None and batch.fact_places:
            raws = [batch.records[place].value or b"" for place in batch.fact_places]
            self.shadow.committed(raws, standing.journal - 1, self.state, standing)

    # Taking inputs --------------------------------------------------------------------

    def _now(self) -> int:
        assert self._owned is not None
        return max(self._clock.now_ms(), self._owned.standing.clock)

    def _full(self, batch: Batch) -> bool:
        return len(batch.records) >= self.settings.records_max

    def _take_calls(self, batch: Batch) -> None:
        while self._later and self._later[0][0] <= batch.now:
            self._calls.append(heapq.heappop(self._later)[2])
        cause = Cause(kind="call")
        for _ in range(min(len(self._calls), self.settings.calls_max)):
            if self._full(batch):
                return
            call = self._calls.popleft()
            batch.calls.append(call)
            self._decide(batch, Input(cause, call))

    def _take_timers(self, batch: Batch) -> None:
        for due, target in self.state.timers.due(batch.now, self.settings.timers_max):
            if self._full(batch):
                return
            self._decide(batch, Input(Cause(kind="timer", offset=due), target))

    def _take_submitted(self, batch: Batch, topic: str, limit: int) -> None:
        queue = self._submitted[topic]
        if not queue or self._held[topic]:
            return
        assert self._owned is not None
        position = (topic, self.partition)
        offset = batch.moved.get(position)
        if offset is None:
            offset = self._log.bounds(topic, self.partition)[1]
        while queue and limit and not self._full(batch):
            record = queue[0].record
            written = LogRecord(
                topic,
                self.partition,
                offset,
                record.value,
                record.key,
                record.headers,
                record.timestamp_ms,
            )
            if self._machine.wants_registry(written) > self._counters.registry:
                return
            self._taken.append((queue.popleft().taken, offset))
            batch.records.append(record)
            self._take_record(batch, written)
            offset += 1
            batch.moved[position] = offset
            limit -= 1

    def _take_log(self, batch: Batch, topic: str, limit: int) -> None:
        assert self._owned is not None
        held = self._held[topic]
        part = 0 if topic == REGISTRY else self.partition
        next_offset = self._moved.get((topic, part))
        if next_offset is None:
            next_offset = self._owned.standing.next_of(topic, part)
        if not held:
            try:
                held.extend(self._owned.tails[topic].take(limit))
            except OffsetGoneError as error:
                self._gap(batch, error)
                return
        gated = topic in (EVENTS, COMMANDS)
        while held and limit and not self._full(batch):
            record = held[0]
            if record.offset >= next_offset:
                if gated and self._machine.wants_registry(record) > self._counters.registry:
                    return
                self._take_record(batch, record)
                next_offset = record.offset + 1
                batch.moved[topic, part] = next_offset
            held.popleft()
            limit -= 1

    def _gap(self, batch: Batch, error: OffsetGoneError) -> None:
        if error.topic == MESSAGES:
            raise PartitionStoppedError(f"{error}; messages between slots are lost") from error
        gap = InputGap(
            topic=error.topic,
            partition=error.partition,
            lost_from=error.wanted,
            lost_to=error.first,
        )
        tx = self._open(batch, Cause(kind=error.topic, partition=error.partition))
        tx.emit(self._slot, gap)
        tx.close()
        batch.moved[error.topic, error.partition] = error.first
        assert self._owned is not None
        tails = self._owned.tails
        tails[error.topic].close()
        tails[error.topic] = self._log.tail(error.topic, error.partition, error.first, self.wake)

    def _take_record(self, batch: Batch, record: LogRecord) -> None:
        cause = Cause(kind=record.topic, partition=record.partition, offset=record.offset)
        try:
            value = self._machine.decode(record)
        except SchemaError as error:
            batch.records.append(self._dead_letter(record, error.code, str(error)))
            return
        self._decide(batch, Input(cause, value, record))

    def _dead_letter(self, record: LogRecord, code: str, reason: str) -> NewRecord:
        headers = (
            *record.headers,
            ("duraton_topic", record.topic.encode()),
            ("duraton_partition", str(record.partition).encode()),
            ("duraton_offset", str(record.offset).encode()),
            ("duraton_code", code.encode()),
            ("duraton_reason", reason.encode()),
        )
        return NewRecord(
            DEAD_LETTERS, self.partition, record.value, record.key, headers, record.timestamp_ms
        )

    # Deciding -------------------------------------------------------------------------

    def _open(self, batch: Batch, cause: Cause) -> OpenTransition:
        return OpenTransition(
            batch,
            self.state,
            self._codec,
            self._counters,
            self._appliers,
            cause,
            self.partition,
            self._log.partitions,
        )

    def _decide(self, batch: Batch, item: Input) -> None:
        self._decide_one(batch, item)
        handled = 0
        while batch.local:
            message = batch.local.pop(0)
            handled += 1
            if handled > self.settings.local_max:
                raise PartitionStoppedError("messages within a partition do not come to an end")
            self._decide_one(batch, Input(item.cause, message))

    def _decide_one(self, batch: Batch, item: Input) -> None:
        tx = self._open(batch, item.cause)
        try:
            self._machine.decide(tx, item)
            tx.close()
        except PartitionStoppedError:
            raise
        except Exception as error:  # noqa: BLE001 - a decision that raises is a bug, kept apart
            tx.rollback()
            self._set_apart(batch, item, error)

    def _set_apart(self, batch: Batch, item: Input, error: Exception) -> None:
        """Quarantine the run whose decision raised, or park the input with its bytes."""
        tx = self._open(batch, item.cause)
        if not self._machine.quarantine(tx, item, error):
            raw = item.record.value if item.record is not None else b""
            if isinstance(item.value, tuple):  # a timer's target, by which it is taken back
                raw = msgspec.msgpack.encode(item.value)
            info = ErrorInfo(message=str(error), name=type(error).__name__, code="parked")
            tx.emit(
                self._slot,
                CommandParked(source=item.cause, payload=(raw or b"")[:1_000_000], error=info),
            )
        tx.close()

    def _keep(self, facts: int) -> None:
        """Write the state once enough has changed; a start replays what was not written."""
        self._unkept += facts
        settings = self.settings
        if self._unkept >= settings.keep_facts or self.state.size.entries >= settings.keep_entries:
            self._keep_now()

    def _keep_now(self) -> None:
        assert self._owned is not None
        self._unkept = 0
        self.state.flush(standing_meta(self._owned.standing))

    def _add_positions(self, batch: Batch) -> None:
        inputs = [
            InputPosition(topic=topic, partition=part, next=offset)
            for (topic, part), offset in self._moved.items()
        ]
        self._moved.clear()
        tx = self._open(batch, Cause(kind="start"))
        tx.emit(self._slot, Positions(inputs=inputs, clock=batch.now))
        tx.close()

    def _commit_alone(self, fact: Fact) -> None:
        assert self._owned is not None
        batch = Batch(self._now())
        tx = self._open(batch, Cause(kind="start"))
        tx.emit(self._slot, fact)
        tx.close()
        offsets = self._owned.writer.commit(batch.records)
        note_fact(self._owned.standing, fact)
        self._owned.standing.journal = offsets[-1] + 1
        self._show(batch, self._owned.standing)
        self._keep(1)
        self._outlet.committed(self.partition, [(offsets[-1], fact)])
