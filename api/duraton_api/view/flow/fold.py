"""Folding the facts of flow control."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from duraton_api.view.flow.file import FlowFile
from duraton_api.view.flow.holds import Holds
from duraton_api.view.flow.lanes import Lanes
from duraton_api.view.flow.rows import Counts
from duraton_api.view.flow.windows import Windows
from duraton_api.view.runfold import RunFold
from duraton_schemas.records import journal as j
from duraton_schemas.records.common import Fact, Scopes


class FlowFold:
    """What the facts folded since the last write have changed of flow control.

    Args:
        file: Where what is not in memory is read from.

    Attributes:
        counts: How the workflows' counts changed.
        lanes: Lanes, and the scopes before which they stand.
        windows: Windows, buffers, and what starts led to.
        holds: Workflows that their budget holds, and spend by the hour.
    """

    def __init__(self, file: FlowFile) -> None:
        self._file = file
        self.counts = Counts()
        self.lanes = Lanes(file, self.counts)
        self.windows = Windows(file, self.lanes, self.counts)
        self.holds = Holds(file.db)

    def clear(self) -> None:
        """Forget everything that is not written."""
        self._file.forget()
        self.counts.changes.clear()
        self.lanes.clear()
        self.windows.clear()
        self.holds.clear()

    def written(self) -> None:
        """All of it stands in the file."""
        self.counts.changes.clear()
        self.lanes.written()
        self.windows.written()
        self.holds.written()

    # Facts of a run, after the run itself was folded -------------------------------

    def run_moved(self, run: RunFold, fact: Any) -> None:
        """A run may have to stand in a lane, or may stand in one no longer."""
        state = run.state
        stands = state.phase == "queued" and not state.pauses
        if state.lane is not None and (not stands or type(fact) is j.RunResumed):
            self.lanes.leave(state)
        if stands and state.lane is None:
            if isinstance(fact, (j.RunQueued, j.RunReady)):
                self.lanes.stand(state, fact.gate, fact.due)
            else:
                self.lanes.stand(state, "", None)
        if type(fact) is j.RunStarted and fact.throttled is not None:
            self.lanes.throttled(state, fact.throttled)

    def spent(self, run: RunFold, fact: Any) -> None:
        """A step may have drained its run's bucket of tokens, and used up its exemption."""
        used = fact.spend
        if used is not None and (used.tokens or used.cost):
            self.holds.spent(run.state, used.tokens, used.cost, fact.at)
        if fact.drained is not None:
            self.lanes.drained(run.state, fact.drained)

    def run_joined(self, run: RunFold, fact: j.StartJoined) -> None:  # noqa: ARG002 - as its siblings
        """A start joined the run."""
        self.windows.joined(fact)

    def rescoped(self, run: RunFold, scopes: Scopes | None) -> None:
        """A run is counted elsewhere from here on (P20)."""
        state = run.state
        queued = state.lane is not None
        if queued:
            self.lanes.leave(state)
        state.scopes = scopes
        if queued:
            self.lanes.stand(state, "", None)

    # Other facts ------------------------------------------------------------------

    def apply(self, partition: int, fact: Any) -> bool:
        """Fold a fact; False where it is not about flow control."""
        handler = FLOW_FACTS.get(type(fact))
        if handler is None:
            return False
        handler(self, partition, fact)
        return True

    def keys_expired(self, fact: j.KeysExpired) -> None:
        """What ended by then and nobody needs is to go."""
        self.lanes.swept = max(self.lanes.swept, fact.until)


AFTER_RUN: Final[Mapping[type[Fact], Callable[[FlowFold, RunFold, Any], None]]] = {
    j.RunQueued: FlowFold.run_moved,
    j.RunStarted: FlowFold.run_moved,
    j.RunReady: FlowFold.run_moved,
    j.RunPaused: FlowFold.run_moved,
    j.RunResumed: FlowFold.run_moved,
    j.RunQuarantined: FlowFold.run_moved,
    j.RunEnded: FlowFold.run_moved,
    j.StepCompleted: FlowFold.spent,
    j.StepFailed: FlowFold.spent,
    j.StepDiscarded: FlowFold.spent,
    j.StartJoined: FlowFold.run_joined,
}
"""What a fact of a run changes besides the run."""

FLOW_FACTS: Final[Mapping[type[Fact], Callable[[FlowFold, int, Any], None]]] = {
    j.StartDeclined: lambda flow, _, fact: flow.windows.declined(fact),
    j.WindowSlid: lambda flow, _, fact: flow.windows.slid(fact),
    j.BufferFilled: lambda flow, _, fact: flow.windows.slid(fact),
    j.WindowFired: lambda flow, partition, fact: flow.windows.closed(partition, fact),
    j.BufferFlushed: lambda flow, partition, fact: flow.windows.closed(partition, fact),
    j.FiringReleased: lambda flow, partition, fact: flow.windows.released(partition, fact),
    j.FiringHeld: lambda flow, partition, fact: flow.windows.held(partition, fact),
    j.LaneMoved: lambda flow, _, fact: flow.lanes.moved(fact),
    j.GateArmed: lambda flow, _, fact: flow.lanes.armed(fact),
    j.LanesReviewed: lambda flow, _, fact: flow.lanes.reviewed(fact.app, fact.workflow),
    j.BucketsRated: lambda flow, _, fact: flow.lanes.rated(fact),
    j.KeysExpired: lambda flow, _, fact: flow.keys_expired(fact),
    j.WorkflowHeld: lambda flow, _, fact: flow.holds.held(fact),
    j.WorkflowReleased: lambda flow, _, fact: flow.holds.released(fact),
}
"""How each other fact changes it."""
