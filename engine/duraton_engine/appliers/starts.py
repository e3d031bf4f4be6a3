"""Appliers of what becomes of starts: joined, in a window or a buffer, held; and of new keys."""

from duraton_engine.appliers.lanes import dequeue, enqueue
from duraton_engine.appliers.places import (
    claim_start,
    close_keys,
    give_places,
    open_keys,
    take_places,
)
from duraton_engine.state import flow, tables
from duraton_schemas.records import journal as facts
from duraton_schemas.records.public import Event
from duraton_streams.state.table import Key, StateWriter, scan_all


def start_declined(state: StateWriter, fact: facts.StartDeclined) -> None:
    """Nothing is kept: a start that led to no run claims nothing (P8, P16)."""


def start_joined(state: StateWriter, fact: facts.StartJoined) -> None:
    """A step that joined waits for the run's end."""
    if fact.parent is not None and fact.parent_step is not None:
        parent = flow.Parent(fact.parent, fact.parent_step, fact.parent_n, fact.parent_attempt)
        state.insert(tables.JOINED, (fact.slot, fact.run, fact.seq), parent)
        state.edit(tables.RUNS, (fact.slot, fact.run)).joined = True


def _of(fact: "facts.WindowSlid | facts.BufferFilled") -> Key:
    return (fact.slot, fact.app, fact.workflow)


def _taken(state: StateWriter, fact: "facts.WindowSlid | facts.BufferFilled") -> flow.Taken:
    event: Event = fact.event or state.scratch[str(fact.place)]
    return flow.Taken(event, fact.place, fact.caller)


def _claim(state: StateWriter, fact: "facts.WindowSlid | facts.BufferFilled") -> None:
    claim_start(state, _of(fact), fact.seq, fact.at, fact.idempotency, fact.rate)


def window_slid(state: StateWriter, fact: facts.WindowSlid) -> None:
    """The window's deadline moves and its payload is replaced, not merged."""
    key = (*_of(fact), fact.scope)
    target = (fact.slot, "window", fact.app, fact.workflow, fact.scope)
    taken = _taken(state, fact)
    if fact.opened:
        window = flow.Window(taken, fact.place, fact.at, fact.due, 1)
        state.put(tables.WINDOWS, key, window)
    else:
        window = state.edit(tables.WINDOWS, key)
        state.clear_timer(window.due, target)
        window.taken, window.due = taken, fact.due
        window.count += 1
    state.set_timer(fact.due, target)
    _claim(state, fact)


def window_fired(state: StateWriter, fact: facts.WindowFired) -> None:
    """The window is gone; its event is at hand, or held until its gate opens."""
    of = (fact.slot, fact.app, fact.workflow)
    key = (*of, fact.scope)
    window = state.get(tables.WINDOWS, key)
    assert window is not None, "an open window fires"
    state.clear_timer(window.due, (fact.slot, "window", fact.app, fact.workflow, fact.scope))
    state.delete(tables.WINDOWS, key)
    if fact.held is None:
        state.scratch[str(window.taken.place)] = window.taken.event
        return
    firing = flow.Firing(
        "debounce", fact.scope, window.first, window.opened_at, fact.at, [window.taken]
    )
    state.put(tables.FIRINGS, (*of, fact.held, fact.seq), firing)
    state.put(tables.HELD_WINDOWS, key, flow.Number(fact.held, fact.seq))


def buffer_filled(state: StateWriter, fact: facts.BufferFilled) -> None:
    """The event stands behind those that came before."""
    key = (*_of(fact), fact.scope)
    taken = _taken(state, fact)
    if fact.opened:
        buffer = flow.Buffer(fact.place, fact.at, fact.due, 1, fact.bytes)
        state.put(tables.BUFFERS, key, buffer)
        target = (fact.slot, "buffer", fact.app, fact.workflow, fact.scope)
        state.set_timer(fact.due, target)
    else:
        buffer = state.edit(tables.BUFFERS, key)
        buffer.count += 1
        buffer.bytes += fact.bytes
    state.insert(tables.BUFFERED, (*key, fact.seq), taken)
    _claim(state, fact)


def buffer_flushed(state: StateWriter, fact: facts.BufferFlushed) -> None:
    """The buffer is closed; its events are at hand, or held until their gate opens."""
    of = (fact.slot, fact.app, fact.workflow)
    key = (*of, fact.scope)
    buffer = state.get(tables.BUFFERS, key)
    assert buffer is not None, "an open buffer is flushed"
    state.clear_timer(buffer.due, (fact.slot, "buffer", fact.app, fact.workflow, fact.scope))
    state.delete(tables.BUFFERS, key)
    events = []
    for row, taken in scan_all(state, tables.BUFFERED, key):
        state.delete(tables.BUFFERED, row)
        events.append(taken)
    if fact.held is None:
        for taken in events:
            state.scratch[str(taken.place)] = taken.event
        return
    firing = flow.Firing("batch", fact.scope, buffer.first, buffer.opened_at, fact.at, events)
    state.put(tables.FIRINGS, (*of, fact.held, fact.seq), firing)


def firing_released(state: StateWriter, fact: facts.FiringReleased) -> None:
    """A held firing's events are at hand."""
    of = (fact.slot, fact.app, fact.workflow)
    key = (*of, fact.gate, fact.number)
    firing = state.get(tables.FIRINGS, key)
    assert firing is not None, "a held firing is released"
    state.delete(tables.FIRINGS, key)
    for taken in firing.events:
        state.scratch[str(taken.place)] = taken.event
    if firing.kind == "debounce":
        held = state.get(tables.HELD_WINDOWS, (*of, firing.scope))
        if held is not None and held.number == fact.number:
            state.delete(tables.HELD_WINDOWS, (*of, firing.scope))


def firing_held(state: StateWriter, fact: facts.FiringHeld) -> None:
    """A firing stands at another gate."""
    of = (fact.slot, fact.app, fact.workflow)
    events = [
        flow.Taken(state.scratch[str(place)], place, caller)
        for place, caller in zip(fact.places, fact.callers, strict=True)
    ]
    firing = flow.Firing(fact.kind, fact.scope, fact.first, fact.opened_at, fact.fired_at, events)
    state.put(tables.FIRINGS, (*of, fact.gate, fact.seq), firing)
    if fact.kind == "debounce":
        number = flow.Number(fact.gate, fact.seq)
        state.put(tables.HELD_WINDOWS, (*of, fact.scope), number)


def runs_rescoped(state: StateWriter, fact: facts.RunsRescoped) -> None:
    """Each run leaves what it was counted under and is counted anew; queued ones are looked at."""
    slot = fact.slot
    for each in fact.runs:
        run = state.edit(tables.RUNS, (slot, each.run))
        queued, since, worked = run.queued, run.since, run.worked_ms
        dequeue(state, slot, run)
        if run.epoch:
            give_places(state, slot, run, since)
        close_keys(state, slot, run)
        run.scopes = each.scopes
        open_keys(state, slot, run)
        if run.epoch:
            take_places(state, slot, run, since)
            run.worked_ms = worked
        if queued:
            enqueue(state, slot, run)
