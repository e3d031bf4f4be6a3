"""The part of the model that counts AI spend: cap, budget, token throttle (P29 to P32)."""

from itertools import combinations

from flow_spend import Bucket, Used, over, reached, warns, within


class Spends:
    """The part of the model that counts AI spend.

    Attributes:
        spent: Of each workflow, whether it has a budget or not.
        holding: The workflows whose budget holds them.
        warnings: (workflow, at) of each warning.
        buckets: By workflow and scope.
    """

    def __init__(self):
        self.spent = {}
        self.holding = set()
        self.warned = set()
        self.warnings = []
        self.buckets = {}

    # Spending

    def used(self, run, op):
        """An attempt of an AI step was recorded, whether it succeeded or not."""
        _, _, tokens, cents, _ = op
        self.spent.setdefault(run.home, []).append(Used(self.now, tokens, cents))
        run.spent = (run.spent[0] + tokens, run.spent[1] + cents)
        if run.home in self.holding and run.exempt:
            run.exempt, run.held = False, run.works
        control = self.stated(run, "tokenThrottle")
        if control and tokens:
            place = (run.home, self.scope_of(run, "tokenThrottle"))
            bucket = self.buckets.setdefault(place, Bucket(control, self.now))
            bucket.debit(self.now, tokens)
            self.drained(place, bucket)

    def drained(self, place, bucket):
        if bucket.vague:
            self.tie("parts of a millisecond decide when a bucket opens")
        for other in self.queued():
            if (
                other.asked
                and not other.starts
                and self.stated(other, "tokenThrottle")
                and (other.home, self.scope_of(other, "tokenThrottle")) == place
            ):
                self.tie("a start has asked by an order that is no longer its own")

    def capped(self, run):
        """Whether its next call is not made; what counts is the cap of its invocation."""
        return run.cap is not None and reached(run.cap, run.spent)

    # The budget

    def rests(self, run):
        """Whether its workflow's budget holds a run."""
        return run.kind == "main" and run.home in self.holding and not run.exempt

    def tick(self):
        """All workflows are looked at."""
        changed = [home for home in sorted(self.flows) if self.look_at_budget(home)]
        if changed:
            self.settle()
        if any(self.compete(*pair) for pair in combinations(changed, 2)):
            self.tie("several workflows are held or released")
        return bool(changed)

    def look_at_budget(self, home):
        """Whether it is held or released now."""
        budget = self.flows[home].controls.get("budget")
        sums = (0, 0)
        if budget is not None:
            spent, floor = self.spent.get(home, []), self.now - budget["windowMs"]
            sums = within(spent, floor)
            # The engine counts by seconds.
            loose = within(spent, floor // 1_000 * 1_000 - 1)
            if any(rule(budget, sums) != rule(budget, loose) for rule in (over, warns)):
                self.tie("what rolls off in this second decides")
        if budget is not None and warns(budget, sums):
            if home not in self.warned:
                self.warnings.append((home, self.now))
            self.warned.add(home)
        else:
            self.warned.discard(home)
        holds = budget is not None and over(budget, sums)
        if holds == (home in self.holding):
            return False
        if not holds:
            self.holding.discard(home)
            return True
        self.holding.add(home)
        for run in self.runs.values():
            if run.home == home and run.works and self.rests(run):
                run.held = True
        return True

    # The token throttle

    def opens(self, run):
        """From when the token throttle lets a first start go, or None."""
        control = self.stated(run, "tokenThrottle")
        if not control or run.starts:
            return None
        bucket = self.buckets.get((run.home, self.scope_of(run, "tokenThrottle")))
        return None if bucket is None else bucket.opens

    def rate_buckets(self, home):
        """A changed rate applies from the change; levels are kept."""
        control = self.flows[home].controls.get("tokenThrottle")
        for (of, scope), bucket in self.buckets.items():
            if of == home and control:
                if (bucket.tokens, bucket.per) != (control["tokens"], control["perMs"]):
                    bucket.rated(self.now, control)
                    if any(
                        run.home == home
                        and not run.starts
                        and self.stated(run, "tokenThrottle")
                        and self.scope_of(run, "tokenThrottle") == scope
                        for run in self.queued()
                    ):
                        self.tie("when a start was ready is told by a rate that has changed")
                    if bucket.vague:
                        self.tie("parts of a millisecond decide when a bucket opens")
