"""Take an event at a workflow's home: whether and how it leads to a run (P1)."""

from duraton_engine.commands.start_run import create_run
from duraton_engine.context import EngineContext
from duraton_engine.effects import EventAnswered
from duraton_engine.errors import workflow_unknown
from duraton_schemas.ids import run_id
from duraton_schemas.records import journal as facts
from duraton_schemas.records import messages
from duraton_streams.partition.machine import Transition


def offer_event(
    tx: Transition, engine: EngineContext, slot: int, message: messages.EventOffered
) -> None:
    """Everything of P1 for one event and one workflow, in one transition."""
    app, workflow = message.app, message.workflow
    if engine.registrations.workflow(app, workflow) is None:
        _answer_unknown(tx, message)
        return
    origin = f"event:{message.place}"
    run = run_id(slot, origin, app, workflow)
    trigger = facts.Trigger(event=message.event, event_id=message.event_id, place=message.place)
    created = facts.RunCreated(
        app=app,
        workflow=workflow,
        origin=origin,
        triggers=[trigger],
        caller=message.caller,
        ready_at=tx.now,
        sort_at=tx.now,
        post=message.post,
    )
    create_run(tx, engine, slot, run, created)
    if message.post:
        tx.effect(EventAnswered(message.post, app, workflow, "run", run))


def _answer_unknown(tx: Transition, message: messages.EventOffered) -> None:
    # The registration that matched it was replaced before the offer arrived.
    if message.post:
        error = workflow_unknown(message.app, message.workflow)
        answer = EventAnswered(message.post, message.app, message.workflow, "unknown", None, error)
        tx.effect(answer)
