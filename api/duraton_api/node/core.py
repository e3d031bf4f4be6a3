"""A node without its server: partitions, runners and view put together.

The same core runs under a server on real time and in a test on virtual time;
only who takes the turns, and by which clock, differs.
"""

import asyncio
import secrets
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

import msgspec

from duraton_api.acts.worker import ReplayWorker
from duraton_api.errors import AnswerUnknownError, EngineStoppedError, PendingError
from duraton_api.node.append import Appender
from duraton_api.node.claim import Claim
from duraton_api.node.settings import EMBEDDED_PROCESSOR, NodeSettings
from duraton_api.node.unpriced import Unpriced
from duraton_api.node.waiting import Post, Waiting
from duraton_api.runners.clock import Clock as GatewayClock
from duraton_api.runners.gateway import Gateway
from duraton_api.runners.hub import Hub
from duraton_api.runners.serve import ServeCaller
from duraton_api.version import VERSION
from duraton_api.view.view import View
from duraton_engine.calls import Call, RoomFreed
from duraton_engine.decoding import POST_HEADER, REGISTRY_HEADER
from duraton_engine.effects import (
    CarryWanted,
    EventAccepted,
    EventAnswered,
    Metered,
    RegistryMoved,
    Reply,
    ToRunner,
)
from duraton_engine.machine import EngineMachine
from duraton_engine.registrations import APP, Registrations, registered_apps
from duraton_engine.room import Room
from duraton_schemas.codec import Codec
from duraton_schemas.ids import run_slot
from duraton_schemas.options import read_app
from duraton_schemas.records import commands
from duraton_schemas.records.common import Caller, Fact
from duraton_schemas.records.journal import RegistrationApplied
from duraton_schemas.records.public import Event
from duraton_schemas.slots import PROJECT_SLOT, home_slot, partition_of, slot_of
from duraton_streams.errors import OverloadedError
from duraton_streams.logs.base import COMMANDS, EVENTS, Headers, Log, NewRecord
from duraton_streams.logs.limits import check_sizes
from duraton_streams.partition.clock import Clock
from duraton_streams.partition.processor import PartitionProcessor
from duraton_streams.partition.recovery import Progress
from duraton_streams.partition.settings import ProcessorSettings
from duraton_streams.state.overlay import State

OPENS_AT_ONCE = 8
"""Partitions that are recovered at once on a broker."""

SYSTEM = Caller(kind="system", id="runner", root="system:runner")
"""Who registers an app by connecting."""


class Counts(Protocol):
    """Counts what is committed."""

    def batch(self, partition: int, facts: Sequence[tuple[int, Fact]]) -> None:
        """A batch's facts were committed."""

    def metered(self, effect: Metered) -> None:
        """What a call of a model used was committed."""


class Core:
    """The partitions of this process and everything around them; an `Outlet`.

    Args:
        log: The cluster's log.
        settings: The node's settings.
        make_state: Makes a partition's state over its store.
        make_clock: Makes a partition's clock, given the newest fact's time.
        gateway_clock: Time and timers of the runners' connections.
        view: What people read.
        wake: Called with a partition that has something to do, from any thread.
        serve: Makes what calls served apps.
        metrics: The node's counters, where it has any.
    """

    def __init__(
        self,
        log: Log,
        settings: NodeSettings,
        *,
        make_state: Callable[[int], State],
        make_clock: Callable[[int], Clock],
        gateway_clock: GatewayClock,
        view: View,
        wake: Callable[[int], None],
        serve: Callable[["Core"], ServeCaller],
        metrics: Counts | None = None,
    ) -> None:
        self.log = log
        self.settings = settings
        self.codec = Codec()
        fitting = EMBEDDED_PROCESSOR if log.embedded else ProcessorSettings()
        self.processing = settings.processor or fitting
        self.view = view
        self.metrics = metrics
        self.room = Room(self._room_freed)
        self.waiting = Waiting()
        self.registry = 0
        self._unpriced = Unpriced()
        self.hub = Hub(
            node=settings.node,
            partitions=log.partitions,
            offer=self.offer,
            room=self.room,
            register=self._register,
            clock=gateway_clock,
            settings=settings.hub,
        )
        self.gateway = Gateway(self.hub, serve(self))
        self.replays = ReplayWorker(self, self.new_id, gateway_clock.call_later_ms)
        self.appender = None if log.embedded else Appender(log)
        self.machines = [
            EngineMachine(number, self.room, settings.engine, self.codec)
            for number in range(log.partitions)
        ]
        self.processors = [
            PartitionProcessor(
                log,
                number,
                self.machines[number],
                make_state(number),
                self,
                make_clock,
                codec=self.codec,
                node=settings.node,
                version=VERSION,
                settings=self.processing,
                in_doubt=self.hub.reset,
                wake=lambda number=number: wake(number),  # type: ignore[misc]  # mypy infers no default argument
            )
            for number in range(log.partitions)
        ]
        # An embedded log has a lock file; its owner has no rivals.
        self.claim = None if log.embedded else Claim(self.processors[0])

    def open(self, progress: Progress | None = None) -> None:
        """Recover every partition and become its owner. It blocks.

        On a broker partitions are opened side by side, since each waits mostly for answers:
        the first alone, then the others, as `Claim` says.

        Raises:
            FencedError: Another engine took the cluster meanwhile.
            StreamError: A partition cannot be opened.
        """
        first, *others = self.processors
        first.open(progress)
        claim = self.claim
        if claim is None:
            for processor in others:
                processor.open(progress)
        else:

            def take(processor: PartitionProcessor) -> None:
                claim.take(processor.partition, lambda: processor.open(progress))

            with ThreadPoolExecutor(OPENS_AT_ONCE, "duraton-open") as threads:
                for _ in threads.map(take, others):
                    pass
            claim.check()
        self.registry = max(each.standing.registry for each in self.processors)
        for app in registered_apps(self.processors[0].state):
            self.gateway.serve.registered(app)

    # Outlet -------------------------------------------------------------------------

    def committed(self, partition: int, facts: Sequence[tuple[int, Fact]]) -> None:
        self.view.feed(partition, facts)
        if self.metrics is not None:
            self.metrics.batch(partition, facts)
        if partition == 0:
            for _, fact in facts:
                if type(fact) is RegistrationApplied and fact.kind == APP:
                    self._app_applied(fact)

    def _app_applied(self, fact: RegistrationApplied) -> None:
        if fact.body is None:
            self.gateway.serve.removed(fact.key)
        else:
            self.gateway.serve.registered(read_app(fact.body))

    def effects(self, partition: int, effects: Sequence[object]) -> None:  # noqa: ARG002 - an Outlet is told
        frames: list[ToRunner] = []
        waiting = self.waiting
        for effect in effects:
            if isinstance(effect, ToRunner):
                frames.append(effect)
            elif isinstance(effect, EventAccepted):
                waiting.accepted(effect)
            elif isinstance(effect, EventAnswered):
                waiting.answered(effect)
            elif isinstance(effect, Reply):
                self.registry = max(self.registry, effect.version)
                waiting.replied(effect)
            elif isinstance(effect, RegistryMoved):
                self.registry = max(self.registry, effect.version)
                waiting.in_force(self._in_force())
            elif isinstance(effect, Metered):
                self._metered(effect)
            elif isinstance(effect, CarryWanted):
                self.replays.wanted(effect)
        if frames:
            self.gateway.deliver(frames)

    def _metered(self, effect: Metered) -> None:
        self._unpriced.note(effect)
        if self.metrics is not None:
            self.metrics.metered(effect)

    # Calls --------------------------------------------------------------------------

    def offer(self, partition: int | None, call: Call) -> None:
        """Give a call to a partition, or to all."""
        if partition is not None:
            self.processors[partition].offer(call)
            return
        for processor in self.processors:
            processor.offer(call)

    def _room_freed(self) -> None:
        self.offer(None, RoomFreed())

    async def _register(self, body: str) -> Reply:
        name = _app_name(body)
        return await self.command(
            commands.RegisterApp(id=self.new_id(), caller=SYSTEM, app=name, body=body)
        )

    # What people send ------------------------------------------------------------------

    def new_id(self) -> str:
        """A random id for a POST, a command or an event."""
        return secrets.token_hex(12)

    def registrations(self) -> Registrations:
        """What the first partition decides by, for placing events."""
        machine, processor = self.machines[0], self.processors[0]
        found = machine.engine.registrations
        found.refresh(processor.state, processor.standing.registry)
        return found

    def place_of(self, names: set[str], post: str) -> int:
        """The partition of a POST's events: their home's, where they have one (DESIGN 3)."""
        if self.log.partitions == 1:
            return 0
        registrations = self.registrations()
        homes = {
            partition_of(home_slot(*home), self.log.partitions)
            for name in names
            for home in registrations.match(name)
        }
        if len(homes) == 1:
            return homes.pop()
        return partition_of(slot_of("post", post), self.log.partitions)

    async def append_events(self, events: Sequence[Event], timeout_s: float) -> Post:
        """Record the events of one POST and wait for what they lead to.

        Args:
            events: At least one, each with its id and caller.
            timeout_s: How long to wait for the fan-out (P46: 5 s).

        Returns:
            What became of each; some of it may be pending.

        Raises:
            OverloadedError: Too much waits; nothing was recorded.
            AnswerUnknownError: It is not known whether they were recorded.
        """
        post = self.new_id()
        partition = self.place_of({event.name for event in events}, post)
        self._refuse_overload(partition)
        waiting = self.waiting.open_post(post, len(events))
        stamp = self._stamp(partition)
        now = self.processors[partition].clock_ms
        records = [
            NewRecord(
                EVENTS,
                partition,
                self.codec.encode(event),
                event.name.encode(),
                ((POST_HEADER, f"{post}/{number}".encode()), *stamp),
                now,
            )
            for number, event in enumerate(events)
        ]
        try:
            await self._append(partition, records, events, waiting.fail)
            await asyncio.wait((waiting.done,), timeout=timeout_s)
            if waiting.done.done():
                waiting.done.result()
        finally:
            self.waiting.close_post(post)
        return waiting

    async def command(self, command: commands.Command, timeout_s: float = 5.0) -> Reply:
        """Give a command to its slot's partition and wait for the reply.

        Raises:
            OverloadedError: Too much waits; nothing was recorded.
            PendingError: No reply came in time; the command is recorded.
        """
        partition = partition_of(_target_slot(command), self.log.partitions)
        self._refuse_overload(partition)
        future = self.waiting.open_reply(command.id)
        record = NewRecord(
            COMMANDS,
            partition,
            self.codec.encode(command),
            command.id.encode(),
            self._stamp(partition),
            self.processors[partition].clock_ms,
        )

        def fail(error: Exception) -> None:
            if not future.done():
                future.set_exception(error)

        try:
            await self._append(partition, [record], [command], fail)
            await asyncio.wait((future,), timeout=timeout_s)
            if not future.done():
                raise PendingError("its answer has not come yet")
            return future.result()
        finally:
            self.waiting.close_reply(command.id)

    def journal_ends(self) -> Mapping[int, int]:
        """For each partition the offset after its last committed fact."""
        return {each.partition: each.standing.journal for each in self.processors}

    async def applied(self, version: int, timeout_s: float = 5.0) -> None:
        """Wait until every partition decides by a version of the registry.

        Events that are sent later carry the version and wait for it by themselves. What
        waits already, such as a start under the project's ceiling, does not.

        Raises:
            PendingError: Some partition has not applied it in time.
        """
        if self._in_force() >= version:
            return
        future = self.waiting.open_version(version)
        try:
            await asyncio.wait((future,), timeout=timeout_s)
            if not future.done():
                raise PendingError("it is not in force everywhere yet")
            future.result()
        finally:
            self.waiting.close_version(future)

    def _in_force(self) -> int:
        return min(processor.standing.registry for processor in self.processors)

    def stop_waiting(self) -> None:
        """Answer everyone who waits: the process ends."""
        self.waiting.fail(EngineStoppedError("the engine stopped before it could answer"))

    def _refuse_overload(self, partition: int) -> None:
        processor = self.processors[partition]
        if processor.backlog >= self.processing.backlog_max:
            raise OverloadedError(f"{processor.backlog} events and commands wait already")

    def _stamp(self, partition: int) -> Headers:
        if self.processors[partition].standing.registry >= self.registry:
            return ()
        return ((REGISTRY_HEADER, str(self.registry).encode()),)

    async def _append(
        self,
        partition: int,
        records: list[NewRecord],
        values: Sequence[object],
        fail: Callable[[Exception], None],
    ) -> None:
        if self.appender is not None:
            await self.appender.append(records)
            return

        # Nothing may be in a batch that cannot be written: the whole batch would fail.
        check_sizes(records)

        def taken(offset: int | None) -> None:
            if offset is None:
                fail(AnswerUnknownError("it is not known whether it was recorded; send it again"))

        processor = self.processors[partition]
        for record, value in zip(records, values, strict=True):
            processor.submit(record, value, taken)


def _target_slot(command: commands.Command) -> int:
    if isinstance(command, _OF_PROJECT):
        return PROJECT_SLOT
    if isinstance(command, _OF_RUNS):
        return run_slot(command.run)
    raise TypeError(f"a {type(command).__name__} has no target")


_OF_PROJECT = (
    commands.RegisterApp,
    commands.SetPrices,
    commands.SetProject,
    commands.AddJobRuns,
    commands.StartJob,
    commands.StopJob,
)
_OF_RUNS = (
    commands.CancelRun,
    commands.PauseRun,
    commands.ResumeRun,
    commands.CarryRun,
    commands.ReplayRun,
    commands.RefuseReplay,
)


class _Named(msgspec.Struct):
    name: str


def _app_name(body: str) -> str:
    return msgspec.json.decode(body, type=_Named).name
