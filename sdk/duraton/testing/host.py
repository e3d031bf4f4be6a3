"""What a test's engine is made of: the node's core, the runner, the log, and their deaths."""

import asyncio
import tempfile
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from duraton.app import App
from duraton.runtime.runner import Runner
from duraton.testing.going import Going
from duraton.testing.logs import LogHolder
from duraton.testing.pipe import Pipe
from duraton.testing.served import Front, ServedApps
from duraton.testing.virtual import Timers, VirtualTime
from duraton_api.errors import EngineStoppedError
from duraton_api.node.core import Core
from duraton_api.node.settings import NodeSettings
from duraton_api.runners.serve import ServeCaller
from duraton_api.runners.settings import HubSettings, ServeSettings
from duraton_api.view.view import View
from duraton_engine.appliers import APPLIERS
from duraton_engine.settings import Settings
from duraton_engine.state.tables import TABLES
from duraton_schemas.options import write_app
from duraton_schemas.records import journal
from duraton_schemas.records.commands import RegisterApp
from duraton_schemas.records.common import Caller, Fact
from duraton_streams.partition.settings import ProcessorSettings
from duraton_streams.partition.shadow import Shadow
from duraton_streams.state.memory import MemoryStore
from duraton_streams.state.overlay import State
from duraton_streams.state.store import Store

T = TypeVar("T")

TESTER = Caller(kind="key", id="test", root="key:test")
"""Who acts in a test, unless it names a key."""
COMMAND_TIMEOUT_S = 20.0
"""Real seconds that a command may take; it is only reached where something hangs."""
LAST_TURNS = 20
"""Turns of the loop in which what was cancelled at the end comes to its own end."""


@dataclass
class ShadowDefault:
    """Whether engines compare with a shadow where their maker does not say."""

    on: bool = False


SHADOW_DEFAULT = ShadowDefault()
"""Our own tests set it: it costs a second application of every fact."""


class _ObservedCore(Core):
    """A core that tells its host what was committed."""

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
        front: What stands before served apps, for example a proxy that fails.
        faults: Faults of the memory log, for crash tests.
        opened: Called with each core before it recovers, for special tests.
        make_store: Makes a partition's store each time the engine starts.
        processor: Bounds of the partitions' processors.
        shadow: Whether each partition's state is compared, after every commit, with
            what its journal gives; None as `SHADOW_DEFAULT` says.
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
        front: Front | None = None,
        faults: Any = None,
        opened: Callable[[Core], None] = lambda _core: None,
        make_store: Callable[[int], Store] = lambda _partition: MemoryStore(),
        processor: ProcessorSettings | None = None,
        shadow: bool | None = None,
    ) -> None:
        if transport not in ("connect", "serve"):
            raise ValueError(f"transport is 'connect' or 'serve', not {transport!r}")
        moment = datetime.fromisoformat(start)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        self.time = VirtualTime(round(moment.timestamp() * 1000))
        self.signs = 0
        self.started: list[tuple[str, str, float]] = []
        self.executions: list[tuple[str, str, int, float]] = []
        self.core: Core
        self.runner: Runner | None = None
        self.pipe: Pipe | None = None
        self.served = ServedApps(self, front)
        self.going = Going(self)
        self.alive = False
        self._apps = {app.name: app for app in apps}
        self._transport = transport
        # A pipe is never silent by itself, so nobody pings; a cut one is waited for.
        self._settings = NodeSettings(
            partitions=partitions,
            node="test",
            engine=settings,
            processor=processor or ProcessorSettings(),
            hub=HubSettings(ping_ms=0, silence_ms=settings.silence_ms),
            serve=ServeSettings(silence_ms=settings.silence_ms, capacity=capacity),
        )
        self._capacity = capacity
        self._folder = tempfile.TemporaryDirectory(prefix="duraton-test-")
        self._logs = LogHolder(log, partitions, Path(self._folder.name), faults)
        self._opened = opened
        self._make_store = make_store
        self._shadowed = SHADOW_DEFAULT.on if shadow is None else shadow
        self._timers = Timers(self.time)
        self._queued: dict[str, journal.RunCreated] = {}

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
        await self.going.settle()

    async def stop(self) -> None:
        """End everything."""
        if self.alive:
            await self._close_core()
        if self.runner is not None:
            self.runner.close()
        self.served.kill()
        for _ in range(LAST_TURNS):
            await asyncio.sleep(0)
        self._logs.close()
        self._folder.cleanup()

    def _open(self) -> None:
        log = self._logs.open()
        view = View(":memory:", log)
        self._timers = Timers(self.time)
        core = _ObservedCore(
            log,
            self._settings,
            make_state=lambda partition: State(self._make_store(partition), TABLES),
            make_clock=lambda _newest: self.time.manual,
            gateway_clock=self._timers,
            view=view,
            wake=lambda _partition: None,
            serve=self._make_serve,
        )
        core.host = self
        self.core = core
        if self._shadowed:
            for processor in core.processors:
                number = processor.partition
                processor.shadow = Shadow(log, number, APPLIERS, TABLES, core.codec)
        self._opened(core)
        core.open()
        view.catch_up()
        self.alive = True

    def _make_serve(self, core: Core) -> ServeCaller:
        return ServeCaller(
            partitions=core.log.partitions,
            offer=core.offer,
            room=core.room,
            clock=self._timers,
            transport=self.served,
            settings=self._settings.serve,
            wall_s=lambda: self.time.now_ms() / 1000,
        )

    def _make_runner(self) -> None:
        # It has a name of its own, as `duraton dev` gives one: a new process of it takes
        # over at once what the dead one executed.
        self.runner = Runner(
            list(self._apps.values()),
            self._upstream,
            name="test-runner",
            capacity=self._capacity,
            observer=self,
            now_ms=self.time.now_ms,
        )

    def _upstream(self, frames: list[Any]) -> None:
        if self.pipe is not None:
            self.pipe.upstream(frames)

    def connect(self) -> None:
        """Connect the runner anew; what it executes goes on."""
        assert self.runner is not None, "the transport is connect"
        self.disconnect()
        self.pipe = Pipe(self.core.hub, self.runner, self.sign, self._come_back)
        self.pipe.connect()

    def disconnect(self) -> None:
        """Cut the runner's connection; it does not come back by itself."""
        if self.pipe is not None:
            self.pipe.cut()
            self.core.hub.closed(self.pipe)
            self.pipe = None

    def _come_back(self) -> None:
        if self.alive and self.runner is not None:
            self.connect()

    async def deploy(self, app: App) -> str | None:
        """Register an app anew; answers why it was refused, or None."""
        if self._transport == "serve":
            # As one deploys: the new code is there before it is registered.
            self.served.add(app)
            refused = await self._register(app, ServedApps.url(app))
            if refused is None:
                self._apps[app.name] = app
            elif app.name in self._apps:
                self.served.add(self._apps[app.name])
            await self.going.settle()
            return refused
        refused = await self._register(app, None)
        if refused is not None:
            return refused
        self._apps[app.name] = app
        if self.runner is not None:
            self.runner.apps[app.name] = app
            self.connect()
            await self.going.settle()
            return self.pipe.refused if self.pipe is not None else None
        return None

    async def _register(self, app: App, url: str | None) -> str | None:
        def ask(core: Core) -> Coroutine[Any, Any, Any]:
            body = write_app(app.options(url))
            command = RegisterApp(id=core.new_id(), caller=TESTER, app=app.name, body=body)
            return core.command(command, COMMAND_TIMEOUT_S)

        reply = await self.ask(ask)
        if self._transport == "connect":
            await self.going.settle()
        return None if reply.ok else reply.message

    async def ask(self, make: Callable[[Core], Coroutine[Any, Any, T]]) -> T:
        """Ask something of the engine while it goes on, time standing still.

        Raises:
            ConnectionError: The engine is down, or was crashed meanwhile.
        """
        if not self.alive:
            raise ConnectionError("the engine is down")
        return await self.going.during(make(self.core))

    # Death --------------------------------------------------------------------------

    async def _close_core(self) -> None:
        self.alive = False
        self._timers.die()
        if self.pipe is not None:
            self.pipe.cut()
            self.pipe = None
        await self.core.replays.stop()
        self.core.waiting.fail(EngineStoppedError("the engine was crashed"))
        for processor in self.core.processors:
            if processor.shadow is not None and not processor.deciding:
                processor.shadow.compare_all(processor.state, processor.standing)
            processor.close()
        await self.core.gateway.serve.stop()
        self.core.view.close()

    async def crash(self, down_ms: int, *, runner: bool) -> None:
        """The engine dies here and comes back after some virtual time."""
        if not self.alive:
            raise ConnectionError("the engine is down already")
        await self._close_core()
        self._logs.crash()
        if runner:
            self._kill_runner()
        await self.going.advance(down_ms)
        self._open()
        if self._transport == "connect":
            if self.runner is None:
                self._make_runner()
            self.connect()
        await self.going.settle()

    def _kill_runner(self) -> None:
        if self.runner is not None:
            self.runner.close()
            self.runner = None
        self.served.kill()
        if self._transport == "serve":
            for app in self._apps.values():
                self.served.add(app)

    # What is noticed ------------------------------------------------------------------

    def sign(self) -> None:
        """Something happened."""
        self.signs += 1

    def note(self, facts: Sequence[tuple[int, Fact]]) -> None:
        """Facts were committed."""
        self.signs += 1
        for _, fact in facts:
            if isinstance(fact, journal.RunQueued):
                self._queued[fact.run] = fact.created
            elif isinstance(fact, journal.RunStarted) and fact.first:
                created = fact.created or self._queued.pop(fact.run, None)
                if created is not None and created.kind == "main":
                    at = (fact.at - self.time.start_ms) / 1000
                    self.started.append((created.workflow, fact.run, at))

    def execution_began(self, run: str, step: str, attempt: int) -> None:
        """User code of a step begins."""
        self.signs += 1
        self.executions.append((run, step, attempt, self.time.now()))

    # Going on -------------------------------------------------------------------------

    def turn(self) -> bool:
        """Let every partition do what it has to do now; whether there was anything."""
        if not self.alive:
            return False
        worked = False
        for processor in self.core.processors:
            worked = processor.turn() or worked
        return worked

    def busy_elsewhere(self) -> bool:
        """Whether worker threads or a broker have something in hand."""
        if self.runner is not None and self.runner.host.busy_elsewhere:
            return True
        if self.served.busy_elsewhere():
            return True
        return self.alive and self._logs.behind(self.core)

    def next_due(self) -> int | None:
        """When the next thing is due, milliseconds since 1970 UTC."""
        found = [self.time.next_ms()]
        if self.alive:
            found.extend(processor.next_due() for processor in self.core.processors)
        dues = [due for due in found if due is not None]
        return min(dues) if dues else None
