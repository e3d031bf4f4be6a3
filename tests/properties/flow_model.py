"""A reference model of flow control, written from the seeds, the SPEC and DESIGN 4.

It says what must come of a program that nothing breaks, where everything is decided at
one place: each answer, each run with its events, its starts and its end. Its state is
plain lists; whether a run may start is worked out anew each time from who works, so that
nothing can be counted wrongly. `flow_model_gates` says who may start, `flow_model_runs`
how a run lives; here is what becomes of events (P1).

What happens in the same millisecond by different causes has no order that the SPEC gives.
`Model.ties` counts such moments where they could matter; a program that has one is not
compared.
"""

import heapq
from collections import deque
from dataclasses import dataclass, field
from fractions import Fraction
from types import SimpleNamespace
from typing import NamedTuple

from flow_model_gates import Gates
from flow_model_runs import Lives, Run
from flow_model_spend import Spends


class Event(NamedTuple):
    """An event as it was recorded.

    Attributes:
        label: Its name, independent of ids.
        root: Who acts (P53).
    """

    label: str
    name: str
    data: dict
    subject: str | None
    root: str


@dataclass
class Start:
    """A start that is asked for.

    Attributes:
        waiter: The step of another run that asks, as (run, attempt).
    """

    home: tuple
    events: list
    waiter: tuple | None = None

    @property
    def first(self):
        return self.events[0]


@dataclass
class Gathered:
    """An open window or buffer, or one that is over and held."""

    home: tuple
    kind: str
    scope: str
    due: int
    events: list = field(default_factory=list)
    timer: list | None = None
    fired: int = 0
    shift: int = 0


class Model(Gates, Lives, Spends):
    """Simulates a program.

    Args:
        program: The program; its actions are given one by one.
        serve: Whether each step is an invocation of its own.

    Attributes:
        now: Milliseconds since the start.
        runs: Every run that must exist, by label, in the order in which they were made.
        declined: (workflow, outcome, event labels, at) of each start that led to no run.
        ties: Moments whose order the SPEC leaves open.
    """

    def __init__(self, program, *, serve=False):
        super().__init__()
        self.now = 0
        self.flows = {flow.home: flow for flow in program.flows}
        self.ceiling = program.ceiling
        self.runs = {}
        self.declined = []
        self.ties = []
        self.versions = {flow.app: place for place, flow in enumerate(program.flows)}
        self.waits = {}
        self.last_starts: dict[tuple, Fraction] = {}
        self.claims = {}
        self.admissions = {}
        self.open: dict[tuple, Gathered] = {}
        self.held: list[Gathered] = []
        self.began: list[Run] = []
        self._heap = []
        self._number = 0
        self.serve = serve
        self._soon = deque()
        self._looks = set()
        self.every = program.tick
        self._next_tick = program.tick
        self._acted = None

    @staticmethod
    def event(label, name, data, run):
        """An event that a run makes; it acts for who began the chain (P53)."""
        return Event(label, name, data, None, run.events[0].root)

    @staticmethod
    def start_of(home, event, run):
        """A start that a run's step asks for."""
        return Start(home, [event], (run, run.attempt))

    # Time

    def at(self, due, action, home):
        """Do something at a time; what is given back can be called off."""
        self._number += 1
        entry = [due, self._number, action, home]
        heapq.heappush(self._heap, entry)
        return entry

    @staticmethod
    def call_off(entry):
        if entry is not None:
            entry[2] = None

    def soon(self, action):
        """Do something in this same instant, once all that is under way is done."""
        self._soon.append(action)
        if len(self._soon) > 1:
            self.tie("several runs go on at once")

    def tie(self, why):
        self.ties.append((self.now, why))

    def advance(self, to):
        while True:
            entry = self._next()
            due = entry[0] if entry is not None else to + 1
            if self._next_tick <= min(due, to):
                self._tick()
                continue
            if due > to:
                break
            heapq.heappop(self._heap)
            self.now, _, action, home = entry
            beside = self._next()
            if beside is not None and beside[0] == self.now and self.compete(home, beside[3]):
                self.tie(f"{home} and {beside[3]}")
            self._acted = self.now
            action()
            self._drain()
        self.now = to

    def _tick(self):
        self.now = self._next_tick
        self._next_tick += self.every
        beside = self._next()
        alone = self._acted != self.now and (beside is None or beside[0] != self.now)
        if self.tick() and not alone:
            self.tie("a budget's tick and something else")
        self._drain()

    def _next(self):
        while self._heap and self._heap[0][2] is None:
            heapq.heappop(self._heap)
        return self._heap[0] if self._heap else None

    def _drain(self):
        while self._soon:
            self._soon.popleft()()

    # What people do

    def post(self, events, key):
        """One POST; answers a mapping from workflow to (outcome, run or None) for each event."""
        answers = []
        for name, data, subject in events:
            event = Event(str(data["n"]), name, data, subject, f"key:{key}")
            answers.append(self.record(event))
        self._drain()
        return answers

    def act(self, kind, label):
        """Whether it was taken."""
        run = self.runs[label]
        if run.status is not None:
            return False
        if kind == "cancel":
            self.cancel(run)
        elif kind == "pause":
            self.pause(run)
        elif not run.paused and not self.rests(run):
            return False
        else:
            self.resume(run)
        self._drain()
        return True

    def set_ceiling(self, ceiling):
        self.ceiling = ceiling
        self.settle()
        self._drain()

    def deploy(self, flows):
        """The newest registration holds for all that is decided from here on (P20)."""
        if any(self.flows[flow.home] != flow for flow in flows):
            self.versions[flows[0].app] = 1 + max(self.versions.values())
        before = dict(self.flows)
        for flow in flows:
            old, self.flows[flow.home] = self.flows[flow.home], flow
            if old.controls.get("throttle") != flow.controls.get("throttle") and any(
                run.home == flow.home and not run.starts and self.gate_keys(run) != (None, False)
                for run in self.queued()
            ):
                self.tie("when a start was ready is told by a throttle that has changed")
        changed = {flow.home for flow in flows if flow.controls != before[flow.home].controls}
        for home in changed:
            self.rate_buckets(home)
        for flow in flows:
            gone = [
                gathered
                for gathered in self.open.values()
                if gathered.home == flow.home and gathered.kind not in flow.controls
            ]
            if len(gone) > 1 and self.compete(flow.home, flow.home):
                self.tie("several windows or buffers are let go")
            for gathered in gone:
                self.fire(gathered)
        for home in sorted(changed):
            old, new = before[home].controls.get("budget"), self.flows[home].controls.get("budget")
            if old != new:
                self.look_at_budget(home)
        self.settle()
        self._drain()

    # P1

    def record(self, event):
        """Record an event, wake who waits for it, take it at each workflow that it matches."""
        if event.name == "signal":
            woken = self.waits.pop(event.data["n"], [])
            if len(woken) > 1:
                self.tie("an event wakes several runs")
            for run in woken:
                self.brought(run)
        answers = {}
        for home, flow in sorted(self.flows.items()):
            if event.name in flow.triggers:
                answers[home] = self.take(Start(home, [event]), absorb=True)
        return answers

    def take(self, start, *, absorb):
        """A start of one event: (outcome, run)."""
        controls, event, home = self.flows[start.home].controls, start.first, start.home
        # (2)
        once = controls.get("idempotency")
        once_at = (home, self.scope(once, event)) if once else None
        if once and self.claims.get(once_at, -1) > self.now:
            return self.decline(start, "deduped")

        def claim():
            if once:
                self.claims[once_at] = self.now + once["periodMs"]

        # (3)
        kind = next((kind for kind in ("debounce", "batch") if kind in controls), None)
        absorbs = absorb and kind is not None
        if absorbs:
            gathered = self.open.get((home, kind, self.scope(controls[kind], event)))
            if gathered is not None:
                claim()
                self._gather(gathered, controls[kind], event)
                return ("buffered", None)
        # (4)
        rate = controls.get("rateLimit")
        log = self.admissions.setdefault((home, self.scope(rate, event)), []) if rate else []
        if rate and sum(at > self.now - rate["perMs"] for at in log) >= rate["limit"]:
            return self.decline(start, "dropped")
        # (5)
        if absorbs:
            claim()
            log.append(self.now)
            self._open(home, kind, controls[kind], event)
            return ("buffered", None)

        def claim_both():
            claim()
            log.append(self.now)

        return self.begin(start, claim_both)

    def decline(self, start, outcome, blocker=None):
        labels = tuple(event.label for event in start.events)
        self.declined.append((start.home, outcome, labels, self.now))
        return (outcome, blocker)

    def begin(self, start, claim=lambda: None):
        """(6): all is checked before anything is claimed."""
        controls = self.flows[start.home].controls
        probe = SimpleNamespace(home=start.home, kind="main", event=start.first)
        single, together = controls.get("singleton"), controls.get("together")
        blocker = self.live(probe, "singleton") if single else None
        if blocker is not None and single.get("mode", "skip") == "skip":
            return self.decline(start, "skipped", blocker.label)
        then = together.get("then", "wait") if together else "wait"
        if then == "refuse" and self.full(probe, without=blocker):
            return self.decline(start, "refused")
        if then == "join":
            run = self.live(probe, "together")
            if run is not None:
                return self._join(start, run)
        claim()
        place = False
        if blocker is not None:
            place = blocker.works and self.gate_keys(blocker) == self.gate_keys(probe)
            self.finish(blocker, "cancelled")
        run = self.create(start, place=place)
        if blocker is not None:
            self.after(blocker)
        return ("run", run.label)

    def _join(self, start, run):
        if run.events[0].root != start.first.root:
            return self.decline(start, "refused")
        if start.waiter is not None:
            run.waiters.append(start.waiter)
        return ("joined", run.label)

    # Windows and buffers

    def _open(self, home, kind, control, event):
        scope = self.scope(control, event)
        gathered = Gathered(home, kind, scope, 0)
        self.open[home, kind, scope] = gathered
        if kind == "batch":
            gathered.due = self.now + control["timeoutMs"]
            gathered.timer = self.at(gathered.due, lambda: self.fire(gathered), home)
        self._gather(gathered, control, event)

    def _gather(self, gathered, control, event):
        if gathered.kind == "batch":
            gathered.events.append(event)
            if len(gathered.events) >= control["maxSize"]:
                self.fire(gathered)
            return
        # Each new event slides the deadline and replaces the payload.
        gathered.events = [event]
        self.call_off(gathered.timer)
        gathered.due = self.now + control["periodMs"]
        gathered.timer = self.at(gathered.due, lambda: self.fire(gathered), gathered.home)

    def fire(self, gathered):
        """A window's quiet is over, a buffer is full or its time is up."""
        self.call_off(gathered.timer)
        del self.open[gathered.home, gathered.kind, gathered.scope]
        gathered.fired, gathered.shift = self.now, self.shift_of(gathered.home)
        if not self.holds(gathered):
            self.begin(Start(gathered.home, gathered.events))
            return
        if gathered.kind == "debounce":
            same = [h for h in self.held if (h.home, h.scope) == (gathered.home, gathered.scope)]
            for old in same:
                if old.kind == "debounce":
                    self.held.remove(old)
                    self.decline(Start(old.home, old.events), "superseded")
        self.held.append(gathered)

    def holds(self, gathered):
        """Whether a firing is held instead of being skipped or refused (P15, P27)."""
        controls = self.flows[gathered.home].controls
        probe = SimpleNamespace(home=gathered.home, kind="main", event=gathered.events[0])
        single, together = controls.get("singleton"), controls.get("together")
        if single and single.get("mode", "skip") == "skip" and self.live(probe, "singleton"):
            return True
        blocker = self.live(probe, "singleton") if single else None
        refuses = together and together.get("then") == "refuse"
        return bool(refuses and self.full(probe, without=blocker))

    def shift_of(self, home):
        return self.flows[home].controls.get("priority", {}).get("shiftMs", 0)

    def let_go(self, before=None):
        """Let the first firing go on that no longer is held; whether there was one.

        Args:
            before: Only one that comes to a place of its group before this run (P49).
        """
        for gathered in self.held:
            probe = SimpleNamespace(home=gathered.home, kind="main", event=gathered.events[0])
            if before is not None:
                key = self.group(probe)
                if key is None or key != self.group(before):
                    compete = self.compete(gathered.home, before.home)
                    if key is not None and compete and not self.holds(gathered):
                        # It starts as what held it ends (P15), by when it fired or as the newest.
                        self.tie("a firing of a group and a run come to another place as one")
                    continue
                if gathered.shift != self.shift_of(gathered.home):
                    self.tie("a firing has asked for its place by an order of before")
                place, own = gathered.fired - gathered.shift, self.sort(before)[0]
                if place > own:
                    continue
                if place == own and gathered.fired < self.now:
                    self.tie("a firing and a run come to a place of their group as one")
            if not self.holds(gathered):
                self.held.remove(gathered)
                made = len(self.runs)
                self.begin(Start(gathered.home, gathered.events))
                together = self.flows[gathered.home].controls.get("together", {})
                asked = together.get("then") == "refuse" and "group" in together
                if asked and len(self.runs) > made:
                    # It has the place that let it go, before the next is looked at.
                    run = list(self.runs.values())[made]
                    if run.state == "queued" and self.admit(run)[0]:
                        self.start(run, self.admit(run)[1])
                return True
        return False

    # Runs come into being

    def create(self, start, *, place=False):
        """Make a run; `place` says whether the one that ended for it leaves it its place."""
        event, waiter = start.first, start.waiter
        if waiter is not None:
            parent, attempt = waiter
            label = f"{start.home[1]} of {parent.label}/{parent.pos}/{attempt}"
        else:
            label = f"{start.home[1]}:{event.label}"
        run = Run(label, start.home, list(start.events))
        if waiter is not None:
            run.waiters.append(waiter)
            waiter[0].child = run
        self.add(run, place=place)
        return run

    def add(self, run, *, place=False):
        assert run.label not in self.runs, run.label
        run.created, run.seq = self.now, len(self.runs)
        priority = self.flows[run.home].controls.get("priority")
        if run.kind == "main" and priority:
            run.shift = priority["shiftMs"]
        self.runs[run.label] = run
        run.state = "queued"
        if place and self.first_of_local(run):
            self.start(run, None)
        self.settle()
