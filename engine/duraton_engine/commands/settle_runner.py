"""Runners come and go: what they still execute goes on, the rest is invoked again (DESIGN 8)."""

from duraton_engine.calls import RoomFreed, RunnerAwaited, RunnerLost, RunnerSettled, SilenceOver
from duraton_engine.commands.invocation import hold, wake_again
from duraton_engine.commands.lose_invoke import lose_invoke
from duraton_engine.commands.open_gates import start_waiting
from duraton_engine.context import EngineContext
from duraton_engine.controls.budget import rests
from duraton_engine.state import tables
from duraton_engine.state.objects import RunState
from duraton_streams.partition.machine import Transition
from duraton_streams.state.table import scan_all


def runner_lost(tx: Transition, engine: EngineContext, call: RunnerLost) -> None:
    """A runner process is gone: everything that it executed is lost."""
    counts = call.counts and call.boot not in engine.unsettled
    engine.unsettled.discard(call.boot)
    for slot, run, _ in _executing(tx):
        if run.boot == call.boot:
            lose_invoke(tx, engine, slot, run, call.reason, counts=counts)


def runner_awaited(tx: Transition, engine: EngineContext, call: RunnerAwaited) -> None:
    """A runner process of the time before this owner is waited for."""
    tx.call_at(tx.now + engine.settings.silence_ms, SilenceOver(call.boot))


def silence_over(tx: Transition, engine: EngineContext, call: SilenceOver) -> None:
    """It has not come back."""
    if call.boot in engine.unsettled:
        runner_lost(tx, engine, RunnerLost(call.boot, "the runner did not come back"))


def runner_settled(tx: Transition, engine: EngineContext, call: RunnerSettled) -> None:
    """A runner process is here: what it still executes goes on, the rest is invoked again.

    Where a person gave its name, what other processes of that name executed is lost.
    """
    new_to_us = engine.unsettled - {call.boot}
    engine.unsettled.discard(call.boot)
    seat = engine.room.seats.get(call.boot)
    since_hello = seat.since_hello if seat is not None else set()
    unknown = {token for _, token in call.live if token.startswith(f"{tx.partition}.")}
    for slot, run, name in _executing(tx):
        token = run.token(tx.partition)
        if run.boot == call.boot:
            if (run.id, token) in call.live:
                unknown.discard(token)
                engine.room.take(call.boot, token)
                wake_again(tx, slot, run)
                if run.paused or rests(tx.state, run):
                    hold(tx, run)  # it may have been paused while the runner was away
            elif token not in since_hello:
                reason = "the runner no longer has it"
                lose_invoke(tx, engine, slot, run, reason, counts=False)
        elif call.name is not None and name == call.name:
            reason = "its runner was started anew"
            counts = run.boot not in new_to_us
            lose_invoke(tx, engine, slot, run, reason, counts=counts)
    # What it says it executes and nobody here knows takes no place any more.
    for token in unknown:
        engine.room.free(call.boot, token)


def _executing(tx: Transition) -> list[tuple[int, RunState, str]]:
    """Each executing run with its slot and its runner's name."""
    found: list[tuple[int, RunState, str]] = []
    for key, live in scan_all(tx.state, tables.LIVE):
        run = tx.state.get(tables.RUNS, key)
        assert run is not None, "an executing run exists"
        found.append((int(key[0]), run, live.name))
    return found


def room_freed(tx: Transition, engine: EngineContext, call: RoomFreed) -> None:
    """There is room at a runner: start what waits for it."""
    if start_waiting(tx, engine):
        tx.call_at(tx.now, call)
