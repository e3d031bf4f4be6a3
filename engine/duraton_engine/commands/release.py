"""Give back what a run holds while it executes."""

from duraton_engine.context import EngineContext
from duraton_engine.controls.admission import released
from duraton_engine.state.objects import RunState
from duraton_schemas.ids import run_slot
from duraton_streams.partition.machine import Transition


def release(tx: Transition, engine: EngineContext, run: RunState) -> None:
    """Free a run's places; call it before the fact that ends its token.

    Who waits for them is looked at when the transition has said all else.
    """
    if not run.epoch:
        return
    boot, token = run.boot, run.token(tx.partition)
    engine.room.free(boot, token)
    tx.undo(lambda: engine.room.take(boot, token))
    if run.scopes is not None:
        engine.opened((run_slot(run.id), run.app, run.workflow), *released(run.scopes))
