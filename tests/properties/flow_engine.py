"""Carries a flow program out on the engine, and holds every fact that it commits to the rules."""

import asyncio

from crash_points import CODEC, Drive, Stopping
from flow_checks import Checks
from flow_handlers import apps_of
from flow_liveness import left_over, stuck

from duraton.testing import Engine, RefusedError, Settings
from duraton_api.verification import verify_cluster
from duraton_streams.logs.base import JOURNAL

REFUSED = ("run-not-active", "run-not-paused")
LONG_MS = 3_600_000
"""By then whatever waits for time alone has ended."""


class Carrying:
    """One program on one engine.

    Args:
        program: The program.
        partitions: How many partitions.
        transport: `connect` or `serve`.
        stop: Where the engine dies besides, or None.
        order: A random source by which partitions take their turns, or None.
        log: Of another log than that in memory the facts are read once all has settled.

    Attributes:
        checks: What the facts have told; it raises where they break a rule.
        answers: Of each POST: the engine's, or None where the engine died meanwhile.
        acts: Of each act: whether it was taken, or None where it named no run.
    """

    def __init__(
        self,
        program,
        *,
        partitions=1,
        transport="connect",
        stop=None,
        order=None,
        log="memory",
    ):
        self.program = program
        self.checks = Checks(partitions)
        self.stopping = Stopping(stop, 1)
        self.order = order
        self.flows = {flow.home: flow for flow in program.flows}
        self.answers = []
        self.acts = []
        self.crashes = 0
        self.read = None if log == "memory" else [0] * partitions
        self.serve = transport == "serve"
        options = {**self.stopping.options, "faults": self._faults}
        self.engine = Engine(
            *apps_of(program.flows, lambda: self.engine.clock),
            log=log,
            partitions=partitions,
            transport=transport,
            settings=Settings(starts_max=program.starts_max, budget_tick=program.tick),
            capacity=program.capacity,
            **options,
        )

    def _faults(self, point, partition, records):
        if point == "after_commit":
            for record in records:
                if record.topic == JOURNAL:
                    self.checks.feed(partition, CODEC.decode(record.value))
        self.stopping.faults(point, partition, records)

    @property
    def now(self):
        return self.engine.clock.now_ms()

    async def go(self):
        async with self.engine:
            if self.order is not None:
                shuffle_turns(self.engine.host, self.order)
            self.drive = Drive(self.engine, self.stopping)
            await self.drive.insist(lambda: self.engine.set_ceiling(self.program.ceiling))
            self.stopping.armed = True
            self.settled()
            for number, (gap, action) in enumerate(self.program.actions):
                await getattr(self, f"_{action[0]}")(number, *action[1:])
                # The answer may be there before what it caused elsewhere has come to rest.
                await self.drive.advance(0)
                self.settled()
                await self.drive.advance(gap)
                self.settled()
            await self._end()
        return self

    def read_on(self):
        """Take the facts that are new on the log; of several partitions, one after the other."""
        log = self.engine.core.log
        for partition in range(len(self.read)):
            end = log.bounds(JOURNAL, partition)[1]
            while found := log.read(JOURNAL, partition, self.read[partition], 10_000, end):
                self.read[partition] = found[-1].offset + 1
                for record in found:
                    self.checks.feed(partition, CODEC.decode(record.value))

    def settled(self):
        if self.read is not None:
            self.read_on()
        found = stuck(self.checks, self.now, self.program.tick)
        assert not found, f"at {self.now - self.engine.clock.start_ms}: {found[:3]}"

    # Actions

    async def _post(self, number, events, key):
        given = []
        for place, (name, data, subject) in enumerate(events):
            event = {"name": name, "data": data}
            if subject is not None:
                event["subject"] = subject
            if self.stopping.stop is not None:
                event["dedupeId"] = f"{number}-{place}"
            given.append(event)
        found = []

        async def send():
            found.append(await self.engine.send_many(given, key=key))

        await self.drive.insist(send)
        self.answers.append(found[0] if found else None)

    async def _act(self, number, act, pick):
        mains = [run for run in self.checks.runs.values() if run.kind == "main"]
        if not mains:
            self.acts.append(None)
            return
        live = [run for run in mains if run.ended is None]
        run = live[pick % len(live)] if live and pick % 4 else mains[pick % len(mains)]
        taken = []

        async def do():
            try:
                await self.engine.act(run.id, act)
            except RefusedError as error:
                assert error.engine_code in REFUSED, error
            else:
                taken.append(1)

        await self.drive.insist(do)
        self.acts.append((act, run.label, bool(taken)))

    async def _deploy(self, number, app, flows):
        self.flows.update({flow.home: flow for flow in flows})
        [made] = apps_of(flows, lambda: self.engine.clock)
        await self.drive.insist(lambda: self.engine.register(made))

    async def _ceiling(self, number, ceiling):
        await self.drive.insist(lambda: self.engine.set_ceiling(ceiling))

    async def _crash(self, number, down, runner):
        self.crashes += 1
        armed, self.stopping.armed = self.stopping.armed, False
        await self.engine.crash(down, runner=runner)
        self.stopping.armed = armed

    # The end

    async def _end(self):
        """Paused runs go on and time passes: everything ends, and nothing of it is left."""
        for run in list(self.checks.runs.values()):
            if run.paused and run.ended is None:
                await self.drive.insist(lambda r=run: self.engine.act(r.id, "resume"))
        await self.drive.advance(LONG_MS)
        self.stopping.armed = False
        self.settled()
        announced, warned = self.checks.announced, self.checks.warnings
        assert set(announced.values()) <= {1}, f"announced more than once: {announced}"
        assert len(announced) == len(warned), f"{announced} for the warnings {warned}"
        unended = [run.label for run in self.checks.unended.values()]
        assert not unended, f"{unended} never end"
        assert not self.checks.held, f"held for ever: {self.checks.held}"
        left = left_over(self.engine.core)
        assert not left, f"left over: {left[:5]}"
        report = verify_cluster(
            self.engine.core.log, stored=lambda number: self.engine.core.processors[number].state
        )
        assert report.ok, report.problems


def shuffle_turns(host, order):
    """Let partitions take their turns in an order that is drawn anew each time."""

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


def carry_out(program, **options):
    """Carry a program out and check all rules but the model's."""
    return asyncio.run(Carrying(program, **options).go())
