"""An invocation was lost: the transport budget (P38)."""

from duraton_engine.calls import InvokeMissed
from duraton_engine.commands.end_run import FAILED, end_run
from duraton_engine.commands.invocation import stop
from duraton_engine.commands.release import release
from duraton_engine.commands.start_run import start_or_queue
from duraton_engine.context import EngineContext
from duraton_engine.errors import RUNNER_UNREACHABLE
from duraton_engine.state import tables
from duraton_engine.state.objects import RunState
from duraton_engine.state.reading import unended_run
from duraton_schemas.ids import run_slot
from duraton_schemas.records import journal as facts
from duraton_schemas.records.common import ErrorInfo
from duraton_streams.partition.machine import Transition


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
    kept = () if counts else run.gates
    release(tx, engine, run, keep_gates=not counts)
    failed = facts.InvokeFailed(
        run=run.id, invoke=invoke, reason=reason, retry_at=retry_at, counts=counts
    )
    tx.emit(slot, failed)
    if not counts:
        again = unended_run(tx.state, slot, run.id)
        start_or_queue(tx, engine, slot, again, "takeover", kept)


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
    again = unended_run(tx.state, slot, run.id)
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
