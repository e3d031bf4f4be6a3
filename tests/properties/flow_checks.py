"""The invariants of flow control, checked at every fact in the order of commits.

What is counted is checked here: places, spacing, admissions, keys, order. What becomes of
each event is checked by `flow_accounts`, and whether anybody waits for nothing, once all
has settled, by `flow_liveness`.
"""

from collections import defaultdict
from fractions import Fraction

from flow_accounts import Accounts
from flow_checks_spend import SpendChecks
from flow_ledger import Ledger, Registry
from flow_reached import Reached

from duraton_engine.errors import RUN_REPLACED


class BrokenError(AssertionError):
    """A rule does not hold."""


class Limits(SpendChecks, Accounts, Ledger):
    """A ledger that holds each fact to the rules.

    Args:
        partitions: How many partitions the cluster has.
    """

    def __init__(self, partitions):
        super().__init__(partitions)
        self.throttled = {}
        self.admitted = defaultdict(list)
        self.claimed = {}
        self.grants = {}
        self.past = []
        self.fresh = defaultdict(list)
        self.over = defaultdict(list)
        self.replaced = defaultdict(bool)
        self.declined = []
        self.transitions = 0

    def feed(self, partition, fact):
        super().feed(partition, fact)
        if fact.header.last:
            self.close(partition)

    def close(self, partition):
        """A transition is over."""
        self.transitions += 1
        self.settle_accounts(partition)
        self.over[partition].clear()
        self.fresh[partition].clear()
        self.replaced[partition] = False

    def holds(self, rule, text):
        if not rule:
            raise BrokenError(f"at {self.now}: {text}")

    # Limits, as the project slot knows them

    def on_RegistrationApplied(self, partition, fact):
        super().on_RegistrationApplied(partition, fact)
        if partition == self.project:
            registry = self.registries[partition]
            self.past.append((self.committed, Registry(dict(registry.apps), registry.ceiling)))

    def limit_since(self, key, place):
        """The greatest limit that held from a place on; None where there was none."""
        newer = [registry for at, registry in self.past if at >= place]
        older = [registry for at, registry in self.past if at < place][-1:]
        limits = [self.limit_of(registry, key) for registry in [*older, *newer]]
        return None if None in limits or not limits else max(limits)

    def on_PlaceGranted(self, partition, fact):
        self.grants[fact.run] = self.committed

    # Starts

    def token_over(self, run, at):
        if run.executing:
            fresh = self.fresh[run.partition]
            if run in fresh:
                fresh.remove(run)
            else:
                self.over[run.partition].append(run)
        super().token_over(run, at)

    def on_RunEnded(self, partition, fact):
        if fact.error is not None and fact.error.code == RUN_REPLACED:
            self.replaced[partition] = True
        super().on_RunEnded(partition, fact)

    def on_RunQuarantined(self, partition, fact):
        self.holds(False, f"{self.runs[fact.run].label} is set apart: {fact.error.message}")

    def on_CommandParked(self, partition, fact):
        self.holds(False, f"an input is parked: {fact.error.name} {fact.error.message}")

    def on_RunStarted(self, partition, fact):
        known = self.runs.get(fact.run)
        if known is not None:
            self.holds(not known.executing, f"{known.label} starts while it executes")
            self.holds(not known.paused, f"{known.label} starts while it is paused")
            self.holds(known.ended is None, f"{known.label} starts after its end")
            self.holds(fact.first == known.first, f"{known.label}: first is {fact.first}")
            self.in_order(known)
        super().on_RunStarted(partition, fact)
        run = self.runs[fact.run]
        self.local_limits(run)
        self.gate_limits(run, fact)
        if len(run.starts) == 1:
            self.spacing(run)
        self.fresh[partition].append(run)

    def in_order(self, run):
        """No earlier comer of all its scopes still waits (P14, P19, P21)."""
        if self.replaced[run.partition] or run in self.over[run.partition]:
            return  # a place passed on, or it never gave its own back
        for other in self.unended.values():
            if other.queued and not other.paused and self.lane(other) == self.lane(run):
                text = f"{run.label} starts before {other.label}, which came first"
                self.holds(other.order >= run.order, text)

    def lane(self, run):
        scopes = [
            self.scope(run, control) if self.stated(run, control) else None
            for control in ("concurrency", "throttle", "together", "tokenThrottle")
        ]
        return (run.home, run.kind, run.first, run.exempt, *scopes)

    def more(self, run, counted):
        """By how many more were counted when the transition began, without the run itself."""
        gone = [each for each in self.over[run.partition] if counted(each)]
        new = [each for each in self.fresh[run.partition] if counted(each)]
        return len(gone) - len(new) - 1

    def local_limits(self, run):
        limit = self.stated(run, "concurrency")
        if limit:
            works = self.executing(run, "concurrency")
            names = [each.label for each in works]
            self.holds(len(works) <= limit["limit"], f"{names} execute, limit {limit['limit']}")
        together = self.stated(run, "together")
        if together and not together.get("group"):
            scope = self.scope(run, "together")
            works = self.executing(run, "together")
            most = together.get("max", 10)

            def counted(other):
                same = other.kind == "main" and other.home == run.home
                return same and self.scope(other, "together") == scope

            if together.get("then") == "stop":
                most = max(most, len(works) + self.more(run, counted))
            names = [each.label for each in works]
            self.holds(len(works) <= most, f"{names} work together, max {most}")

    def gate_limits(self, run, fact):
        keys = self.keys(run)
        stated = [
            "ceiling" if key == "ceiling" else tuple(([*key.split("\0")[1:], None])[:2])
            for key in fact.gates
        ]
        self.holds(stated == keys, f"{run.label} is counted under {stated}, not {keys}")
        for key in keys:
            if fact.granted is not None:
                most = self.limit_since(key, self.grants.get(fact.granted, self.committed))
            else:
                most = self.limit(key)
            if most is None:
                continue
            works = self.under(key)
            most = max(most, len(works) + self.more(run, lambda each, k=key: k in self.keys(each)))
            names = [each.label for each in works]
            self.holds(len(works) <= most, f"{names} execute under {key}, limit {most}")

    def spacing(self, run):
        throttle = self.stated(run, "throttle")
        if not throttle:
            return
        scope = (run.home, self.scope(run, "throttle"))
        now, last = run.starts[0], self.throttled.get(scope)
        if last is not None:
            # A millisecond less where fractions add up.
            due = last + Fraction(throttle["perMs"], throttle["limit"]) - 1
            self.holds(now >= due, f"{run.label} starts at {now}, allowed from {float(due)}")
        self.throttled[scope] = now

    # What a start or an event that is gathered takes

    def create(self, partition, fact, run, made):
        new = super().create(partition, fact, run, made)
        if new.kind != "main":
            return new
        if self.stated(new, "singleton"):
            others = [each for each in self.peers(new, "singleton") if each is not new]
            mode = self.stated(new, "singleton").get("mode", "skip")
            text = f"{new.label} is made while {[each.label for each in others]} have not ended"
            self.holds(not others or (mode == "cancel" and self.replaced[partition]), text)
        self.account_run(partition, fact, new, made)
        return new

    def take(self, partition, home, seen, at, *, opened):
        """An event leads to a run of its own, or is taken into a window or buffer."""
        controls = self.registries[partition].controls(home)
        once, rate = controls.get("idempotency"), controls.get("rateLimit")
        if once:
            scope = (home, self.scope_in(controls, "idempotency", seen))
            free = self.claimed.get(scope, 0)
            self.holds(at >= free, f"{seen.label} is taken, its key is free from {free}")
            self.claimed[scope] = at + once["periodMs"]
        if rate and opened:
            log = self.admitted[home, self.scope_in(controls, "rateLimit", seen)]
            log.append(at)
            count = sum(each > at - rate["perMs"] for each in log)
            self.holds(count <= rate["limit"], f"{count} admissions, limit {rate['limit']}")

    def on_StartDeclined(self, partition, fact):
        home = (fact.app, fact.workflow)
        labels = tuple(self.label_of(event_id) for event_id in fact.event_ids)
        self.declined.append((home, fact.outcome, labels, fact.at))
        self.account_declined(partition, fact)
        seen = self.by_id.get(fact.event_ids[0])
        if seen is None:
            return  # a step's child that came to nothing: its data is nowhere
        controls = self.registries[partition].controls(home)
        if fact.outcome == "deduped":
            scope = (home, self.scope_in(controls, "idempotency", seen))
            text = f"{labels} are deduped, though their key is free"
            self.holds(fact.at < self.claimed.get(scope, 0), text)
        elif fact.outcome == "dropped":
            rate = controls["rateLimit"]
            log = self.admitted[home, self.scope_in(controls, "rateLimit", seen)]
            count = sum(each > fact.at - rate["perMs"] for each in log)
            self.holds(count >= rate["limit"], f"{labels} are dropped after {count} admissions")
        elif fact.outcome == "skipped":
            live = self.unended.get(fact.blocker)
            self.holds(live is not None and live.home == home, f"{labels} skipped for nobody")
        elif fact.outcome == "refused":
            self.justify_refusal(partition, fact, home, controls, seen, labels)

    def justify_refusal(self, partition, fact, home, controls, seen, labels):
        together = controls.get("together", {})
        if together.get("then") == "refuse" and not together.get("group"):
            scope = self.scope_in(controls, "together", seen)
            works = [
                each
                for each in self.unended.values()
                if each.executing
                and each.kind == "main"
                and each.home == home
                and self.scope(each, "together") == scope
            ]
            most = together.get("max", 10)
            self.holds(len(works) >= most, f"{labels} are refused, {len(works)} of {most} work")


class Checks(Reached, Limits):
    """All checks, with a count of what they saw."""
