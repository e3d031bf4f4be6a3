"""A handler called a step that the engine brings to its end: a sleep, a wait, a child."""

from duraton_engine.commands import complete_step
from duraton_engine.commands.invocation import acknowledge_step
from duraton_engine.commands.record_event import wait_slot
from duraton_engine.context import EngineContext
from duraton_engine.errors import workflow_unknown
from duraton_engine.state.objects import RunState
from duraton_engine.state.reading import input_of
from duraton_engine.wire import frame_error
from duraton_schemas.records import journal as facts
from duraton_schemas.records import messages
from duraton_schemas.records.common import Caller
from duraton_schemas.slots import PROJECT_SLOT, home_slot
from duraton_schemas.values import text_bytes
from duraton_schemas.wire.frames import Step
from duraton_streams.partition.machine import Transition


def call(
    tx: Transition, engine: EngineContext, slot: int, run: RunState, boot: str, frame: Step
) -> None:
    """Record the call, arm its timer, and tell whom it concerns."""
    app = frame.app or run.app
    if frame.kind == "invoke" and not _registered(engine, app, frame.workflow):
        # As where the child's home refuses it (P54).
        error = frame_error(workflow_unknown(app, frame.workflow or ""))
        complete_step.fail(tx, engine, slot, run, boot, frame, error)
        return
    if run.bytes + text_bytes(frame.data or "") > engine.settings.run_bytes_max:
        error = complete_step.too_large(engine)
        complete_step.fail(tx, engine, slot, run, boot, frame, error)
        return
    called = facts.StepCalled(
        run=run.id,
        step=frame.step,
        n=frame.n,
        kind=frame.kind,
        seen=frame.seen,
        due=_due(tx, frame),
        event=frame.event,
        path=frame.path,
        value=frame.value,
        app=app if frame.kind == "invoke" else None,
        workflow=frame.workflow,
        data=frame.data,
        attempt=frame.attempt,
        retry=frame.retry,
    )
    tx.emit(slot, called)
    acknowledge_step(tx, run, boot, frame)
    if frame.kind == "wait":
        _place_wait(tx, engine, slot, run, frame)
    elif frame.kind == "invoke":
        ask_child(
            tx, slot, run, frame.step, frame.n, frame.attempt, app, frame.workflow, frame.data
        )


def _registered(engine: EngineContext, app: str, workflow: str | None) -> bool:
    return workflow is not None and engine.registrations.workflow(app, workflow) is not None


def _due(tx: Transition, frame: Step) -> int | None:
    if frame.due_at is not None:
        return max(frame.due_at, tx.now)
    if frame.due_ms is not None:
        return tx.now + max(frame.due_ms, 0)
    return None


def _place_wait(
    tx: Transition, engine: EngineContext, slot: int, run: RunState, frame: Step
) -> None:
    name, path, value = frame.event or "", frame.path, frame.value
    asked = messages.WaitAsked(
        run=run.id, step=frame.step, n=frame.n, name=name, path=path, value=value
    )
    tx.send(wait_slot(name, path, value), asked, source=slot, reply_to=slot, logged=True)
    if engine.registrations.ready(name, path):
        ready = facts.WaitAcknowledged(run=run.id, step=frame.step, n=frame.n, part="ready")
        tx.emit(slot, ready)
        return
    ask_shape(tx, slot, run.id, frame.step, frame.n, name, path)


def ask_shape(tx: Transition, slot: int, run: str, step: str, n: int, name: str, path: str) -> None:
    """Ask the project slot to make a wait's shape known everywhere."""
    shape = messages.ShapeAsked(name=name, path=path, run=run, step=step, n=n)
    tx.send(PROJECT_SLOT, shape, source=slot, reply_to=slot)


def ask_child(
    tx: Transition,
    slot: int,
    run: RunState,
    step: str,
    n: int,
    attempt: int,
    app: str,
    workflow: str | None,
    data: str | None,
) -> None:
    """Ask a workflow's home for the child of a step (P54)."""
    assert workflow is not None, "an invoked workflow has a name"
    given = input_of(tx.state, slot, run.id)
    asked = messages.ChildAsked(
        app=app,
        workflow=workflow,
        data=data or "{}",
        parent=run.id,
        step=step,
        n=n,
        attempt=attempt,
        caller=Caller(kind="run", id=run.id, root=given.caller.root),
    )
    tx.send(home_slot(app, workflow), asked, source=slot, reply_to=slot)
