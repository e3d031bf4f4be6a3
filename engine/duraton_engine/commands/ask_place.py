"""At the homes: ask the project slot for places, and take what it answers (DESIGN 4, gates)."""

from duraton_engine.commands.answer_firing import firing_answered
from duraton_engine.commands.answer_probe import probe_answered
from duraton_engine.commands.start_run import begin
from duraton_engine.commands.withdraw_ask import withdraw_ask
from duraton_engine.context import EngineContext
from duraton_engine.controls import together
from duraton_engine.controls.admission import ASKS_MAX, admit, free
from duraton_engine.controls.look import Block, Look, look_at
from duraton_engine.controls.project import gates_applied, keys_of
from duraton_engine.room import Seat
from duraton_engine.state import tables
from duraton_engine.state.flow import PROJECT, Lane
from duraton_engine.state.reading import unended_run
from duraton_schemas.records import journal as facts
from duraton_schemas.records import messages
from duraton_streams.partition.machine import Transition
from duraton_streams.state.table import Key


def ask_places(tx: Transition, engine: EngineContext) -> None:
    """Let the first runs of each lane that may have changed ask, as many as could start now."""
    asking = [(of, name, tx.state.get(tables.LANES, (*of, name))) for of, name in engine.asking]
    engine.asking.clear()
    standing = [
        (of, name, lane) for of, name, lane in asking if lane is not None and lane.gate == PROJECT
    ]
    # In order, since who asks first may be answered first.
    for of, name, lane in sorted(standing, key=lambda each: (each[2].sort, each[2].seq)):
        look = look_at(tx, engine, int(of[0]), unended_run(tx.state, int(of[0]), lane.head))
        held = admit(look)
        if isinstance(held, Seat) or held.gate != PROJECT:
            _move(tx, engine, of, name, lane, held)
            continue
        _ask_lane(tx, look, of, name, lane)


def _move(
    tx: Transition,
    engine: EngineContext,
    of: Key,
    name: str,
    lane: Lane,
    held: Block | Seat,
) -> None:
    """Another gate than the project holds the lane, or none does any more."""
    gate = held.gate if isinstance(held, Block) else ""
    moved = facts.LaneMoved(
        app=str(of[1]),
        workflow=str(of[2]),
        lane=name,
        gate=gate,
        due=held.due if isinstance(held, Block) else None,
        sort=lane.sort,
    )
    tx.emit(int(of[0]), moved)
    if isinstance(held, Seat):
        engine.opened(of, gate)
        return
    # What it has asked for is of no use to it now; later it asks by its order of then.
    for _, row in tx.state.scan(tables.QUEUE, (*of, name), ASKS_MAX):
        withdraw_ask(tx, engine, unended_run(tx.state, int(of[0]), row.run))


def _ask_lane(tx: Transition, look: Look, of: Key, name: str, lane: Lane) -> None:
    slot = int(of[0])
    asking = [
        row.run
        for _, row in tx.state.scan(tables.QUEUE, (*of, name), free(look))
        if tx.state.get(tables.ASKED, (*of, row.run)) is None
    ]
    if not asking:
        return
    asked = facts.PlacesAsked(app=str(of[1]), workflow=str(of[2]), lane=name, runs=asking)
    tx.emit(slot, asked)
    control = look.flow.controls.together if look.flow is not None else None
    stops = (
        look.first
        and not look.waits
        and control is not None
        and control.group
        and control.then == "stop"
    )
    keys, version = list(keys_of(look)), gates_applied(tx)
    for run_id in asking:
        run = unended_run(tx.state, slot, run_id)
        message = messages.PlaceAsked(
            run=run_id,
            app=run.app,
            workflow=run.workflow,
            lane=name,
            keys=keys,
            sort=lane.sort if run_id == lane.head else run.sort_at,
            version=version,
            then="stop" if stops else "wait",
        )
        look.engine.wanted.append((slot, run.seq, message))


def place_answered(
    tx: Transition, engine: EngineContext, slot: int, message: messages.PlaceAnswered
) -> None:
    """An ask was answered: the first of the lane takes the place, or it goes back."""
    if message.version < gates_applied(tx):
        # What executes was reported anew without it, and its lane has asked anew.
        return
    if not message.run:
        answered = firing_answered if message.lane else probe_answered
        answered(tx, engine, slot, message)
        return
    of = (slot, message.app, message.workflow)
    name = _lane_now(tx, slot, message)
    lane = tx.state.get(tables.LANES, (*of, name))
    if message.answer == "grant":
        if not _take(tx, engine, of, lane, message):
            engine.give_back(of, message.keys)
            _close(tx, slot, message, "returned")
    elif not _take_over(tx, engine, of, lane, message):
        _close(tx, slot, message, "full")
    engine.asking[(of, name)] = None


def _lane_now(tx: Transition, slot: int, message: messages.PlaceAnswered) -> str:
    """The lane of the run that asked: a registration may have moved it meanwhile (P20)."""
    run = tx.state.get(tables.RUNS, (slot, message.run))
    return run.lane if run is not None and run.queued else message.lane


def _take(
    tx: Transition,
    engine: EngineContext,
    of: Key,
    lane: Lane | None,
    message: messages.PlaceAnswered,
) -> bool:
    """Start the first run of the lane by a grant, whichever run it names."""
    look = _first(tx, engine, of, lane, message)
    if look is None or lane is None:
        return False
    look.granted = tuple(message.keys)
    held = admit(look)
    if isinstance(held, Block):
        return False
    run = unended_run(tx.state, look.slot, lane.head)
    begin(look, run.id, held, None, run, granted=message.run)
    return True


def _take_over(
    tx: Transition,
    engine: EngineContext,
    of: Key,
    lane: Lane | None,
    message: messages.PlaceAnswered,
) -> bool:
    """The group is full: stop the run of this flow that has worked longest (P25, P28)."""
    look = _first(tx, engine, of, lane, message)
    if look is None or lane is None or look.scopes is None or not look.first:
        return False
    control = look.flow.controls.together if look.flow is not None else None
    if control is None or control.then != "stop":
        return False  # it said so when it asked
    victim = together.longest(look, look.scopes.together or "")
    if victim is None or not victim.gates:
        return False
    look.granted = tuple(message.keys)
    held = admit(look)
    if isinstance(held, Block):
        return False
    # Its place passes on with all its gates.
    look.granted, look.victim, look.takes_over = victim.gates, victim, True
    run = unended_run(tx.state, look.slot, lane.head)
    begin(look, run.id, held, None, run, granted=message.run)
    return True


def _first(
    tx: Transition,
    engine: EngineContext,
    of: Key,
    lane: Lane | None,
    message: messages.PlaceAnswered,
) -> Look | None:
    """A look at the first run of the lane, if its keys are still those of the answer."""
    if lane is None or lane.gate != PROJECT:
        return None
    slot = int(of[0])
    look = look_at(tx, engine, slot, unended_run(tx.state, slot, lane.head))
    return look if keys_of(look) == tuple(message.keys) else None


def _close(tx: Transition, slot: int, message: messages.PlaceAnswered, why: str) -> None:
    closed = facts.AskClosed(app=message.app, workflow=message.workflow, run=message.run, why=why)
    tx.emit(slot, closed)
