"""Start runs: those that come now, and those that wait in their lanes."""

from duraton_engine.commands.end_run import CANCELLED, end_run
from duraton_engine.commands.invocation import invoke_frame
from duraton_engine.commands.withdraw_ask import withdraw_ask
from duraton_engine.context import EngineContext
from duraton_engine.controls.admission import admit, claim, let_go_at, overtaken
from duraton_engine.controls.look import Block, Look, look_at
from duraton_engine.effects import ToRunner
from duraton_engine.errors import RUN_STOPPED
from duraton_engine.room import Seat
from duraton_engine.state import tables
from duraton_engine.state.flow import RUNNER
from duraton_engine.state.lanes import lane_name
from duraton_engine.state.objects import RunState
from duraton_engine.state.reading import input_of, unended_run
from duraton_schemas.ids import Token
from duraton_schemas.records import journal as facts
from duraton_schemas.records.common import ErrorInfo
from duraton_streams.partition.machine import Transition


def create_run(
    tx: Transition,
    engine: EngineContext,
    slot: int,
    run_id: str,
    created: facts.RunCreated,
    granted: tuple[str, ...] | None = None,
) -> bool:
    """Bring a run into being; it starts in the same fact where nothing holds it back.

    Args:
        tx: The transition.
        engine: The engine's context.
        slot: Its slot.
        run_id: Its id.
        created: What it is.
        granted: The gate keys under which it has a place already, or None.

    Returns:
        Whether it started, and so took that place.
    """
    look = Look(
        tx,
        engine,
        slot,
        created.app,
        created.workflow,
        kind=created.kind,
        scopes=created.scopes,
        waits=created.replay is not None,
    )
    look.granted = granted
    held = _admit(look, created.sort_at, tx.next_seq)
    if isinstance(held, Block):
        queued = facts.RunQueued(run=run_id, created=created, gate=held.gate, due=held.due)
        tx.emit(slot, queued)
        _ask(look, run_id)
        return False
    begin(look, run_id, held, created, None)
    return True


def start_or_queue(
    tx: Transition,
    engine: EngineContext,
    slot: int,
    run: RunState,
    why: str,
    kept: tuple[str, ...] = (),
) -> None:
    """Let a run that rested go on: at once where it may, otherwise in its original order (P19).

    Args:
        tx: The transition.
        engine: The engine's context.
        slot: Its slot.
        run: The run.
        why: What lets it go on.
        kept: The gate keys of the places that it had until this transition; it gives them
            back where it cannot go on at once.
    """
    look = look_at(tx, engine, slot, run)
    look.granted = kept or None
    held = Block(RUNNER) if run.paused else _admit(look, run.sort_at, run.seq)
    if not isinstance(held, Block):
        begin(look, run.id, held, None, run)
        return
    tx.emit(slot, facts.RunReady(run=run.id, why=why, gate=held.gate, due=held.due))
    if kept:
        engine.give_back(look.of, kept)
    _ask(look, run.id)


def _ask(look: Look, run_id: str) -> None:
    """A run that waits may be one of the first of a lane that asks for places."""
    run = unended_run(look.tx.state, look.slot, run_id)
    if run.queued:
        look.engine.asking[(look.of, run.lane)] = None


def _admit(look: Look, sort: int, seq: int) -> Block | Seat:
    held = admit(look)
    if isinstance(held, Seat):
        return overtaken(look, sort, seq) or held
    return held


def begin(
    look: Look,
    run_id: str,
    seat: Seat,
    created: facts.RunCreated | None,
    run: RunState | None,
    granted: str | None = None,
) -> None:
    """Start a run, in this order.

    1. The run that it takes the place of ends (`together` with `stop`).
    2. The fact that it executes, with what it takes.
    3. Its seat at the runner, in memory.
    4. The invocation.
    """
    tx, engine, slot = look.tx, look.engine, look.slot
    # 1
    if look.victim is not None:
        error = ErrorInfo(
            message=f"stopped by a newer start of its flow, the run {run_id}",
            name="StoppedError",
            code=RUN_STOPPED,
        )
        kept = look.takes_over
        end_run(tx, engine, slot, look.victim, CANCELLED, error=error, keep_gates=kept)
    if run is not None and granted != run.id:
        withdraw_ask(tx, engine, run)
    # 2: the fact's own number is new for ever, so it serves as the token's.
    token = Token(tx.partition, tx.epoch, tx.next_seq)
    fact = facts.RunStarted(
        run=run_id,
        created=created,
        token_epoch=token.epoch,
        token_number=token.number,
        runner=seat.name,
        boot=seat.boot,
        transport=seat.transport,
        attempt=run.attempt if run is not None else 1,
        invoke=run.losses + 1 if run is not None else 1,
        results=run.results if run is not None else _carried(created),
        first=run is None or run.started_at is None,
        ready_at=_throttled_until(look, run),
        granted=granted,
    )
    claim(look, fact)
    tx.emit(slot, fact)
    if look.flow is not None and look.scopes is not None:
        _stop_next(look)
    # 3
    text = str(token)
    engine.room.take(seat.boot, text)
    tx.undo(lambda: engine.room.free(seat.boot, text))
    # 4
    started = unended_run(tx.state, slot, run_id)
    given = input_of(tx.state, slot, run_id)
    tx.effect(ToRunner(seat.boot, invoke_frame(tx, engine, slot, started, given)))


def _carried(created: facts.RunCreated | None) -> int:
    """How many results a run has when it comes into being."""
    return created.replay.results if created is not None and created.replay is not None else 0


def _throttled_until(look: Look, run: RunState | None) -> int | None:
    """When a throttle let a first start go, where it was that what the run waited for."""
    if run is None or not look.first:
        return None
    found = let_go_at(look)
    lane = look.tx.state.get(tables.LANES, (*look.of, run.lane))
    if lane is not None and lane.head == run.id and lane.sort > run.sort_at:
        # It stood elsewhere since; what the throttle counted may be forgotten by now.
        found = max(found or 0, lane.sort - run.sort_at + run.ready_at)
    return found if found is not None and found > run.ready_at else None


def _stop_next(look: Look) -> None:
    """Where a flow stops its own runs, the next start need not wait for places any more."""
    control = look.flow.controls.together if look.flow is not None else None
    if control is None or control.then != "stop" or control.group is not None:
        return  # a group's word comes from the project slot
    for exempt in (False, True):
        name = lane_name(look.scopes, kind=look.kind, first=True, exempt=exempt)
        look.engine.asking[(look.of, name)] = None
