"""The partition processor: takes what is there, decides, commits, hands on (DESIGN 7)."""

from collections import deque
from collections.abc import Callable

from duraton_schemas.codec import Codec
from duraton_schemas.records.common import Cause, Fact
from duraton_schemas.records.journal import InputPosition, OwnerAlive, OwnerTook, Positions
from duraton_streams.errors import DoubtError, FencedError, StreamError
from duraton_streams.logs.base import JOURNAL, Log, NewRecord, Writer
from duraton_streams.partition.clock import Clock
from duraton_streams.partition.deciding import Decider
from duraton_streams.partition.intake import Intake, Submitted, Taken
from duraton_streams.partition.machine import Machine, Outlet
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
from duraton_streams.partition.succession import Succession
from duraton_streams.partition.transition import Batch
from duraton_streams.state.overlay import State

Committed = list[tuple[int, Fact]]
"""Facts with their journal offsets."""


SIZED_SHARE = 128
"""How much of the state has changed is counted once a fact for this share of the most
entries has come: a fact changes a handful."""
OPENS_MAX = 5
"""Times that taking a partition over is tried in a row while it is in doubt whether the
first commit was written; the log's own deadlines stand between them."""


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
        self._outlet = outlet
        self._make_clock = make_clock
        self._clock: Clock = make_clock(0)
        self._codec = codec
        self._node = node
        self._version = version
        self._intake = Intake(log, partition, machine, self.settings, wake)
        self._decider = Decider(machine, state, codec, partition, log.partitions, self.settings)
        self._succession = Succession(log, partition, codec)
        self._writer: Writer | None = None
        self._standing = Standing(cluster=log.cluster, partition=partition)
        self._open: deque[Batch] = deque()
        self._withheld: deque[tuple[Batch, Committed]] = deque()
        self._again: list[object] = []
        self._unknown: list[Taken] = []
        self._proved = True
        self._unkept = self._sized_at = 0
        self._keep_due = False
        self._time = 0

    # Taking the partition over ---------------------------------------------------

    def open(self, progress: Progress | None = None) -> None:
        """Recover and become the owner. It blocks.

        1. fence the last owner
        2. take the journal's end
        3. apply the journal from where the store stands up to that end
        4. commit `owner.took` with the next epoch
        5. go on: follow the inputs, rebuild what is kept in memory

        A doubt in 4 begins it again: what stands on the journal is read in 3.

        Raises:
            StreamError: As `replay` and `Log.writer` say.
            FencedError: Another owner took it meanwhile; it may be opened again.
            DoubtError: The first commit was in doubt `OPENS_MAX` times in a row.
        """
        for left in reversed(range(OPENS_MAX)):
            try:
                self._take_over(progress)
            except FencedError:
                self.close()
                raise
            except DoubtError:
                self.close()
                if not left:
                    raise
            else:
                return

    def _take_over(self, progress: Progress | None) -> None:
        # 1
        writer = self._log.writer(self.partition)
        try:
            self._own(writer, progress)
        except StreamError:
            if self._writer is not writer:
                # The journal may have been read in part; the next try begins anew.
                self.state.drop()
                writer.close()
            raise

    def _own(self, writer: Writer, progress: Progress | None) -> None:
        self._at("open:fenced")
        # 2
        end = self._log.bounds(JOURNAL, self.partition)[1]
        # 3
        standing = read_standing(self.state, self._log, self.partition)
        replay(
            self._log,
            self.state,
            standing,
            self._machine.appliers,
            self._codec,
            end=end,
            batch=self.settings.replay_batch,
            progress=progress,
        )
        if self.shadow is not None:
            self.shadow.opened(self.state, standing)
        self._at("open:replayed")
        self._clock = self._make_clock(standing.clock)
        self._time = standing.clock
        # 4
        counters = self._decider.counters
        counters.epoch = standing.epoch + 1
        counters.seq = standing.seq
        counters.registry = standing.registry
        self._writer, self._standing = writer, standing
        took = OwnerTook(
            cluster=self._log.cluster,
            partitions=self._log.partitions,
            node=self._node,
            version=self._version,
        )
        self._commit_alone(took)
        self._at("open:took")
        # 5
        self._intake.follow(standing)
        for call in self._machine.started(self.state):
            self._intake.offer(call)
        self.wake()

    def close(self) -> None:
        """End: give the partition up. What was not committed is not done."""
        if self._writer is None:
            return
        if self._open:
            # What was decided but not committed must not reach the store.
            self.state.drop()
            self._open.clear()
        elif self._unkept:
            self._keep_now()
        self._withheld.clear()
        self._proved = True
        self._kept()
        self._intake.leave()
        self._writer.close()
        self._writer = None

    @property
    def owns(self) -> bool:
        """Whether the partition is this process's: not while it is taken over or rebuilt."""
        return self._writer is not None

    def successor(self) -> OwnerTook | None:
        """Who took the partition after this owner, if anybody did. It blocks.

        It may be called from any thread once the partition was opened, and writes nothing.

        Raises:
            OffsetGoneError: The records since this owner's last commit are gone.
            LogUnreachableError: The broker does not answer.
        """
        # The epoch first: what is committed after this line stands behind the offset.
        epoch = self._decider.counters.epoch
        return self._succession.after(epoch, self._standing.journal)

    @property
    def deciding(self) -> bool:
        """Whether a batch was prepared and is not finished."""
        return bool(self._open)

    @property
    def standing(self) -> Standing:
        """Where the partition stands: what is committed."""
        return self._standing

    @property
    def clock(self) -> Clock:
        """The clock of this ownership."""
        return self._clock

    @property
    def clock_ms(self) -> int:
        """The engine's time now; it never goes back."""
        self._time = max(self._clock.now_ms(), self._time)
        return self._time

    # What reaches it ---------------------------------------------------------------

    def offer(self, call: object) -> None:
        """Add a call: a runner's answer, or that runners came or went."""
        self._intake.offer(call)
        self.wake()

    def submit(self, record: NewRecord, value: object, taken: Taken) -> None:
        """Add an event or command that this owner writes itself (embedded logs only).

        Args:
            record: What is written.
            value: What it says; it must be what `Machine.decode` would give.
            taken: Told its offset once it is committed, or None where that is not known.
        """
        self._intake.submit(Submitted(record, value, taken))
        self.wake()

    def call_at(self, at: int, call: object) -> None:
        """Offer a call at a time; forgotten if the process ends."""
        self._intake.call_at(at, call)
        self.wake()

    @property
    def backlog(self) -> int:
        """Events and commands that wait in memory; above `backlog_max` new ones are refused."""
        return self._intake.backlog

    def next_of(self, topic: str) -> int:
        """The next offset of an input, whether or not it is committed that it was read."""
        return self._intake.next_of(topic)

    def next_due(self) -> int | None:
        """When the next timer or later call is due, milliseconds since 1970 UTC."""
        timer = self.state.timers.next_due()
        later = self._intake.next_later
        if timer is None or later is None:
            return later if timer is None else timer
        return min(timer, later)

    @property
    def left_over(self) -> bool:
        """Whether the last batch may have left something that is not woken for.

        Everything else either calls `wake`, or is due at `next_due`.
        """
        return self._intake.more

    # A batch ------------------------------------------------------------------------

    @property
    def may_prepare(self) -> bool:
        """Whether a batch may be prepared now, perhaps while the one before is committed."""
        if not self._open:
            return True
        if self.shadow is not None:
            return False  # it compares with a state in which nothing uncommitted is
        # The state is written only while nothing uncommitted is in it.
        return len(self._open) < self.settings.batches_max and not self._keep_due

    def prepare(self) -> Batch | None:
        """Steps 1 and 2 of DESIGN 7: take what is there, decide about it.

        Batches may be prepared while earlier ones are being committed; they are
        committed and finished in order, and all of them fall with the first that fails.

        Returns:
            The batch to commit, or None where there was nothing.
        """
        assert self._writer is not None, "the processor is open"
        batch = Batch(self.clock_ms)
        self._open.append(batch)
        self._intake.fill(batch, self._decider)
        if not batch.records and not batch.effects and not batch.later:
            self._open.pop()
            return None
        if batch.records:
            inputs = [
                InputPosition(topic=topic, partition=part, next=offset)
                for topic, part, offset in self._intake.take_moved()
            ]
            positions = Positions(inputs=inputs, clock=batch.now)
            self._decider.note(batch, Cause(kind="start"), positions)
        self._at("prepare:decided")
        return batch

    def commit(self, batch: Batch) -> list[int]:
        """Step 3: write it all in one transaction. It blocks; it may run in another thread.

        Raises:
            FencedError: Another owner took the partition.
            DoubtError: It is not known whether it was written.
        """
        assert self._writer is not None
        return self._writer.commit(batch.records) if batch.records else []

    def finish(self, batch: Batch, offsets: list[int], took_ms: int = 0) -> None:
        """Steps 4 and 5: write the state, then hand on.

        4. the overlay and the position go to the store in one batch, once enough has come
        5. facts go to the view, effects to whom they are for; after a slow commit only
           once a further one has proved that the partition is still owned

        Raises:
            FencedError: Another owner took the partition meanwhile.
            DoubtError: That further commit's outcome is not known; go on with `doubt`.
        """
        assert next(iter(self._open), None) is batch, "batches are finished in order"
        standing = self._standing
        # 4
        facts: Committed = [
            (offsets[place], fact)
            for place, fact in zip(batch.fact_places, batch.facts, strict=True)
        ]
        for _, fact in facts:
            note_fact(standing, fact)
        self._at("finish:committed")
        if facts:
            standing.journal = facts[-1][0] + 1
            self._show(batch)
        self._open.popleft()
        self._keep(len(facts))
        self._at("finish:kept")
        # 5
        self._withheld.append((batch, facts))
        if took_ms > self.settings.alive_after_ms:
            self._proved = False
        elif batch.records:
            self._proved = True
        if not self._proved:
            if self._open:
                return
            self._commit_alone(OwnerAlive())
            self._proved = True
        while self._withheld:
            self._hand_on(*self._withheld.popleft())

    def _hand_on(self, batch: Batch, facts: "Committed") -> None:
        for at, call in batch.later:
            self.call_at(at, call)
        if facts:
            self._outlet.committed(self.partition, facts)
        self._at("finish:shown")
        if batch.effects:
            self._outlet.effects(self.partition, batch.effects)
        self._at("finish:done")
        for tell, offset in batch.taken:
            tell(offset)

    def doubt(self) -> list[Taken]:
        """After a `DoubtError`: drop the overlay, rebuild from the journal, go on. It blocks.

        Calls of all batches under way are offered again; the engine knows those it has
        by (run, step, attempt).

        Returns:
            Whom to tell, on the loop's thread, that it is not known whether their
            submitted input was written.

        Raises:
            StreamError: As `open`. Nothing is forgotten; it may be called again.
        """
        for batch in (*(batch for batch, _ in self._withheld), *self._open):
            self._unknown.extend(tell for tell, _ in batch.taken)
        self._again.extend(call for batch in self._open for call in batch.calls)
        self.close()
        self.open()
        self._intake.offer_again(self._again)
        unknown, self._again, self._unknown = self._unknown, [], []
        return unknown

    def turn(self) -> bool:
        """One batch from beginning to end, inline.

        Returns:
            Whether there was anything to do.
        """
        batch = self.prepare()
        if batch is None:
            return False
        try:
            self.finish(batch, self.commit(batch))
        except DoubtError:
            for tell in self.doubt():
                tell(None)
            self.in_doubt()
        return True

    def _at(self, point: str) -> None:
        """A numbered point is passed; tests stop there."""
        if self.points is not None:
            self.points(point)

    def _show(self, batch: Batch) -> None:
        """Let the shadow, where there is one, apply what was committed and compare."""
        if self.shadow is not None and batch.fact_places:
            raws = [batch.records[place].value or b"" for place in batch.fact_places]
            self.shadow.committed(raws, self._standing.journal - 1, self.state, self._standing)

    # The store ------------------------------------------------------------------------

    def _keep(self, facts: int) -> None:
        """Write the state once enough has changed; a start replays what was not written."""
        self._unkept += facts
        settings = self.settings
        if self._unkept >= settings.keep_facts:
            self._keep_due = True
        elif self._unkept >= self._sized_at:
            # Counting what has changed walks over all tables, so it is done now and then.
            self._sized_at = self._unkept + settings.keep_entries // SIZED_SHARE
            self._keep_due = self.state.size.entries >= settings.keep_entries
        if self._keep_due and not self._open:
            self._keep_now()

    def _keep_now(self) -> None:
        self._kept()
        self.state.flush(standing_meta(self._standing))

    def _kept(self) -> None:
        self._unkept = self._sized_at = 0
        self._keep_due = False

    def _commit_alone(self, fact: Fact) -> None:
        assert self._writer is not None
        batch = Batch(self.clock_ms)
        self._decider.note(batch, Cause(kind="start"), fact)
        offsets = self._writer.commit(batch.records)
        note_fact(self._standing, fact)
        self._standing.journal = offsets[-1] + 1
        self._show(batch)
        self._keep(1)
        self._outlet.committed(self.partition, [(offsets[-1], fact)])
