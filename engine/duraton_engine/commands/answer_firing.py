"""The group has said that there is room for a firing that it held (P15, P27)."""

from duraton_engine.commands.ask_firing import close_ask
from duraton_engine.commands.fire_window import first_firing, let_go
from duraton_engine.context import EngineContext
from duraton_engine.controls.project import keys_of
from duraton_schemas.records import messages
from duraton_streams.partition.machine import Transition
from duraton_streams.state.table import Key


def firing_answered(
    tx: Transition, engine: EngineContext, slot: int, message: messages.PlaceAnswered
) -> None:
    """The first firing that is held at the gate goes on, whichever it was that asked.

    It is decided about anew: meanwhile its singleton key may have been taken, or a
    registration may have changed by what it is counted. The next asks afterwards, so that
    it sees the place of this one taken.
    """
    of = (slot, message.app, message.workflow)
    granted = tuple(message.keys) if message.answer == "grant" else None
    close_ask(tx, of, message.number, "returned")
    placed = _go_on(tx, engine, of, message, granted)
    if granted is not None and not placed:
        engine.give_back(of, granted)
    engine.opened(of, message.lane)


def _go_on(
    tx: Transition,
    engine: EngineContext,
    of: Key,
    message: messages.PlaceAnswered,
    granted: tuple[str, ...] | None,
) -> bool:
    """Let it go on, if it still is held there and by those keys; whether the place was used."""
    first = first_firing(tx, engine, of, message.lane)
    if first is None or not first.waits_for_group:
        return False
    if keys_of(first.look) != tuple(message.keys):
        return False
    return let_go(first, granted).placed
