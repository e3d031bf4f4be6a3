"""Who may start: scopes, places, order (P2, P3, P5, P14, P19 to P28)."""

from fractions import Fraction


def canonical(value):
    """The text of a scalar; None of what is none (P3)."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    if isinstance(value, (int, float)):
        return str(int(value)) if value == int(value) else repr(value)
    return None


def read(path, data):
    """What stands at a dotted path, as text."""
    for part in path.split("."):
        if not isinstance(data, dict) or part not in data:
            return None
        data = data[part]
    return canonical(data)


class Gates:
    """The part of the model that says who may start."""

    # Scopes

    @staticmethod
    def scope(control, event):
        """One bucket for each value of the key, one for all without (P2)."""
        path = control.get("key")
        value = read(path, event.data) if path is not None else None
        return None if value is None else (path, value)

    def row(self, run):
        """Where `together` counts a run: by the flow's key, otherwise by the subject (P52)."""
        path = self.flows[run.home].controls.get("key")
        if path is None:
            return None if run.event.subject is None else ("", run.event.subject)
        value = read(path, run.event.data)
        return None if value is None else (path, value)

    def stated(self, run, control):
        """A control of a run's workflow, or None; onFailure has none (P39)."""
        return self.flows[run.home].controls.get(control) if run.kind == "main" else None

    def scope_of(self, run, control):
        if control == "together":
            return self.row(run)
        return self.scope(self.flows[run.home].controls[control], run.event)

    def group(self, run):
        """The key under which a run's group counts it; the flows' fields may differ in name."""
        together = self.stated(run, "together")
        if not together or "group" not in together:
            return None
        row = self.row(run)
        return (together["group"], None if row is None else row[1])

    def gate_keys(self, run):
        return (self.group(run), self.ceiling > 0)

    def peers(self, run, control):
        """The unended runs of a run's workflow that share its scope of a control."""
        scope = self.scope_of(run, control)
        return [
            other
            for other in self.runs.values()
            if other.status is None
            and other.kind == "main"
            and other.home == run.home
            and self.scope_of(other, control) == scope
        ]

    def live(self, run, control):
        """The newest unended run of a scope, or None."""
        found = self.peers(run, control)
        return found[-1] if found else None

    def working(self, run, control):
        return [other for other in self.peers(run, control) if other.works]

    def in_group(self, key):
        return [other for other in self.runs.values() if other.works and self.group(other) == key]

    def full(self, run, without=None):
        """Whether as many runs work as `together` allows."""
        together = self.stated(run, "together")
        key = self.group(run)
        works = self.working(run, "together") if key is None else self.in_group(key)
        return len([other for other in works if other is not without]) >= self.most(together)

    def most(self, together):
        """A group's `max` is that of the newest registration (P24)."""
        group = together.get("group")
        if group is None:
            return together["max"]
        stated = [
            (self.versions[flow.app], flow.controls["together"]["max"])
            for flow in self.flows.values()
            if flow.controls.get("together", {}).get("group") == group
        ]
        return max(stated)[1]

    # Order

    def allowed(self, run):
        """From when the throttle lets a first start go, exactly; None where it does at once."""
        throttle = self.stated(run, "throttle")
        if not throttle or run.starts:
            return None
        last = self.last_starts.get((run.home, self.scope_of(run, "throttle")))
        return None if last is None else last + Fraction(throttle["perMs"], throttle["limit"])

    def sort(self, run):
        """When it became ready, less its shift; then who was made first (P14, P19)."""
        ready = run.ready
        if ready is None:
            ready = run.created
            allowed = self.allowed(run)
            if allowed is not None:
                ready = max(ready, -(-allowed // 1))
            ready = max(ready, self.opens(run) or ready)
        return (ready - run.shift, run.seq)

    def queued(self):
        found = [run for run in self.runs.values() if run.state == "queued" and not run.paused]
        return sorted(found, key=self.sort)

    # Gates

    def local(self, run):
        """What the run's own home says: (whether it may start, the run that it stops)."""
        if self.rests(run):
            return False, None
        opens = self.opens(run)
        if opens is not None and self.now < opens:
            self.look_again(run, "tokenThrottle", opens)
            return False, None
        allowed = self.allowed(run)
        if allowed is not None and self.now < allowed:
            self.look_again(run, "throttle", -(-allowed // 1))
            return False, None
        limit = self.stated(run, "concurrency")
        if limit and len(self.working(run, "concurrency")) >= limit["limit"]:
            return False, None
        together = self.stated(run, "together")
        if together and "group" not in together and self.full(run):
            victim = self.victim(run)
            return victim is not None, victim
        return True, None

    def victim(self, run):
        """Whom a first start with `stop` ends: who has worked longest, then the older start."""
        if run.starts or self.stated(run, "together").get("then") != "stop":
            return None
        return min(
            self.working(run, "together"),
            key=lambda other: (-(other.worked + self.now - other.since), other.starts[0]),
            default=None,
        )

    def admit(self, run):
        """Whether a run may start now, and the run that it stops."""
        may, victim = self.local(run)
        if not may or victim is not None:
            return may, victim  # a stopped run's place passes on with all its gates
        key = self.group(run)
        if key is not None and self.full(run):
            victim = self.victim(run)
            return victim is not None, victim
        if self.ceiling and sum(other.works for other in self.runs.values()) >= self.ceiling:
            return False, None
        return True, None

    def first_of_local(self, run):
        """Whether a run may start by its home alone, and nobody there comes before it."""
        if not self.local(run)[0]:
            return False
        for other in self.queued():
            if other is run:
                return True
            if other.asked or other.home != run.home:
                continue  # it waits for others than its home
            if self.local(other)[0] and self.shares(other, run):
                return False
        return True

    def shares(self, one, other):
        """Whether two runs of one workflow are counted together somewhere."""
        return any(
            self.stated(one, control)
            and self.scope_of(one, control) == self.scope_of(other, control)
            for control in ("concurrency", "throttle", "together")
        )

    def settle(self):
        """Start whoever may start, in order, and let firings go, until nobody may."""
        if self.settling:
            return
        self.settling = True
        try:
            self._ask()
            started = len(self.began)
            while self._start_one() or self._let_go(self.began[started:]):
                self._ask()
            self._withdraw()
        finally:
            self.settling = False

    settling = False

    def _let_go(self, started):
        """The firing's run asks for places together with what the same end let go."""
        known = set(self.runs)
        if not self.let_go():
            return False
        new = [run for label, run in self.runs.items() if label not in known]
        for run in new:
            gated = self.gate_keys(run) != (None, False)
            if gated and any(self.sort(other) > self.sort(run) for other in started):
                self.tie("a firing that is let go comes before who has started by its place")
        return True

    def _ask(self):
        """Whom its home would let start asks for places across workflows, if there are any."""
        for run in self.queued():
            gated = self.gate_keys(run) != (None, False)
            run.asked = run.asked or (gated and self.local(run)[0])

    def _withdraw(self):
        """Whom its home lets start no more has no ask left, and asks anew when it does."""
        for run in self.queued():
            run.asked = run.asked and self.local(run)[0]

    def _start_one(self):
        for run in self.queued():
            may, victim = self.admit(run)
            if not may:
                continue
            if victim is not None and self.ceiling and run.created < self.now:
                others = [other for other in self.working(run, "together") if other is not victim]
                if any(other.starts[-1] == self.now for other in (victim, *others)):
                    self.tie("a start that waits for the ceiling may stop a run now")
            if any(self.offered_in_vain(other, run) for other in self.queued()):
                self.tie("a place is offered to a run that cannot use it any more")
            if self.let_go(before=run):
                return True
            if victim is None and any(self.overtakes(other, run) for other in self.queued()):
                self.tie("a start that takes a place over need not ask as an earlier comer does")
            equals = [other for other in self.equals(run) if self.admit(other)[0]]
            self.began.append(run)
            self.start(run, victim)
            if any(other.state == "queued" and not self.admit(other)[0] for other in equals):
                self.tie("equal comers to places across workflows")
            return True
        return False

    def offered_in_vain(self, other, run):
        """Whether an earlier comer has asked for a place that it cannot take any more.

        Its home says so, and the place comes back; meanwhile others may have started.
        """
        if not other.asked or other is run or self.sort(other) > self.sort(run):
            return False
        keys, own = self.gate_keys(other), self.gate_keys(run)
        shared = self.ceiling > 0 or (own[0] is not None and own[0] == keys[0])
        return (shared or other.home == run.home) and not self.local(other)[0]

    def overtakes(self, other, run):
        """Whether a later comer stops a run of its own, which takes no asking.

        It takes with that what is free of scopes that it shares with an earlier comer.
        """
        if other is run or self.gate_keys(run) == (None, False):
            return False
        return (
            other.home == run.home
            and self.sort(other) > self.sort(run)
            and self.local(other)[1] is not None
            and self.shares(other, run)
        )

    def shifted(self, run):
        """Who waits for one throttle becomes ready with it, whoever was made first (P14).

        Their shifts then decide; they differ where a redeploy changed the priority.
        """
        for control in ("throttle", "tokenThrottle"):
            if self.stated(run, control) and any(
                other.home == run.home
                and not other.starts
                and other.shift != run.shift
                and self.stated(other, control)
                and self.scope_of(other, control) == self.scope_of(run, control)
                for other in self.queued()
            ):
                self.tie("starts of one throttle have different shifts")

    def outdate(self, run):
        """A start moves the time of others; who has asked for a place did so by the old one."""
        for other in self.queued():
            if (
                other.asked
                and other.home == run.home
                and not other.starts
                and self.scope_of(other, "throttle") == self.scope_of(run, "throttle")
                and self.lane(other) != self.lane(run)
                and self.gate_keys(other) != (None, False)
            ):
                self.tie("a throttled start has asked by an order that is no longer its own")

    def equals(self, run):
        """Others that became ready in the same instant and compete for the same places.

        Who asks first comes first; that is when its home would let it start.
        """
        if self.gate_keys(run) == (None, False):
            return []
        return [
            other
            for other in self.queued()
            if other is not run
            and self.sort(other)[0] == self.sort(run)[0]
            and self.lane(other) != self.lane(run)
        ]

    def lane(self, run):
        """Runs of equal lanes are told apart by nothing but their order."""
        scopes = [
            self.scope_of(run, control) if self.stated(run, control) else None
            for control in ("concurrency", "throttle", "together", "tokenThrottle")
        ]
        return (run.home, run.kind, bool(run.starts), run.exempt, *scopes)

    def look_again(self, run, control, due):
        """A throttle opens by itself."""
        place = (run.home, control, self.scope_of(run, control), due)
        if place not in self._looks:
            self._looks.add(place)
            self.at(due, self.settle, run.home)

    def compete(self, one, other):
        """Whether it may matter which of two workflows comes first in one instant."""
        if self.ceiling:
            return True
        first, second = self.flows[one].controls, self.flows[other].controls
        if one == other:
            counting = (
                *("concurrency", "throttle", "together"),
                *("singleton", "budget", "tokenThrottle"),
            )
            return any(control in first for control in counting)
        group = first.get("together", {}).get("group")
        return group is not None and group == second.get("together", {}).get("group")
