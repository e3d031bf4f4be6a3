"""A start that its group may refuse: it waits for the group's word (P28)."""

import msgspec

from duraton_engine.commands.answer_start import answer_start
from duraton_engine.commands.offer_event import take_start
from duraton_engine.commands.take_start import Start
from duraton_engine.context import EngineContext
from duraton_engine.state import tables
from duraton_engine.state.flow import ProbedStart
from duraton_schemas.records import journal as facts
from duraton_schemas.records import messages
from duraton_streams.partition.machine import Transition


def probe_answered(
    tx: Transition, engine: EngineContext, slot: int, message: messages.PlaceAnswered
) -> None:
    """The group has said whether there is room: the start is decided about, all anew.

    Meanwhile its idempotency key may have been claimed, or its rate used up.
    """
    app, workflow, number = message.app, message.workflow, message.number
    row = tx.state.get(tables.PROBES, (slot, app, workflow, number))
    if row is None:
        return
    kept = msgspec.msgpack.decode(row.start, type=ProbedStart)
    full = message.answer == "full"
    answered = facts.ProbeAnswered(app=app, workflow=workflow, number=number, full=full)
    tx.emit(slot, answered)
    granted = tuple(message.keys) if message.answer == "grant" else None
    flow = engine.registrations.flow(app, workflow)
    used = False
    if flow is not None:
        start = Start(
            flow=flow,
            events=tuple(kept.events),
            near=False,
            caller=kept.caller,
            origin=kept.origin,
            post=kept.post,
            parent=kept.parent,
            step=kept.step,
            n=kept.n,
            attempt=kept.attempt,
            tick=kept.tick,
            word="full" if full else "room",
            granted=granted,
        )
        outcome = take_start(tx, engine, slot, start, absorb=False)
        answer_start(tx, slot, start, outcome)
        used = outcome.placed
    if granted is not None and not used:
        engine.give_back((slot, app, workflow), granted)
