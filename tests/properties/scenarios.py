"""Random scenarios, run on the engine and on the model, and compared."""

import asyncio
import json
from collections import Counter
from dataclasses import dataclass, field

import model
from crash_points import Drive, Labels, Stop, Stopping, shown
from hypothesis import strategies as st
from model import GRAIN, Gather, Invoke, Model, Policy, Run, Send, Sleep, Throw, Wait, Workflow

from duraton.testing import Engine
from duraton_api.verification import verify_cluster
from duraton_schemas.records import journal as facts

NAMES = ("red", "green", "blue")
CHILDREN = ("leaf", "twig")
SIGNALS = 3

policies = st.builds(
    Policy,
    max_attempts=st.integers(1, 4),
    backoff=st.sampled_from(("fixed", "linear", "exponential")),
    initial=st.sampled_from((0, 500, 1_000)),
    most=st.sampled_from((1_000, 30_000)),
)
APART = {"y": 7, "z": 13}
"""Milliseconds that a failing step of a branch takes besides."""
spans = st.integers(0, 40).map(lambda n: n * GRAIN)


@st.composite
def bodies(draw, prefix, *, size=4, depth=1, children=()):
    """Operations whose step ids differ."""
    ops = []
    for place in range(draw(st.integers(0, size))):
        step = f"{prefix}{place}"
        kinds = ["run", "run", "sleep", "wait", "send"]
        if children:
            kinds.append("invoke")
        if depth:
            kinds.append("gather")
        kind = draw(st.sampled_from(kinds))
        own = st.none() | policies
        if kind == "run":
            failures = draw(st.sampled_from((0, 0, 0, 1, 2, 3)))
            takes = draw(st.sampled_from((0, 0, GRAIN * 3, GRAIN * 11)))
            if failures:
                # Which of two branches that fail in one instant comes first is nobody's promise.
                takes += APART.get(prefix[-1], 0)
            ops.append(Run(step, failures, draw(st.booleans()) and failures > 0, takes, draw(own)))
        elif kind == "sleep":
            ops.append(Sleep(step, draw(spans)))
        elif kind == "wait":
            ops.append(Wait(step, draw(st.integers(0, SIGNALS - 1)), GRAIN + draw(spans)))
        elif kind == "send":
            ops.append(Send(step, "heard"))
        elif kind == "invoke":
            ops.append(Invoke(step, draw(st.sampled_from(children)), draw(own)))
        else:
            branches = [
                draw(bodies(f"{step}{letter}", size=2, depth=depth - 1, children=children))
                for letter in "xyz"[: draw(st.integers(1, 3))]
            ]
            ops.append(Gather(tuple(branches)))
    return tuple(ops)


@st.composite
def workflow_sets(draw):
    found = []
    for name in CHILDREN:
        body = draw(bodies("c", size=2, depth=0))
        found.append(Workflow(name, body, draw(st.none() | policies)))
    for name in NAMES:
        body = list(draw(bodies("s", children=CHILDREN)))
        if draw(st.integers(0, 4)) == 0:
            body.insert(draw(st.integers(0, len(body))), Throw(draw(st.integers(1, 2))))
        failure = draw(st.none() | bodies("f", size=2, depth=0))
        found.append(Workflow(name, tuple(body), draw(st.none() | policies), failure))
    found.append(Workflow("heard", (Run("ear"),)))
    return tuple(found)


@st.composite
def actions(draw):
    """What people do, and what breaks, in order; each with the time until the next."""
    kind = draw(
        st.sampled_from(
            (
                "post",
                "post",
                "post",
                "signal",
                "signal",
                "pause",
                "resume",
                "cancel",
                "crash",
                "redeploy",
                "disconnect",
            )
        )
    )
    wait = GRAIN * draw(st.integers(0, 30))
    if kind == "post":
        names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=3))
        dedupe = draw(st.none() | st.integers(0, 2))
        return (kind, wait, tuple(names), dedupe)
    if kind == "signal":
        return (kind, wait, draw(st.integers(0, SIGNALS - 1)))
    if kind == "crash":
        down = GRAIN * draw(st.sampled_from((0, 0, 7, 31)))
        return (kind, wait, down, draw(st.booleans()))
    if kind == "disconnect":
        return (kind, wait, GRAIN * draw(st.integers(0, 40)))
    return (kind, wait, draw(st.integers(0, 9)))


stops = st.none() | st.tuples(
    st.sampled_from(
        (
            "prepare:decided",
            "commit:before",
            "commit:after",
            "finish:committed",
            "finish:kept",
            "finish:shown",
            "finish:done",
            "doubt:before",
            "doubt:after",
        )
    ),
    st.integers(1, 60),
    st.none() | st.sampled_from(("open:fenced", "open:replayed", "open:took")),
)


@dataclass
class Found:
    """A run as the journal tells it."""

    steps: dict = field(default_factory=dict)
    failed: dict = field(default_factory=dict)
    ended: tuple | None = None


def before(times, end):
    """Those entries that are not of a last instant; values are times, or end with one."""
    return {
        key: value
        for key, value in times.items()
        if (value[-1] if isinstance(value, tuple) else value) != end
    }


class Both:
    """A scenario on the engine and on the model, side by side."""

    def __init__(self, workflows, partitions, stop, transport="connect", order=None):
        self.order = order
        self.model = Model(workflows)
        self.workflows = workflows
        point = None if stop is None else Stop(stop[0], stop[1], False, stop[2])
        self.stopping = Stopping(point, 1)
        self.engine = Engine(
            *model.definitions(workflows, lambda: self.engine.clock),
            partitions=partitions,
            transport=transport,
            **self.stopping.options,
        )
        self.labels = []

    async def go(self, given):
        async with self.engine:
            if self.order is not None:
                shuffle_turns(self.engine.host, self.order)
            self.drive = Drive(self.engine, self.stopping)
            self.stopping.armed = True
            for number, action in enumerate(given):
                await self.act(number, action)
                await self.advance(action[1] + 1)
            for place, _ in enumerate(self.labels):
                await self.act(0, ("resume", 0, place))
            await self.advance(600_000)
            self.stopping.armed = False
            await self.compare()

    async def advance(self, ms):
        self.model.advance(self.model.now + ms)
        await self.drive.advance(ms)

    async def act(self, number, action):
        kind, at = action[0], self.model
        if kind == "post":
            _, _, names, dedupe = action
            events = [
                (name, number * 10 + place, None if dedupe is None else f"d{dedupe}-{place}")
                for place, name in enumerate(names)
            ]
            before = set(at.runs)
            at.post(events)
            self.labels.extend(
                f"{name}:{n}" for name, n, _ in events if f"{name}:{n}" in set(at.runs) - before
            )
            await self.drive.post(
                [
                    {"name": name, "data": {"n": n}, "dedupeId": dedupe or f"once-{n}"}
                    for name, n, dedupe in events
                ]
            )
        elif kind == "signal":
            at.post([("signal", action[2], None)])
            await self.drive.post(
                [{"name": "signal", "data": {"n": action[2]}, "dedupeId": f"signal-{number}"}]
            )
        elif kind in ("pause", "resume", "cancel"):
            if self.labels:
                label = self.labels[action[2] % len(self.labels)]
                getattr(at, kind)(label)
                await self.drive.act_on(self.name_of(label), kind)
        elif kind == "crash":
            await self.crash(action[2], action[3])
        elif kind == "redeploy":
            await self.drive.insist(
                lambda: self.engine.register(
                    model.definitions(self.workflows, lambda: self.engine.clock)
                )
            )
        elif kind == "disconnect":
            await self.away(action[2])

    async def crash(self, down, runner):
        at = self.model
        at.down()
        if runner:
            at.runner_dies()
        at.advance(at.now + down)
        at.back(runner)
        armed, self.stopping.armed = self.stopping.armed, False
        await self.engine.crash(down, runner=runner)
        self.stopping.armed = armed

    async def away(self, ms):
        """The runner's connection is cut for a while that is shorter than the silence."""
        if self.stopping.stop is not None:
            return  # an engine that came back would be connected with at once
        self.model.disconnect()
        self.engine.host.disconnect()
        await self.advance(ms)
        self.model.connect()
        if self.engine.host.pipe is None:
            self.engine.host.connect()
        await self.drive.advance(0)

    def name_of(self, label):
        name, _, n = label.partition(":")
        return f'{name}:{{"n":{n}}}'

    async def compare(self):
        engine = self.engine
        report = verify_cluster(engine.core.log)
        assert report.ok, report.problems
        labels = Labels(engine.core.log)
        names = {run: self.plain_name(labels, run) for run in labels.names}
        await shown(engine, names)
        start = engine.clock.start_ms
        found = {name: Found() for name in names.values()}
        for fact in labels.facts:
            run = found.get(names.get(getattr(fact, "run", None)))
            if isinstance(fact, facts.StepCompleted):
                run.steps[fact.step] = (fact.attempt, fact.at - start)
            elif isinstance(fact, facts.StepFailed):
                run.failed[fact.step, fact.attempt] = fact.at - start
            elif isinstance(fact, facts.RunEnded):
                output = json.loads(fact.output) if fact.output is not None else None
                error = fact.error.message if fact.status == "failed" else None
                run.ended = (fact.status, output, error, fact.at - start)
        executions = Counter(
            (names[run], step, attempt, at) for run, step, attempt, at in engine.executions
        )
        self.judge(found, executions)

    def judge(self, found, executions):
        expected = self.model.runs
        # What begins in the very instant in which its run fails may be or not be.
        last = {
            name: run.ended
            for name, run in expected.items()
            if run.status in ("failed", "cancelled")
        }
        doubtful = {
            name for name in found.keys() ^ expected.keys() if self.begun_at_the_end(name, last)
        }
        assert set(found) - doubtful == set(expected) - doubtful, (
            f"lost {set(expected) - set(found)}, out of the blue {set(found) - set(expected)}"
        )
        for name in found.keys() & expected.keys():
            one, run = found[name], expected[name]
            ended = None if run.status is None else (run.status, run.output, run.error, run.ended)
            assert one.ended == ended, f"{name}: ended {one.ended}, not {ended}"
            at = last.get(name)
            steps, failed = before(one.steps, at), before(one.failed, at)
            assert steps == before(run.steps, at), f"{name}: steps {one.steps}, not {run.steps}"
            assert failed == before(run.failed, at), (
                f"{name}: failed {one.failed}, not {run.failed}"
            )
        wanted = self.model.executions
        for odd in (executions - wanted) + (wanted - executions):
            name, step, _, at = odd
            name = f"{name}!failure" if step.startswith("onFailure/") else name
            if name in doubtful or last.get(name) == round(at * 1000):
                continue
            raise AssertionError(
                f"{odd}: executed {executions[odd]} times, not {wanted[odd]}; ended {last.get(name)}"
            )

    def begun_at_the_end(self, name, last):
        # "child of PARENT/step/attempt", "workflow by PARENT/step"
        links = [(name.find(link), link) for link in (" of ", " by ") if link in name]
        if not links:
            return False
        link = min(links)[1]
        parent = name.partition(link)[2].rsplit("/", 2 if link == " of " else 1)[0]
        return parent in last or self.begun_at_the_end(parent, last)

    def plain_name(self, labels, run):
        made = labels.created[run]
        if made.failed_run is not None:
            return f"{self.plain_name(labels, made.failed_run)}!failure"
        if made.parent is not None:
            parent = self.plain_name(labels, made.parent)
            return f"{made.workflow} of {parent}/{made.parent_step}/{made.parent_attempt}"
        event = labels.event_of(made)
        data = json.loads(event.data)
        if "by" in data:
            by, step, _ = event.id.split("/")
            return f"{event.name} by {self.plain_name(labels, by)}/{step}"
        return f"{event.name}:{data['n']}"


def shuffle_turns(host, order):
    """Let partitions take their turns in an order that is drawn anew each time.

    Some take several before others take one, so that messages between them are late.
    """

    def turn():
        if not host.alive:
            return False
        processors = list(host.core.processors)
        order.shuffle(processors)
        few = processors[: order.randint(1, len(processors))]
        if any(processor.turn() for processor in few if order.random() < 0.7):
            return True
        return any(processor.turn() for processor in processors)

    host.turn = turn


def run_scenario(workflows, given, partitions=1, stop=None, transport="connect", order=None):
    both = Both(workflows, partitions, stop, transport, order)
    asyncio.run(both.go(given))
    return both
