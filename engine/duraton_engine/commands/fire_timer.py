"""A timer was due: a sleep ends, a wait times out, a backoff is over, an invoke is due."""

from duraton_engine.commands.carry_run import drop_carried
from duraton_engine.commands.complete_step import bring_result, go_on
from duraton_engine.commands.end_run import leave_wait
from duraton_engine.commands.fire_cron import fire_cron
from duraton_engine.commands.fire_window import fire_window, flush_buffer
from duraton_engine.commands.invoke_child import ask_again
from duraton_engine.commands.open_gates import gate_due
from duraton_engine.commands.run_job import drop_job
from duraton_engine.commands.start_run import start_or_queue
from duraton_engine.commands.tick_budget import tick_budget
from duraton_engine.commands.wait_shapes import check_shape
from duraton_engine.context import EngineContext
from duraton_engine.state import objects, tables
from duraton_engine.state.objects import step_key
from duraton_engine.state.reading import unended_run
from duraton_schemas.records import acts
from duraton_schemas.records import journal as facts
from duraton_schemas.wire.frames import WakeItem
from duraton_streams.partition.machine import Transition
from duraton_streams.state.table import Key

SWEEP_KEYS_MAX = 1_000
"""Keys that one sweep looks at; it goes on at once where there are more."""


def fire_timer(tx: Transition, engine: EngineContext, target: Key) -> None:
    """Decide about a due timer by what its target names."""
    slot, kind = int(target[0]), target[1]
    if kind == "step":
        _step(tx, engine, slot, str(target[2]), str(target[3]), int(target[4]))
    elif kind == "run":
        run = tx.state.get(tables.RUNS, (slot, str(target[2])))
        assert run is not None, "a run that ended took its timers along"
        start_or_queue(tx, engine, slot, run, "retry" if not run.losses else "invoke")
    elif kind == "cron":
        fire_cron(tx, engine, slot, str(target[2]), str(target[3]))
    elif kind == "gate":
        gate_due(tx, engine, (slot, *target[2:4]), str(target[4]))
    elif kind == "window":
        fire_window(tx, engine, (slot, *target[2:4]), str(target[4]))
    elif kind == "buffer":
        flush_buffer(tx, engine, (slot, *target[2:4]), str(target[4]), "time")
    elif kind == "budget":
        tick_budget(tx, engine, (slot, *target[2:4]))
    elif kind == "sweep":
        # Not what is over in this very moment: who waits for it is looked at first (P14).
        tx.emit(slot, facts.KeysExpired(until=tx.now - 1, most=SWEEP_KEYS_MAX))
    elif kind == "shape":
        check_shape(tx, engine, str(target[2]))
    elif kind == "dedupe":
        tx.emit(slot, facts.DedupeExpired(dedupe_ids=[str(target[2])]))
    elif kind == "carry":
        drop_carried(tx, slot, str(target[2]))
    elif kind == "replay":
        tx.emit(slot, acts.ReplayDeduped(of=str(target[2]), dedupe_id=str(target[3])))
    elif kind == "job":
        drop_job(tx, str(target[2]))
    else:
        raise AssertionError(f"a timer for {kind!r}")


def _step(tx: Transition, engine: EngineContext, slot: int, run_id: str, step: str, n: int) -> None:
    run = unended_run(tx.state, slot, run_id)
    old = run.steps[step_key(step, n)]
    if old.status == objects.BACKOFF:
        if old.kind == "invoke" and not run.paused:
            ask_again(tx, slot, run, step, n, old)
            return
        tx.emit(slot, facts.StepDue(run=run_id, step=step, n=n, attempt=old.attempt))
        if old.kind == "invoke":
            return  # a paused run begins nothing: resuming asks for the child (P44)
        go_on(tx, engine, slot, run_id, WakeItem(step=step, n=n, attempt=old.attempt))
        return
    if old.kind == "wait":
        leave_wait(tx, slot, run_id, step, n, old)
    bring_result(tx, engine, slot, run, step, n, old, "null")
