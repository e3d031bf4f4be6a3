"""Appliers of what an owner says about itself and its inputs."""

import msgspec

from duraton_schemas.records import journal as facts
from duraton_streams.state.table import StateWriter


def owner_took(state: StateWriter, fact: facts.OwnerTook) -> None:
    """The epoch is kept with the partition's standing."""


def owner_alive(state: StateWriter, fact: facts.OwnerAlive) -> None:
    """Nothing changes; the commit itself was the proof."""


def positions(state: StateWriter, fact: facts.Positions) -> None:
    """A transaction ends: events that it recorded are no longer at hand."""
    state.scratch.clear()


def input_gap(state: StateWriter, fact: facts.InputGap) -> None:
    """The position is kept with the partition's standing."""


def command_parked(state: StateWriter, fact: facts.CommandParked) -> None:
    """Its bytes are on the journal and in the view, for people; a timer does not fire again."""
    if fact.source.kind == "timer":
        target = msgspec.msgpack.decode(fact.payload, type=tuple[int | str, ...])
        state.clear_timer(fact.source.offset, target)
