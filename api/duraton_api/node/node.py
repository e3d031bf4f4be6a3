"""A node: one engine process with its log, its partitions, its runners and its API."""

import asyncio
import contextlib
import gc
import logging
import shutil
import signal
import socket
import sys
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import uvicorn
from starlette.routing import WebSocketRoute

from duraton_api.errors import PortInUseError
from duraton_api.http import create_app
from duraton_api.http.backend import HttpSettings
from duraton_api.http.keys import ApiKey
from duraton_api.http.metrics import Metrics
from duraton_api.node.backend import NodeBackend
from duraton_api.node.claim import ClaimWatch
from duraton_api.node.connections import BoundedHttp, connections_max, watch
from duraton_api.node.core import Core
from duraton_api.node.defaults import (
    KAFKA_PARTITIONS,
    KAFKA_REPLICATION,
    LOG_FILE,
    STATE_FOLDER,
    VIEW_FILE,
)
from duraton_api.node.driver import Driver
from duraton_api.node.reference import ReferenceTime
from duraton_api.node.settings import NodeSettings
from duraton_api.runners.clock import LoopClock
from duraton_api.runners.http import HttpPool
from duraton_api.runners.serve import ServeCaller
from duraton_api.runners.socket import RunnerSocket
from duraton_api.view import View
from duraton_engine.state.tables import TABLES
from duraton_schemas.wire.frames import MESSAGE_BYTES_MAX
from duraton_streams.errors import LogError, StoreMismatchError, TopicsMissingError
from duraton_streams.logs.base import Log
from duraton_streams.logs.memory import MemoryLog
from duraton_streams.logs.sqlite import SqliteLog
from duraton_streams.partition.clock import EngineClock
from duraton_streams.partition.recovery import Progress
from duraton_streams.state.memory import MemoryStore
from duraton_streams.state.overlay import State
from duraton_streams.state.rocksdb import RocksMemory, RocksStore

_log = logging.getLogger("duraton.node")
T = TypeVar("T")

SWITCH_INTERVAL_S = 0.0005
"""How long a thread may keep the others waiting: commits and the view run beside the
loop, and the default of 5 ms would be a commit's time twelve times over (DESIGN 10)."""
GC_THRESHOLDS = (50_000, 20, 50)
"""A batch makes thousands of objects that live until it is committed; at the default
of 700 the collector walked them again and again, for an eighth of the whole time."""
BACKLOG = 1_024
"""Connections that may wait to be accepted."""
STOP_TIMEOUT_S = 10


def open_log(settings: NodeSettings) -> Log:
    """The cluster's log, as the settings say. It blocks.

    Raises:
        LogError: It cannot be opened, or the data directory cannot be made.
    """
    if settings.data is not None:
        try:
            settings.data.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise LogError(f"cannot make {settings.data}: {error.strerror}") from error
    if settings.kafka is not None:
        return _open_kafka(settings, settings.kafka)
    if settings.data is not None:
        return SqliteLog(settings.data / LOG_FILE, settings.partitions)
    return MemoryLog(settings.partitions or 1)


def _open_kafka(settings: NodeSettings, bootstrap: str) -> Log:
    from duraton_streams.logs.kafka import KafkaLog  # noqa: PLC0415 - loads librdkafka

    try:
        return KafkaLog(bootstrap, prefix=settings.prefix, partitions=settings.partitions)
    except TopicsMissingError:
        # A new cluster, as `duraton topics create` would make it.
        count = settings.partitions or KAFKA_PARTITIONS
        copies = min(KAFKA_REPLICATION, KafkaLog.brokers(bootstrap))
        KafkaLog.create_topics(bootstrap, count, copies, settings.prefix)
        return KafkaLog(bootstrap, prefix=settings.prefix, partitions=settings.partitions)


class Node:
    """An engine process.

    Example:
        >>> async with Node(NodeSettings(data=Path(".duraton"))) as node:
        ...     print(node.url)

    Args:
        settings: What it is told.
        progress: Told how far recovery is: the offset reached and the one to reach.
    """

    def __init__(self, settings: NodeSettings, progress: Progress | None = None) -> None:
        self.settings = settings
        self.metrics = Metrics()
        self.port = settings.port
        self._progress = progress
        self._ended: asyncio.Future[BaseException | None] | None = None
        self._stack = contextlib.AsyncExitStack()
        self._drivers: list[Driver] = []

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://{self.settings.host}:{self.port}"

    async def __aenter__(self) -> "Node":
        """Start.

        1. take the port, so that nothing is opened in vain
        2. open the log
        3. recover every partition and become its owner
        4. let the view catch up, take turns, and only then listen

        Raises:
            PortInUseError: Another process listens there.
            StreamError: The log or a partition cannot be opened.
        """
        try:
            await self._start()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._stack.aclose()

    async def _start(self) -> None:
        loop = asyncio.get_running_loop()
        self._ended = loop.create_future()
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        gc.set_threshold(*GC_THRESHOLDS)
        # 1
        listener = _listen(self.settings.host, self.settings.port)
        self._stack.callback(listener.close)
        self.port = listener.getsockname()[1]
        # 2
        log = await loop.run_in_executor(None, open_log, self.settings)
        self._stack.callback(log.close)
        # 3
        view = await loop.run_in_executor(None, self._open_view, log)
        self._stack.callback(view.close)
        pool = HttpPool()
        self._stack.push_async_callback(pool.close)
        reference = ReferenceTime(log)
        await loop.run_in_executor(None, reference.ask)
        reference.start()
        self._stack.push_async_callback(reference.stop)
        core = self._core(log, view, pool, reference)
        self.core = core
        await loop.run_in_executor(None, core.open, self._progress)
        # 4
        self.metrics.watch_view(lambda: view.queued)
        view.start()
        self._drive(core)
        await self._serve(core, listener)

    def _open_view(self, log: Log) -> View:
        data = self.settings.data
        if data is None or self.settings.view_memory:
            return View(":memory:", log)
        return View(data / VIEW_FILE, log)

    def _core(self, log: Log, view: View, pool: HttpPool, reference: ReferenceTime) -> Core:
        memory = RocksMemory()
        clock = LoopClock()

        def make_state(partition: int) -> State:
            data = self.settings.data
            if data is None:
                return State(MemoryStore(), TABLES)
            state = _open_state(data / STATE_FOLDER / str(partition), memory)
            self._stack.callback(state.close)
            return state

        def make_clock(newest: int) -> EngineClock:
            return EngineClock(newest, reference.now_ms)

        return Core(
            log,
            self.settings,
            make_state=make_state,
            make_clock=make_clock,
            gateway_clock=clock,
            view=view,
            wake=self._wake,
            serve=lambda core: ServeCaller(
                partitions=log.partitions,
                offer=core.offer,
                room=core.room,
                clock=clock,
                transport=pool,
                settings=self.settings.serve,
            ),
            metrics=self.metrics,
        )

    def _wake(self, partition: int) -> None:
        # Tails wake the processor while it is being opened, before it is driven.
        if partition < len(self._drivers):
            self._drivers[partition].wake()

    def _drive(self, core: Core) -> None:
        self._drivers.extend(
            Driver(
                processor,
                inline=core.log.embedded,
                ended=self._partition_ended,
                committed=self.metrics.commit_seconds.observe,
                claim=core.claim,
            )
            for processor in core.processors
        )
        for driver in self._drivers:
            driver.start()
            self._stack.push_async_callback(driver.stop)

        if core.claim is not None:
            looking = ClaimWatch(core.claim, self._partition_ended)
            self._stack.push_async_callback(looking.stop)

    def _partition_ended(self, error: BaseException) -> None:
        self.backend.stopped.append(str(error))
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(error)

    async def _serve(self, core: Core, listener: socket.socket) -> None:
        keys = tuple(ApiKey(name, digest) for name, digest in self.settings.keys)
        self.backend = NodeBackend(core, self.metrics, HttpSettings(keys=keys))
        runner_socket = RunnerSocket(lambda: core.hub)
        app = create_app(self.backend, [WebSocketRoute("/connect", runner_socket)])
        BoundedHttp.most = connections_max()
        config = uvicorn.Config(
            app,
            http=BoundedHttp,
            ws="websockets-sansio",
            ws_per_message_deflate=False,
            ws_max_size=MESSAGE_BYTES_MAX,
            ws_ping_interval=None,
            log_config=None,
            access_log=False,
            lifespan="off",
            backlog=BACKLOG,
            timeout_graceful_shutdown=STOP_TIMEOUT_S,
        )
        server = _Server(config)
        task = asyncio.get_running_loop().create_task(server.serve(sockets=[listener]))

        async def stop() -> None:
            await core.replays.stop()
            core.stop_waiting()
            await core.gateway.stop()
            server.should_exit = True
            await task

        self._stack.push_async_callback(stop)
        self._stack.callback(watch(server.server_state, asyncio.get_running_loop()))
        while not server.started and not task.done():  # noqa: ASYNC110 - uvicorn has no event for it
            await asyncio.sleep(0.001)

    async def ended(self) -> BaseException | None:
        """Wait until the node ends by itself: fenced, or a partition stopped."""
        assert self._ended is not None, "the node has started"
        return await self._ended


class _Server(uvicorn.Server):
    """uvicorn without its signal handlers: the node stops in an order of its own."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _open_state(path: Path, memory: RocksMemory) -> State:
    """A partition's state; one of another form is dropped, the journal has it all."""
    store = None
    try:
        store = RocksStore(path, memory)
        return State(store, TABLES)
    except StoreMismatchError as error:
        _log.warning("%s; the state is rebuilt from the journal", error)
    if store is not None:
        store.close()
    # One that is damaged cannot be opened, not even to be destroyed.
    shutil.rmtree(path, ignore_errors=True)
    return State(RocksStore(path, memory), TABLES)


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise PortInUseError(f"cannot listen on {host}:{port}: {error.strerror}") from error
    listener.setblocking(False)
    return listener


def run(
    settings: NodeSettings,
    on_ready: Callable[[Node], None] | None = None,
    progress: Progress | None = None,
) -> BaseException | None:
    """Run a node until SIGINT or SIGTERM. It blocks.

    Args:
        settings: What it is told.
        on_ready: Called once it listens.
        progress: Told how far recovery is.

    Returns:
        Why it ended by itself, or None where it was told to.
    """

    async def main() -> BaseException | None:
        loop = asyncio.get_running_loop()
        told = loop.create_future()

        def tell() -> None:
            if not told.done():
                told.set_result(None)

        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, tell)
        async with Node(settings, progress) as node:
            if on_ready is not None:
                on_ready(node)
            ended = asyncio.ensure_future(node.ended())
            await asyncio.wait((told, ended), return_when=asyncio.FIRST_COMPLETED)
            if ended.done():
                return ended.result()
            ended.cancel()
        return None

    return _runner(main())


def _runner(main: Coroutine[Any, Any, T]) -> T:
    try:
        import uvloop  # noqa: PLC0415 - where there is one
    except ImportError:
        return asyncio.run(main)
    return uvloop.run(main)
