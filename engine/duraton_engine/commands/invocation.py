"""The frames that tell a runner about a run."""

from duraton_engine.context import EngineContext
from duraton_engine.effects import ToRunner
from duraton_engine.state import objects, tables
from duraton_engine.state.objects import RunInput, RunState, split_step_key
from duraton_engine.wire import frame_cap, frame_error, frame_spend
from duraton_schemas.wire.frames import (
    Ack,
    Cancel,
    FrameEvent,
    Invoke,
    Pause,
    Step,
    StepInput,
    StepMemo,
    Wake,
    WakeItem,
)
from duraton_streams.partition.machine import Transition
from duraton_streams.state.table import StateReader

ENGINE_KINDS = frozenset(("sleep", "wait", "invoke"))
"""Kinds of steps that the engine brings to their end."""


def invoke_frame(
    tx: Transition, engine: EngineContext, slot: int, run: RunState, given: RunInput
) -> Invoke:
    """All that a runner needs to execute a run from its beginning."""
    events = [
        FrameEvent(
            id=event.id,
            name=event.name,
            data=event.data,
            ts=event.ts,
            dedupe_id=event.dedupe_id,
            subject=event.subject,
        )
        for event in given.events
    ]
    return Invoke(
        run=run.id,
        token=run.token(tx.partition),
        epoch=tx.epoch,
        app=run.app,
        workflow=run.workflow,
        kind=run.kind,
        attempt=run.attempt,
        events=events,
        error=frame_error(given.error) if given.error is not None else None,
        failed_run=given.failed_run,
        steps=_memos(tx.state, slot, run) if run.steps else [],
        results=run.results,
        spend=frame_spend(run.spend),
        cap=frame_cap(engine.registrations.workflow(run.app, run.workflow)),
        started_at=run.started_at or tx.now,
        root=given.caller.root,
        step_input=_step_input(given),
    )


def _step_input(given: RunInput) -> StepInput | None:
    replay = given.replay
    if replay is None or replay.step is None or replay.input is None:
        return None
    return StepInput(step=replay.step, n=replay.n, input=replay.input)


def _memos(state: StateReader, slot: int, run: RunState) -> list[StepMemo]:
    memos: list[StepMemo] = []
    for number in range(1, run.results + 1):
        output = state.get(tables.OUTPUTS, (slot, run.id, number))
        assert output is not None, "a result has its output"
        step = run.steps[output.step]
        name, n = split_step_key(output.step)
        memos.append(
            StepMemo(
                step=name,
                n=n,
                kind=step.kind,
                number=number,
                seen=step.seen,
                attempt=step.attempt,
                output=output.text,
            )
        )
    for key, step in run.steps.items():
        if step.status == objects.DONE:
            continue
        name, n = split_step_key(key)
        status = "due" if step.status == objects.DUE else "pending"
        memos.append(
            StepMemo(
                step=name,
                n=n,
                kind=step.kind,
                status=status,
                seen=step.seen,
                attempt=step.attempt,
            )
        )
    return memos


def acknowledge(
    tx: Transition, run: RunState, boot: str, token: str, of: str, retry_at: int | None = None
) -> None:
    """Tell the runner that a suspend, a completion or a failure is committed."""
    spend = frame_spend(run.spend)
    frame = Ack(run=run.id, token=token, of=of, retry_at=retry_at, epoch=tx.epoch, spend=spend)
    tx.effect(ToRunner(boot, frame))


def acknowledge_step(
    tx: Transition,
    run: RunState,
    boot: str,
    step: Step,
    *,
    number: int = 0,
    output: str | None = None,
    retry_at: int | None = None,
) -> None:
    """Tell the runner that an answer about a step is committed.

    Args:
        tx: The transition.
        run: The run, as it is after that.
        boot: The runner process.
        step: The answer.
        number: The result's number, where the step has its result.
        output: What the handler sees where the engine made it, as JSON text.
        retry_at: When the next attempt is due, where this one failed.
    """
    frame = Ack(
        run=run.id,
        token=step.token,
        step=step.step,
        n=step.n,
        attempt=step.attempt,
        number=number,
        output=output,
        retry_at=retry_at,
        epoch=tx.epoch,
        spend=frame_spend(run.spend),
    )
    tx.effect(ToRunner(boot, frame))


def wake(tx: Transition, run: RunState, item: WakeItem) -> None:
    """Bring a live handler what it waited for."""
    frame = Wake(run=run.id, token=run.token(tx.partition), items=[item], epoch=tx.epoch)
    tx.effect(ToRunner(run.boot, frame))


def wake_again(tx: Transition, slot: int, run: RunState) -> None:
    """Bring an adopted handler all that may have been on its way when the connection broke.

    What it has already it ignores: items are told apart by their step and number.
    """
    items = []
    for key, step in run.steps.items():
        name, n = split_step_key(key)
        if step.status == objects.DUE:
            items.append(WakeItem(step=name, n=n, attempt=step.attempt))
        elif step.status == objects.DONE and step.kind in ENGINE_KINDS:
            output = tx.state.get(tables.OUTPUTS, (slot, run.id, step.number))
            assert output is not None, "a result has its output"
            items.append(WakeItem(step=name, n=n, number=step.number, output=output.text))
    if items:
        items.sort(key=lambda item: item.number)
        frame = Wake(run=run.id, token=run.token(tx.partition), items=items, epoch=tx.epoch)
        tx.effect(ToRunner(run.boot, frame))


def stop(tx: Transition, run: RunState, reason: str) -> None:
    """Tell the runner that the invocation ended on this side."""
    if run.epoch:
        token = run.token(tx.partition)
        frame = Cancel(run=run.id, token=token, reason=reason, epoch=tx.epoch)
        tx.effect(ToRunner(run.boot, frame))


def hold(tx: Transition, run: RunState) -> None:
    """Tell the runner to begin nothing new and to suspend once what executes has ended."""
    if run.epoch:
        token = run.token(tx.partition)
        tx.effect(ToRunner(run.boot, Pause(run=run.id, token=token, epoch=tx.epoch)))
