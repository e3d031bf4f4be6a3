"""Start a run: admission, the token, the invocation."""

from duraton_engine.commands.invocation import invoke_frame
from duraton_engine.context import EngineContext
from duraton_engine.effects import ToRunner
from duraton_engine.room import Seat
from duraton_engine.state import objects, tables
from duraton_engine.state.objects import RunState
from duraton_engine.state.reading import input_of, unended_run
from duraton_schemas.ids import Token
from duraton_schemas.records import journal as facts
from duraton_streams.partition.machine import Transition


def admit(
    tx: Transition, engine: EngineContext, app: str, workflow: str, run: RunState | None
) -> Seat | None:
    """The one list of what may hold a start back, in the order of P1 (7 to 9).

    The controls stand here before the last entry, room at a runner, which is
    kept in memory only and holds nothing while it says no (DESIGN 8).

    Returns:
        The runner to start it at, or None.
    """
    if run is not None and run.paused:
        return None
    return engine.room.find(app, workflow)


def create_run(
    tx: Transition, engine: EngineContext, slot: int, run_id: str, created: facts.RunCreated
) -> None:
    """Bring a run into being; it starts in the same fact where nothing holds it back."""
    seat = admit(tx, engine, created.app, created.workflow, None)
    if seat is None:
        tx.emit(slot, facts.RunQueued(run=run_id, created=created))
    else:
        _start(tx, engine, slot, run_id, seat, created, None)


def start_or_queue(
    tx: Transition, engine: EngineContext, slot: int, run: RunState, why: str
) -> None:
    """Let a run go on: at once where it may, otherwise in its original order (P19)."""
    seat = admit(tx, engine, run.app, run.workflow, run)
    if seat is not None:
        _start(tx, engine, slot, run.id, seat, None, run)
    elif run.status != objects.QUEUED:
        tx.emit(slot, facts.RunReady(run=run.id, why=why))


def start_waiting(tx: Transition, engine: EngineContext) -> bool:
    """Start runs that wait for room, workflow by workflow, oldest first.

    Returns:
        Whether there may be more than this transition's share.
    """
    budget = engine.settings.starts_max
    for key, _ in tx.state.scan(tables.WAITING, (), 10_000):
        slot, app, workflow = int(key[0]), str(key[1]), str(key[2])
        while engine.room.find(app, workflow) is not None:
            if budget <= 0:
                return True
            rows = tx.state.scan(tables.QUEUE, (slot, app, workflow), 1)
            if not rows:
                break
            run = unended_run(tx.state, slot, rows[0][1].run)
            start_or_queue(tx, engine, slot, run, "room")
            budget -= 1
    return False


def _start(
    tx: Transition,
    engine: EngineContext,
    slot: int,
    run_id: str,
    seat: Seat,
    created: facts.RunCreated | None,
    run: RunState | None,
) -> None:
    # The fact's own number is new for ever, so it serves as the token's.
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
    )
    tx.emit(slot, fact)
    text = str(token)
    engine.room.take(seat.boot, text)
    tx.undo(lambda: engine.room.free(seat.boot, text))
    started = unended_run(tx.state, slot, run_id)
    given = input_of(tx.state, slot, run_id)
    tx.effect(ToRunner(seat.boot, invoke_frame(tx, slot, started, given)))


def _carried(created: facts.RunCreated | None) -> int:
    """How many results a run has when it comes into being."""
    return created.replay.results if created is not None and created.replay is not None else 0


def release(tx: Transition, engine: EngineContext, run: RunState) -> None:
    """Give back what a run holds while it executes; call it before the fact that ends its token."""
    if not run.epoch:
        return
    boot, token = run.boot, run.token(tx.partition)
    engine.room.free(boot, token)
    tx.undo(lambda: engine.room.take(boot, token))
