"""A reference model of runs, written from the SPEC and the seeds, not from the engine.

A *scenario* is data: workflows as lists of operations, and a driver's actions in
time. `handler` interprets operations as user code; `Model` says what must come out:
each run's status, output and end, each step's attempts and times, and each time that
user code runs. Durations are multiples of `GRAIN` and the i-th action falls i
milliseconds beside them, so that what different actions cause never falls together.
"""

import asyncio
import heapq
import json
from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from duraton import NonRetriableError, RetryConfig, define_workflow
from duraton.context import current_step

GRAIN = 100
"""Milliseconds."""


class Policy(NamedTuple):
    max_attempts: int = 1
    backoff: str = "fixed"
    initial: int = 1_000
    most: int = 30_000

    def delay(self, attempt):
        """The delay after a failed attempt (retries seed, P33)."""
        shape = {
            "fixed": self.initial,
            "linear": self.initial * attempt,
            "exponential": self.initial * 2 ** (attempt - 1),
        }[self.backoff]
        return min(self.most, shape)

    def config(self):
        return RetryConfig(
            max_attempts=self.max_attempts,
            backoff=self.backoff,
            initial_delay_ms=self.initial,
            max_delay_ms=self.most,
        )


class Run(NamedTuple):
    """A step of user code: fails in its first attempts, each takes some time."""

    id: str
    failures: int = 0
    final: bool = False
    takes: int = 0
    policy: Policy | None = None


class Sleep(NamedTuple):
    id: str
    ms: int


class Wait(NamedTuple):
    id: str
    match: int
    timeout: int


class Invoke(NamedTuple):
    id: str
    workflow: str
    policy: Policy | None = None


class Send(NamedTuple):
    id: str
    name: str


class Gather(NamedTuple):
    branches: tuple


class Throw(NamedTuple):
    """The handler's own code raises in its first attempts."""

    times: int


class Workflow(NamedTuple):
    name: str
    body: tuple
    policy: Policy | None = None
    on_failure: tuple | None = None


# As user code ---------------------------------------------------------------------


def definitions(workflows, clock):
    """The workflows as the SDK takes them."""
    found = []
    for workflow in workflows:
        options = {}
        if workflow.policy is not None:
            options["retry"] = workflow.policy.config()
        if workflow.on_failure is not None:
            options["on_failure"] = handler(workflow.on_failure, clock)
        found.append(define_workflow(workflow.name, handler(workflow.body, clock), **options))
    return found


def handler(body, clock):
    async def handle(ctx):
        return await values(ctx, body, clock)

    return handle


async def values(ctx, body, clock):
    return [await value(ctx, op, clock) for op in body]


async def value(ctx, op, clock):
    own = {"retry": op.policy.config()} if getattr(op, "policy", None) is not None else {}
    match op:
        case Run():
            return await ctx.step.run(op.id, code(op, clock), **own)
        case Sleep():
            return await ctx.step.sleep(op.id, op.ms)
        case Wait():
            got = await ctx.step.wait_for_event(
                op.id, "signal", match={"n": op.match}, timeout=op.timeout
            )
            return "timeout" if got is None else got.data["n"]
        case Invoke():
            return await ctx.step.invoke(op.id, op.workflow, {}, **own)
        case Send():
            await ctx.step.send_event(op.id, op.name, {"by": ctx.run.id})
            return "sent"
        case Gather():
            branches = [values(ctx, branch, clock) for branch in op.branches]
            return list(await asyncio.gather(*branches))
        case Throw():
            if ctx.attempt <= op.times:
                raise RuntimeError(f"thrown in attempt {ctx.attempt}")
            return "calm"
    raise AssertionError(op)


def code(op, clock):
    async def work():
        attempt = current_step().attempt
        if op.takes:
            await clock().sleep(op.takes / 1000)
        if attempt <= op.failures:
            error = NonRetriableError if op.final else ValueError
            raise error(f"{op.id} fails in attempt {attempt}")
        return op.id

    return work


# What must come out -----------------------------------------------------------------


@dataclass
class Expected:
    """A run as it must be.

    Attributes:
        label: Its name, independent of ids.
        status: `completed`, `failed`, `cancelled`, or None while it goes on.
        output: What it returned.
        error: Why it failed.
        ended: When, milliseconds.
        steps: By id: the attempt that succeeded and when.
        failed: By id and attempt: when.
        handing: Whether its runner begins nothing new for it until what executes has ended:
            it was paused meanwhile, and may have been resumed since (P44).
    """

    label: str
    workflow: Workflow
    kind: str = "main"
    status: str | None = None
    output: object = None
    error: str | None = None
    ended: int | None = None
    steps: dict = field(default_factory=dict)
    failed: dict = field(default_factory=dict)
    paused: bool = False
    handing: bool = False
    attempt: int = 1
    parent: tuple | None = None
    children: list = field(default_factory=list)
    blocked: list = field(default_factory=list)
    executing: list = field(default_factory=list)
    lost: list = field(default_factory=list)
    waits: list = field(default_factory=list)


class Model:
    """Simulates a scenario.

    Attributes:
        now: Milliseconds since the start.
        runs: Every run that must exist, by label.
        executions: (label, step, attempt, at), as `engine.executions` must be.
    """

    def __init__(self, workflows):
        self.now = 0
        self.runs = {}
        self.executions = Counter()
        self._workflows = {workflow.name: workflow for workflow in workflows}
        self._heap = []
        self._number = 0
        self._up = True
        self._connected = True
        self._due_while_down = []
        self._late = []
        self._deduped = set()
        self._labels = Counter()

    # Time

    def at(self, due, action):
        """Do something at a time."""
        self._number += 1
        heapq.heappush(self._heap, (due, self._number, action))

    def timer(self, due, action):
        """Do something at a time at which the engine must be there."""

        def fire():
            if self._up:
                action()
            else:
                self._due_while_down.append(action)

        self.at(due, fire)

    def advance(self, to):
        while self._heap and self._heap[0][0] <= to:
            due, _, action = heapq.heappop(self._heap)
            self.now = max(self.now, due)
            action()
        self.now = to

    # What people do

    def post(self, events):
        for name, data, dedupe in events:
            if dedupe is not None:
                if dedupe in self._deduped:
                    continue
                self._deduped.add(dedupe)
            self._event(name, data, f"{name}:{data}")

    def _event(self, name, data, label):
        if name == "signal":
            for run in list(self.runs.values()):
                for wait in list(run.waits):
                    if wait[0] == data and wait in run.waits:
                        run.waits.remove(wait)
                        wait[1](data)
        workflow = self._workflows.get(name)
        if workflow is not None:
            self._create(workflow, label)

    def pause(self, label):
        run = self.runs[label]
        if run.status is None:
            run.paused = True
            run.handing = self._connected and bool(run.executing)

    def resume(self, label):
        run = self.runs[label]
        if run.status is None and run.paused:
            run.paused = False
            self._flush(run)

    def cancel(self, label):
        run = self.runs[label]
        if run.status is None:
            self._cancel(run)

    def _cancel(self, run):
        self._end(run, "cancelled")
        for child in run.children:
            if child.status is None:
                self._cancel(child)

    def down(self):
        """The engine dies."""
        self._up = False

    def back(self, runner_died):
        """It comes back; what fell due meanwhile happens now."""
        self._up = True
        due, self._due_while_down = self._due_while_down, []
        for action in due:
            action()
        self._tell()
        if runner_died:
            self._execute_again()

    def runner_dies(self):
        """Whatever it executes is lost; another one is there when the engine is."""
        for run in self.runs.values():
            run.lost, run.executing, run.handing = [*run.lost, *run.executing], [], False

    def _execute_again(self):
        for run in list(self.runs.values()):
            lost, run.lost = run.lost, []
            for execution in lost:
                self._go_on(run, lambda r=run, e=execution: self._try(r, *e))
            self._flush(run)

    def _tell(self):
        late, self._late = self._late, []
        for action in late:
            action()

    def disconnect(self):
        self._connected = False

    def connect(self):
        self._connected = True
        self._tell()
        for run in list(self.runs.values()):
            run.handing |= run.paused and bool(run.executing)
            self._flush(run)

    # Runs

    def _go_on(self, run, action, *, alone=False):
        """Let a run go on, once it may; `alone`: the engine needs no code of its for it."""
        if run.status is not None:
            return
        if run.paused or not self._connected or (run.handing and not alone):
            run.blocked.append((action, alone))
        else:
            action()

    def _flush(self, run):
        blocked, run.blocked = run.blocked, []
        for action, alone in blocked:
            self._go_on(run, action, alone=alone)

    def _create(self, workflow, label, kind="main", parent=None):
        run = Expected(label, workflow, kind, parent=parent)
        assert label not in self.runs, label
        self.runs[label] = run
        body = workflow.on_failure if kind == "onFailure" else workflow.body
        self._go_on(
            run, lambda: self._body(run, body, [], lambda out: self._end(run, "completed", out))
        )
        return run

    def _body(self, run, body, done, then):
        if run.status is not None:
            return
        if len(done) == len(body):
            then(list(done))
            return
        op = body[len(done)]

        def next_(out):
            if run.status is None:
                self._body(run, body, [*done, out], then)

        self._op(run, op, next_)

    def _op(self, run, op, then):
        match op:
            case Run():
                self._try(run, op, 1, then)
            case Sleep():
                self.timer(self.now + op.ms, lambda: self._complete(run, op.id, 1, None, then))
            case Wait():
                self._wait(run, op, then)
            case Invoke():
                self._invoke(run, op, 1, then)
            case Send():
                self._complete(run, op.id, 1, "sent", then)
                self._event(op.name, None, f"{op.name} by {run.label}/{op.id}")
            case Gather():
                self._gather(run, op, then)
            case Throw():
                self._throw(run, op, then)

    def _complete(self, run, step, attempt, out, then):
        if run.status is not None:
            return
        run.steps[step] = (attempt, self.now)
        self._go_on(run, lambda: then(out))

    def _policy(self, run, op):
        return op.policy or run.workflow.policy or Policy()

    def _try(self, run, op, attempt, then):
        shown = f"onFailure/{op.id}" if run.kind == "onFailure" else op.id
        self.executions[self._shown(run), shown, attempt, self.now / 1000] += 1
        execution = [op, attempt, then]
        run.executing.append(execution)

        def ended():
            if not any(each is execution for each in run.executing):
                return  # it died with its process
            if not (self._up and self._connected):
                self._late.append(ended)  # given again once there is somebody
                return
            run.executing = [each for each in run.executing if each is not execution]
            over = run.handing and not run.executing
            run.handing &= not over
            self._answered(run, op, attempt, then)
            if over:
                self._flush(run)

        if op.takes:
            self.at(self.now + op.takes, ended)
        else:
            ended()

    @staticmethod
    def _shown(run):
        return run.label.removesuffix("!failure")

    def _answered(self, run, op, attempt, then):
        if run.status is not None:
            return
        if attempt > op.failures:
            self._complete(run, op.id, attempt, op.id, then)
            return
        message = f"{op.id} fails in attempt {attempt}"
        self._failed(
            run, op, attempt, message, op.final, lambda: self._try(run, op, attempt + 1, then)
        )

    def _failed(self, run, op, attempt, message, final, again, *, alone=False):
        run.failed[op.id, attempt] = self.now
        policy = self._policy(run, op)
        if final or attempt >= policy.max_attempts:
            self._end(run, "failed", error=message)
            return
        due = self.now + policy.delay(attempt)
        self.timer(due, lambda: self._go_on(run, again, alone=alone))

    def _wait(self, run, op, then):
        over = []

        def got(out):
            if not over and run.status is None:
                over.append(1)
                self._complete(run, op.id, 1, out, then)

        wait = (op.match, got)
        run.waits.append(wait)

        def timed_out():
            if wait in run.waits:
                run.waits.remove(wait)
            got("timeout")

        self.timer(self.now + op.timeout, timed_out)

    def _invoke(self, run, op, attempt, then):
        label = f"{op.workflow} of {run.label}/{op.id}/{attempt}"

        def ended(child):
            if run.status is not None:
                return
            if child.status == "completed":
                self._complete(run, op.id, attempt, child.output, then)
                return
            self._failed(
                run,
                op,
                attempt,
                child.error,
                False,
                lambda: self._invoke(run, op, attempt + 1, then),
                alone=True,
            )

        child = self._create(self._workflows[op.workflow], label, parent=(ended,))
        run.children.append(child)

    def _gather(self, run, op, then):
        outs = [None] * len(op.branches)
        left = [len(op.branches)]

        def done(place, out):
            outs[place] = out
            left[0] -= 1
            if not left[0]:
                then(outs)

        for place, branch in enumerate(op.branches):
            self._body(run, branch, [], lambda out, p=place: done(p, out))

    def _throw(self, run, op, then):
        if run.attempt > op.times:
            then("calm")
            return
        policy = run.workflow.policy or Policy()
        message = f"thrown in attempt {run.attempt}"
        if run.attempt >= policy.max_attempts:
            self._end(run, "failed", error=message)
            return
        due = self.now + policy.delay(run.attempt)
        run.attempt += 1
        self.timer(due, lambda: self._go_on(run, lambda: self._throw(run, op, then)))

    def _end(self, run, status, output=None, error=None):
        if run.status is not None:
            return
        run.status, run.output, run.error, run.ended = status, output, error, self.now
        run.waits.clear()
        run.blocked.clear()
        if status == "failed" and run.workflow.on_failure is not None and run.kind == "main":
            self._create(run.workflow, f"{run.label}!failure", "onFailure")
        if run.parent is not None:
            run.parent[0](run)


def plain(value):
    """A value as it is stored."""
    return json.dumps(value, separators=(",", ":"))
