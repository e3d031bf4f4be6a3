"""Looking up what the caller knows to be there; that it is not is a defect of the engine."""

from typing import Any

from duraton_engine.state import tables
from duraton_engine.state.objects import RunInput, RunState
from duraton_streams.state.table import Key, StateReader, Table


def unended_run(state: StateReader, slot: int, run: str) -> RunState:
    """A run that has not ended, as it is after all that the transition has emitted so far."""
    found = state.get(tables.RUNS, (slot, run))
    assert found is not None, f"the run {run} has not ended"
    return found


def input_of(state: StateReader, slot: int, run: str) -> RunInput:
    """What an unended run began with."""
    found = state.get(tables.INPUTS, (slot, run))
    assert found is not None, f"the unended run {run} has its input"
    return found


def workflows_in(state: StateReader, table: Table[Any]) -> list[Key]:
    """The workflows that have rows in a table of theirs, each once: (slot, app, workflow)."""
    found: list[Key] = []
    after: Key | None = None
    while rows := state.scan(table, (), 1, after):
        of = rows[0][0][:3]
        found.append(of)
        after = (*of, "\U0010ffff")
    return found
