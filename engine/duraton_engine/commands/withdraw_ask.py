"""A run that asked for places needs none now: its ask stands in nobody's way, and for nobody."""

from duraton_engine.context import EngineContext
from duraton_engine.state import tables
from duraton_engine.state.objects import RunState
from duraton_schemas.ids import run_slot
from duraton_schemas.records import journal as facts
from duraton_schemas.records import messages
from duraton_schemas.slots import PROJECT_SLOT
from duraton_streams.partition.machine import Transition


def withdraw_ask(tx: Transition, engine: EngineContext, run: RunState) -> None:
    """Take back a run's ask as it leaves the queue otherwise than by its grant.

    A later comer of its lane would come to a place by it, before others that came earlier.

    Args:
        tx: The transition.
        engine: The engine's context.
        run: The run, before the fact by which it leaves.
    """
    slot = run_slot(run.id)
    of = (slot, run.app, run.workflow)
    # A window knows that a workflow has none, which are most; the run's own key would be
    # looked for in the store.
    if not tx.state.scan(tables.ASKED, of, 1) or tx.state.get(tables.ASKED, (*of, run.id)) is None:
        return
    closed = facts.AskClosed(app=run.app, workflow=run.workflow, run=run.id, why="withdrawn")
    tx.emit(slot, closed)
    tx.send(PROJECT_SLOT, messages.AskWithdrawn(run=run.id), source=slot)
    # One more of the lane may ask.
    engine.asking[(of, run.lane)] = None
