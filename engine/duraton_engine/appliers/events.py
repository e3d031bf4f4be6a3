"""Appliers of events: held, dropped, recorded, their dedupe ids, and cron."""

from duraton_engine.state import objects, tables
from duraton_schemas.records import journal as facts
from duraton_streams.state.table import StateWriter


def _count_post(state: StateWriter, slot: int, post: str, change: int) -> None:
    if not post:
        return
    key = tables.post_key(slot, post)
    old = state.get(tables.HELD_POSTS, key)
    count = (old.count if old else 0) + change
    if count > 0:
        state.put(tables.HELD_POSTS, key, objects.Count(count))
    else:
        state.delete(tables.HELD_POSTS, key)


def event_held(state: StateWriter, fact: facts.EventHeld) -> None:
    """It waits in its order; asking again replaces the row."""
    slot = fact.slot
    key = tables.held_key(slot, fact.place)
    if state.get(tables.HELD, key) is None:
        _count_post(state, slot, fact.post, 1)
    held = objects.HeldEvent(fact.event, fact.place, fact.post, fact.asked)
    state.put(tables.HELD, key, held)


def event_dropped(state: StateWriter, fact: facts.EventDropped) -> None:
    """Nothing of a repeat is kept."""
    slot = fact.slot
    state.delete(tables.HELD, tables.held_key(slot, fact.place))
    _count_post(state, slot, fact.post, -1)


def event_recorded(state: StateWriter, fact: facts.EventRecorded) -> None:
    """The event is at hand until the transaction ends; homes in here refer to it."""
    slot = fact.slot
    event = fact.event
    if event is None:
        key = tables.held_key(slot, fact.place)
        held = state.get(tables.HELD, key)
        assert held is not None, "an event without data was held"
        event = held.event
        state.delete(tables.HELD, key)
        _count_post(state, slot, fact.post, -1)
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
