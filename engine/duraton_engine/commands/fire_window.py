"""Debounce windows fire, batch buffers are flushed, firings that were held go on (P9 to P15)."""

from dataclasses import dataclass, replace

from duraton_engine.commands.ask_firing import ask_firing, withdraw
from duraton_engine.commands.take_start import (
    Outcome,
    Start,
    asks_group,
    begin_run,
    declined,
    held_at,
    look_for,
)
from duraton_engine.context import EngineContext
from duraton_engine.controls.flow import Flow
from duraton_engine.controls.look import Look
from duraton_engine.state import tables
from duraton_engine.state.flow import Firing, Taken
from duraton_engine.state.lanes import SINGLETON, TOGETHER, split_gate
from duraton_schemas.options import WorkflowOptions
from duraton_schemas.records import journal as facts
from duraton_schemas.records.common import Place
from duraton_streams.partition.machine import Transition
from duraton_streams.state.table import Key, scan_all


def fire_window(tx: Transition, engine: EngineContext, of: Key, scope: str) -> None:
    """A window's quiet period is over, or its control is gone."""
    window = tx.state.get(tables.WINDOWS, (*of, scope))
    assert window is not None, "a window that fired took its timer along"
    slot, app, workflow = int(of[0]), str(of[1]), str(of[2])
    flow = _flow(engine, app, workflow)
    start = _start(flow, window.first, [window.taken])
    look = look_for(tx, engine, slot, start)
    gate = held_at(look)
    if gate is not None:
        _supersede(tx, look, of, scope)
    tx.emit(slot, facts.WindowFired(app=app, workflow=workflow, scope=scope, held=gate))
    if gate is None:
        begin_run(look, start)
    elif asks_group(look):
        engine.opened(of, gate)


def _supersede(tx: Transition, look: Look, of: Key, scope: str) -> None:
    """A later firing of a debounce key replaces the one that is held (P15)."""
    held = tx.state.get(tables.HELD_WINDOWS, (*of, scope))
    if held is None:
        return
    firing = tx.state.get(tables.FIRINGS, (*of, held.gate, held.number))
    assert firing is not None and look.flow is not None, "a held firing stands at its gate"  # noqa: PT018 - both are one invariant
    old = _start(look.flow, firing.first, firing.events)
    _release(tx, of, held.gate, held.number)
    declined(look, old, "superseded", None)


def flush_buffer(tx: Transition, engine: EngineContext, of: Key, scope: str, why: str) -> None:
    """A buffer is full, or its time is over."""
    buffer = tx.state.get(tables.BUFFERS, (*of, scope))
    assert buffer is not None, "a buffer that was flushed took its timer along"
    slot, app, workflow = int(of[0]), str(of[1]), str(of[2])
    events = [taken for _, taken in scan_all(tx.state, tables.BUFFERED, (*of, scope))]
    start = _start(_flow(engine, app, workflow), buffer.first, events)
    look = look_for(tx, engine, slot, start)
    gate = held_at(look)
    flushed = facts.BufferFlushed(app=app, workflow=workflow, scope=scope, why=why, held=gate)
    tx.emit(slot, flushed)
    if gate is None:
        begin_run(look, start)
    elif asks_group(look):
        engine.opened(of, gate)


@dataclass(frozen=True)
class Held:
    """The first firing that is held at a gate.

    Attributes:
        of: The slot, the app, the workflow.
        gate: The gate.
        number: Its number there.
        firing: What fired.
        start: The start that it asks for.
        look: A look at the run that it would be.
        held: The gate at which it would be held now, or None.
    """

    of: Key
    gate: str
    number: int
    firing: Firing
    start: Start
    look: Look
    held: str | None

    @property
    def waits_for_group(self) -> bool:
        """Whether its group's word is all that it waits for where it stands.

        At the gate of its singleton key it stays meanwhile, so that those behind it do not
        go on either, and keep their order.
        """
        if self.held is None or split_gate(self.held)[0] != TOGETHER or not asks_group(self.look):
            return False
        return self.gate == self.held or split_gate(self.gate)[0] == SINGLETON


def first_firing(tx: Transition, engine: EngineContext, of: Key, gate: str) -> Held | None:
    """The first firing that is held at a gate, or None."""
    rows = tx.state.scan(tables.FIRINGS, (*of, gate), 1)
    if not rows:
        return None
    firing: Firing = rows[0][1]
    start = _start(_flow(engine, str(of[1]), str(of[2])), firing.first, firing.events)
    look = look_for(tx, engine, int(of[0]), start)
    return Held(of, gate, int(rows[0][0][4]), firing, start, look, held_at(look))


def release_firing(tx: Transition, engine: EngineContext, of: Key, gate: str) -> bool:
    """Let the first firing that is held at a gate go on, if it may, or ask whether it may.

    Returns:
        Whether anything was done, so that the gate may be looked at again.
    """
    if split_gate(gate)[0] not in (SINGLETON, TOGETHER):
        return False
    first = first_firing(tx, engine, of, gate)
    if first is None:
        return False
    if first.waits_for_group:
        return ask_firing(first.look, gate, first.number, first.firing)
    if first.held == gate:
        return False
    if first.held is None:
        let_go(first, None)
        return True
    _release(tx, of, gate, first.number)
    _hold_elsewhere(tx, of, first.firing, first.held)
    if asks_group(first.look):
        engine.opened(of, first.held)
    return True


def let_go(first: Held, granted: tuple[str, ...] | None) -> Outcome:
    """Let a firing go on.

    Args:
        first: The firing.
        granted: The gate keys under which it has a place already, or None.
    """
    _release(first.look.tx, first.of, first.gate, first.number)
    return begin_run(first.look, replace(first.start, granted=granted))


def firing_gates(tx: Transition, of: Key) -> list[str]:
    """The gates at which firings are held, each once."""
    found: list[str] = []
    after: Key | None = None
    while True:
        rows = tx.state.scan(tables.FIRINGS, of, 1, after)
        if not rows:
            return found
        gate = str(rows[0][0][3])
        found.append(gate)
        after = (*of, gate, (1 << 64) - 1)


def rescope_firings(tx: Transition, engine: EngineContext, of: Key) -> None:
    """Keys have changed: what each firing waits for may be another scope, or none (P20).

    A firing whose scope is free stands behind one whose scope is not, and would wait for it.
    """
    flow = _flow(engine, str(of[1]), str(of[2]))
    # In the order in which they fired, wherever they were held.
    for key, firing in sorted(scan_all(tx.state, tables.FIRINGS, of), key=lambda row: row[0][4]):
        start = _start(flow, firing.first, firing.events)
        look = look_for(tx, engine, int(of[0]), start)
        gate, held = str(key[3]), held_at(look)
        stands = Held(of, gate, int(key[4]), firing, start, look, held)
        if held == gate or stands.waits_for_group:
            continue
        _release(tx, of, gate, int(key[4]))
        if held is None:
            begin_run(look, start)
        else:
            _hold_elsewhere(tx, of, firing, held)


def _hold_elsewhere(tx: Transition, of: Key, firing: Firing, gate: str) -> None:
    held = facts.FiringHeld(
        app=str(of[1]),
        workflow=str(of[2]),
        gate=gate,
        kind=firing.kind,
        scope=firing.scope,
        first=firing.first,
        opened_at=firing.opened_at,
        fired_at=firing.fired_at,
        places=[taken.place for taken in firing.events],
        callers=[taken.caller for taken in firing.events],
    )
    tx.emit(int(of[0]), held)


def _release(tx: Transition, of: Key, gate: str, number: int) -> None:
    withdraw(tx, of, number)
    released = facts.FiringReleased(app=str(of[1]), workflow=str(of[2]), gate=gate, number=number)
    tx.emit(int(of[0]), released)


def _flow(engine: EngineContext, app: str, workflow: str) -> Flow:
    """A workflow; one that is no longer registered is plain, so that nothing of it is lost."""
    flow = engine.registrations.flow(app, workflow)
    return flow if flow is not None else Flow(app, WorkflowOptions(name=workflow), None)


def _start(flow: Flow, first: Place, events: list[Taken]) -> Start:
    # The last event of a window is the only one; a batch acts for who sent its first. What
    # was gathered is never refused: where its group is full, it is held (P27).
    return Start(
        flow=flow,
        events=tuple(events),
        near=True,
        caller=events[0].caller,
        origin=f"event:{first}",
        word="room",
    )
