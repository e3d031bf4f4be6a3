"""Counts what a program reaches, from facts: whether random programs go where they should."""

from collections import Counter, defaultdict

ASKS_MAX = 64
"""Runs of a lane whose asks for a place may be open at once (DESIGN 4)."""


class Reached:
    """The part of the checks that counts what happened.

    Attributes:
        reached: How often each happened, by name.
    """

    def __init__(self, partitions):
        super().__init__(partitions)
        self.reached = Counter()
        self.asks = defaultdict(set)

    # Places across workflows

    def on_PlacesAsked(self, partition, fact):
        lane = (fact.app, fact.workflow, fact.lane)
        self.asks[lane].update(fact.runs)
        count = len(self.asks[lane])
        # An earlier comer asks too.
        self.reached["as many asks as may be"] += count >= ASKS_MAX

    def close_ask(self, run):
        for asks in self.asks.values():
            asks.discard(run)

    def on_AskClosed(self, partition, fact):
        self.close_ask(fact.run)
        self.reached[f"ask {fact.why}"] += 1

    def on_AsksDropped(self, partition, fact):
        for lane, asks in self.asks.items():
            if lane[:2] == (fact.app, fact.workflow):
                asks.clear()
        self.reached["asks dropped"] += 1

    def on_RunStarted(self, partition, fact):
        super().on_RunStarted(partition, fact)
        run = self.runs[fact.run]
        if self.stated(run, "tokenThrottle") and run.starts == [fact.at]:
            bucket = self.buckets.get((run.home, self.scope(run, "tokenThrottle")))
            delayed = bucket is not None and run.created < bucket.opens <= fact.at
            self.reached["held by the token throttle"] += delayed
        if fact.granted is not None:
            self.close_ask(fact.granted)
            self.reached["started by a grant"] += 1
            self.reached["started by a grant for another"] += fact.granted != fact.run

    def on_RunEnded(self, partition, fact):
        super().on_RunEnded(partition, fact)
        if fact.error is not None:
            self.reached[f"ended: {fact.error.name}"] += 1

    # Starts that come to nothing, or to another's run

    def on_StartDeclined(self, partition, fact):
        super().on_StartDeclined(partition, fact)
        self.reached[fact.outcome] += 1

    def on_StartJoined(self, partition, fact):
        super().on_StartJoined(partition, fact)
        self.reached["joined"] += 1

    def on_FiringReleased(self, partition, fact):
        super().on_FiringReleased(partition, fact)
        self.reached["held firing let go"] += 1

    # AI spend

    def on_WorkflowHeld(self, partition, fact):
        super().on_WorkflowHeld(partition, fact)
        home = (fact.app, fact.workflow)
        unended = [run for run in self.unended.values() if run.home == home]
        self.reached["held by its budget"] += 1
        self.reached["held while runs execute"] += any(run.executing for run in unended)

    def on_WorkflowReleased(self, partition, fact):
        super().on_WorkflowReleased(partition, fact)
        self.reached["released by its budget"] += 1

    def on_BudgetWarned(self, partition, fact):
        super().on_BudgetWarned(partition, fact)
        self.reached["warned"] += fact.over

    def on_RunResumed(self, partition, fact):
        super().on_RunResumed(partition, fact)
        self.reached["exempt"] += fact.exempt

    def on_StepFailed(self, partition, fact):
        super().on_StepFailed(partition, fact)
        self.reached["attempt paid for that failed"] += fact.spend is not None
