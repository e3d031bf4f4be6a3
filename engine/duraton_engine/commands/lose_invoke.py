"""An invocation was lost: the transport budget, and settling with runners (P38, DESIGN 8)."""

from duraton_engine.calls import InvokeMissed, RoomFreed, RunnerLost, RunnerSettled
from duraton_engine.commands.end_run import FAILED, end_run
from duraton_engine.commands.invocation import hold, stop, wake_again
from duraton_engine.commands.start_run import release, start_or_queue, start_waiting
from duraton_engine.context import EngineContext
from duraton_engine.errors import RUNNER_UNREACHABLE
from duraton_engine.state import tables
from duraton_engine.state.objects import RunState
from duraton_schemas.ids import run_slot
from duraton_schemas.records import journal as facts
from duraton_schemas.records.common import ErrorInfo
from duraton_streams.partition.machine import Transition

_SCAN = 1_000


def lose_invoke(
    tx: Transition,
    engine: EngineContext,
    slot: int,
    run: RunState,
    reason: str,
    *,
    counts: bool,
) -> None:
    """End a run's invocation that came to nothing.

    Args:
        tx: The transition.
        engine: The engine's context.
        slot: The run's slot.
        run: The run; it has a token.
        reason: What happened, for people.
        counts: Whether it used one of the three invokes; otherwise the run goes on at once.
    """
    invoke = run.losses + 1 if counts else run.losses
    if counts and invoke >= engine.settings.invokes_max and _gives_up(tx, engine, run):
        _fail(tx, engine, slot, run, invoke, reason)
        return
    retry_at = tx.now + _delay(engine, run, invoke) if counts else None
    stop(tx, run, "superseded")
    release(tx, engine, run)
    failed = facts.InvokeFailed(
        run=run.id, invoke=invoke, reason=reason, retry_at=retry_at, counts=counts
    )
    tx.emit(slot, failed)
    if not counts:
        again = tx.state.get(tables.RUNS, (slot, run.id))
        assert again is not None, "the run goes on"
        start_or_queue(tx, engine, slot, again, "takeover")


def _gives_up(tx: Transition, engine: EngineContext, run: RunState) -> bool:
    if run.kind == "main":
        return True
    since = run.lost_since if run.lost_since is not None else tx.now
    return tx.now - since >= engine.settings.failure_ms_max


def _delay(engine: EngineContext, run: RunState, invoke: int) -> int:
    settings = engine.settings
    if run.kind == "main" or invoke < settings.invokes_max:
        return settings.invoke_delay_ms
    # onFailure stays and is tried with growing delay (P39).
    doublings = min(invoke - settings.invokes_max + 1, 32)
    return min(settings.invoke_delay_ms << doublings, settings.failure_delay_ms_max)


def _fail(
    tx: Transition, engine: EngineContext, slot: int, run: RunState, invoke: int, reason: str
) -> None:
    stop(tx, run, "failed")
    release(tx, engine, run)
    failed = facts.InvokeFailed(run=run.id, invoke=invoke, reason=reason)
    tx.emit(slot, failed)
    again = tx.state.get(tables.RUNS, (slot, run.id))
    assert again is not None, "the run has not ended yet"
    error = ErrorInfo(
        message=f"the runner could not be reached in {invoke} invokes: {reason}",
        name="RunnerUnreachableError",
        code=RUNNER_UNREACHABLE,
    )
    end_run(tx, engine, slot, again, FAILED, error=error, tell=False)


def invoke_missed(tx: Transition, engine: EngineContext, call: InvokeMissed) -> None:
    """One invocation did not reach its runner, or got no answer."""
    slot = run_slot(call.run)
    run = tx.state.get(tables.RUNS, (slot, call.run))
    if run is None or not run.epoch or run.token(tx.partition) != call.token:
        return
    lose_invoke(tx, engine, slot, run, call.reason, counts=call.counts)


def runner_lost(tx: Transition, engine: EngineContext, call: RunnerLost) -> None:
    """A runner process is gone: everything that it executed is lost."""
    counts = call.counts and call.boot not in engine.unsettled
    engine.unsettled.discard(call.boot)
    for slot, run, _ in _executing(tx):
        if run.boot == call.boot:
            lose_invoke(tx, engine, slot, run, call.reason, counts=counts)


def silence_over(tx: Transition, engine: EngineContext, boot: str) -> None:
    """A runner process of the time before this owner has not come back."""
    if boot in engine.unsettled:
        runner_lost(tx, engine, RunnerLost(boot, "the runner did not come back"))


def runner_settled(tx: Transition, engine: EngineContext, call: RunnerSettled) -> None:
    """A runner process is here: what it still executes goes on, the rest is invoked again.

    Where a person gave its name, what other processes of that name executed is lost.
    """
    new_to_us = engine.unsettled - {call.boot}
    engine.unsettled.discard(call.boot)
    seat = engine.room.seats.get(call.boot)
    since_hello = seat.since_hello if seat is not None else set()
    for slot, run, name in _executing(tx):
        token = run.token(tx.partition)
        if run.boot == call.boot:
            if (run.id, token) in call.live:
                engine.room.take(call.boot, token)
                wake_again(tx, slot, run)
                if run.paused:
                    hold(tx, run)  # it may have been paused while the runner was away
            elif token not in since_hello:
                reason = "the runner no longer has it"
                lose_invoke(tx, engine, slot, run, reason, counts=False)
        elif call.name is not None and name == call.name:
            reason = "its runner was started anew"
            counts = run.boot not in new_to_us
            lose_invoke(tx, engine, slot, run, reason, counts=counts)


def _executing(tx: Transition) -> list[tuple[int, RunState, str]]:
    found: list[tuple[int, RunState, str]] = []
    after = None
    while True:
        rows = tx.state.scan(tables.LIVE, (), _SCAN, after)
        for key, live in rows:
            run = tx.state.get(tables.RUNS, key)
            assert run is not None, "an executing run exists"
            found.append((int(key[0]), run, live.name))
        if len(rows) < _SCAN:
            return found
        after = rows[-1][0]


def room_freed(tx: Transition, engine: EngineContext) -> None:
    """There is room at a runner: start what waits for it."""
    if start_waiting(tx, engine):
        tx.call_at(tx.now, RoomFreed())
