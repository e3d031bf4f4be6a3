"""An engine that dies at numbered points of a case, and the client that lives with it.

A case is given this in place of the kit's engine, and is not told. The client does what the
documents tell it to: where a call was cut it asks again, an event with a `dedupeId`, and of
a repeat it looks up what the first led to (`GET /events/{id}`).
"""

from functools import partial
from itertools import count

import msgspec
from tests.properties.crash_points import CODEC, Drive, Killed, Stop, Stopping

from duraton.testing import Engine, RefusedError
from duraton.testing.shown import Answer
from duraton_api.errors import AnswerUnknownError
from duraton_api.verification import verify_cluster
from duraton_schemas.records import journal
from duraton_streams.logs.base import JOURNAL
from duraton_streams.partition.settings import ProcessorSettings

WRITTEN = "finish:committed"
"""After a commit, of which nobody knows yet."""
TOLD = "finish:done"
"""After a commit, once the view and the runners were told; the caller is not yet."""
DECIDED = "prepare:decided"
"""Before a commit: what was decided is lost."""

ONE_EACH = ProcessorSettings(records_max=1, batches_max=1, keep_facts=7)
"""A commit takes no second input, so that no two transitions share it; and now and then the
state is written, so that some starts find one that is older than the journal."""

OF_ITSELF = frozenset({journal.Positions})
"""Where the partition stands: a commit without other facts is none to die at."""
OF_A_START = OF_ITSELF | {journal.LaneMoved}
"""What coming back may write by itself: who died after each of these would do so for ever."""

CUT = (ConnectionError, AnswerUnknownError, TimeoutError)
DONE_BEFORE = ("run-not-active", "run-not-paused")
"""What an act that was cut may meet when it is asked for again: that it was done."""


def facts_from(log, partition, offset):
    """The facts from an offset on, each with its own."""
    end = log.bounds(JOURNAL, partition)[1]
    while records := log.read(JOURNAL, partition, offset, 10_000, end):
        for record in records:
            yield record.offset, CODEC.decode(record.value)
        offset = records[-1].offset + 1


class Deaths(Stopping):
    """Counts commits of facts, and ends the process at some of them.

    Args:
        point: Where it ends.
        at: Whether it ends there at the k-th commit; the first is 1.
        but: Facts that make no commit to be counted.

    Attributes:
        spared: Not 0 while somebody asks again: who is cut each time never gets an answer.
    """

    def __init__(self, point=WRITTEN, at=lambda k: False, but=OF_ITSELF):
        super().__init__(Stop(point, 0), keep=ONE_EACH.keep_facts)
        self.spared = 0
        self._at = at
        self._but = but
        self._holds = {}

    def opened(self, core):
        super().opened(core)
        for processor in core.processors:
            self._holds[processor.partition] = False
            processor.points = partial(self.reached, core.log, processor)

    def reached(self, log, processor, point):
        """A processor passes a point; a commit without any fact but where it stands is none."""
        if not self.armed or self.spared:
            return
        if point == WRITTEN:
            facts = facts_from(log, processor.partition, processor.standing.journal)
            self._holds[processor.partition] = any(type(f) not in self._but for _, f in facts)
        if point != DECIDED and not self._holds[processor.partition]:
            return
        self.counts[point] += 1
        if point == self.stop.point and self._at(self.counts[point]):
            raise Killed(point)


class DyingEngine(Engine):
    """The kit's engine with deaths.

    Args:
        deaths: When it dies.
    """

    def __init__(self, *apps, deaths, **more):
        deaths.stores.clear()  # a case may make one engine after another
        options = {**deaths.options, "processor": ONE_EACH}
        super().__init__(*apps, **{**options, **more})
        self._deaths = deaths
        self._drive = Drive(self, deaths)
        self._numbers = count(1)
        self._noted = {}
        self._queued = {}
        self._started = []

    async def __aenter__(self):
        await super().__aenter__()
        self._deaths.armed = True
        return self

    async def __aexit__(self, *error):
        self._deaths.armed = False
        await self._up()
        if error[0] is None:
            report = verify_cluster(self.core.log)
            assert report.ok, report.problems
        await super().__aexit__(*error)

    async def _up(self):
        """Return once it is back from the death that it dies, if it does."""
        while self._drive.down:
            await self._drive.down
        assert not self._drive.errors, self._drive.errors

    async def _insist(self, ask):
        """Ask until there is an answer; and whether it was asked for more than once."""
        cut = False
        while True:
            await self._up()
            self._deaths.spared += cut
            try:
                return await ask(cut)
            except CUT:
                cut = True
            finally:
                await self._up()
                self._deaths.spared = 0

    # Evidence ---------------------------------------------------------------------

    @property
    def started(self):
        """First starts as the log has them: who died cannot tell what it has just written."""
        log = self.core.log
        for partition in range(log.partitions):
            for offset, fact in facts_from(log, partition, self._noted.get(partition, 0)):
                self._noted[partition] = offset + 1
                self._note(fact)
        self._started.sort(key=lambda each: each[2])
        return self._started

    def _note(self, fact):
        if isinstance(fact, journal.RunQueued):
            self._queued[fact.run] = fact.created
        elif isinstance(fact, journal.RunStarted) and fact.first:
            created = fact.created or self._queued.pop(fact.run, None)
            if created is not None and created.kind == "main":
                at = (fact.at - self.clock.start_ms) / 1000
                self._started.append((created.workflow, fact.run, at))

    # What people send ---------------------------------------------------------------

    async def _send(self, events):
        events = [
            event
            if event.dedupe_id is not None
            else msgspec.structs.replace(event, dedupe_id=f"sent-{next(self._numbers)}")
            for event in events
        ]
        tried = set()

        async def ask(cut):
            # As another POST: the ids are new, the dedupe ids are not.
            posted = [msgspec.structs.replace(e, id=self.core.new_id()) for e in events]
            tried.update(event.id for event in posted)
            post = await self.host.ask(lambda core: core.append_events(posted, 20.0))
            if not all(outcome.complete for outcome in post.outcomes):
                raise TimeoutError("no answer came")
            return post.outcomes

        answers = []
        for outcome in await self._insist(ask):
            if outcome.repeated and outcome.event_id in tried:
                answers.append(await self._led_to(outcome.event_id))
            else:
                answers.append([Answer.of(effect) for effect in outcome.answers])
        return answers

    async def _led_to(self, event):
        """What an event led to, as the answer would have told it."""
        await self.settle()
        return [answer_of(line) for line in (await self.event(event)).runs]

    async def register(self, app):
        await self._insist(lambda cut: Engine.register(self, app))

    async def set_prices(self, table):
        await self._insist(lambda cut: Engine.set_prices(self, table))

    async def set_ceiling(self, ceiling):
        await self._insist(lambda cut: Engine.set_ceiling(self, ceiling))

    async def act(self, run, act, **details):
        if act in ("replay", "retry-from-step"):
            details.setdefault("dedupe_id", f"asked-{next(self._numbers)}")

        async def ask(cut):
            try:
                return await Engine.act(self, run, act, **details)
            except RefusedError as error:
                if cut and error.engine_code in DONE_BEFORE:
                    return await Engine.run(self, run)
                raise

        return await self._insist(ask)

    async def bulk(self, act, **more):
        async def ask(cut):
            # Who is careful looks whether the job is there before asking again.
            jobs = await Engine.jobs(self) if cut else []
            return jobs[0] if jobs else await Engine.bulk(self, act, **more)

        return await self._insist(ask)

    # Time ------------------------------------------------------------------------------

    async def advance(self, duration):
        await self._up()
        await super().advance(duration)
        await self._up()

    async def settle(self):
        await self._up()
        await super().settle()
        await self._up()

    async def crash(self, down=None, *, runner=False):
        await self._up()
        await super().crash(down, runner=runner)
        await self._up()

    # Reads -------------------------------------------------------------------------------

    async def run(self, run):
        await self._up()
        return await super().run(run)

    async def runs(self, status=None, **filters):
        await self._up()
        return await super().runs(status, **filters)

    async def events(self, name=None):
        await self._up()
        return await super().events(name)

    async def event(self, event):
        await self._up()
        return await super().event(event)

    async def job(self, job):
        await self._up()
        return await super().job(job)

    async def flow_state(self, workflow=None):
        await self._up()
        return await super().flow_state(workflow)


def answer_of(line):
    """A line of an event as the answer that it was."""
    buffered = line.outcome in ("buffered", "replaced")
    return Answer(
        app=line.app,
        workflow=line.workflow,
        run_id=None if buffered else line.run_id,
        dropped=line.outcome == "dropped",
        deduped=line.outcome == "deduped",
        skipped=line.outcome == "skipped",
        joined=line.outcome == "joined",
        refused="T7103" if line.outcome == "refused" else None,
        buffered=buffered,
        blocked_by=line.blocked_by,
    )
