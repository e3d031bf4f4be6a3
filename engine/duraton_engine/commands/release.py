"""Give back what a run holds while it executes."""

from duraton_engine.context import EngineContext
from duraton_engine.controls.admission import released
from duraton_engine.state.lanes import lane_name
from duraton_engine.state.objects import RunState
from duraton_schemas.ids import run_slot
from duraton_schemas.records import messages
from duraton_schemas.slots import PROJECT_SLOT
from duraton_streams.partition.machine import Transition
from duraton_streams.partition.transition import first_slot


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
        engine.give_back(of, run.gates)
    if run.scopes is not None:
        engine.opened(of, *released(run.scopes))
    if run.gates:
        # Lanes of these scopes may have more runs ask than before.
        for first in (False, True):
            name = lane_name(
                run.scopes, kind=run.kind, first=first, exempt=run.exempt, waits=run.waits
            )
            engine.asking[(of, name)] = None


def tell_project(tx: Transition, engine: EngineContext) -> None:
    """Tell the project slot what is given back and what is asked for, once all is decided.

    A place that is free goes to who comes first, perhaps one whom the same end let ask
    (P14, P21): so what is returned is counted first, all is asked for in the order of the
    runs, whichever workflows they are of, and then who waited before has what is left.
    """
    # Each is weighed as it comes.
    wanted = sorted(engine.wanted, key=lambda each: (each[2].sort, each[1]))
    freed: dict[str, None] = {}
    for of, keys in engine.returning:
        freed.update(dict.fromkeys(keys))
        returned = messages.PlaceReturned(
            app=str(of[1]), workflow=str(of[2]), keys=list(keys), serve=not wanted
        )
        tx.send(PROJECT_SLOT, returned, source=int(of[0]))
    for slot, _, asked in wanted:
        tx.send(PROJECT_SLOT, asked, source=slot, reply_to=slot)
    if freed and wanted:
        free = messages.PlacesFree(keys=list(freed))
        tx.send(PROJECT_SLOT, free, source=first_slot(tx.partition, tx.partitions))
    engine.returning.clear()
    engine.wanted.clear()
