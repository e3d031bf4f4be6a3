"""Repeat a run that has ended: a fresh run of the same trigger (P40).

The new run passes dedupe ids, idempotency, rate limit, debounce and batch by, since its
events are those of the old one; it is made by `create_run` like any other, so whatever
gates a start gates it too. It lives at the old run's slot, because it is of the same
workflow.
"""

from duraton_engine.commands.carry_run import drop_carried
from duraton_engine.commands.end_run import CANCELLED, end_run
from duraton_engine.commands.start_run import create_run
from duraton_engine.commands.take_start import replaced
from duraton_engine.context import EngineContext
from duraton_engine.controls import singleton
from duraton_engine.controls.look import Look
from duraton_engine.effects import CarryWanted, Reply
from duraton_engine.errors import (
    CARRY_INCOMPLETE,
    RUN_NOT_ENDED,
    SINGLETON_IN_USE,
    WorkflowUnknownError,
    workflow_unknown,
)
from duraton_engine.state import acts, tables
from duraton_engine.state.acts import Carry
from duraton_engine.state.reading import unended_run
from duraton_schemas.ids import run_id, run_slot
from duraton_schemas.records import acts as facts
from duraton_schemas.records import commands, journal, messages
from duraton_schemas.slots import PROJECT_SLOT
from duraton_streams.partition.machine import Transition
from duraton_streams.state.table import scan_all

_Refusal = tuple[str, str]
"""A code and a message."""


def replay_run(tx: Transition, engine: EngineContext, command: commands.ReplayRun) -> None:
    """Make the new run, unless the request was answered before or cannot be carried out."""
    slot = run_slot(command.run)
    if command.job is not None and not _is_wanted(tx, slot, command.job, command.run):
        # The job has its answer: this is what somebody sent again who did not know that.
        drop_carried(tx, slot, command.request)
        tx.effect(Reply(command.id, ok=True))
        return
    first = _claimed(tx, slot, command)
    if first is not None:
        drop_carried(tx, slot, command.request)
        now = tx.state.get(tables.RUNS, (slot, first))
        status = now.status if now is not None else None
        tx.effect(Reply(command.id, ok=True, run=first, status=status, repeated=True))
        return
    carried = tx.state.get(acts.CARRIES, (slot, command.request))
    if carried is None or carried.parts != command.parts:
        drop_carried(tx, slot, command.request)
        message = "what the run had was not carried whole, or too long ago; send it again"
        tx.effect(Reply(command.id, ok=False, code=CARRY_INCOMPLETE, message=message))
        if command.job is not None:
            tx.effect(CarryWanted(command.job, command.run, command.caller))
        return
    refusal = _refusal(tx, engine, slot, command)
    if refusal is not None:
        drop_carried(tx, slot, command.request)
        tx.effect(Reply(command.id, ok=False, code=refusal[0], message=refusal[1]))
        if command.job is not None:
            refuse(tx, slot, command.job, command.run, *refusal)
        return
    _make(tx, engine, slot, command, carried)


def _is_wanted(tx: Transition, slot: int, job: str, run: str) -> bool:
    return tx.state.get(acts.REPLAYS_WANTED, (slot, job, run)) is not None


def _claimed(tx: Transition, slot: int, command: commands.ReplayRun) -> str | None:
    """The run that an earlier request of the same dedupe id made."""
    if command.dedupe_id is None:
        return None
    claim = tx.state.get(acts.REPLAY_CLAIMS, (slot, command.run, command.dedupe_id))
    return claim.run if claim is not None and claim.expires_at > tx.now else None


def _refusal(
    tx: Transition, engine: EngineContext, slot: int, command: commands.ReplayRun
) -> _Refusal | None:
    old = tx.state.get(tables.RUNS, (slot, command.run))
    if old is not None:
        status = "paused" if old.paused else old.status
        return RUN_NOT_ENDED, f"the run is {status}; cancel it first, or wait until it ends"
    if engine.registrations.workflow(command.app, command.workflow) is None:
        error = workflow_unknown(command.app, command.workflow)
        return WorkflowUnknownError.code, error.message
    look = _look(tx, engine, slot, command)
    blocker = singleton.check(look)
    if blocker is not None and _skips(look):
        # What is a skip for an event is a conflict for an act (P40).
        return SINGLETON_IN_USE, f"the run {blocker.id} has the singleton key and has not ended"
    return None


def _look(tx: Transition, engine: EngineContext, slot: int, command: commands.ReplayRun) -> Look:
    """A look at the run that the replay would make, counted by its first event (P12)."""
    flow = engine.registrations.flow(command.app, command.workflow)
    first = next(iter(scan_all(tx.state, acts.CARRIED, (slot, command.request), page=1)), None)
    event = first[1].events[0].event if first is not None and first[1].events else None
    scopes = flow.scopes(event) if flow is not None else None
    return Look(tx, engine, slot, command.app, command.workflow, scopes=scopes)


def _skips(look: Look) -> bool:
    control = look.flow.controls.singleton if look.flow is not None else None
    return control is not None and control.mode == "skip"


def _make(
    tx: Transition, engine: EngineContext, slot: int, command: commands.ReplayRun, carried: Carry
) -> None:
    if command.job is not None:
        origin = f"job:{command.job}/{command.run}"
    else:
        cause = tx.cause
        origin = f"replay:{cause.kind}/{cause.partition}/{cause.offset}"
    run = run_id(slot, origin, command.app, command.workflow)
    look = _look(tx, engine, slot, command)
    live = singleton.check(look)
    if live is not None:
        end_run(tx, engine, slot, live, CANCELLED, error=replaced())
    shift = look.flow.shift_ms if look.flow is not None else 0
    deduped = command.dedupe_id is not None
    replay = facts.Replay(
        of=command.run,
        step=command.step,
        n=command.n,
        input=command.input,
        request=command.request,
        results=carried.results,
        job=command.job,
        dedupe_id=command.dedupe_id,
        expires_at=tx.now + engine.settings.replay_dedupe_ms if deduped else None,
    )
    created = journal.RunCreated(
        app=command.app,
        workflow=command.workflow,
        origin=origin,
        triggers=_triggers(tx, slot, command.request),
        caller=command.caller,
        ready_at=tx.now,
        sort_at=tx.now - shift,
        tick=command.tick,
        scopes=look.scopes,
        replay=replay,
    )
    create_run(tx, engine, slot, run, created)
    if command.job is not None:
        done = messages.JobRunDone(job=command.job, run=command.run, made=run)
        tx.send(PROJECT_SLOT, done, source=slot)
    status = unended_run(tx.state, slot, run).status
    tx.effect(Reply(command.id, ok=True, run=run, status=status))


def _triggers(tx: Transition, slot: int, request: str) -> list[journal.Trigger]:
    # The events stand in the facts that carried them; the applier takes them from there.
    return [
        journal.Trigger(event_id=each.event.id, place=each.place)
        for _, part in scan_all(tx.state, acts.CARRIED, (slot, request), page=10)
        for each in part.events
    ]


def refuse_replay(tx: Transition, engine: EngineContext, command: commands.RefuseReplay) -> None:
    """By what the view knows of the run, a job's replay of it cannot be."""
    slot = run_slot(command.run)
    if _is_wanted(tx, slot, command.job, command.run):
        refuse(tx, slot, command.job, command.run, command.code, command.message)
    tx.effect(Reply(command.id, ok=True))


def refuse(tx: Transition, slot: int, job: str, run: str, code: str, message: str) -> None:
    """A replay that a job asked for cannot be; the job is told why."""
    tx.emit(slot, facts.ReplayRefused(job=job, of=run, code=code, message=message))
    done = messages.JobRunDone(job=job, run=run, code=code, message=message)
    tx.send(PROJECT_SLOT, done, source=slot)


def want_replay(
    tx: Transition, engine: EngineContext, slot: int, message: messages.JobRunAsked
) -> None:
    """A job asks for a replay: from here on it is done or refused, once, whatever happens."""
    wanted = facts.ReplayWanted(job=message.job, of=message.run, caller=message.caller)
    tx.emit(slot, wanted)
    tx.effect(CarryWanted(message.job, message.run, message.caller))
