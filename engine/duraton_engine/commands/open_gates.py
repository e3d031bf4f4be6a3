"""Gates open: the lanes and the firings that wait there have their turn, in order."""

from duraton_engine.calls import LanesAwaited
from duraton_engine.commands.fire_window import release_firing
from duraton_engine.commands.start_run import begin
from duraton_engine.context import EngineContext
from duraton_engine.controls.admission import admit
from duraton_engine.controls.look import Block, look_at
from duraton_engine.state import tables
from duraton_engine.state.flow import PROJECT, RUNNER
from duraton_engine.state.reading import unended_run
from duraton_schemas.records import journal as facts
from duraton_streams.partition.machine import Transition
from duraton_streams.state.table import Key


def start_opened(tx: Transition, engine: EngineContext) -> None:
    """Start what waits at the gates that this transition may have opened."""
    share = engine.settings.starts_max
    while engine.openings:
        of = next(iter(engine.openings))
        gates = engine.openings[of]
        gate = next(iter(gates))
        del gates[gate]
        if not gates:
            del engine.openings[of]
        share = _start_line(tx, engine, of, gate, share)
        if share <= 0:
            _later(tx, engine, of, gate)
            return


def _later(tx: Transition, engine: EngineContext, of: Key, gate: str) -> None:
    """This transition's share is used up: the rest has its turn in the next."""
    rest = {key: tuple(gates) for key, gates in engine.openings.items()}
    rest[of] = (gate, *rest.get(of, ()))
    engine.openings.clear()
    for key, gates in rest.items():
        call = LanesAwaited(int(key[0]), str(key[1]), str(key[2]), gates)
        tx.call_at(tx.now, call)


def _start_line(tx: Transition, engine: EngineContext, of: Key, gate: str, share: int) -> int:
    """Start the lanes before a gate, in order, until one is held back by the gate itself.

    Returns:
        What is left of the transition's share; 0 where there may be more to do.
    """
    slot, app, workflow = int(of[0]), str(of[1]), str(of[2])
    while share > 0:
        rows = tx.state.scan(tables.LINES, (*of, gate), 1)
        if not rows:
            if not release_firing(tx, engine, of, gate):
                return share
            share -= 1
            continue
        lane_name = rows[0][1].lane
        lane = tx.state.get(tables.LANES, (*of, lane_name))
        assert lane is not None, "a lane that stands before a gate exists"
        run = unended_run(tx.state, slot, lane.head)
        look = look_at(tx, engine, slot, run)
        held = admit(look)
        if isinstance(held, Block):
            if held.gate == gate:
                _keep_time(tx, of, held)
                return share
            # A gate that opened by time makes its first run ready now, not before (P14).
            shift = run.ready_at - run.sort_at
            sort = max(run.sort_at, tx.now - shift) if _by_time(tx, of, gate) else run.sort_at
            moved = facts.LaneMoved(
                app=app,
                workflow=workflow,
                lane=lane_name,
                gate=held.gate,
                due=held.due,
                sort=max(sort, lane.sort),
            )
            tx.emit(slot, moved)
            if held.gate == PROJECT:
                engine.asking[(of, lane_name)] = None
        else:
            begin(look, run.id, held, None, run)
        share -= 1
    return share


def _by_time(tx: Transition, of: Key, gate: str) -> bool:
    return tx.state.get(tables.GATES, (*of, gate)) is not None


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
            share = _start_line(tx, engine, of, RUNNER, share)
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
    after: Key | None = (*of, call.after) if call.after is not None else None
    for _ in range(engine.settings.starts_max):
        past = None if after is None else (*after, (1 << 64) - 1)
        rows = tx.state.scan(tables.LINES, of, 1, past)
        if not rows:
            start_opened(tx, engine)
            return
        gate = str(rows[0][0][3])
        engine.opened(of, gate)
        after = (*of, gate)
    start_opened(tx, engine)
    assert after is not None, "the loop went on"
    again = LanesAwaited(call.slot, call.app, call.workflow, None, str(after[3]))
    tx.call_at(tx.now, again)
