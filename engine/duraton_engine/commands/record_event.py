"""Record an event and offer it to whoever it concerns (DESIGN 4, P1 steps 0 and 1)."""

from duraton_engine.context import EngineContext
from duraton_engine.effects import EventAccepted
from duraton_engine.state import tables
from duraton_engine.state.objects import HeldEvent
from duraton_schemas.canonical import read_path
from duraton_schemas.records import journal as facts
from duraton_schemas.records import messages
from duraton_schemas.records.common import Caller, Place
from duraton_schemas.records.public import Event
from duraton_schemas.slots import home_slot, partition_of, slot_of
from duraton_schemas.values import load
from duraton_streams.partition.machine import Transition

SYSTEM = Caller(kind="system", id="event", root="system:event")
"""Who acts where a record was written straight to the topic (P53)."""


def wait_slot(name: str, path: str, value: str) -> int:
    """Where waits of one event name, path and value live."""
    return slot_of("wait", name, path, value)


def take_event(
    tx: Transition, engine: EngineContext, slot: int, event: Event, place: Place, post: str
) -> None:
    """An event was read from the log: record it, or hold it in the order of its POST (P18).

    Dedupe ids are asked for at once, whoever waits before: their claims are in the
    order of the records all the same, and the POST waits for one answer, not for many.
    """
    behind = bool(post) and tx.state.get(tables.HELD_POSTS, tables.post_key(slot, post)) is not None
    asked = event.dedupe_id is not None
    if not behind and not asked:
        record_event(tx, engine, slot, event, place, post, held=False)
        return
    tx.emit(slot, facts.EventHeld(event=event, place=place, post=post, asked=asked))
    if asked:
        _ask(tx, slot, event, place)


def _ask(tx: Transition, slot: int, event: Event, place: Place) -> None:
    assert event.dedupe_id is not None
    message = messages.DedupeAsked(dedupe_id=event.dedupe_id, event_id=event.id, place=place)
    tx.send(slot_of("dedupe", event.dedupe_id), message, source=slot, reply_to=slot)


def dedupe_answered(
    tx: Transition, engine: EngineContext, slot: int, message: messages.DedupeAnswered
) -> None:
    """A held event is known to be the first, or a repeat; at its turn it is settled.

    With it all that stood behind it and is known, or needs no answer.
    """
    place = message.place
    held = tx.state.get(tables.HELD, tables.held_key(slot, place))
    if held is None or held.first is not None:
        return
    post = tables.post_key(slot, held.post) if held.post else None
    waiting = tx.state.get(tables.HELD_POSTS, post) if post is not None else None
    if waiting is not None and waiting.head != place.offset:
        claimed = facts.EventClaimed(place=place, first=message.first, first_id=message.first_id)
        tx.emit(slot, claimed)
        return
    _settle(tx, engine, slot, held, first=message.first, first_id=message.first_id)
    while post is not None:
        waiting = tx.state.get(tables.HELD_POSTS, post)
        if waiting is None:
            return
        head = (slot, place.topic, place.partition, waiting.head)
        behind = tx.state.get(tables.HELD, head)
        assert behind is not None, "the head of a POST is held"
        if behind.asked and behind.first is None:
            return
        first = behind.first is not False
        _settle(tx, engine, slot, behind, first=first, first_id=behind.first_id)


def _settle(
    tx: Transition,
    engine: EngineContext,
    slot: int,
    held: HeldEvent,
    *,
    first: bool,
    first_id: str,
) -> None:
    if first:
        record_event(tx, engine, slot, held.event, held.place, held.post, held=True)
        return
    dropped = facts.EventDropped(
        place=held.place,
        post=held.post,
        dedupe_id=held.event.dedupe_id or "",
        first_id=first_id,
    )
    tx.emit(slot, dropped)
    if held.post:
        tx.effect(EventAccepted(held.post, first_id, (), repeated=True))


def dedupe_asked(
    tx: Transition, engine: EngineContext, slot: int, message: messages.DedupeAsked
) -> None:
    """The dedupe id's slot says who was first; the window begins with it."""
    claim = tx.state.get(tables.CLAIMS, (slot, message.dedupe_id))
    first = claim is None or claim.expires_at <= tx.now
    if first:
        claimed = facts.DedupeClaimed(
            dedupe_id=message.dedupe_id,
            event_id=message.event_id,
            expires_at=tx.now + engine.settings.dedupe_ms,
        )
        tx.emit(slot, claimed)
    assert message.envelope is not None
    answer = messages.DedupeAnswered(
        place=message.place,
        first=first,
        first_id=message.event_id if first or claim is None else claim.event_id,
    )
    tx.send(message.envelope.reply_to, answer, source=slot)


def record_event(
    tx: Transition,
    engine: EngineContext,
    slot: int,
    event: Event,
    place: Place,
    post: str,
    *,
    held: bool,
    run: str | None = None,
) -> None:
    """Record an event, offer it to the homes it matches, pass it to where it may be awaited.

    Args:
        tx: The transition.
        engine: The engine's context.
        slot: The slot that records it.
        event: The event.
        place: Its place on the log.
        post: The POST it came with, as `id/n`.
        held: Whether an earlier fact has its data.
        run: The run that made it, or None.
    """
    homes = engine.registrations.match(event.name)
    recorded = facts.EventRecorded(
        event=None if held else event,
        event_id=event.id,
        place=place,
        post=post,
        homes=[facts.Home(app=app, workflow=workflow) for app, workflow in homes],
        run=run,
    )
    tx.emit(slot, recorded)
    if post:
        tx.effect(EventAccepted(post, event.id, tuple(homes)))
    caller = event.caller or SYSTEM
    for app, workflow in homes:
        target = home_slot(app, workflow)
        near = partition_of(target, tx.partitions) == tx.partition
        offered = messages.EventOffered(
            app=app,
            workflow=workflow,
            event=None if near else event,
            event_id=event.id,
            place=place,
            post=post,
            caller=caller,
        )
        tx.send(target, offered, source=slot)
    _pass(tx, engine, slot, event, place)


def _pass(tx: Transition, engine: EngineContext, slot: int, event: Event, place: Place) -> None:
    paths = engine.registrations.paths(event.name)
    if not paths:
        return
    data = load(event.data)
    for path in paths:
        value = read_path(data, tuple(path.split("."))) if path else ""
        if value is None:
            continue
        passed = messages.EventPassed(
            name=event.name, path=path, value=value, event=event, place=place
        )
        tx.send(wait_slot(event.name, path, value), passed, source=slot, logged=True)
