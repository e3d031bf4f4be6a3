"""Looking up what the caller knows to be there; that it is not is a defect of the engine."""

from duraton_engine.state import tables
from duraton_engine.state.objects import RunInput, RunState
from duraton_streams.state.table import StateReader


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
