"""A firing that its group may refuse: held, it asks the project slot for its place (P15, P27)."""

from duraton_engine.controls.admission import admit
from duraton_engine.controls.look import Block, Look
from duraton_engine.controls.project import gates_applied, keys_of
from duraton_engine.state import tables
from duraton_engine.state.flow import PROJECT, Firing
from duraton_engine.state.lanes import CONCURRENCY, split_gate
from duraton_schemas.records import journal as facts
from duraton_schemas.records import messages
from duraton_schemas.slots import PROJECT_SLOT
from duraton_streams.partition.machine import Transition
from duraton_streams.state.table import Key

_NEWEST = 1 << 62
"""Added to a firing's number: its run is newer than any that there is."""


def ask_firing(look: Look, gate: str, number: int, firing: Firing) -> bool:
    """Let a held firing ask, unless it has; one at a time for each gate, in firing order.

    It stands in its group's line by when it fired, so that it comes to a place like a run
    that became ready then (P49).

    Args:
        look: A look at the run that it would be.
        gate: The gate at which it is held.
        number: Its number there.
        firing: The firing.

    Returns:
        Whether it asked.
    """
    tx, name = look.tx, ask_name(look.slot, number)
    if tx.state.get(tables.ASKED, (*look.of, name)) is not None:
        return False
    asked = facts.PlacesAsked(app=look.app, workflow=look.workflow, lane=gate, runs=[name])
    tx.emit(look.slot, asked)
    held = admit(look)
    # What a time holds back could not use a place that it was given.
    claim = not isinstance(held, Block) or split_gate(held.gate)[0] in (PROJECT, CONCURRENCY)
    message = messages.PlaceAsked(
        run="",
        app=look.app,
        workflow=look.workflow,
        lane=gate,
        keys=list(keys_of(look)),
        sort=firing.fired_at - (look.flow.shift_ms if look.flow is not None else 0),
        version=gates_applied(tx),
        then="hold",
        claim=claim,
        number=number,
    )
    look.engine.wanted.append((look.slot, _NEWEST + number, message))
    return True


def close_ask(tx: Transition, of: Key, number: int, why: str) -> bool:
    """A firing's ask is answered, or of no use any more.

    Args:
        tx: The transition.
        of: The slot, the app, the workflow.
        number: The firing's number.
        why: As in `AskClosed`.

    Returns:
        Whether it was open.
    """
    name = ask_name(int(of[0]), number)
    if tx.state.get(tables.ASKED, (*of, name)) is None:
        return False
    closed = facts.AskClosed(app=str(of[1]), workflow=str(of[2]), run=name, why=why)
    tx.emit(int(of[0]), closed)
    return True


def withdraw(tx: Transition, of: Key, number: int) -> None:
    """Take back the ask of a firing that goes on otherwise than by its answer, if it is open."""
    if close_ask(tx, of, number, "withdrawn"):
        message = messages.AskWithdrawn(run=ask_name(int(of[0]), number))
        tx.send(PROJECT_SLOT, message, source=int(of[0]))


def ask_name(slot: int, number: int) -> str:
    """The name of a firing's or a probe's ask at the project slot."""
    return f"{slot}/{number}"


def firing_that_asks(name: str) -> int | None:
    """The number of the firing that an ask is of, or None where it is a run's."""
    _, slash, number = name.partition("/")
    return int(number) if slash else None
