"""Gates open: the lanes and the firings that wait there have their turn, in order."""

from typing import Any

from duraton_engine.calls import LanesAwaited
from duraton_engine.commands.fire_window import release_firing
from duraton_engine.commands.start_run import begin
from duraton_engine.context import EngineContext
from duraton_engine.controls.admission import admit, let_go_at
from duraton_engine.controls.look import Block, look_at
from duraton_engine.state import tables
from duraton_engine.state.flow import PROJECT, RUNNER
from duraton_engine.state.reading import unended_run
from duraton_schemas.records import journal as facts
from duraton_streams.partition.machine import Transition
from duraton_streams.state.table import Key, Table


def start_opened(tx: Transition, engine: EngineContext) -> None:
    """Start what waits at the gates that this transition may have opened."""
    share = engine.settings.starts_max
    while engine.openings:
        of = next(iter(engine.openings))
        share = _start_lines(tx, engine, of, engine.openings[of], share)
        if share <= 0:
            _later(tx, engine)
            return
        del engine.openings[of]


def _later(tx: Transition, engine: EngineContext) -> None:
    """This transition's share is used up: the rest has its turn in the next."""
    for key, gates in engine.openings.items():
        call = LanesAwaited(int(key[0]), str(key[1]), str(key[2]), tuple(gates))
        tx.call_at(tx.now, call)
    engine.openings.clear()


def _start_lines(
    tx: Transition, engine: EngineContext, of: Key, gates: dict[str, None], share: int
) -> int:
    """Start what stands before some gates, in one order for all, until they hold it back.

    A run that stands before one gate may need the others, so an earlier comer at any of
    them comes first. Firings that are held come after all lanes: their runs are the newest.

    Args:
        tx: The transition.
        engine: The engine's context.
        of: The slot, the app, the workflow.
        gates: The gates; empty afterwards, unless the share was used up. More may come
            in as runs end meanwhile.
        share: How much this transition may still do.

    Returns:
        What is left of the share; 0 where there may be more to do.
    """
    while share > 0:
        heads = sorted(
            (key[4:], gate, standing.lane)
            for gate in gates
            for key, standing in tx.state.scan(tables.LINES, (*of, gate), 2)
        )
        if heads:
            _, gate, lane = heads[0]
            behind = heads[1][0] if len(heads) > 1 else None
            if not _start_lane(tx, engine, of, gate, lane, behind):
                gates.pop(gate, None)
                continue
        elif not gates:
            return share
        else:
            gate = next(iter(gates))
            if not release_firing(tx, engine, of, gate):
                del gates[gate]
                continue
        share -= 1
    return share


def _start_lane(
    tx: Transition, engine: EngineContext, of: Key, gate: str, name: str, behind: Key | None
) -> bool:
    """Start the first run of a lane, or move the lane to where it is held.

    Args:
        tx: The transition.
        engine: The engine's context.
        of: The slot, the app, the workflow.
        gate: The gate before which the lane stands.
        name: The lane.
        behind: The sort key and seq of the lane that comes next, or None.

    Returns:
        Whether the gate may let more go; False where it is what holds the lane.
    """
    lane = tx.state.get(tables.LANES, (*of, name))
    assert lane is not None, "a lane that stands before a gate exists"
    run = unended_run(tx.state, int(of[0]), lane.head)
    look = look_at(tx, engine, int(of[0]), run)
    sort, ready = lane.sort, let_go_at(look)
    if ready is not None and ready <= tx.now:
        # It was ready once the throttle let it go, not before (P14).
        sort = max(sort, ready - run.ready_at + run.sort_at)
    if behind is not None and (tables.SORT_BIAS + sort, lane.seq) > behind:
        _move(tx, of, name, Block(gate), sort)
        return True
    held = admit(look)
    if not isinstance(held, Block):
        begin(look, run.id, held, None, run)
        return True
    if held.gate == gate:
        _keep_time(tx, of, held)
        return False
    _move(tx, of, name, held, sort)
    if held.gate == PROJECT:
        engine.asking[(of, name)] = None
    return True


def _move(tx: Transition, of: Key, name: str, held: Block, sort: int) -> None:
    moved = facts.LaneMoved(
        app=str(of[1]),
        workflow=str(of[2]),
        lane=name,
        gate=held.gate,
        due=held.due,
        sort=sort,
    )
    tx.emit(int(of[0]), moved)


def _keep_time(tx: Transition, of: Key, held: Block) -> None:
    """The gate opens later than its timer says, which has fired or was for another rate."""
    timer = tx.state.get(tables.GATES, (*of, held.gate))
    if (timer.due if timer is not None else None) != held.due:
        armed = facts.GateArmed(app=str(of[1]), workflow=str(of[2]), gate=held.gate, due=held.due)
        tx.emit(int(of[0]), armed)


def gate_due(tx: Transition, engine: EngineContext, of: Key, gate: str) -> None:
    """A gate's time has come: who stands there is looked at, and its timer goes or moves."""
    engine.opened(of, gate)
    start_opened(tx, engine)
    timer = tx.state.get(tables.GATES, (*of, gate))
    if timer is not None and timer.due <= tx.now:
        armed = facts.GateArmed(app=str(of[1]), workflow=str(of[2]), gate=gate, due=None)
        tx.emit(int(of[0]), armed)


def start_waiting(tx: Transition, engine: EngineContext) -> bool:
    """Start runs that wait for room, workflow by workflow, oldest first.

    Returns:
        Whether there may be more than this transition's share.
    """
    share = engine.settings.starts_max
    for of, _ in tx.state.scan(tables.AT_RUNNER, (), 10_000):
        if engine.room.find(str(of[1]), str(of[2])) is not None:
            share = _start_lines(tx, engine, of, {RUNNER: None}, share)
            if share <= 0:
                return True
    return False


def lanes_awaited(tx: Transition, engine: EngineContext, call: LanesAwaited) -> None:
    """Gates may be open before which lanes stand: their turn, after a start or a full share."""
    of = (call.slot, call.app, call.workflow)
    if call.gates is not None:
        for gate in call.gates:
            engine.opened(of, gate)
        start_opened(tx, engine)
        return
    table: Table[Any] = tables.FIRINGS if call.firings else tables.LINES
    after: Key | None = (*of, call.after) if call.after is not None else None
    for _ in range(engine.settings.starts_max):
        past = None if after is None else (*after, (1 << 64) - 1)
        rows = tx.state.scan(table, of, 1, past)
        if not rows:
            start_opened(tx, engine)
            return
        gate = str(rows[0][0][3])
        engine.opened(of, gate)
        after = (*of, gate)
    start_opened(tx, engine)
    assert after is not None, "the loop went on"
    again = LanesAwaited(call.slot, call.app, call.workflow, None, str(after[3]), call.firings)
    tx.call_at(tx.now, again)
