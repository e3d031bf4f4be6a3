"""Folding a batch of facts of all partitions in memory, before one write."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from duraton_api.view.carried import Carried
from duraton_api.view.flow.file import FlowFile
from duraton_api.view.flow.fold import AFTER_RUN, FLOW_FACTS, FlowFold
from duraton_api.view.jobs import JOB_FACTS, Jobs
from duraton_api.view.runfold import RUN_FACTS, RunFold, new_run
from duraton_api.view.schema import place_num, run_num
from duraton_api.view.states import RunState
from duraton_api.view.store import EventRow, Store
from duraton_schemas.records import acts
from duraton_schemas.records import journal as j
from duraton_schemas.records.common import Fact, FactHeader
from duraton_schemas.records.public import Event

LIVE_RUNS_MAX = 20_000
"""Unended runs kept in memory between batches; others are read back when a fact names them."""

IGNORED: Final[frozenset[type[Fact]]] = frozenset(
    {
        j.OwnerTook,
        j.OwnerAlive,
        j.Positions,
        j.PartitionReported,
        j.ShapeRequested,
        j.ShapeAnswered,
        j.ShapeIdle,
        j.EventClaimed,
        j.DedupeClaimed,
        j.DedupeExpired,
        j.WaitStood,
        j.WaitGone,
        j.CronArmed,
        j.CronFired,
        acts.ReplayDeduped,
        acts.ReplayWanted,
        acts.ReplayRefused,
        acts.JobRunsAdded,
        acts.JobBatchSent,
        acts.JobDropped,
        j.BudgetTicked,
        j.PeriodsChanged,
        j.BudgetWarned,
        j.PlacesAsked,
        j.AskClosed,
        j.AsksDropped,
        j.RunsRegated,
        j.StartProbed,
        j.ProbeAnswered,
        j.AskStood,
        j.AskMoved,
        j.AskGone,
        j.PlaceGranted,
        j.PlacesReleased,
        j.HoldingReported,
    }
)
"""Facts that change nothing that the view shows."""

_encode = msgspec.json.Encoder().encode


class Fold:
    """What the facts folded since the last write have changed.

    Args:
        store: Where runs that are not in memory are read from.
        live_max: How many unended runs are kept in memory between writes.
    """

    def __init__(self, store: Store, live_max: int = LIVE_RUNS_MAX) -> None:
        self._store = store
        self._live_max = live_max
        self.flow = FlowFold(FlowFile(lambda: store.db))
        self._live: dict[str, RunFold] = {}
        self.clear()

    def clear(self) -> None:
        """Forget everything that is not written."""
        self._live.clear()
        self.flow.clear()
        self._reset()

    def _reset(self) -> None:
        self.dirty: list[RunFold] = []
        self.events: dict[int, EventRow] = {}
        self.registry: list[j.RegistryChanged | j.RegistrationApplied] = []
        self.parked: list[tuple[Any, ...]] = []
        self.gaps: list[tuple[Any, ...]] = []
        self.carried = Carried(self._store.load_parts)
        self.jobs = Jobs(self._store.load_job)

    def written(self) -> None:
        """All of it stands in the file: keep only what later facts will change."""
        live = self._live
        for run in self.dirty:
            if run.state.ended:
                live.pop(run.state.id, None)
                continue
            run.dirty = run.fresh = False
            run.dirty_steps.clear()
            run.offsets.clear()
        while len(live) > self._live_max:
            del live[next(iter(live))]
        self.flow.written()
        self._reset()

    def apply(self, partition: int, facts: Iterable[tuple[int, Fact]]) -> None:
        """Fold facts of a partition, each with its offset, in their order.

        It is one loop with little in it, because it runs for every fact there is.
        """
        live, handlers, dirty = self._live, RUN_FACTS, self.dirty
        flow, after_run = self.flow, AFTER_RUN
        fact: Any
        for offset, fact in facts:
            kind = type(fact)
            handler = handlers.get(kind)
            if handler is None:
                if kind not in IGNORED:
                    self._other(partition, offset, fact)
                continue
            run = live.get(fact.run)
            if run is None:
                run = self._find(partition, fact)
                if run is None:
                    continue
            handler(run, fact)
            run.seq = fact.header.seq
            run.offsets.append(offset)
            if not run.dirty:
                run.dirty = True
                dirty.append(run)
            after = after_run.get(kind)
            if after is not None:
                after(flow, run, fact)
            if run.state.failure_run is not None and kind is j.RunEnded:
                self._failure(partition, offset, fact, run)

    def _find(self, partition: int, fact: Any) -> RunFold | None:
        """The run of a fact that is not in memory: a new one, or one of the file."""
        kind = type(fact)
        if (kind is j.RunStarted or kind is j.RunQueued) and fact.created is not None:
            return self._create(partition, fact.run, fact.created, fact.header)
        return self._load(fact.run)

    def _load(self, name: str) -> RunFold | None:
        run = self._store.load_run(name)
        if run is not None:
            self._live[name] = run
        return run

    def _touch(self, run: RunFold, offset: int, seq: int) -> None:
        run.seq = seq
        run.offsets.append(offset)
        if not run.dirty:
            run.dirty = True
            self.dirty.append(run)

    def _create(
        self,
        partition: int,
        name: str,
        created: j.RunCreated,
        header: FactHeader,
        failed: RunState | None = None,
    ) -> RunFold:
        run = new_run(run_num(partition, header.seq), name, created, header.at, failed)
        run.fresh = True
        self._live[name] = run
        if created.replay is not None:
            self.carried.give(run, created.replay.request, header.at)
        for trigger in created.triggers:
            if trigger.event is not None:
                num = place_num(trigger.place)
                if num is not None:
                    self._event(num, trigger.event_id, trigger.event)
        return run

    def _failure(self, partition: int, offset: int, fact: Any, failed: RunFold) -> None:
        if fact.failure_run is not None and fact.failure is not None:
            header = fact.header
            run = self._create(partition, fact.failure_run, fact.failure, header, failed.state)
            self._touch(run, offset, header.seq)
            self.flow.run_moved(run, fact)

    def _rescoped(self, fact: j.RunsRescoped) -> None:
        for each in fact.runs:
            run = self._live.get(each.run) or self._load(each.run)
            if run is None:
                continue
            self.flow.rescoped(run, each.scopes)
            if not run.dirty:
                run.dirty = True
                self.dirty.append(run)

    def _event(self, num: int, event_id: str, event: Event | None) -> EventRow:
        row = self.events.get(num)
        if row is None:
            row = self.events[num] = EventRow(num, event_id)
        if event is not None and row.name is None:
            row.id, row.name, row.data, row.ts = event.id, event.name, event.data, event.ts
            row.dedupe_id, row.subject = event.dedupe_id, event.subject
            row.caller = None if event.caller is None else _encode(event.caller).decode()
        return row

    def _recorded(self, offset: int, fact: Any, header: FactHeader) -> None:
        num = place_num(fact.place)
        if num is None:
            return
        row = self._event(num, fact.event_id, fact.event)
        row.recorded_at = header.at
        row.run = fact.run
        row.homes = _encode(fact.homes).decode()
        if fact.run is not None:
            maker = self._live.get(fact.run) or self._find(0, fact)
            if maker is not None:
                self._touch(maker, offset, header.seq)

    def _other(self, partition: int, offset: int, fact: Any) -> None:
        kind, header = type(fact), fact.header
        if kind is j.EventRecorded:
            self._recorded(offset, fact, header)
        elif kind is j.EventHeld:
            num = place_num(fact.place)
            if num is not None:
                self._event(num, fact.event.id, fact.event)
        elif kind is j.EventDropped:
            self._dropped(fact)
        elif kind is j.RunsRescoped:
            self._rescoped(fact)
        elif self.flow.apply(partition, fact):
            pass
        elif kind is j.RegistryChanged or kind is j.RegistrationApplied:
            self.registry.append(fact)
            self.flow.lanes.groups.applied(fact)
        elif kind is j.CommandParked:
            source = f"{fact.source.kind}/{fact.source.partition}/{fact.source.offset}"
            error = _encode(fact.error).decode()
            self.parked.append((partition, header.seq, header.at, source, error, fact.payload))
        elif kind is acts.RunCarried:
            self._carried(offset, fact)
        elif kind is acts.CarryDropped:
            self.carried.drop(fact.request)
        elif self.jobs.apply(fact):
            pass
        elif kind is j.InputGap:
            lost = (fact.topic, fact.partition, fact.lost_from, fact.lost_to)
            self.gaps.append((partition, header.seq, header.at, *lost))
        # A fact that this program does not know is no reason to stop a view.

    def _carried(self, offset: int, fact: acts.RunCarried) -> None:
        self.carried.keep(offset, fact)
        for each in fact.events:
            # It is known, unless retention has taken the fact that recorded it.
            num = place_num(each.place)
            if num is not None:
                self._event(num, each.event.id, each.event)

    def _dropped(self, fact: j.EventDropped) -> None:
        num = place_num(fact.place)
        if num is not None:
            # Nothing of a repeat is recorded (P18); who asks for it is told what it repeats.
            row = self.events.get(num)
            if row is None:
                row = self.events[num] = EventRow(num, "")
            row.duplicate_of = fact.first_id


def handled() -> Sequence[type[Fact]]:
    """The facts that are folded or knowingly ignored; a test compares them with all there are."""
    others: tuple[type[Fact], ...] = (
        j.EventRecorded,
        j.EventHeld,
        j.EventDropped,
        j.RegistryChanged,
        j.RegistrationApplied,
        j.CommandParked,
        j.InputGap,
        acts.RunCarried,
        acts.CarryDropped,
        j.RunsRescoped,
    )
    return (*RUN_FACTS, *JOB_FACTS, *FLOW_FACTS, *others, *IGNORED)
