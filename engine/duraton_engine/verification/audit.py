"""The rules that a journal's facts about events and runs keep, over all partitions.

What an audit keeps: each run that has not ended, and of every run and event sixteen
bytes, by which it finds what happened twice and what an event should have led to.
"""

from duraton_engine.verification.figures import Figures
from duraton_engine.verification.names import Names
from duraton_engine.verification.runs import OpenRun, PartitionAudit, Wrong
from duraton_schemas.ids import run_id
from duraton_schemas.records import journal as facts
from duraton_schemas.slots import home_slot

_EVENT_ORIGIN = "event:"


class Audit:
    """An audit of a cluster; give each partition's facts to its `partition(number)`.

    Attributes:
        figures: What was counted; whole after `close`.
    """

    def __init__(self) -> None:
        self.figures = Figures()
        self._created = Names()
        self._from_events = Names()
        self._offered = Names()
        self._recorded = Names()
        self._unended: list[dict[str, OpenRun]] = []

    def partition(self, number: int) -> PartitionAudit:
        """What sees the facts of one partition, from its journal's beginning."""
        runs: dict[str, OpenRun] = {}
        self._unended.append(runs)
        return PartitionAudit(self, number, runs)

    def recorded(self, fact: facts.EventRecorded, seq: int) -> None:
        """An event was recorded, and offered to its homes."""
        figures = self.figures
        figures.events += 1
        place = str(fact.place)
        self._recorded.add(place, seq)
        for home in fact.homes:
            figures.offers += 1
            slot = home_slot(home.app, home.workflow)
            self._offered.add(run_id(slot, _EVENT_ORIGIN + place, home.app, home.workflow), seq)

    def created(self, run: str, made: facts.RunCreated, seq: int) -> None:
        """A run came into being."""
        self._created.add(run, seq)
        if made.kind != "main":
            self.figures.failure_runs += 1
            return
        self.figures.runs += 1
        if made.origin.startswith(_EVENT_ORIGIN):
            self._from_events.add(run, seq)

    def close(self) -> list[Wrong]:
        """All partitions were read: what is wrong between them."""
        figures = self.figures
        found: list[Wrong] = []
        for first, second in self._created.twice():
            found.append(("run-twice", f"a run was created twice, by facts {first} and {second}"))
        for first, second in self._recorded.twice():
            message = f"an event was recorded twice, by facts {first} and {second}"
            found.append(("event-twice", message))
        for seq in self._from_events.lacking(self._offered):
            message = f"fact {seq} created a run from an event that was not offered"
            found.append(("run-unasked", message))
        figures.offers_open = sum(1 for _ in self._offered.lacking(self._from_events))
        figures.offers_met = figures.offers - figures.offers_open
        figures.unended = sum(len(runs) for runs in self._unended)
        return found
