"""Give back what a run holds while it executes."""

from duraton_engine.context import EngineContext
from duraton_engine.controls.admission import released
from duraton_engine.state.lanes import lane_name
from duraton_engine.state.objects import RunState
from duraton_schemas.ids import run_slot
from duraton_schemas.records import messages
from duraton_schemas.slots import PROJECT_SLOT
from duraton_streams.partition.machine import Transition


def release(
    tx: Transition, engine: EngineContext, run: RunState, *, keep_gates: bool = False
) -> None:
    """Free a run's places; call it before the fact that ends its token.

    Who waits for them is looked at when the transition has said all else.

    Args:
        tx: The transition.
        engine: The engine's context.
        run: The run; one without a token holds nothing.
        keep_gates: Whether its places under gate keys pass on to a run that starts now.
    """
    if not run.epoch:
        return
    boot, token = run.boot, run.token(tx.partition)
    engine.room.free(boot, token)
    tx.undo(lambda: engine.room.take(boot, token))
    slot = run_slot(run.id)
    of = (slot, run.app, run.workflow)
    if run.gates and not keep_gates:
        return_places(tx, slot, run, run.gates)
    if run.scopes is not None:
        engine.opened(of, *released(run.scopes))
    if run.gates:
        # Lanes of these scopes may have more runs ask than before.
        for first in (False, True):
            name = lane_name(
                run.scopes, kind=run.kind, first=first, exempt=run.exempt, waits=run.waits
            )
            engine.asking[(of, name)] = None


def return_places(tx: Transition, slot: int, run: RunState, keys: tuple[str, ...]) -> None:
    """Tell the project slot that a run no longer executes under its gate keys."""
    returned = messages.PlaceReturned(app=run.app, workflow=run.workflow, keys=list(keys))
    tx.send(PROJECT_SLOT, returned, source=slot)
