"""What a test's engine is made of, and the loop that lets it go on in virtual time."""

import asyncio
import tempfile
from collections.abc import Coroutine, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from duraton.app import App
from duraton.runtime.runner import Runner
from duraton.testing.logs import LogHolder
from duraton.testing.pipe import Pipe
from duraton.testing.served import Served
from duraton.testing.virtual import VirtualTime
from duraton_api.errors import EngineStoppedError
from duraton_api.node.core import Core
from duraton_api.node.settings import NodeSettings
from duraton_api.runners.serve import ServeCaller
from duraton_api.runners.settings import HubSettings
from duraton_api.view.view import View
from duraton_engine.settings import Settings
from duraton_engine.state.tables import TABLES
from duraton_schemas.options import write_app
from duraton_schemas.records import journal
from duraton_schemas.records.commands import RegisterApp
from duraton_schemas.records.common import Caller, Fact
from duraton_streams.state.memory import MemoryStore
from duraton_streams.state.overlay import State

T = TypeVar("T")

IDLE_TURNS = 40
"""Turns of the loop without any sign of life after which nothing more happens."""
IDLE_TURNS_SERVE = 120
"""As above where calls go through an HTTP client and an ASGI application."""
THREAD_POLL_S = 0.0005
"""How long the loop rests while worker threads or a broker have something in hand."""


class _ObservedCore(Core):
    """A core that notes first starts and that something was committed."""

    host: "Host"

    def committed(self, partition: int, facts: Sequence[tuple[int, Fact]]) -> None:
        super().committed(partition, facts)
        self.host.note(facts)


class Host:
    """The parts of a test's engine.

    Args:
        apps: The apps of the runner.
        log: `memory`, `sqlite` or `kafka`.
        partitions: How many partitions.
        transport: `connect` or `serve`.
        start: ISO 8601.
        settings: The engine's settings.
        capacity: Runs that the runner executes at once.
        faults: Faults of the memory log, for crash tests.
    """

    def __init__(
        self,
        apps: list[App],
        *,
        log: str,
        partitions: int,
        transport: str,
        start: str,
        settings: Settings,
        capacity: int,
        faults: Any = None,
    ) -> None:
        moment = datetime.fromisoformat(start)
        self.time = VirtualTime(int(moment.timestamp() * 1000))
        self.started: list[tuple[str, str, float]] = []
        self.executions: list[tuple[str, str, int, float]] = []
        self.core: Core
        self.runner: Runner | None = None
        self.pipe: Pipe | None = None
        self._apps = {app.name: app for app in apps}
        self._transport = transport
        # A pipe is never silent by itself, so nobody pings; a cut one is waited for.
        hub = HubSettings(ping_ms=0, silence_ms=settings.silence_ms)
        self._settings = NodeSettings(partitions=partitions, node="test", engine=settings, hub=hub)
        self._capacity = capacity
        self._folder = tempfile.TemporaryDirectory(prefix="duraton-test-")
        self._logs = LogHolder(log, partitions, Path(self._folder.name), faults)
        self._served = Served()
        self._signs = 0
        self._workflows: dict[str, str] = {}
        self._alive = False

    # Life ---------------------------------------------------------------------------

    async def start(self) -> None:
        """Bring the engine up and let its runner connect."""
        self._open()
        if self._transport == "connect":
            self._make_runner()
        for app in self._apps.values():
            reason = await self.deploy(app)
            if reason is not None:
                raise ValueError(reason)
        await self.settle()

    async def stop(self) -> None:
        """End everything."""
        self._close_core()
        if self.runner is not None:
            self.runner.close()
        await self._served.close()
        for _ in range(IDLE_TURNS):
            await asyncio.sleep(0)
        self._logs.close()
        self._folder.cleanup()

    def _open(self) -> None:
        log = self._logs.open()
        view = View(":memory:", log)
        core = _ObservedCore(
            log,
            self._settings,
            make_state=self._make_state,
            make_clock=lambda newest: self.time.manual,
            gateway_clock=self.time,
            view=view,
            wake=lambda partition: None,
            serve=self._make_serve,
        )
        core.host = self
        self.core = core
        core.open()
        view.catch_up()
        self._alive = True

    def _make_state(self, partition: int) -> State:
        return State(MemoryStore(), TABLES)

    def _make_serve(self, core: Core) -> ServeCaller:
        return ServeCaller(
            partitions=core.log.partitions,
            offer=core.offer,
            room=core.room,
            clock=self.time,
            transport=self._served.transport(),
            wall_s=lambda: self.time.now_ms() / 1000,
        )

    def _make_runner(self) -> None:
        self.runner = Runner(
            list(self._apps.values()),
            self._upstream,
            capacity=self._capacity,
            observer=self,
            now_ms=self.time.now_ms,
        )

    def _upstream(self, frames: list[Any]) -> None:
        if self.pipe is not None:
            self.pipe.upstream(frames)

    def _connect(self) -> None:
        assert self.runner is not None, "the transport is connect"
        if self.pipe is not None:
            self.pipe.cut()
            self.core.hub.closed(self.pipe)
        self.pipe = Pipe(self.core.hub, self.runner, self.sign, self._come_back)
        self.pipe.connect()

    def _come_back(self) -> None:
        if self._alive and self.runner is not None:
            self._connect()

    async def deploy(self, app: App) -> str | None:
        """Register an app anew; answers why it was refused, or None."""
        self._apps[app.name] = app
        for workflow in app.workflows:
            self._workflows[workflow] = app.name
        if self._transport == "serve":
            url = self._served.add(app, self)
            return await self._register(app, url)
        refused = await self._register(app, None)
        if refused is None and self.runner is not None:
            self.runner.apps[app.name] = app
            self._connect()
            await self.settle()
            assert self.pipe is not None, "it has just connected"
            return self.pipe.refused
        return refused

    async def _register(self, app: App, url: str | None) -> str | None:
        command = RegisterApp(
            id=self.core.new_id(),
            caller=Caller(kind="key", id="test", root="key:test"),
            app=app.name,
            body=write_app(app.options(url)),
        )
        reply = await self.during(self.core.command(command, 20.0))
        await self.settle()
        return None if reply.ok else reply.message

    def _close_core(self) -> None:
        self._alive = False
        if self.pipe is not None:
            self.pipe.cut()
            self.pipe = None
        self.core.waiting.fail(EngineStoppedError("the engine was crashed"))
        for processor in self.core.processors:
            processor.close()
        self.core.view.close()

    async def crash(self, down_ms: int, *, runner: bool) -> None:
        """The engine dies here and comes back after some virtual time."""
        self._close_core()
        self._served.cut()
        self._logs.crash()
        if runner and self.runner is not None:
            self.runner.close()
            self.runner = None
        await self._advance_runner(down_ms)
        self._open()
        if self._transport == "connect":
            if self.runner is None:
                self._make_runner()
            self._connect()
        await self.settle()

    async def _advance_runner(self, ms: int) -> None:
        target = self.time.now_ms() + ms
        while True:
            await self.settle()
            due = self.time.next_ms()
            if due is None or due > target:
                break
            self.time.move_to(due)
            self.time.fire()
        self.time.move_to(target)

    # What is noticed ------------------------------------------------------------------

    def sign(self) -> None:
        """Something happened."""
        self._signs += 1

    def note(self, facts: Sequence[tuple[int, Fact]]) -> None:
        """Facts were committed."""
        self._signs += 1
        for _, fact in facts:
            if isinstance(fact, journal.RunStarted) and fact.first:
                workflow = self._workflow_of(fact)
                at = (fact.at - self.time.start_ms) / 1000
                if workflow is not None:
                    self.started.append((workflow, fact.run, at))
            elif isinstance(fact, journal.RunQueued):
                self._queued[fact.run] = fact.created

    @property
    def _queued(self) -> dict[str, journal.RunCreated]:
        return self.__dict__.setdefault("queued_runs", {})

    def _workflow_of(self, fact: journal.RunStarted) -> str | None:
        created = fact.created or self._queued.pop(fact.run, None)
        if created is None or created.kind != "main":
            return None
        return created.workflow

    def execution_began(self, run: str, step: str, attempt: int) -> None:
        """User code of a step begins."""
        self._signs += 1
        self.executions.append((run, step, attempt, self.time.now()))

    # Going on -------------------------------------------------------------------------

    def _turn(self) -> bool:
        if not self._alive:
            return False
        return any([processor.turn() for processor in self.core.processors])

    def _busy_elsewhere(self) -> bool:
        if self.runner is not None and self.runner.host.threads_executing:
            return True
        if self._served.threads_executing():
            return True
        return self._alive and self._logs.behind(self.core.processors)

    async def settle(self) -> None:
        """Go on until nothing more happens without time passing."""
        enough = IDLE_TURNS if self._transport == "connect" else IDLE_TURNS_SERVE
        idle = 0
        while idle < enough:
            before = self._signs
            worked = self._turn()
            if self.time.fire() or worked:
                idle = 0
            await asyncio.sleep(0)
            if self._busy_elsewhere():
                await asyncio.sleep(THREAD_POLL_S)
                idle = 0
            idle = 0 if self._signs != before or worked else idle + 1

    async def advance(self, ms: int) -> None:
        """Let time pass, stopping at each instant at which something is due."""
        target = self.time.now_ms() + ms
        while True:
            await self.settle()
            due = self._next_due()
            if due is None or due > target:
                break
            self.time.move_to(due)
        self.time.move_to(max(target, self.time.now_ms()))
        await self.settle()

    def _next_due(self) -> int | None:
        found = [self.time.next_ms()]
        if self._alive:
            found.extend(processor.next_due() for processor in self.core.processors)
        dues = [due for due in found if due is not None]
        return min(dues) if dues else None

    async def during(self, work: Coroutine[Any, Any, T]) -> T:
        """Await something of the engine's while it goes on, time standing still.

        Raises:
            ConnectionError: The engine was crashed meanwhile.
        """
        task = asyncio.ensure_future(work)
        while not task.done():
            self._turn()
            await asyncio.sleep(THREAD_POLL_S if self._busy_elsewhere() else 0)
        try:
            return task.result()
        except EngineStoppedError as error:
            raise ConnectionError(str(error)) from error
