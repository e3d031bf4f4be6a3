"""`ctx.step.invoke`: the child at its home, its end at the parent (P54)."""

from duraton_engine.commands.answer_start import answer_start
from duraton_engine.commands.call_step import ask_child
from duraton_engine.commands.complete_step import bring_result, policy_of
from duraton_engine.commands.end_run import CANCELLED, COMPLETED, FAILED, child_origin, end_run
from duraton_engine.commands.offer_event import take_start
from duraton_engine.commands.take_start import PROBED, Start
from duraton_engine.context import EngineContext
from duraton_engine.errors import CHILD_CANCELLED, RUN_CANCELLED, workflow_unknown
from duraton_engine.retry import next_attempt_at
from duraton_engine.state import objects, tables
from duraton_engine.state.flow import Taken
from duraton_engine.state.objects import RunState, StepState, step_key
from duraton_engine.state.reading import unended_run
from duraton_schemas.ids import run_id, run_slot
from duraton_schemas.records import journal as facts
from duraton_schemas.records import messages
from duraton_schemas.records.common import ErrorInfo, Place
from duraton_schemas.records.public import Event
from duraton_schemas.wire.frames import FrameError
from duraton_streams.logs.base import JOURNAL
from duraton_streams.partition.machine import Transition


def child_asked(
    tx: Transition, engine: EngineContext, slot: int, message: messages.ChildAsked
) -> None:
    """At the child's home: it passes P1, or is refused with a code."""
    parent_slot = run_slot(message.parent)
    flow = engine.registrations.flow(message.app, message.workflow)
    if flow is None:
        _refuse(tx, slot, parent_slot, message, workflow_unknown(message.app, message.workflow))
        return
    origin = child_origin(message.parent, message.step, message.n, message.attempt)
    child = run_id(slot, origin, message.app, message.workflow)
    event_id = f"{child}/input"
    event = Event(
        id=event_id,
        name=message.workflow,
        data=message.data,
        ts=tx.now,
        caller=message.caller,
    )
    place = Place(topic=JOURNAL, partition=tx.partition, offset=tx.next_seq)
    start = Start(
        flow=flow,
        events=(Taken(event, place, message.caller),),
        near=False,
        caller=message.caller,
        origin=origin,
        parent=message.parent,
        step=message.step,
        n=message.n,
        attempt=message.attempt,
    )
    outcome = take_start(tx, engine, slot, start, absorb=False)
    if outcome.kind != PROBED:
        answer_start(tx, slot, start, outcome)


def _refuse(
    tx: Transition,
    slot: int,
    parent_slot: int,
    message: messages.ChildAsked,
    error: ErrorInfo,
) -> None:
    ended = messages.ChildEnded(
        parent=message.parent,
        step=message.step,
        n=message.n,
        attempt=message.attempt,
        child=None,
        status="refused",
        error=error,
    )
    tx.send(parent_slot, ended, source=slot)


def _pending(
    tx: Transition, slot: int, parent: str, step: str, n: int, attempt: int
) -> tuple[RunState, StepState] | None:
    run = tx.state.get(tables.RUNS, (slot, parent))
    if run is None:
        return None
    pending = run.steps.get(step_key(step, n))
    if pending is None or pending.status != objects.PENDING or pending.attempt != attempt:
        return None
    return run, pending


def child_started(
    tx: Transition, engine: EngineContext, slot: int, message: messages.ChildStarted
) -> None:
    """At the parent: its step shows the child."""
    found = _pending(tx, slot, message.parent, message.step, message.n, message.attempt)
    if found is not None:
        known = facts.ChildKnown(
            run=message.parent,
            step=message.step,
            n=message.n,
            child=message.child,
            joined=message.joined,
        )
        tx.emit(slot, known)


def child_ended(
    tx: Transition, engine: EngineContext, slot: int, message: messages.ChildEnded
) -> None:
    """At the parent: the child's output is the step's, its error fails the step's attempt."""
    found = _pending(tx, slot, message.parent, message.step, message.n, message.attempt)
    if found is None:
        return
    run, step = found
    if message.status == COMPLETED:
        output = message.output if message.output is not None else "null"
        bring_result(tx, engine, slot, run, message.step, message.n, step, output)
        return
    error = message.error
    if message.status == CANCELLED:
        error = ErrorInfo(
            message=f"the child run {message.child} was cancelled",
            name="ChildCancelledError",
            code=CHILD_CANCELLED,
        )
    assert error is not None, "a child that did not complete says why"
    policy = policy_of(engine, run, step.retry)
    # A child's own final error says nothing about trying the child again.
    final = message.status == "refused"
    as_frame = FrameError(message=error.message, name=error.name, final=final)
    retry_at = next_attempt_at(policy, step.attempt, as_frame, tx.now)
    failed = facts.StepFailed(
        run=run.id,
        step=message.step,
        n=message.n,
        kind="invoke",
        attempt=step.attempt,
        seen=step.seen,
        error=error,
        retry_at=retry_at,
        retry=step.retry,
    )
    tx.emit(slot, failed)
    if retry_at is None:
        now = unended_run(tx.state, slot, run.id)
        end_run(tx, engine, slot, now, FAILED, error=error)


def ask_again(tx: Transition, slot: int, run: RunState, step: str, n: int, old: StepState) -> None:
    """The backoff of an invoked child is over: the engine asks for another child itself."""
    due = facts.StepDue(run=run.id, step=step, n=n, attempt=old.attempt)
    tx.emit(slot, due)
    app = old.app or run.app
    ask_child(tx, slot, run, step, n, old.attempt, app, old.workflow, old.data)


def child_cancelled(
    tx: Transition, engine: EngineContext, slot: int, message: messages.ChildCancelled
) -> None:
    """At the child: its parent was cancelled."""
    run = tx.state.get(tables.RUNS, (slot, message.child))
    if run is None:
        return
    error = ErrorInfo(
        message=f"the parent run {message.parent} was cancelled",
        name="CancelledError",
        code=RUN_CANCELLED,
    )
    end_run(tx, engine, slot, run, CANCELLED, error=error)
