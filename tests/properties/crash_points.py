"""Stops an engine at a numbered point, lets it come back, and compares the end (DESIGN 11.3).

A *point* is a place in `PartitionProcessor` or in a commit of the log; the k-th time
that it is passed, the process dies there, or the commit ends in doubt. The end of a
program must be that of a run in which nothing happened: outcomes, their times, the
steps with their attempts, the state, the view, and how often user code ran.
"""

import asyncio
import json
from collections import Counter
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from duraton.testing import Engine
from duraton.testing.engine import RefusedError
from duraton_api.errors import AnswerUnknownError
from duraton_api.verification import verify_cluster
from duraton_api.view.view import View
from duraton_engine.settings import Settings
from duraton_schemas.codec import Codec
from duraton_schemas.records import journal as facts
from duraton_streams.errors import DoubtError
from duraton_streams.logs.base import JOURNAL
from duraton_streams.partition.settings import ProcessorSettings
from duraton_streams.state.memory import MemoryStore

KILLS = (
    "prepare:decided",
    "commit:before",
    "commit:after",
    "finish:committed",
    "finish:kept",
    "finish:shown",
    "finish:done",
)
DOUBTS = ("doubt:before", "doubt:after")
OPENS = ("open:fenced", "open:replayed", "open:took")

CODEC = Codec()


class Killed(BaseException):
    """The process died here."""


@dataclass(frozen=True)
class Stop:
    """Where to stop.

    Attributes:
        point: One of the names above.
        k: The how-manieth time.
        runner: Whether the runner's process dies with the engine.
        again: A point of the recovery that follows at which it dies once more.
    """

    point: str
    k: int
    runner: bool = False
    again: str | None = None


@dataclass
class Stopping:
    """Counts points while it is armed, and stops at one of them.

    Args:
        stop: Where; None to count only.
        keep: Facts after which a partition writes its state.
    """

    stop: Stop | None
    keep: int
    armed: bool = False
    dying: bool = False
    counts: Counter = field(default_factory=Counter)
    stores: dict = field(default_factory=dict)
    crashes: int = 0
    ids: Any = field(default_factory=count)
    again: str | None = None

    def passed(self, point):
        if not self.armed:
            return
        if self.again is not None and point == self.again:
            self.again = None
            raise Killed(point)
        self.counts[point] += 1
        stop = self.stop
        if stop is not None and point == stop.point and self.counts[point] == stop.k:
            if point.startswith("doubt"):
                self.crashes += 1
                self.again = stop.again
                raise DoubtError("it is not known whether it was written")
            raise Killed(point)

    def faults(self, point, partition, records):
        if point == "before_commit":
            self.passed("commit:before")
            self.passed("doubt:before")
        else:
            self.passed("commit:after")
            self.passed("doubt:after")

    def store(self, partition):
        """The engine starts: its stores hold what the last one left."""
        made = self.stores[partition] = Surviving(self.stores.get(partition))
        return made

    def opened(self, core):
        # The same ids in each run of a program, so that the same POSTs meet the same partitions.
        core.new_id = lambda: f"id-{next(self.ids)}"
        for processor in core.processors:
            processor.points = self.passed

    @property
    def options(self):
        """What the engine is made with."""
        return {
            "faults": self.faults,
            "opened": self.opened,
            "make_store": self.store,
            "processor": ProcessorSettings(keep_facts=self.keep),
            "shadow": True,
        }


class Surviving(MemoryStore):
    """A store whose rows outlive its process; a dead process writes no more."""

    def __init__(self, old):
        super().__init__()
        self.dead = False
        if old is not None:
            old.dead = True
            self._rows.update(old._rows)

    def write(self, puts, deletes):
        if not self.dead:
            super().write(puts, deletes)


class Drive:
    """Sends, acts and lets time pass, in spite of crashes."""

    def __init__(self, engine, stopping):
        self.engine = engine
        self.stopping = stopping
        self._sent = 0
        host = engine.host
        self._turn, host.turn = host.turn, self._guarded
        self._task = self._crashing = None
        self.errors = []

    def _guarded(self):
        if self.stopping.dying:
            return True
        crash = self._crashing
        if crash is not None and not crash.done() and asyncio.current_task() is not crash:
            return True  # whoever lets time pass waits until the engine is back
        try:
            return self._turn()
        except Killed:
            self.stopping.dying = True
            self.stopping.crashes += 1
            self._task = asyncio.ensure_future(self._crash())
            return True

    async def _crash(self):
        stopping, host = self.stopping, self.engine.host
        stopping.again = stopping.stop.again
        while True:
            for processor in host.core.processors:
                processor.shadow = None
            for store in stopping.stores.values():
                store.dead = True
            host.alive = True
            crash = asyncio.ensure_future(host.crash(0, runner=stopping.stop.runner))
            self._crashing = crash
            try:
                # Recovery is inline in it; once it is up, turns are taken again.
                stopping.dying = False
                await crash
            except Killed:
                stopping.dying = True
                stopping.crashes += 1
                continue
            except BaseException as error:
                self.errors.append(error)
                raise
            return

    async def send(self, name, data, dedupe=None):
        self._sent += 1
        dedupe = dedupe or f"sent-{self._sent}"
        await self.insist(lambda: self.engine.send(name, data, dedupe_id=dedupe))

    async def send_many(self, events):
        given = []
        for name, data in events:
            self._sent += 1
            given.append({"name": name, "data": data, "dedupeId": f"sent-{self._sent}"})
        await self.insist(lambda: self.engine.send_many(given))

    async def post(self, events):
        await self.insist(lambda: self.engine.send_many(events))

    async def act_on(self, name, act):
        run = Labels(self.engine.core.log).runs[name]
        await self.insist(lambda: self.engine.act(run, act))

    async def act(self, workflow, n, act):
        run = self.find(workflow, n)
        await self.insist(lambda: self.engine.act(run, act))

    def find(self, workflow, n):
        for label, run in Labels(self.engine.core.log).runs.items():
            if label.startswith(f"{workflow}:") and f'"n":{n}' in label:
                return run
        raise KeyError((workflow, n))

    async def replay(self, workflow, n, dedupe, **details):
        run = self.find(workflow, n)
        act = "retry-from-step" if details else "replay"
        await self.insist(lambda: self.engine.act(run, act, dedupe_id=dedupe, **details))

    async def ceiling(self, ceiling):
        await self.insist(lambda: self.engine.set_ceiling(ceiling))

    async def bulk(self, act, **filters):
        """A careful caller looks whether the job is there before asking again."""

        async def ask():
            if act not in {job.act for job in await self.engine.jobs()}:
                await self.engine.bulk(act, **filters)

        await self.insist(ask)

    async def insist(self, ask):
        while True:
            try:
                await ask()
            except (ConnectionError, AnswerUnknownError, TimeoutError):
                await self.up()
            except RefusedError as error:
                if error.engine_code not in ("run-not-active", "run-not-paused"):
                    raise
                return
            else:
                return

    @property
    def down(self):
        """The death that it is dying and its coming back, or None."""
        return None if self._task is None or self._task.done() else self._task

    async def up(self):
        if self._task is not None:
            await self._task
        await self.engine.settle()

    async def advance(self, duration):
        await self.engine.advance(duration)
        await self.up()
        if self.errors:
            raise self.errors[0]


class Labels:
    """Names for runs that do not depend on where their events stand on the log."""

    def __init__(self, log):
        self.facts = []
        for partition in range(log.partitions):
            for record in log.read(JOURNAL, partition, 0, 1_000_000):
                self.facts.append(CODEC.decode(record.value))
        events = {}
        for fact in self.facts:
            if isinstance(fact, facts.EventHeld | facts.EventRecorded) and fact.event is not None:
                events[fact.event.id] = fact.event
        created = {}
        for fact in self.facts:
            if isinstance(fact, facts.RunQueued | facts.RunStarted) and fact.created is not None:
                assert fact.run not in created, "a run is created once"
                created[fact.run] = fact.created
            elif isinstance(fact, facts.RunEnded) and fact.failure is not None:
                created[fact.failure_run] = fact.failure
        self.created, self._events = created, events
        self.names = {}
        for run in created:
            self._name(run)
        self.runs = {name: run for run, name in self.names.items()}
        assert len(self.runs) == len(self.names), Counter(self.names.values()).most_common(3)

    def _name(self, run):
        if run in self.names:
            return self.names[run]
        made = self.created[run]
        if made.failed_run is not None:
            name = f"{self._name(made.failed_run)}!failure"
        elif made.parent is not None:
            place = f"{made.parent_step}/{made.parent_n}/{made.parent_attempt}"
            name = f"{made.workflow} of {self._name(made.parent)}/{place}"
        elif made.tick is not None:
            name = f"{made.workflow}@{made.tick}"
        elif made.replay is not None:
            what = made.replay.step or "all"
            by = "a job" if made.replay.job else made.replay.dedupe_id
            name = f"{what} again, by {by}, of {self._name(made.replay.of)}"
        else:
            event = self.event_of(made)
            if event.caller is not None and event.caller.kind == "run":
                _, step, n = event.id.rsplit("/", 2)
                name = f"{made.workflow} by {self._name(event.caller.id)}/{step}/{n}"
            else:
                name = f"{made.workflow}:{event.data}"
        self.names[run] = name
        return name

    def event_of(self, made):
        return made.triggers[0].event or self._events[made.triggers[0].event_id]

    def plain(self, text):
        """A text without the ids of runs and events."""
        if text is None:
            return None
        for event in self._events.values():
            if event.id in text and not event.id.startswith("run_"):
                text = text.replace(event.id, f"event {event.name}")
        for run, name in self.names.items():
            if run in text:
                text = text.replace(run, json.dumps(name)[1:-1])
        return text


@dataclass
class End:
    """How a program ended."""

    runs: dict
    steps: dict
    failures: dict
    executions: Counter
    state: dict
    shown: dict

    @classmethod
    async def of(cls, engine):
        core = engine.core
        labels = Labels(core.log)
        names, plain = labels.names, labels.plain
        runs, steps, failures = {}, {}, {}
        for fact in labels.facts:
            if isinstance(fact, facts.RunEnded):
                message = plain(fact.error.message) if fact.error else None
                runs[names[fact.run]] = (fact.status, plain(fact.output), message, fact.at)
            elif isinstance(fact, facts.StepCompleted):
                key = (names[fact.run], fact.step, fact.n)
                assert key not in steps, f"{key} completed twice"
                steps[key] = (fact.attempt, plain(fact.output), fact.at, used(fact))
            elif isinstance(fact, facts.StepFailed):
                key = (names[fact.run], fact.step, fact.n, fact.attempt)
                assert key not in failures, f"{key} failed twice"
                failures[key] = (plain(fact.error.message), fact.retry_at, fact.at, used(fact))
        executions = Counter(
            (names[run], step, attempt, at) for run, step, attempt, at in engine.executions
        )
        return cls(runs, steps, failures, executions, left(core), await shown(engine, names))

    def same_but_executions(self, other):
        for part in ("runs", "steps", "failures", "state", "shown"):
            mine, others = getattr(self, part), getattr(other, part)
            changed = {
                key: (others.get(key), mine.get(key))
                for key in mine.keys() | others.keys()
                if mine.get(key) != others.get(key)
            }
            assert not changed, f"{part}: (without, with the stop) {changed}"


ENDED = (
    *("runs", "inputs", "outputs", "queue", "waiting", "live", "held", "held_posts", "waits"),
    *("carries", "carried", "replays_wanted", "jobs", "job_parts"),
)
"""Tables that are empty once nothing is under way."""


def used(fact):
    """The tokens that an attempt used."""
    return fact.spend.tokens if fact.spend is not None else 0


def left(core):
    """What is left in the state, apart from what depends on places and versions."""
    found = Counter()
    for processor in core.processors:
        for table, key, value in processor.state.dump():
            if table in ENDED:
                found[table, key] += 1
            elif table == "claims":
                found[table, key, value.expires_at] += 1
            elif table == "cron":
                found[table, key, value.due] += 1
            elif table == "timers":
                # The one of a replay's dedupe id names the old run, whose id names a place.
                found[table, key[:3] + key[4:] if key[2] == "replay" else key] += 1
            elif table == "applied":
                found[table, processor.partition, key, value.body] += 1
            elif table == "registry":
                found[table, key, value.body] += 1
    return dict(found)


async def shown(engine, names):
    """Every run as people see it; the live view and one built anew must agree."""
    core = engine.core
    core.view.drain()
    fresh = View(":memory:", core.log)
    fresh.catch_up()
    found = {}
    for run, name in names.items():
        live, anew = core.view.reads.run(run), fresh.reads.run(run)
        assert live == anew, f"{name}: the view shows {live}, built anew {anew}"
        if live is not None:
            found[name] = live.status
    fresh.close()
    return found


async def go(program, stop=None, *, partitions=1, keep=1, transport="connect"):
    """Run a program.

    Returns:
        Its end, and how often each point was passed.
    """
    workflows, script = program
    stopping = Stopping(stop, keep)
    async with Engine(
        *workflows,
        partitions=partitions,
        transport=transport,
        settings=Settings(job_batch=2),
        **stopping.options,
    ) as engine:
        drive = Drive(engine, stopping)
        stopping.armed = True
        await script(drive)
        stopping.armed = False
        processors = engine.core.processors
        report = verify_cluster(
            engine.core.log,
            stored=lambda number: processors[number].state if keep == 1 else None,
        )
        assert report.ok, report.problems
        end = await End.of(engine)
        if stop is not None:
            assert stopping.crashes, "the point was not passed"
        return end, stopping


def without_time(executions):
    """How often each attempt of a step was executed, whenever that was."""
    counted = Counter()
    for (*execution, _at), times in executions.items():
        counted[tuple(execution)] += times
    return counted


async def check(name, program, baseline, stop, **options):
    """One crash; its end is that of the run without one."""
    end, stopping = await go(program, stop, **options)
    end.same_but_executions(baseline)
    if stop.runner:
        lost = baseline.executions - end.executions
        assert not lost, f"not executed: {lost}"
        # One that is executed again may be so later: what stopped it had not been recorded.
        before, after = without_time(baseline.executions), without_time(end.executions)
        for execution, count in after.items():
            assert execution in before, f"executed out of the blue: {execution}"
            most = before[execution] + stopping.crashes
            assert count <= most, f"{execution} executed {count} times"
    else:
        assert end.executions == baseline.executions, (
            f"too often: {end.executions - baseline.executions}, "
            f"too seldom: {baseline.executions - end.executions}"
        )
