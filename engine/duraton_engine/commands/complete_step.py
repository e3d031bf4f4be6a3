"""A step's code has ended: its result is recorded once, or its failure and what follows."""

from duraton_engine.commands.end_run import FAILED, end_run
from duraton_engine.commands.invocation import acknowledge_step, hold, wake
from duraton_engine.commands.record_event import record_event
from duraton_engine.commands.start_run import start_or_queue
from duraton_engine.context import EngineContext
from duraton_engine.controls.budget import look_again_at
from duraton_engine.controls.token_throttle import debit
from duraton_engine.errors import RUN_STATE_TOO_LARGE
from duraton_engine.metering import spend_of
from duraton_engine.retry import next_attempt_at, read_policy
from duraton_engine.state import objects
from duraton_engine.state.objects import RunState, StepState, step_key
from duraton_engine.state.reading import input_of, unended_run
from duraton_engine.wire import error_info
from duraton_schemas.options import Retry
from duraton_schemas.records import journal as facts
from duraton_schemas.records.common import Caller, ErrorInfo, Place
from duraton_schemas.records.public import Event
from duraton_schemas.values import dump, text_bytes
from duraton_schemas.wire.frames import FrameError, Step, WakeItem
from duraton_streams.logs.base import JOURNAL
from duraton_streams.partition.machine import Transition


def complete(
    tx: Transition, engine: EngineContext, slot: int, run: RunState, boot: str, frame: Step
) -> None:
    """The step succeeded."""
    output = frame.output if frame.output is not None else "null"
    if run.bytes + text_bytes(output) > engine.settings.run_bytes_max:
        fail(tx, engine, slot, run, boot, frame, too_large(engine))
        return
    number = run.results + 1
    old = run.steps.get(step_key(frame.step, frame.n))
    completed = facts.StepCompleted(
        run=run.id,
        step=frame.step,
        n=frame.n,
        kind=frame.kind,
        attempt=frame.attempt,
        number=number,
        seen=old.seen if old is not None else frame.seen,
        output=output,
        started_at=frame.started_at,
        spend=spend_of(tx, engine, run, frame.usage),
    )
    completed.drained = debit(tx, engine, slot, run, completed.spend)
    completed.budget_at = look_again_at(tx, engine, slot, run, completed.spend)
    was_exempt = run.exempt
    tx.emit(slot, completed)
    now = unended_run(tx.state, slot, run.id)
    if was_exempt and not now.exempt:
        # It spent again while over the budget (P31); by the acknowledgement it would go on.
        hold(tx, now)
    acknowledge_step(tx, now, boot, frame, number=number)


def too_large(engine: EngineContext) -> FrameError:
    """The error of a run that would hold more than it may (P58)."""
    return FrameError(
        message=f"the run would hold more than {engine.settings.run_bytes_max} bytes",
        name="RunStateTooLargeError",
        code=RUN_STATE_TOO_LARGE,
        final=True,
    )


def policy_of(engine: EngineContext, run: RunState, own: str | None) -> Retry:
    """The step's own policy, or the workflow's newest (P20, P34)."""
    if own is not None:
        return read_policy(own)
    options = engine.registrations.workflow(run.app, run.workflow)
    return options.retry if options is not None else Retry()


def fail(
    tx: Transition,
    engine: EngineContext,
    slot: int,
    run: RunState,
    boot: str,
    frame: Step,
    error: FrameError,
) -> None:
    """An attempt failed: its next one has its time, or the run fails."""
    policy = policy_of(engine, run, frame.retry)
    retry_at = next_attempt_at(policy, frame.attempt, error, tx.now)
    info = error_info(error)
    failed = facts.StepFailed(
        run=run.id,
        step=frame.step,
        n=frame.n,
        kind=frame.kind,
        attempt=frame.attempt,
        seen=frame.seen,
        error=info,
        retry_at=retry_at,
        retry=frame.retry,
        started_at=frame.started_at,
        spend=spend_of(tx, engine, run, frame.usage),
    )
    failed.drained = debit(tx, engine, slot, run, failed.spend)
    failed.budget_at = look_again_at(tx, engine, slot, run, failed.spend)
    was_exempt = run.exempt
    tx.emit(slot, failed)
    now = unended_run(tx.state, slot, run.id)
    if retry_at is not None:
        if was_exempt and not now.exempt:
            hold(tx, now)
        acknowledge_step(tx, now, boot, frame, retry_at=retry_at)
        return
    end_run(tx, engine, slot, now, FAILED, error=info)


def send_event(
    tx: Transition, engine: EngineContext, slot: int, run: RunState, boot: str, frame: Step
) -> None:
    """`ctx.step.send_event`: the event is a fact of this transaction (DESIGN 3)."""
    number = run.results + 1
    event_id = f"{run.id}/{frame.step}/{frame.n}"
    output = dump({"id": event_id})
    completed = facts.StepCompleted(
        run=run.id,
        step=frame.step,
        n=frame.n,
        kind="send",
        attempt=frame.attempt,
        number=number,
        seen=frame.seen,
        output=output,
        started_at=frame.started_at,
    )
    tx.emit(slot, completed)
    now = unended_run(tx.state, slot, run.id)
    acknowledge_step(tx, now, boot, frame, number=number, output=output)
    given = input_of(tx.state, slot, run.id)
    event = Event(
        id=event_id,
        name=frame.event or "",
        data=frame.data or "{}",
        ts=tx.now,
        caller=Caller(kind="run", id=run.id, root=given.caller.root),
    )
    place = Place(topic=JOURNAL, partition=tx.partition, offset=tx.next_seq)
    record_event(tx, engine, slot, event, place, "", held=False, run=run.id)


def bring_result(
    tx: Transition,
    engine: EngineContext,
    slot: int,
    run: RunState,
    step: str,
    n: int,
    old: StepState,
    output: str,
) -> None:
    """The engine brings a step to its end: the live handler is woken, or the run goes on.

    Args:
        tx: The transition.
        engine: The engine's context.
        slot: The run's slot.
        run: The run.
        step: The step's id.
        n: Which use of that id.
        old: The pending step.
        output: What the handler sees, as JSON text.
    """
    if run.bytes + text_bytes(output) > engine.settings.run_bytes_max:
        fail_pending(tx, engine, slot, run, step, n, old, error_info(too_large(engine)))
        return
    number = run.results + 1
    completed = facts.StepCompleted(
        run=run.id,
        step=step,
        n=n,
        kind=old.kind,
        attempt=old.attempt,
        number=number,
        seen=old.seen,
        output=output,
    )
    tx.emit(slot, completed)
    go_on(tx, engine, slot, run.id, WakeItem(step=step, n=n, number=number, output=output))


def fail_pending(
    tx: Transition,
    engine: EngineContext,
    slot: int,
    run: RunState,
    step: str,
    n: int,
    old: StepState,
    error: ErrorInfo,
) -> None:
    """A step that the engine was to bring to its end fails for good, and with it the run."""
    failed = facts.StepFailed(
        run=run.id, step=step, n=n, kind=old.kind, attempt=old.attempt, seen=old.seen, error=error
    )
    tx.emit(slot, failed)
    end_run(tx, engine, slot, unended_run(tx.state, slot, run.id), FAILED, error=error)


def go_on(tx: Transition, engine: EngineContext, slot: int, run_id: str, item: WakeItem) -> None:
    """Wake a live handler, or let a run that waits go on."""
    run = unended_run(tx.state, slot, run_id)
    if run.status == objects.RUNNING:
        wake(tx, run, item)
    elif run.status == objects.WAITING and run.retry_at is None:
        start_or_queue(tx, engine, slot, run, "step")
