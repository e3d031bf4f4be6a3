"""`Engine`: a cluster of one process, its runner and its clock, inside a test."""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from duraton.app import App
from duraton.errors import RefusedError
from duraton.testing import acts
from duraton.testing.host import TESTER, Host
from duraton.testing.shown import Answer, Shown
from duraton.workflow import WorkflowDefinition
from duraton_api.node.core import Core
from duraton_api.view.filters import PAGE_MAX, EventFilter, RunFilter
from duraton_api.view.flow.reads import ScopeFilter
from duraton_engine.effects import Reply
from duraton_engine.settings import Settings
from duraton_schemas.duration import Duration, to_ms
from duraton_schemas.ids import run_slot
from duraton_schemas.options import NAME_LENGTH_MAX
from duraton_schemas.prices import PRICES_BYTES_MAX
from duraton_schemas.records import commands
from duraton_schemas.records.common import Caller, Fact
from duraton_schemas.records.public import Event
from duraton_schemas.slots import partition_of
from duraton_schemas.values import EVENT_BYTES_MAX, dump
from duraton_streams.logs.base import JOURNAL

T = TypeVar("T")

ANSWER_TIMEOUT_S = 20.0
"""Real seconds that a send may take; it is only reached where something hangs."""


class Engine:
    """The whole engine in the test's process, with virtual time.

    Runners and HTTP are the real code over in-process pipes; no step of it sleeps.

    Args:
        apps: Apps or workflows; workflows alone form an app named `test`.
        log: `memory`, `sqlite` or `kafka` (the broker of `DURATON_TEST_KAFKA`).
        partitions: How many partitions the cluster has.
        transport: `connect` or `serve`.
        start: The moment at which virtual time begins, ISO 8601.
        settings: Limits and delays of the engine.
        capacity: Runs that the runner executes at once.
        options: `front`, `faults` and `opened`, for special tests (see `Host`).
    """

    def __init__(
        self,
        *apps: App | WorkflowDefinition | Sequence[App | WorkflowDefinition],
        log: str = "memory",
        partitions: int = 1,
        transport: str = "connect",
        start: str = "2026-01-01T00:00:00Z",
        settings: Settings | None = None,
        capacity: int = 1_000,
        **options: Any,
    ) -> None:
        self._host = Host(
            _apps(apps),
            log=log,
            partitions=partitions,
            transport=transport,
            start=start,
            settings=settings or Settings(),
            capacity=capacity,
            **options,
        )
        self.clock = self._host.time

    async def __aenter__(self) -> "Engine":
        await self._host.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._host.stop()

    @property
    def core(self) -> Core:
        """The node's core, for tests of what stands around it, HTTP for example."""
        return self._host.core

    @property
    def host(self) -> Host:
        """What the engine is made of, for tests that break it."""
        return self._host

    # Evidence ---------------------------------------------------------------------

    @property
    def started(self) -> list[tuple[str, str, float]]:
        """(workflow, run id, seconds since start) of each run's first start."""
        return self._host.started

    @property
    def executions(self) -> list[tuple[str, str, int, float]]:
        """(run id, step, attempt, seconds since start), each time user code of a step ran."""
        return self._host.executions

    def facts(self, run: str) -> list[Fact]:
        """A run's facts, decoded, in order."""
        core = self._host.core
        partition = partition_of(run_slot(run), core.log.partitions)
        end = core.log.bounds(JOURNAL, partition)[1]
        found: list[Fact] = []
        offset = 0
        while True:
            records = core.log.read(JOURNAL, partition, offset, 1_000, end=end)
            if not records:
                return found
            for record in records:
                fact = core.codec.decode(record.value or b"")
                if isinstance(fact, Fact) and getattr(fact, "run", None) == run:
                    found.append(fact)
            offset = records[-1].offset + 1

    # What people send ----------------------------------------------------------------

    async def send(
        self,
        name: str,
        data: Mapping[str, Any] | None = None,
        *,
        dedupe_id: str | None = None,
        subject: str | None = None,
        key: str | None = None,
    ) -> list[Answer]:
        """Send one event, as `POST /events`; one answer a workflow.

        Args:
            name: The event's name.
            data: Its data.
            dedupe_id: A repeat within 24 h answers an empty list.
            subject: What it is about.
            key: The name of the API key that sends; None is the test's own.

        Raises:
            ConnectionError: The engine was crashed meanwhile.
        """
        event = self._event(name, data, dedupe_id, subject, key)
        return (await self._send([event]))[0]

    async def send_many(
        self,
        events: Sequence[tuple[str, Mapping[str, Any] | None] | Mapping[str, Any]],
        *,
        key: str | None = None,
    ) -> list[list[Answer]]:
        """Send several events in one POST; one list an event, in order.

        Args:
            events: Pairs of name and data, or events as `POST /events` takes them:
                `{"name": ..., "data": ..., "dedupeId": ..., "subject": ...}`.
            key: The name of the API key that sends; None is the test's own.
        """
        made: list[Event] = []
        for each in events:
            given: Mapping[str, Any]
            given = each if isinstance(each, Mapping) else {"name": each[0], "data": each[1]}
            unknown = set(given) - {"name", "data", "dedupeId", "subject"}
            if unknown:
                raise ValueError(f"an event has no field {min(unknown)!r}")
            made.append(
                self._event(
                    given["name"],
                    given.get("data"),
                    given.get("dedupeId"),
                    given.get("subject"),
                    key,
                )
            )
        return await self._send(made)

    def _event(
        self,
        name: str,
        data: Mapping[str, Any] | None,
        dedupe_id: str | None,
        subject: str | None,
        key: str | None,
    ) -> Event:
        if not 0 < len(name) <= NAME_LENGTH_MAX:
            raise ValueError(f"an event's name has 1 to {NAME_LENGTH_MAX} characters")
        caller = key or "test"
        return Event(
            id=self._host.core.new_id(),
            name=name,
            data=dump({} if data is None else data, limit=EVENT_BYTES_MAX),
            ts=self.clock.now_ms(),
            dedupe_id=dedupe_id,
            subject=subject,
            caller=Caller(kind="key", id=caller, root=f"key:{caller}"),
        )

    async def _send(self, events: list[Event]) -> list[list[Answer]]:
        post = await self._host.ask(lambda core: core.append_events(events, ANSWER_TIMEOUT_S))
        if not all(outcome.complete for outcome in post.outcomes):
            raise TimeoutError(f"no answer came within {ANSWER_TIMEOUT_S} s")
        return [[Answer.of(effect) for effect in each.answers] for each in post.outcomes]

    async def register(self, app: App | WorkflowDefinition | Sequence[WorkflowDefinition]) -> None:
        """Deploy an app: it replaces the one of its name, or is added.

        Raises:
            RefusedError: The registration was refused; nothing of it took effect.
        """
        for each in _apps((app,)):
            reason = await self._host.deploy(each)
            if reason is not None:
                raise RefusedError("options-refused", reason)

    async def set_prices(self, table: Mapping[str, Any]) -> None:
        """Put a price table in force, in the form that `PUT /prices` takes.

        Raises:
            RefusedError: It was refused.
        """
        body = dump(table, limit=PRICES_BYTES_MAX)
        await self._command(commands.SetPrices, body=body)
        await self.settle()

    async def set_ceiling(self, ceiling: int) -> None:
        """Set the project's ceiling; 0 is no limit.

        Raises:
            RefusedError: It is below 0, or above its limit.
        """
        await self._command(commands.SetProject, ceiling=ceiling)
        await self.settle()

    async def _command(self, kind: Callable[..., commands.Command], **fields: Any) -> Reply:
        return await acts.command(self._host, ANSWER_TIMEOUT_S, kind, fields)

    async def act(self, run: str, act: str, **details: Any) -> Shown:
        """Act on a run; answers the run that it changed or made.

        Args:
            run: The run's id.
            act: `pause`, `resume`, `cancel`, `replay` or `retry-from-step`.
            details: `reason` of a cancel; `dedupe_id` of a replay and of a retry, which
                also takes `step`, `n` and `input`.

        Raises:
            RefusedError: The engine refused it.
        """
        reply = await acts.act(self._host, ANSWER_TIMEOUT_S, run, act, details)
        return await self.run(reply.run or run)

    async def bulk(
        self, act: str, *, dry_run: bool = False, reason: str | None = None, **filters: Any
    ) -> Shown:
        """Act on every run that a filter means; answers the job, which `settle` waits for.

        Args:
            act: `replay` or `cancel`.
            dry_run: Only answer how many runs it would be about, and the first of them.
            reason: Of a cancel: why, for people.
            filters: `status`, `workflow`, `app`, `since`, `until`, `q`, as `GET /runs`.

        Raises:
            RefusedError: It was refused.
        """
        if act not in ("replay", "cancel"):
            raise ValueError(f"{act!r} is no act on many runs")
        given = {name: value for name, value in filters.items() if value is not None}
        if dry_run:
            found = await acts.ask(
                self._host, ANSWER_TIMEOUT_S, lambda each: each.dry_run(act, given)
            )
            return Shown(_plain(found))
        job = await acts.ask(
            self._host, ANSWER_TIMEOUT_S, lambda each: each.bulk(TESTER, act, given, reason)
        )
        return await self.job(job)

    async def stop_job(self, job: str) -> Shown:
        """Let a job begin no further batch; answers the job.

        Raises:
            RefusedError: It is over, or not known.
        """
        await self._command(commands.StopJob, job=job)
        return await self.job(job)

    # Time -------------------------------------------------------------------------------

    async def advance(self, duration: Duration) -> None:
        """Let time pass; all that falls due happens at its own instant, in order."""
        await self._host.going.advance(to_ms(duration))

    async def settle(self) -> None:
        """Go on until nothing more happens without time passing."""
        await self._host.going.settle()

    async def crash(self, down: Duration | None = None, *, runner: bool = False) -> None:
        """The engine's process dies here and comes back; nothing in memory survives.

        Args:
            down: How long it is away; what fell due meanwhile happens on its return.
            runner: Whether the runner's process dies with it.
        """
        await self._host.crash(0 if down is None else to_ms(down), runner=runner)

    # Reads ------------------------------------------------------------------------------

    async def run(self, run: str | None) -> Shown:
        """A run as `GET /runs/{id}` shows it.

        Raises:
            KeyError: There is no such run.
        """
        assert run is not None, "the answer has no run"
        detail = self._read().run(run)
        if detail is None:
            raise KeyError(run)
        return Shown(_plain(detail))

    async def runs(self, status: str | None = None, **filters: Any) -> list[Shown]:
        """All runs that match, newest first, as `GET /runs` shows them."""
        statuses = tuple(status.split(",")) if status else ()

        def page(cursor: str | None) -> Any:
            wanted = RunFilter(statuses=statuses, limit=PAGE_MAX, cursor=cursor, **filters)
            return self._read().runs(wanted)

        return _pages(page, "runs")

    async def events(self, name: str | None = None) -> list[Shown]:
        """All recorded events, newest first, as `GET /events` shows them."""

        def page(cursor: str | None) -> Any:
            wanted = EventFilter(name=name, limit=PAGE_MAX, cursor=cursor)
            return self._read().events(wanted)

        return _pages(page, "events")

    async def event(self, event: str) -> Shown:
        """An event as `GET /events/{id}` shows it."""
        item = self._read().event(event)
        if item is None:
            raise KeyError(event)
        return Shown(_plain(item))

    async def job(self, job: str) -> Shown:
        """A job as `GET /jobs/{id}` shows it.

        Raises:
            KeyError: There is no such job.
        """
        found = self._read().job(job)
        if found is None:
            raise KeyError(job)
        return Shown(_plain(found))

    async def jobs(self) -> list[Shown]:
        """All jobs, newest first."""
        return _pages(lambda cursor: self._read().jobs((), PAGE_MAX, cursor), "jobs")

    async def flow_state(self, workflow: str | None = None) -> Any:
        """What `GET /flow-state` answers, as JSON has it."""
        return _plain(self._read().flow_state(workflow))

    async def flow_detail(self, workflow: str | None = None, **filters: Any) -> Shown:
        """What `GET /flow-state/detail` answers: who holds and who waits, scope by scope.

        Args:
            workflow: The workflow's name, or None for all.
            filters: `app`, `control`, `limit`, `cursor`.
        """
        wanted = ScopeFilter(workflow=workflow, **filters)
        return Shown(_plain(self._read().flow_detail(wanted, self.clock.now_ms())))

    def _read(self) -> Any:
        if not self._host.alive:
            raise ConnectionError("the engine is down")
        view = self._host.core.view
        view.drain()
        return view.reads

    async def during(self, work: Coroutine[Any, Any, T]) -> T:
        """Await something of the engine's while it goes on; for HTTP calls in tests."""
        return await self._host.going.during(work)


def _plain(value: object) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))


def _pages(read: Callable[[str | None], object], name: str) -> list[Shown]:
    """All items of a list that comes in pages."""
    found: list[Shown] = []
    cursor: str | None = None
    while True:
        page = _plain(read(cursor))
        found.extend(Shown(item) for item in page[name])
        cursor = page.get("cursor")
        if not cursor:
            return found


def _apps(given: Sequence[Any]) -> list[App]:
    apps: list[App] = []
    loose: list[WorkflowDefinition] = []
    for each in given:
        if isinstance(each, App):
            apps.append(each)
        elif isinstance(each, WorkflowDefinition):
            loose.append(each)
        else:
            apps.extend(item for item in each if isinstance(item, App))
            loose.extend(item for item in each if isinstance(item, WorkflowDefinition))
    if loose:
        apps.append(App("test", workflows=loose))
    return apps
