"""End a run: its outcome, what it waited for, who waits for it, its onFailure."""

from duraton_engine.commands.invocation import stop
from duraton_engine.commands.record_event import wait_slot
from duraton_engine.commands.release import release
from duraton_engine.commands.withdraw_ask import withdraw_ask
from duraton_engine.context import EngineContext
from duraton_engine.controls import singleton
from duraton_engine.errors import RUN_CANCELLED
from duraton_engine.outcomes import outcome_record
from duraton_engine.state import objects, tables
from duraton_engine.state.flow import UNSEEN, Parent
from duraton_engine.state.objects import RunInput, RunState, split_step_key
from duraton_engine.state.reading import input_of, unended_run
from duraton_schemas.ids import run_id, run_slot
from duraton_schemas.records import journal as facts
from duraton_schemas.records import messages
from duraton_schemas.records.common import Caller, ErrorInfo, Place
from duraton_schemas.slots import home_slot
from duraton_streams.logs.base import JOURNAL
from duraton_streams.partition.machine import Transition
from duraton_streams.state.table import scan_all

COMPLETED, FAILED, CANCELLED = "completed", "failed", "cancelled"


def cancelled_by_person(reason: str | None) -> ErrorInfo:
    """The error of a run that a person cancelled, alone or as one of many (P41, P57)."""
    return ErrorInfo(
        message=reason or "cancelled by a person", name="CancelledError", code=RUN_CANCELLED
    )


def end_run(
    tx: Transition,
    engine: EngineContext,
    slot: int,
    run: RunState,
    status: str,
    *,
    output: str | None = None,
    error: ErrorInfo | None = None,
    tell: bool = True,
    keep_gates: bool = False,
) -> None:
    """End a run.

    Args:
        tx: The transition.
        engine: The engine's context.
        slot: The run's slot.
        run: The run.
        status: `completed`, `failed` or `cancelled`.
        output: What its handler returned, as JSON text.
        error: Why it failed or was cancelled.
        tell: Whether its runner is to be told to stop.
        keep_gates: Whether a run that starts in this transition takes its places over.
    """
    given = input_of(tx.state, slot, run.id)
    if tell:
        stop(tx, run, status)
    release(tx, engine, run, keep_gates=keep_gates)
    withdraw_ask(tx, engine, run)
    _leave_waits(tx, slot, run, cancel_children=status == CANCELLED)
    if run.kind == "main":
        tx.publish(outcome_record(tx, run, given, status, output, error))
    ended = facts.RunEnded(run=run.id, status=status, output=output, error=error)
    flow = engine.registrations.flow(run.app, run.workflow)
    # Its runner may be in the middle of a call that is paid for all the same.
    ended.late = tell and run.epoch > 0 and flow is not None and flow.metered
    options = engine.registrations.workflow(run.app, run.workflow)
    handles = options is not None and options.on_failure and run.kind == "main"
    if status == FAILED and handles:
        assert error is not None, "a failed run has its error"
        origin = f"failure:{run.id}"
        ended.failure_run = run_id(slot, origin, run.app, run.workflow)
        ended.failure = _failure(tx, run, given, origin, error)
    parents = _parents(tx, slot, run, given)
    tx.emit(slot, ended)
    _answer_parents(tx, slot, run, parents, ended)
    of = (slot, run.app, run.workflow)
    if ended.failure_run is not None:
        engine.opened(of, UNSEEN)
        failure = unended_run(tx.state, slot, ended.failure_run)
        engine.asking[(of, failure.lane)] = None
    if run.scopes is not None:
        engine.opened(of, *singleton.release(run.scopes))


def _failure(
    tx: Transition, run: RunState, given: RunInput, origin: str, error: ErrorInfo
) -> facts.RunCreated:
    # The events stand in the journal already; the applier takes them from the failed run.
    place = Place(topic=JOURNAL, partition=tx.partition, offset=tx.next_seq)
    triggers = [facts.Trigger(event_id=event.id, place=place) for event in given.events]
    caller = given.caller
    return facts.RunCreated(
        app=run.app,
        workflow=run.workflow,
        kind="onFailure",
        origin=origin,
        triggers=triggers,
        caller=Caller(kind="run", id=run.id, root=caller.root),
        ready_at=tx.now,
        sort_at=tx.now,
        failed_run=run.id,
        error=error,
    )


def _leave_waits(tx: Transition, slot: int, run: RunState, *, cancel_children: bool) -> None:
    for key, step in run.steps.items():
        if step.status == objects.DONE:
            continue
        name, n = split_step_key(key)
        if step.kind == "wait":
            leave_wait(tx, slot, run.id, name, n, step)
        elif step.joined:
            continue
        elif step.kind == "invoke" and cancel_children and step.workflow is not None:
            child = step.child or run_id(
                home_slot(step.app or run.app, step.workflow),
                child_origin(run.id, name, n, step.attempt),
                step.app or run.app,
                step.workflow,
            )
            message = messages.ChildCancelled(child=child, parent=run.id)
            tx.send(run_slot(child), message, source=slot)


def leave_wait(
    tx: Transition, slot: int, run: str, name: str, n: int, step: objects.StepState
) -> None:
    """Tell a wait's place that its run no longer waits."""
    assert step.event is not None, "a wait names its event"
    message = messages.WaitEnded(
        run=run, step=name, n=n, name=step.event, path=step.path, value=step.value
    )
    target = wait_slot(step.event, step.path, step.value)
    tx.send(target, message, source=slot, logged=True)


def child_origin(run: str, step: str, n: int, attempt: int) -> str:
    """What a child's id is made from (DESIGN 4, run id)."""
    return f"invoke:{run}/{step}/{n}/{attempt}"


def _parents(tx: Transition, slot: int, run: RunState, given: RunInput) -> list[Parent]:
    """The steps that wait for a run's end: the one that made it, those that joined it."""
    found: list[Parent] = []
    if given.parent is not None and given.parent_step is not None:
        found.append(Parent(given.parent, given.parent_step, given.parent_n, given.parent_attempt))
    if run.joined:
        found.extend(row for _, row in scan_all(tx.state, tables.JOINED, (slot, run.id)))
    return found


def _answer_parents(
    tx: Transition, slot: int, run: RunState, parents: list[Parent], ended: facts.RunEnded
) -> None:
    if run.kind != "main":
        return
    for parent in parents:
        message = messages.ChildEnded(
            parent=parent.run,
            step=parent.step,
            n=parent.n,
            attempt=parent.attempt,
            child=run.id,
            status=ended.status,
            output=ended.output,
            error=ended.error,
        )
        tx.send(run_slot(parent.run), message, source=slot)
