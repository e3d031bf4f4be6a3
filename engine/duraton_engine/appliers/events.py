"""Appliers of events: held, dropped, recorded, their dedupe ids, and cron."""

from duraton_engine.state import objects, tables
from duraton_schemas.records import journal as facts
from duraton_schemas.records.common import Place
from duraton_streams.state.table import StateWriter, scan_all


def _joins_post(state: StateWriter, slot: int, post: str, place: Place) -> None:
    if not post:
        return
    key = tables.post_key(slot, post)
    old = state.get(tables.HELD_POSTS, key)
    if old is None:
        state.put(tables.HELD_POSTS, key, objects.HeldPost(1, place.offset))
    else:
        state.put(tables.HELD_POSTS, key, objects.HeldPost(old.count + 1, old.head))


def _leaves(state: StateWriter, slot: int, post: str, place: Place) -> None:
    """A held event is settled; the next of its POST has its turn."""
    own = tables.held_key(slot, place)
    state.delete(tables.HELD, own)
    if not post:
        return
    key = tables.post_key(slot, post)
    old = state.get(tables.HELD_POSTS, key)
    assert old is not None, "a held event's POST is known"
    if old.count == 1:
        state.delete(tables.HELD_POSTS, key)
        return
    head = old.head
    if head == place.offset:
        neighbours = (slot, place.topic, place.partition)
        for _, behind in scan_all(state, tables.HELD, neighbours, page=100, after=own):
            if tables.post_id(behind.post) == tables.post_id(post):
                head = behind.place.offset
                break
    state.put(tables.HELD_POSTS, key, objects.HeldPost(old.count - 1, head))


def event_held(state: StateWriter, fact: facts.EventHeld) -> None:
    """It waits in its order."""
    _joins_post(state, fact.slot, fact.post, fact.place)
    held = objects.HeldEvent(fact.event, fact.place, fact.post, fact.asked)
    state.put(tables.HELD, tables.held_key(fact.slot, fact.place), held)


def event_claimed(state: StateWriter, fact: facts.EventClaimed) -> None:
    """What its dedupe id's slot answered is kept until its turn."""
    held = state.edit(tables.HELD, tables.held_key(fact.slot, fact.place))
    held.first, held.first_id = fact.first, fact.first_id


def event_dropped(state: StateWriter, fact: facts.EventDropped) -> None:
    """Nothing of a repeat is kept."""
    _leaves(state, fact.slot, fact.post, fact.place)


def event_recorded(state: StateWriter, fact: facts.EventRecorded) -> None:
    """The event is at hand until the transaction ends; homes in here refer to it."""
    slot = fact.slot
    event = fact.event
    if event is None:
        held = state.get(tables.HELD, tables.held_key(slot, fact.place))
        assert held is not None, "an event without data was held"
        event = held.event
        _leaves(state, slot, fact.post, fact.place)
    state.scratch[str(fact.place)] = event


def dedupe_claimed(state: StateWriter, fact: facts.DedupeClaimed) -> None:
    """The first payload wins until its time is over."""
    slot = fact.slot
    key = (slot, fact.dedupe_id)
    old = state.get(tables.CLAIMS, key)
    if old is not None:
        state.clear_timer(old.expires_at, (slot, "dedupe", fact.dedupe_id))
    state.put(tables.CLAIMS, key, objects.Claim(fact.event_id, fact.expires_at))
    state.set_timer(fact.expires_at, (slot, "dedupe", fact.dedupe_id))


def dedupe_expired(state: StateWriter, fact: facts.DedupeExpired) -> None:
    """Ids past their time leave the state."""
    slot = fact.slot
    for dedupe_id in fact.dedupe_ids:
        claim = state.get(tables.CLAIMS, (slot, dedupe_id))
        if claim is not None:
            state.clear_timer(claim.expires_at, (slot, "dedupe", dedupe_id))
            state.delete(tables.CLAIMS, (slot, dedupe_id))


def cron_armed(state: StateWriter, fact: facts.CronArmed) -> None:
    """The next tick is a timer; None takes it back."""
    _arm(state, fact.slot, fact.app, fact.workflow, fact.due, fact.schedule)


def cron_fired(state: StateWriter, fact: facts.CronFired) -> None:
    """The tick is over; the next one is armed."""
    slot = fact.slot
    old = state.get(tables.CRON, (slot, fact.app, fact.workflow))
    schedule = old.schedule if old else ""
    _arm(state, slot, fact.app, fact.workflow, fact.due, schedule)


def _arm(
    state: StateWriter, slot: int, app: str, workflow: str, due: int | None, schedule: str
) -> None:
    key = (slot, app, workflow)
    target = (slot, "cron", app, workflow)
    old = state.get(tables.CRON, key)
    if old is not None:
        state.clear_timer(old.due, target)
    if due is None:
        state.delete(tables.CRON, key)
        return
    state.put(tables.CRON, key, objects.Armed(due, schedule))
    state.set_timer(due, target)
