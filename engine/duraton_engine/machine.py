"""The engine as a partition's processor sees it: one table from inputs to commands."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from duraton_engine.appliers import APPLIERS
from duraton_engine.calls import (
    Answered,
    CarryAwaited,
    InvokeMissed,
    JobGoesOn,
    LanesAwaited,
    PlacesFreed,
    RoomFreed,
    RunnerAwaited,
    RunnerLost,
    RunnerSettled,
    SilenceOver,
)
from duraton_engine.commands import (
    act_on_run,
    answer,
    carry_run,
    fire_timer,
    grant_place,
    invoke_child,
    lose_invoke,
    offer_event,
    record_event,
    register_app,
    replay_run,
    run_job,
    set_prices,
    set_project,
    settle_runner,
    wait_for_event,
    wait_shapes,
)
from duraton_engine.commands.ask_place import ask_places, place_answered
from duraton_engine.commands.invocation import stop
from duraton_engine.commands.open_gates import lanes_awaited, start_opened
from duraton_engine.commands.release import release, tell_project
from duraton_engine.commands.withdraw_ask import withdraw_ask
from duraton_engine.context import EngineContext
from duraton_engine.decoding import POST_HEADER, decode_input, header, wanted_registry
from duraton_engine.effects import Reply
from duraton_engine.registrations import Registrations
from duraton_engine.room import SERVED_PREFIX, Room
from duraton_engine.settings import Settings
from duraton_engine.state import acts, tables
from duraton_engine.state.reading import workflows_in
from duraton_schemas.codec import Codec
from duraton_schemas.errors import BadRecordError
from duraton_schemas.ids import run_slot
from duraton_schemas.records import commands, messages
from duraton_schemas.records import journal as facts
from duraton_schemas.records.common import ErrorInfo, Fact, Place
from duraton_schemas.records.public import Event, RegistryEntry
from duraton_streams.logs.base import LogRecord
from duraton_streams.partition.machine import Applier, Input, Transition
from duraton_streams.partition.transition import first_slot
from duraton_streams.state.table import StateReader, scan_all

_COMMANDS: Mapping[type, Callable[[Transition, EngineContext, Any], None]] = {
    commands.RegisterApp: register_app.register_app,
    commands.SetPrices: set_prices.set_prices,
    commands.CancelRun: act_on_run.cancel_run,
    commands.PauseRun: act_on_run.pause_run,
    commands.ResumeRun: act_on_run.resume_run,
    commands.CarryRun: carry_run.carry_run,
    commands.ReplayRun: replay_run.replay_run,
    commands.RefuseReplay: replay_run.refuse_replay,
    commands.AddJobRuns: run_job.add_job_runs,
    commands.StartJob: run_job.start_job,
    commands.StopJob: run_job.stop_job,
    RegistryEntry: register_app.apply_entry,
    Answered: answer.answered,
    InvokeMissed: lose_invoke.invoke_missed,
    RunnerAwaited: settle_runner.runner_awaited,
    SilenceOver: settle_runner.silence_over,
    RunnerLost: settle_runner.runner_lost,
    RunnerSettled: settle_runner.runner_settled,
    RoomFreed: settle_runner.room_freed,
    LanesAwaited: lanes_awaited,
    PlacesFreed: grant_place.places_freed,
    commands.SetProject: set_project.set_project,
    JobGoesOn: run_job.job_goes_on,
    CarryAwaited: run_job.carry_awaited,
}

_MESSAGES: Mapping[type, Callable[[Transition, EngineContext, int, Any], None]] = {
    messages.EventOffered: offer_event.offer_event,
    messages.DedupeAsked: record_event.dedupe_asked,
    messages.DedupeAnswered: record_event.dedupe_answered,
    messages.ChildAsked: invoke_child.child_asked,
    messages.ChildStarted: invoke_child.child_started,
    messages.ChildEnded: invoke_child.child_ended,
    messages.ChildCancelled: invoke_child.child_cancelled,
    messages.WaitAsked: wait_for_event.wait_asked,
    messages.WaitPlaced: wait_for_event.wait_placed,
    messages.WaitEnded: wait_for_event.wait_ended,
    messages.EventPassed: wait_for_event.event_passed,
    messages.WaitMatched: wait_for_event.wait_matched,
    messages.ShapeAsked: wait_shapes.shape_asked,
    messages.ShapeReported: wait_shapes.shape_reported,
    messages.ShapeReady: wait_for_event.shape_ready,
    messages.ShapeRefused: wait_for_event.shape_refused,
    messages.RegistryReported: wait_shapes.registry_reported,
    messages.PlaceAsked: grant_place.place_asked,
    messages.AskWithdrawn: grant_place.ask_withdrawn,
    messages.PlaceReturned: grant_place.place_returned,
    messages.PlacesFree: grant_place.places_free,
    messages.HoldingTold: grant_place.holding_told,
    messages.PlaceAnswered: place_answered,
    messages.JobRunAsked: run_job.job_run_asked,
    messages.JobRunDone: run_job.job_run_done,
}

_RUN_OF: Mapping[type, Callable[[Any], str]] = {
    Answered: lambda call: str(call.frame.run),
    InvokeMissed: lambda call: str(call.run),
    commands.CancelRun: lambda command: str(command.run),
    commands.PauseRun: lambda command: str(command.run),
    commands.ResumeRun: lambda command: str(command.run),
    messages.ChildStarted: lambda message: str(message.parent),
    messages.ChildEnded: lambda message: str(message.parent),
    messages.ChildCancelled: lambda message: str(message.child),
    messages.WaitPlaced: lambda message: str(message.run),
    messages.WaitMatched: lambda message: str(message.run),
    messages.ShapeReady: lambda message: str(message.run),
    messages.ShapeRefused: lambda message: str(message.run),
    messages.JobRunAsked: lambda message: str(message.run),
}
"""The run that an input is about, so that a decision that raises sets that run apart."""


class EngineMachine:
    """Decides for one partition.

    Args:
        partition: The partition.
        room: The node's runners.
        settings: Limits and delays.
        codec: Decodes inputs.
    """

    def __init__(
        self,
        partition: int,
        room: Room,
        settings: Settings | None = None,
        codec: Codec | None = None,
    ) -> None:
        self._partition = partition
        self.engine = EngineContext(settings or Settings(), room)
        self._codec = codec or Codec()

    @property
    def appliers(self) -> Mapping[type[Fact], Applier]:
        return APPLIERS

    def started(self, state: StateReader) -> Sequence[object]:
        engine = self.engine
        engine.registrations = Registrations(engine.settings.together)
        engine.unsettled = set()
        # After a doubt the runners are asked to say hello again; until then what the
        # state says of this partition's invocations takes their places.
        engine.room.forget(f"{self._partition}.")
        for key, live in scan_all(state, tables.LIVE):
            engine.unsettled.add(live.boot)
            seat = engine.room.seats.get(live.boot)
            run = state.get(tables.RUNS, key)
            if seat is not None and run is not None:
                seat.tokens.add(run.token(self._partition))
        calls: list[object] = []
        for boot in sorted(engine.unsettled):
            if boot.startswith(SERVED_PREFIX):
                calls.append(RunnerLost(boot, "the engine was started anew"))
            else:
                calls.append(RunnerAwaited(boot))
        for of, _ in scan_all(state, tables.WAITING):
            # What was to be looked at later may have been forgotten with the process.
            calls.append(LanesAwaited(int(of[0]), str(of[1]), str(of[2])))
        calls.extend(
            LanesAwaited(int(of[0]), str(of[1]), str(of[2]), firings=True)
            for of in workflows_in(state, tables.FIRINGS)
        )
        if state.scan(tables.ASKS, (), 1):
            calls.append(PlacesFreed())
        calls.extend(
            CarryAwaited(str(key[1]), str(key[2]))
            for key, _ in scan_all(state, acts.REPLAYS_WANTED)
        )
        calls.extend(JobGoesOn(str(key[1])) for key, _ in scan_all(state, acts.JOBS))
        return [*calls, RoomFreed()]

    def decode(self, record: LogRecord) -> object:
        return decode_input(self._codec, record)

    def wants_registry(self, record: LogRecord) -> int:
        return wanted_registry(record)

    def decide(self, tx: Transition, item: Input) -> None:
        engine = self.engine
        engine.registrations.refresh(tx.state, tx.registry)
        engine.clear()
        self._decide(tx, item)
        self._follow_up(tx)

    def _follow_up(self, tx: Transition) -> None:
        """Who may go on by what was decided has its turn."""
        engine = self.engine
        while engine.openings or engine.asking:
            if engine.openings:
                start_opened(tx, engine)
            if engine.asking:
                ask_places(tx, engine)
        if engine.returning or engine.wanted:
            tell_project(tx, engine)

    def _decide(self, tx: Transition, item: Input) -> None:
        engine, value = self.engine, item.value
        if isinstance(value, tuple):
            fire_timer.fire_timer(tx, engine, value)
            return
        command = _COMMANDS.get(type(value))
        if command is not None:
            command(tx, engine, value)
            return
        message = _MESSAGES.get(type(value))
        if message is not None:
            assert value.envelope is not None
            message(tx, engine, value.envelope.target, value)
        elif isinstance(value, Event):
            self._event(tx, item, value)
        else:
            raise BadRecordError(f"a {type(value).__name__} is nothing to decide about")

    def _event(self, tx: Transition, item: Input, event: Event) -> None:
        record = item.record
        assert record is not None, "events come from the log"
        post = header(record, POST_HEADER) or "" if record.headers else ""
        place = Place(topic=record.topic, partition=record.partition, offset=record.offset)
        slot = first_slot(tx.partition, tx.partitions)
        record_event.take_event(tx, self.engine, slot, event, place, post)

    def quarantine(self, tx: Transition, item: Input, error: Exception) -> bool:
        value = item.value
        self.engine.clear()
        if isinstance(value, tuple):
            run_id = str(value[2]) if value[1] in ("run", "step") else ""
            if value[1] == "cron":
                # Its timer would be due for ever; the next registration arms it again.
                slot, _, app, workflow = value
                gone = facts.CronArmed(app=app, workflow=workflow, due=None, schedule="")
                tx.emit(slot, gone)
        else:
            named = _RUN_OF.get(type(value))
            run_id = named(value) if named is not None else ""
        if isinstance(value, commands.Command):
            message = "the engine could not decide about it; see the parked commands"
            tx.effect(Reply(value.id, ok=False, code="engine", message=message))
        run_job.report_defect(tx, value, error)
        try:
            slot = run_slot(run_id)
        except BadRecordError:
            return False
        run = tx.state.get(tables.RUNS, (slot, run_id))
        if run is None:
            return False
        stop(tx, run, "paused")
        release(tx, self.engine, run)
        withdraw_ask(tx, self.engine, run)
        info = ErrorInfo(message=str(error), name=type(error).__name__, code="quarantine")
        tx.emit(slot, facts.RunQuarantined(run=run_id, error=info))
        self._follow_up(tx)
        return True
