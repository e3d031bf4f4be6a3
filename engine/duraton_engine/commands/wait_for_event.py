"""Waits for events: at their place, and at the run (DESIGN 4, P51)."""

import msgspec

from duraton_engine.commands.call_step import ask_shape
from duraton_engine.commands.complete_step import bring_result, fail_pending
from duraton_engine.context import EngineContext
from duraton_engine.state import objects, tables
from duraton_engine.state.objects import RunState, StepState, step_key
from duraton_schemas.ids import run_slot
from duraton_schemas.records import journal as facts
from duraton_schemas.records import messages
from duraton_streams.partition.machine import Transition
from duraton_streams.state.table import scan_all


def _pending(
    tx: Transition, slot: int, run_id: str, step: str, n: int
) -> tuple[RunState, StepState] | None:
    run = tx.state.get(tables.RUNS, (slot, run_id))
    if run is None:
        return None
    pending = run.steps.get(step_key(step, n))
    if pending is None or pending.status != objects.PENDING or pending.kind != "wait":
        return None
    return run, pending


def wait_asked(
    tx: Transition, engine: EngineContext, slot: int, message: messages.WaitAsked
) -> None:
    """At the wait's place: it stands, and takes the first event that comes after it."""
    stood = facts.WaitStood(
        run=message.run,
        step=message.step,
        n=message.n,
        name=message.name,
        path=message.path,
        value=message.value,
    )
    tx.emit(slot, stood)
    known = engine.registrations.ready(message.name, message.path)
    placed = messages.WaitPlaced(run=message.run, step=message.step, n=message.n, known=known)
    tx.send(run_slot(message.run), placed, source=slot)


def wait_ended(
    tx: Transition, engine: EngineContext, slot: int, message: messages.WaitEnded
) -> None:
    """At the wait's place: its run no longer waits."""
    key = (slot, message.name, message.path, message.value, message.run, message.step, message.n)
    if tx.state.get(tables.WAITS, key) is not None:
        gone = facts.WaitGone(
            run=message.run,
            step=message.step,
            n=message.n,
            name=message.name,
            path=message.path,
            value=message.value,
            taken=False,
        )
        tx.emit(slot, gone)


def event_passed(
    tx: Transition, engine: EngineContext, slot: int, message: messages.EventPassed
) -> None:
    """At the wait's place: every run that stands here takes the event."""
    prefix = (slot, message.name, message.path, message.value)
    for _, wait in scan_all(tx.state, tables.WAITS, prefix):
        gone = facts.WaitGone(
            run=wait.run,
            step=wait.step,
            n=wait.n,
            name=message.name,
            path=message.path,
            value=message.value,
            taken=True,
        )
        tx.emit(slot, gone)
        matched = messages.WaitMatched(
            run=wait.run,
            step=wait.step,
            n=wait.n,
            event=message.event,
            place=message.place,
        )
        tx.send(run_slot(wait.run), matched, source=slot)


def wait_placed(
    tx: Transition, engine: EngineContext, slot: int, message: messages.WaitPlaced
) -> None:
    """At the run: the wait stands at its place."""
    found = _pending(tx, slot, message.run, message.step, message.n)
    if found is None:
        return
    run, step = found
    if not message.known and step.ready:
        # The shape was retired since this partition looked, so it is asked for anew.
        again = facts.WaitAcknowledged(run=run.id, step=message.step, n=message.n, part="unready")
        tx.emit(slot, again)
        ask_shape(tx, slot, run.id, message.step, message.n, step.event or "", step.path)
    _acknowledge(tx, slot, message.run, message.step, message.n, "placed")


def shape_ready(
    tx: Transition, engine: EngineContext, slot: int, message: messages.ShapeReady
) -> None:
    """At the run: every partition sends events of the wait's shape."""
    _acknowledge(tx, slot, message.run, message.step, message.n, "ready")


def shape_refused(
    tx: Transition, engine: EngineContext, slot: int, message: messages.ShapeRefused
) -> None:
    """At the run: the wait can never be ready, so its step fails, and with it the run."""
    found = _pending(tx, slot, message.run, message.step, message.n)
    if found is None:
        return
    run, step = found
    fail_pending(tx, engine, slot, run, message.step, message.n, step, message.error)


def _acknowledge(tx: Transition, slot: int, run: str, step: str, n: int, part: str) -> None:
    if _pending(tx, slot, run, step, n) is not None:
        tx.emit(slot, facts.WaitAcknowledged(run=run, step=step, n=n, part=part))


def wait_matched(
    tx: Transition, engine: EngineContext, slot: int, message: messages.WaitMatched
) -> None:
    """At the run: the event is the step's result, unless its time-out was first (P44)."""
    found = _pending(tx, slot, message.run, message.step, message.n)
    if found is None:
        return
    run, step = found
    if run.paused and step.due is not None and tx.now >= step.due:
        return
    event = message.event
    output = msgspec.json.encode(
        {
            "id": event.id,
            "name": event.name,
            "data": msgspec.Raw(event.data.encode()),
            "ts": event.ts,
            "subject": event.subject,
        }
    ).decode()
    bring_result(tx, engine, slot, run, message.step, message.n, step, output)
