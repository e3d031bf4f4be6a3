"""How a run lives: it works, rests, is woken, ends (P19, P25, P37 to P44, P54)."""

from dataclasses import dataclass, field

from flow_handlers import FAILURE_MS


@dataclass
class Run:
    """A run as it must be.

    Attributes:
        label: Its name, independent of ids.
        state: `queued`, `working`, `resting` or `ended`.
        status: How it ended, or None.
        starts: When it was given to a runner, each time.
        ready: When it was first ready to start, from that start on.
        pos: The number of the operation at which it stands.
        attempt: That one's attempt.
        held: Whether its runner was told to pause in this invocation.
        exempt: Whether its workflow's budget does not hold it, until it spends again (P31).
        spent: Tokens and cents.
        cap: The cap by which it was invoked.
        asked: Whether it could have started but for places across workflows.
        waiters: Steps of other runs that wait for its end, as (run, attempt).
    """

    label: str
    home: tuple
    events: list
    kind: str = "main"
    ops: list | None = None
    state: str = "queued"
    status: str | None = None
    ended: int | None = None
    created: int = 0
    seq: int = 0
    shift: int = 0
    ready: int | None = None
    starts: list = field(default_factory=list)
    since: int = 0
    worked: int = 0
    paused: bool = False
    held: bool = False
    exempt: bool = False
    spent: tuple = (0, 0)
    cap: dict | None = None
    asks: bool = False
    asked: bool = False
    pos: int = 0
    attempt: int = 1
    timer: list | None = None
    child: "Run | None" = None
    joined: bool = False
    waiters: list = field(default_factory=list)

    def __post_init__(self):
        if self.ops is None:
            self.ops = self.event.data["do"]

    @property
    def event(self):
        return self.events[0]

    @property
    def works(self):
        return self.state == "working"


class Lives:
    """The part of the model that lets runs live."""

    def start(self, run, victim):
        """A run is given to a runner; whom it stops ends first."""
        if victim is not None:
            self.finish(victim, "cancelled")
        if run.ready is None:
            run.ready = self.sort(run)[0] + run.shift
            self.shifted(run)
            throttle = self.stated(run, "throttle")
            if throttle:
                self.outdate(run)
                allowed = self.allowed(run)
                # Within the millisecond that a clock can tell the exact time counts.
                exact = allowed if allowed is not None and self.now - allowed < 1 else self.now
                self.last_starts[run.home, self.scope_of(run, "throttle")] = exact
        run.state, run.since, run.held, run.asked = "working", self.now, False, False
        run.starts.append(self.now)
        run.cap = self.stated(run, "cap")
        op = run.ops[run.pos][0] if run.pos < len(run.ops) else None
        if op in ("work", "final") or (op == "ai" and not self.capped(run)):
            self.go_on(run)
        else:
            started = len(run.starts)
            self.soon(lambda: self.works_still(run, started) and self.go_on(run))
        if victim is not None:
            self.after(victim)

    @staticmethod
    def works_still(run, started):
        return run.works and len(run.starts) == started

    def go_on(self, run):
        """Its code goes on, until it rests or ends."""
        if run.pos == len(run.ops):
            self.end(run, "completed")
            return
        op = run.ops[run.pos]
        if op[0] == "call" and not self.flows[run.home].calls(op[1]):
            run.pos += 1
            self.go_on(run)
            return
        span, started = self.flows[run.home].span, len(run.starts)
        if op[0] == "ai" and self.capped(run):
            self.soon(lambda: self.works_still(run, started) and self.end(run, "failed"))
        elif op[0] in ("work", "final", "ai"):
            run.timer = self.at(self.now + span(op[1]), lambda: self.worked(run, op), run.home)
        elif op[0] == "sleep":
            run.timer = self.at(self.now + span(op[1]), lambda: self.brought(run), run.home)
            self.rest(run)
        elif op[0] == "wait":
            self.waits.setdefault(op[1], []).append(run)
            run.timer = self.at(self.now + span(op[2]), lambda: self.timed_out(run), run.home)
            self.rest(run)
        elif op[0] == "call":
            self.call(run, op)
            if run.status is None:
                self.rest(run)
        else:
            self.send(run, op)

    def rest(self, run):
        """It waits for what the engine brings, and holds nothing meanwhile."""
        run.worked += self.now - run.since
        run.state = "resting"
        self.settle()

    def worked(self, run, op):
        """A step's code is over."""
        if op[0] == "ai":
            self.used(run, op)
        if op[0] == "final":
            self.end(run, "failed")
        elif run.attempt <= op[-1]:
            self.attempt_failed(run, lambda: self.wake(run))
        else:
            run.pos, run.attempt = run.pos + 1, 1
            if run.paused or run.held or self.serve:
                self.hand_back(run)
            else:
                self.go_on(run)

    def hand_back(self, run):
        """Its invocation is over: it queues to go on, unless it is paused."""
        run.worked += self.now - run.since
        run.state = "queued"
        if not run.paused and self.first_of_local(run):
            self.start(run, None)  # what it has of places across workflows it keeps
        self.settle()

    def attempt_failed(self, run, again):
        flow = self.flows[run.home]
        if run.attempt >= flow.attempts:
            self.end(run, "failed")
            return
        run.attempt += 1
        run.timer = self.at(self.now + flow.backoff, again, run.home)
        if run.state == "working":
            self.rest(run)

    def brought(self, run):
        """The engine brings an operation to its end."""
        self.call_off(run.timer)
        self.leave(run)
        run.pos, run.attempt, run.child = run.pos + 1, 1, None
        self.wake(run)

    def timed_out(self, run):
        self.brought(run)

    def leave(self, run):
        for waiting in self.waits.values():
            if run in waiting:
                waiting.remove(run)

    def wake(self, run):
        run.state = "queued"
        self.settle()

    # Other runs

    def send(self, run, op):
        step = f"{run.label}/{run.pos}"
        run.pos += 1
        started = len(run.starts)
        self.record(self.event(f"{op[2]['n']} by {step}", op[1], op[2], run))
        self.soon(lambda: self.works_still(run, started) and self.went_on(run))

    def went_on(self, run):
        if run.paused or run.held or self.serve:
            self.hand_back(run)
        else:
            self.go_on(run)

    def call(self, run, op):
        """Ask for a child; what declines it fails the step for good (P54)."""
        home = tuple(op[1].split("/"))
        label = f"{op[2]['n']} of {run.label}/{run.pos}/{run.attempt}"
        start = self.start_of(home, self.event(label, home[1], op[2], run), run)
        outcome, found = self.take(start, absorb=False)
        if outcome == "run":
            run.child, run.joined = self.runs[found], False
        elif outcome == "joined":
            run.child, run.joined = self.runs[found], True
        else:
            self.end(run, "failed")

    def child_ended(self, run, attempt, child):
        if run.status is not None or run.child is not child or run.attempt != attempt:
            return
        run.child = None
        if child.status == "completed":
            self.brought(run)
        else:
            self.attempt_failed(run, lambda: self.call_again(run))

    def call_again(self, run):
        """A backoff is over; a paused run asks once it is resumed (P44)."""
        if run.paused:
            run.asks = True
        else:
            self.call(run, run.ops[run.pos])

    # Ends

    def cancel(self, run):
        self.end(run, "cancelled")

    def end(self, run, status):
        self.finish(run, status)
        if run.waiters and self.queued() and self.gate_keys(run) != (None, False):
            self.tie("a child's end frees a place and makes its parent ready")
        self.settle()
        self.after(run)

    def finish(self, run, status):
        """It has ended: nothing of it is held any more."""
        if run.works:
            run.worked += self.now - run.since
        run.status, run.ended, run.state = status, self.now, "ended"
        self.call_off(run.timer)
        self.leave(run)
        if status == "failed" and run.kind == "main" and self.flows[run.home].handles:
            work = [["work", FAILURE_MS, 0]]
            failure = Run(f"{run.label}!failure", run.home, run.events, "onFailure", work)
            settling, self.settling = self.settling, True
            self.add(failure)
            self.settling = settling

    def after(self, run):
        """Whom its end concerns."""
        child = run.child
        if run.status == "cancelled" and child is not None and not run.joined:
            if child.status is None:
                self.end(child, "cancelled")
        for waiter, attempt in run.waiters:
            self.child_ended(waiter, attempt, run)

    # Pausing

    def pause(self, run):
        run.paused, run.asked = True, False
        if run.works:
            run.held = True

    def resume(self, run):
        run.paused, run.exempt = False, run.exempt or self.rests(run)
        if run.asks:
            run.asks = False
            self.call(run, run.ops[run.pos])
        self.settle()
