"""What people do to runs: cancel, pause, resume (P31, P41, P44)."""

from duraton_engine.commands.end_run import CANCELLED, cancelled_by_person, end_run
from duraton_engine.commands.invocation import hold
from duraton_engine.commands.invoke_child import ask_again
from duraton_engine.commands.open_gates import start_opened
from duraton_engine.commands.withdraw_ask import withdraw_ask
from duraton_engine.context import EngineContext
from duraton_engine.controls.budget import rests
from duraton_engine.effects import Reply
from duraton_engine.errors import RUN_NOT_ACTIVE, RUN_NOT_PAUSED
from duraton_engine.state import objects, tables
from duraton_engine.state.flow import UNSEEN
from duraton_engine.state.objects import RunState, split_step_key
from duraton_engine.state.reading import unended_run
from duraton_schemas.errors import BadRecordError
from duraton_schemas.ids import run_slot
from duraton_schemas.records import commands
from duraton_schemas.records import journal as facts
from duraton_streams.partition.machine import Transition


def _find(tx: Transition, command: commands.Command, run_id: str) -> RunState | None:
    try:
        run = tx.state.get(tables.RUNS, (run_slot(run_id), run_id))
    except BadRecordError:  # it is no run's id
        run = None
    if run is None:
        message = f"there is no run {run_id} that has not ended"
        tx.effect(Reply(command.id, ok=False, code=RUN_NOT_ACTIVE, message=message))
        return None
    return run


def cancel_run(tx: Transition, engine: EngineContext, command: commands.CancelRun) -> None:
    """End a run as cancelled: at once, whatever it does; no onFailure (P41)."""
    run = _find(tx, command, command.run)
    if run is None:
        return
    error = cancelled_by_person(command.reason)
    end_run(tx, engine, run_slot(run.id), run, CANCELLED, error=error)
    tx.effect(Reply(command.id, ok=True, run=run.id, status=CANCELLED))


def pause_run(tx: Transition, engine: EngineContext, command: commands.PauseRun) -> None:
    """Let a run begin nothing; what it executes finishes (P44)."""
    run = _find(tx, command, command.run)
    if run is None:
        return
    if "manual" not in run.paused:
        withdraw_ask(tx, engine, run)
        paused = facts.RunPaused(run=run.id, reason="manual", caller=command.caller)
        tx.emit(run_slot(run.id), paused)
        hold(tx, run)
    tx.effect(Reply(command.id, ok=True, run=run.id, status="paused"))


def resume_run(tx: Transition, engine: EngineContext, command: commands.ResumeRun) -> None:
    """Take every reason to pause from a run; it goes on where it stands (P31)."""
    run = _find(tx, command, command.run)
    if run is None:
        return
    held = rests(tx.state, run)
    if not run.paused and not held:
        message = f"the run is {run.status}, not paused"
        tx.effect(Reply(command.id, ok=False, code=RUN_NOT_PAUSED, message=message))
        return
    slot = run_slot(run.id)
    tx.emit(slot, facts.RunResumed(run=run.id, caller=command.caller, exempt=held))
    now = unended_run(tx.state, slot, run.id)
    for key, step in now.steps.items():
        if step.kind == "invoke" and step.status == objects.DUE:
            ask_again(tx, slot, now, *split_step_key(key), step)
    of = (slot, run.app, run.workflow)
    if now.queued:
        engine.asking[(of, now.lane)] = None
    engine.opened(of, UNSEEN)
    start_opened(tx, engine)
    after = unended_run(tx.state, slot, run.id)
    tx.effect(Reply(command.id, ok=True, run=run.id, status=after.status))
