"""Take an event at a workflow's home: whether and how it leads to a run (P1)."""

from typing import Any

from duraton_engine.commands.answer_start import answer_start
from duraton_engine.commands.fire_window import fire_window, flush_buffer
from duraton_engine.commands.take_start import (
    BUFFERED,
    DEDUPED,
    DROPPED,
    PROBED,
    Outcome,
    Start,
    begin_run,
    declined,
    look_for,
)
from duraton_engine.context import EngineContext
from duraton_engine.controls import idempotency, rate_limit
from duraton_engine.controls.look import Look
from duraton_engine.effects import EventAnswered
from duraton_engine.errors import workflow_unknown
from duraton_engine.state import tables
from duraton_engine.state.flow import Taken
from duraton_schemas.records import journal as facts
from duraton_schemas.records import messages
from duraton_schemas.values import load, text_bytes
from duraton_streams.partition.machine import Transition


def offer_event(
    tx: Transition, engine: EngineContext, slot: int, message: messages.EventOffered
) -> None:
    """Everything of P1 for one event and one workflow, in one transition."""
    app, workflow = message.app, message.workflow
    flow = engine.registrations.flow(app, workflow)
    if flow is None:
        _answer_unknown(tx, message)
        return
    near = message.event is None
    event = message.event if message.event is not None else tx.state.scratch[str(message.place)]
    start = Start(
        flow=flow,
        events=(Taken(event, message.place, message.caller),),
        near=near,
        caller=message.caller,
        origin=f"event:{message.place}",
        post=message.post,
        at=message.envelope.at if message.envelope is not None else 0,
    )
    outcome = take_start(tx, engine, slot, start, absorb=True)
    if outcome.kind != PROBED:
        answer_start(tx, slot, start, outcome)


def take_start(
    tx: Transition, engine: EngineContext, slot: int, start: Start, *, absorb: bool
) -> Outcome:
    """Take a start of one event, in the order of P1; what drops it claims nothing (P8, P16).

    2. Idempotency is looked up.
    3. An open window or buffer is joined, at no cost of the rate limit.
    4. The rate limit is asked.
    5. A window or a buffer is opened, or a run made.

    Args:
        tx: The transition.
        engine: The engine's context.
        slot: The workflow's home.
        start: The start.
        absorb: Whether windows and buffers take it; a step's child and a cron tick they do
            not (P54).
    """
    look = look_for(tx, engine, slot, start)
    if not start.flow.takes:
        return begin_run(look, start)
    data = load(start.events[0].event.data)
    # 2
    if idempotency.check(look, data):
        return declined(look, start, DEDUPED, None)
    controls = start.flow.controls
    absorbs = absorb and (controls.debounce is not None or controls.batch is not None)
    # 3
    if absorbs and _join_open(look, start, data):
        return Outcome(BUFFERED)
    # 4
    if rate_limit.check(look, data):
        return declined(look, start, DROPPED, None)
    # 5
    if absorbs:
        _open(look, start, data)
        return Outcome(BUFFERED)
    return begin_run(look, start, idempotency.claim(look, data), rate_limit.claim(look, data))


def _join_open(look: Look, start: Start, data: Any) -> bool:
    """Join the scope's window or buffer, if one is open that still takes events."""
    tx, controls, of = look.tx, start.flow.controls, look.of
    if controls.debounce is not None:
        scope = start.flow.scope(controls.debounce.key, data)
        window = tx.state.get(tables.WINDOWS, (*of, scope))
        if window is None:
            return False
        if _at(look, start) > window.due:
            # Its quiet period did occur: it fires as it stands (P11).
            fire_window(tx, look.engine, of, scope)
            return False
        _slide(look, start, scope, data, opened=False)
        return True
    assert controls.batch is not None, "a workflow that absorbs has one of the two"
    scope = start.flow.scope(controls.batch.key, data)
    buffer = tx.state.get(tables.BUFFERS, (*of, scope))
    if buffer is None:
        return False
    size = text_bytes(start.events[0].event.data)
    late = _at(look, start) > buffer.due
    if late or buffer.bytes + size > look.engine.settings.batch_bytes_max:
        why = "time" if late else "bytes"
        flush_buffer(tx, look.engine, of, scope, why)
        return False
    _fill(look, start, scope, data, buffer.due, opened=False)
    return True


def _open(look: Look, start: Start, data: Any) -> None:
    controls = start.flow.controls
    if controls.debounce is not None:
        scope = start.flow.scope(controls.debounce.key, data)
        _slide(look, start, scope, data, opened=True)
        return
    assert controls.batch is not None, "a workflow that absorbs has one of the two"
    scope = start.flow.scope(controls.batch.key, data)
    due = _at(look, start) + controls.batch.timeout_ms
    _fill(look, start, scope, data, due, opened=True)


def _at(look: Look, start: Start) -> int:
    """When an event reached its scope, for its window or buffer."""
    return min(start.at, look.tx.now) if start.at else look.tx.now


def _slide(look: Look, start: Start, scope: str, data: Any, *, opened: bool) -> None:
    debounce, taken = start.flow.controls.debounce, start.events[0]
    assert debounce is not None, "a workflow with a window debounces"
    slid = facts.WindowSlid(
        app=look.app,
        workflow=look.workflow,
        scope=scope,
        event=None if start.near else taken.event,
        event_id=taken.event.id,
        place=taken.place,
        caller=taken.caller,
        due=_at(look, start) + debounce.period_ms,
        opened=opened,
        post=start.post,
        idempotency=idempotency.claim(look, data),
        rate=rate_limit.claim(look, data) if opened else None,
    )
    look.tx.emit(look.slot, slid)


def _fill(look: Look, start: Start, scope: str, data: Any, due: int, *, opened: bool) -> None:
    batch, taken = start.flow.controls.batch, start.events[0]
    assert batch is not None, "a workflow with a buffer batches"
    filled = facts.BufferFilled(
        app=look.app,
        workflow=look.workflow,
        scope=scope,
        event=None if start.near else taken.event,
        event_id=taken.event.id,
        place=taken.place,
        caller=taken.caller,
        due=due,
        opened=opened,
        bytes=text_bytes(taken.event.data),
        post=start.post,
        idempotency=idempotency.claim(look, data),
        rate=rate_limit.claim(look, data) if opened else None,
    )
    look.tx.emit(look.slot, filled)
    buffer = look.tx.state.get(tables.BUFFERS, (*look.of, scope))
    if buffer is not None and buffer.count >= batch.max_size:
        flush_buffer(look.tx, look.engine, look.of, scope, "size")


def _answer_unknown(tx: Transition, message: messages.EventOffered) -> None:
    # The registration that matched it was replaced before the offer arrived.
    if message.post:
        error = workflow_unknown(message.app, message.workflow)
        answer = EventAnswered(message.post, message.app, message.workflow, "unknown", None, error)
        tx.effect(answer)
