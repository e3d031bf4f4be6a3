"""The invariants of AI spend, from facts alone: cap, budget, token throttle (P29 to P32)."""

from collections import Counter, defaultdict
from dataclasses import dataclass

from flow_spend import Bucket, Used, over, reached, warns, within

from duraton_schemas.slots import home_slot, partition_of

MICROS_A_CENT = 10_000
CAP_REACHED = "BudgetError"
WARNING = "duraton.budget.warning"


@dataclass
class Hold:
    """A time in which a workflow was held."""

    since: int
    until: int | None = None

    def within(self, at):
        return self.since < at and (self.until is None or at < self.until)


class SpendChecks:
    """The part of the checks that follows AI spend."""

    def __init__(self, partitions):
        super().__init__(partitions)
        self.spent = defaultdict(list)
        self.buckets = {}
        self.budget_holds = defaultdict(list)
        self.warned = set()
        self.warnings = []
        self.announced = Counter()
        self.looked = {}

    # What is spent

    def on_StepCompleted(self, partition, fact):
        run = self.runs[fact.run]
        if fact.started_at is not None and not run.exempt_at(fact.started_at):
            for hold in self.budget_holds[run.home]:
                text = f"{run.label} begins {fact.step} at {fact.started_at} while it is held"
                self.holds(run.kind != "main" or not hold.within(fact.started_at), text)
        if fact.kind == "ai":
            self.call_was_made(run)
        self.use(partition, fact)

    def on_StepFailed(self, partition, fact):
        super().on_StepFailed(partition, fact)
        run = self.runs[fact.run]
        if fact.kind != "ai":
            return  # a child that was halted fails the step that waits for it
        if fact.error.name == CAP_REACHED:
            self.holds(
                run.cap and reached(run.cap, run.spent),
                f"{run.label} is capped: {run.spent}, {run.cap}",
            )
            self.holds(fact.retry_at is None, f"{run.label} is capped, and tries again")
        else:
            self.call_was_made(run)
        self.use(partition, fact)

    def on_StepDiscarded(self, partition, fact):
        self.use(partition, fact)

    def call_was_made(self, run):
        halts = run.cap is not None and reached(run.cap, run.spent)
        self.holds(not halts, f"{run.label} calls after {run.spent}, its cap is {run.cap}")

    def use(self, partition, fact):
        if fact.spend is None:
            return
        run, spend = self.runs[fact.run], fact.spend
        cents = round(spend.cost / MICROS_A_CENT)
        self.spent[run.home].append(Used(fact.at, spend.tokens, cents))
        run.spent = (run.spent[0] + spend.tokens, run.spent[1] + cents)
        if self.held_now(run.home) and (spend.tokens or spend.cost):
            run.exempt_until(fact.at)
        control = self.stated(run, "tokenThrottle")
        if control and spend.tokens:
            place = (run.home, self.scope(run, "tokenThrottle"))
            bucket = self.buckets.setdefault(place, Bucket(control, fact.at))
            bucket.debit(fact.at, spend.tokens)

    # The budget

    def held_now(self, home):
        holds = self.budget_holds[home]
        return bool(holds) and holds[-1].until is None

    def budget_rests(self, run):
        return run.kind == "main" and self.held_now(run.home) and not run.exempt

    def sums(self, partition, home, at):
        """The budget, and what was spent in its window: exactly, and by whole seconds."""
        budget = self.registries[partition].controls(home).get("budget")
        if budget is None:
            return None, (0, 0), (0, 0)
        floor = at - budget["windowMs"]
        spent = self.spent[home]
        return budget, within(spent, floor), within(spent, floor // 1_000 * 1_000 - 1)

    def on_BudgetTicked(self, partition, fact):
        self.looked[fact.app, fact.workflow] = fact.at

    def on_WorkflowHeld(self, partition, fact):
        home = (fact.app, fact.workflow)
        budget, _, most = self.sums(partition, home, fact.at)
        self.holds(budget is not None and over(budget, most), f"{home} is held: {most}, {budget}")
        self.holds(not self.held_now(home), f"{home} is held twice")
        self.budget_holds[home].append(Hold(fact.at))

    def on_WorkflowReleased(self, partition, fact):
        home = (fact.app, fact.workflow)
        budget, least, _ = self.sums(partition, home, fact.at)
        within_it = budget is None or not over(budget, least)
        self.holds(within_it, f"{home} is released: {least}, {budget}")
        self.budget_holds[home][-1].until = fact.at

    def on_BudgetWarned(self, partition, fact):
        home = (fact.app, fact.workflow)
        budget, least, most = self.sums(partition, home, fact.at)
        if fact.over:
            self.holds(home not in self.warned, f"{home} is warned of twice")
            self.holds(warns(budget, most), f"{home} is warned of: {most}, {budget}")
            self.warned.add(home)
            self.warnings.append((home, fact.at))
        else:
            self.holds(budget is None or not warns(budget, least), f"{home} is over its mark")
            self.warned.remove(home)

    def on_EventRecorded(self, partition, fact):
        super().on_EventRecorded(partition, fact)
        if fact.event is not None and fact.event.name == WARNING:
            self.announced[fact.event.id] += 1

    def on_RunResumed(self, partition, fact):
        super().on_RunResumed(partition, fact)
        run = self.runs[fact.run]
        self.holds(not fact.exempt or self.budget_rests(run), f"{run.label} is exempt of nothing")
        if self.budget_rests(run):
            self.holds(fact.exempt, f"{run.label} is resumed, and its budget holds it still")
            run.exempt_from(fact.at)

    def unjust_budgets(self, now, tick):
        """Workflows that are held or not against what the last look must have shown."""
        found = []
        for home in {**self.spent}:
            partition = partition_of(home_slot(*home), self.partitions)
            at = max(now // tick * tick, self.looked.get(home, 0))
            budget, least, most = self.sums(partition, home, at)
            before = [used for used in self.spent[home] if used.at >= at]
            if before or budget is None:
                continue  # it is looked at next time
            if over(budget, least) and not self.held_now(home):
                found.append(f"{home} is over its budget and goes on: {least}, {budget}")
            if not over(budget, most) and self.held_now(home):
                found.append(f"{home} is held within its budget: {most}, {budget}")
        removed = [home for home, holds in self.budget_holds.items() if self.held_now(home)]
        for home in removed:
            partition = partition_of(home_slot(*home), self.partitions)
            if self.registries[partition].controls(home).get("budget") is None:
                found.append(f"{home} is held by no budget")
        return found

    # Starts

    def on_RunStarted(self, partition, fact):
        super().on_RunStarted(partition, fact)
        run = self.runs[fact.run]
        self.holds(not self.budget_rests(run), f"{run.label} starts while its budget holds it")
        run.cap = self.stated(run, "cap")
        control = self.stated(run, "tokenThrottle")
        if control and len(run.starts) == 1:
            bucket = self.buckets.get((run.home, self.scope(run, "tokenThrottle")))
            # A millisecond less where fractions add up.
            early = bucket is not None and fact.at < bucket.opens - 1
            self.holds(not early, f"{run.label} starts while its bucket is empty")

    def on_RegistrationApplied(self, partition, fact):
        super().on_RegistrationApplied(partition, fact)
        for (home, _), bucket in self.buckets.items():
            if partition_of(home_slot(*home), self.partitions) != partition:
                continue
            control = self.registries[partition].controls(home).get("tokenThrottle")
            if control and (bucket.tokens, bucket.per) != (control["tokens"], control["perMs"]):
                bucket.rated(fact.at, control)
