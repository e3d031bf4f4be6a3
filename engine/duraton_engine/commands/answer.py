"""What a runner answers: find its run, refuse what is stale, hand on what counts."""

from duraton_engine.calls import Answered
from duraton_engine.commands import call_step, complete_step
from duraton_engine.commands.end_run import COMPLETED, FAILED, end_run
from duraton_engine.commands.invocation import ENGINE_KINDS, acknowledge, acknowledge_step
from duraton_engine.commands.lose_invoke import lose_invoke
from duraton_engine.commands.release import release
from duraton_engine.commands.start_run import start_or_queue
from duraton_engine.context import EngineContext
from duraton_engine.controls.budget import look_again_at
from duraton_engine.controls.token_throttle import debit
from duraton_engine.effects import ToRunner
from duraton_engine.errors import STEPS_TOO_MANY
from duraton_engine.metering import spend_of
from duraton_engine.retry import next_attempt_at
from duraton_engine.state import objects, tables
from duraton_engine.state.objects import RunState, step_key
from duraton_engine.state.reading import unended_run
from duraton_engine.wire import error_info, stale_answer
from duraton_schemas.ids import run_slot
from duraton_schemas.options import Retry
from duraton_schemas.records import journal as facts
from duraton_schemas.wire.frames import Complete, Fail, FrameError, Step, Suspend
from duraton_streams.partition.machine import Transition


def answered(tx: Transition, engine: EngineContext, call: Answered) -> None:
    """Decide about one frame of a runner."""
    frame = call.frame
    slot = run_slot(frame.run)
    run = tx.state.get(tables.RUNS, (slot, frame.run))
    if run is None or not run.epoch or run.token(tx.partition) != frame.token:
        _stale(tx, engine, slot, run, call)
        return
    if isinstance(frame, Step):
        _step(tx, engine, slot, run, call.boot, frame)
    elif isinstance(frame, Suspend):
        _suspend(tx, engine, slot, run, call.boot, frame)
    elif isinstance(frame, Complete):
        acknowledge(tx, run, call.boot, frame.token, of="complete")
        end_run(tx, engine, slot, run, COMPLETED, output=frame.output, tell=False)
    else:
        _fail(tx, engine, slot, run, call.boot, frame)


def _stale(
    tx: Transition, engine: EngineContext, slot: int, run: RunState | None, call: Answered
) -> None:
    frame = call.frame
    if isinstance(frame, Step):
        known = run is not None and step_key(frame.step, frame.n) in run.steps
        did_work = frame.output is not None or frame.error is not None
        if did_work and not known:
            late = None if run is not None else tx.state.get(tables.LATE, (slot, frame.run))
            discarded = facts.StepDiscarded(
                run=frame.run,
                step=frame.step,
                n=frame.n,
                attempt=frame.attempt,
                token=frame.token,
                reason="stale token" if run is not None else "the run has ended",
                spend=spend_of(tx, engine, run or late, frame.usage),
            )
            of = run or late
            if of is not None:
                discarded.drained = debit(tx, engine, slot, of, discarded.spend)
                discarded.budget_at = look_again_at(tx, engine, slot, of, discarded.spend)
            tx.emit(slot, discarded)
    tx.effect(ToRunner(call.boot, stale_answer(frame, tx.epoch)))


def _step(
    tx: Transition, engine: EngineContext, slot: int, run: RunState, boot: str, frame: Step
) -> None:
    old = run.steps.get(step_key(frame.step, frame.n))
    if old is not None and _known(tx, run, boot, frame, old):
        return
    if old is None and len(run.steps) >= engine.settings.steps_max:
        error = FrameError(
            message=f"the run has {engine.settings.steps_max} steps, which is the most",
            name="StepsTooManyError",
            code=STEPS_TOO_MANY,
            final=True,
        )
        complete_step.fail(tx, engine, slot, run, boot, frame, error)
    elif frame.kind in ENGINE_KINDS:
        call_step.call(tx, engine, slot, run, boot, frame)
    elif frame.kind == "send":
        complete_step.send_event(tx, engine, slot, run, boot, frame)
    elif frame.error is not None:
        complete_step.fail(tx, engine, slot, run, boot, frame, frame.error)
    else:
        complete_step.complete(tx, engine, slot, run, boot, frame)


def _known(tx: Transition, run: RunState, boot: str, frame: Step, old: objects.StepState) -> bool:
    """Answer what was sent before and is recorded; acks are idempotent (DESIGN 8)."""
    if old.status == objects.DONE:
        acknowledge_step(tx, run, boot, frame, number=old.number)
        return True
    if frame.kind in ENGINE_KINDS:
        acknowledge_step(tx, run, boot, frame)
        return True
    if frame.attempt < old.attempt:
        acknowledge_step(tx, run, boot, frame, retry_at=old.due or tx.now)
        return True
    return False


def _suspend(
    tx: Transition, engine: EngineContext, slot: int, run: RunState, boot: str, frame: Suspend
) -> None:
    """The handler waits for what the engine brings; its places are free from here on."""
    left = [step for step in run.steps.values() if step.status != objects.DONE]
    due = any(step.status == objects.DUE and step.kind != "invoke" for step in left)
    waits = any(step.status != objects.DUE or step.kind == "invoke" for step in left)
    ready = due or frame.held or run.results > frame.seen
    acknowledge(tx, run, boot, frame.token, of="suspend")
    if not ready and not waits:
        lose_invoke(tx, engine, slot, run, "the runner answered nothing", counts=True)
        return
    kept = run.gates if ready else ()
    release(tx, engine, run, keep_gates=ready)
    tx.emit(slot, facts.RunSuspended(run=run.id, seen=frame.seen, ready=ready))
    if ready:
        again = unended_run(tx.state, slot, run.id)
        start_or_queue(tx, engine, slot, again, "suspend", kept)


def _fail(
    tx: Transition, engine: EngineContext, slot: int, run: RunState, boot: str, frame: Fail
) -> None:
    """The handler's own code threw: one more step, with the workflow's policy (P37)."""
    options = engine.registrations.workflow(run.app, run.workflow)
    policy = options.retry if options is not None else Retry()
    retry_at = next_attempt_at(policy, run.attempt, frame.error, tx.now)
    acknowledge(tx, run, boot, frame.token, of="fail", retry_at=retry_at)
    if retry_at is None:
        end_run(tx, engine, slot, run, FAILED, error=error_info(frame.error), tell=False)
        return
    release(tx, engine, run)
    failed = facts.RunAttemptFailed(
        run=run.id, attempt=run.attempt, error=error_info(frame.error), retry_at=retry_at
    )
    tx.emit(slot, failed)
