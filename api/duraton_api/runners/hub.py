"""The connections of runner processes, between their sockets and the partitions.

Everything here runs on the loop's thread and keeps nothing durable: what a runner
executes stands in the journal, and a runner that was cut off says what it still has.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from duraton_api.runners.answers import (
    TOKEN_LENGTH_MAX,
    Answer,
    fault_of,
    settled,
    slot_of_run,
)
from duraton_api.runners.clock import Clock
from duraton_api.runners.connection import Connection, close_reason
from duraton_api.runners.errors import HelloRefusedError
from duraton_api.runners.greeting import Greeting
from duraton_api.runners.links import Link, Runner, Stage
from duraton_api.runners.roster import Offer, Roster
from duraton_api.runners.settings import HubSettings
from duraton_engine.calls import Answered, InvokeMissed, RunnerSettled
from duraton_engine.effects import Reply, ToRunner
from duraton_engine.room import Room
from duraton_engine.wire import stale_answer
from duraton_schemas.errors import BadRecordError
from duraton_schemas.slots import partition_of
from duraton_schemas.wire import closing
from duraton_schemas.wire.frames import (
    FRAMES_MAX,
    MESSAGE_BYTES_MAX,
    Drain,
    Frame,
    Hello,
    Invoke,
    Ping,
    Refused,
    RunnerFrame,
    decode_from_runner,
    encode,
)

_log = logging.getLogger("duraton.runners")

Register = Callable[[str], Awaitable[Reply]]
"""Registers an app, given as the JSON text of its options."""

_PING_FRAMES: list[Frame] = [Ping()]
_PING = encode(_PING_FRAMES)


class Hub:
    """The node's connections to runner processes (connect).

    Args:
        node: The node's name, which runners are told.
        partitions: How many partitions the cluster has.
        offer: Gives a call to a partition, or to all.
        room: The node's room.
        register: Registers an app.
        clock: Time and timers.
        settings: Bounds and deadlines.
    """

    def __init__(
        self,
        *,
        node: str,
        partitions: int,
        offer: Offer,
        room: Room,
        register: Register,
        clock: Clock,
        settings: HubSettings | None = None,
    ) -> None:
        self.settings = settings or HubSettings()
        self._node = node
        self._partitions = partitions
        self._offer = offer
        self._clock = clock
        self._greeting = Greeting(register, self.settings)
        self._roster = Roster(room, offer, clock, self.settings)
        self._links: dict[Connection, Link] = {}
        self._unsent = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._stop_beat: Callable[[], None] | None = None
        self._stopped = False

    @property
    def runners(self) -> Sequence[Runner]:
        """The runner processes that are connected or waited for."""
        return self._roster.runners

    # From the sockets ------------------------------------------------------

    def connected(self, connection: Connection) -> None:
        """A connection was made; its first frame must be a hello."""
        link = Link(connection, self._clock.now_ms())
        self._links[connection] = link
        if self._stopped:
            self._drop(link, closing.CLOSE_GOING, "engine-stopping", "the engine stops")
        elif self._stop_beat is None and self.settings.ping_ms:
            self._stop_beat = self._clock.call_later_ms(self.settings.ping_ms, self._beat)

    def received(self, connection: Connection, message: bytes) -> None:
        """A message came. Nothing is raised; what makes no sense closes the connection."""
        link = self._links.get(connection)
        if link is None:
            return
        link.heard_ms = self._clock.now_ms()
        if len(message) > MESSAGE_BYTES_MAX:
            self._unreadable(link, f"a message of {len(message)} bytes; split it")
            return
        try:
            frames = decode_from_runner(message)
        except BadRecordError as error:
            self._unreadable(link, str(error))
            return
        if len(frames) > FRAMES_MAX:
            self._unreadable(link, f"a message of {len(frames)} frames; split it")
        elif link.stage is Stage.OPEN:
            self._take(link, frames, len(message))
        elif link.stage is Stage.GREETING:
            self._keep_early(link, frames, len(message))
        elif frames and isinstance(frames[0], Hello):
            link.stage = Stage.GREETING
            self._keep_early(link, frames[1:], len(message))
            if link.stage is Stage.GREETING:
                self._begin_greeting(link, frames[0])
        else:
            self._unreadable(link, "the first frame must be hello")

    def closed(self, connection: Connection, code: int = 1006) -> None:
        """A connection ended.

        Args:
            connection: Which one.
            code: The close code that the runner sent, 1006 where it sent none.
        """
        link = self._links.get(connection)
        if link is not None:
            self._gone(link, clean=code in closing.CLEAN_CODES)

    def taken(self, connection: Connection) -> None:
        """The transport took bytes that were queued; a slow runner may be quick again."""
        link = self._links.get(connection)
        if link is None:
            return
        unsent, runner = self._count_unsent(link), link.runner
        if runner is not None and runner.slow and unsent <= self.settings.unsent_bytes_slow // 2:
            self._roster.quick(runner)

    # From the engine -------------------------------------------------------

    def deliver(self, effects: Sequence[ToRunner]) -> None:
        """Send the frames of a committed batch: one message a runner, in their order.

        What is for a runner that is not connected is dropped: when it says hello
        again, or is lost, the engine finds out what it does not have.
        """
        batches: dict[str, list[Frame]] = {}
        for effect in effects:
            frames = batches.get(effect.boot)
            if frames is None:
                batches[effect.boot] = [effect.frame]
            else:
                frames.append(effect.frame)
        for boot, frames in batches.items():
            runner = self._roster.get(boot)
            if runner is not None and runner.link is not None:
                self._deliver_to(runner, runner.link, frames)

    async def stop(self) -> None:
        """Close every connection. Runners keep what they execute and come back."""
        self._stopped = True
        if self._stop_beat is not None:
            self._stop_beat()
        self._roster.clear()
        for link in list(self._links.values()):
            self._drop(link, closing.CLOSE_GOING, "engine-stopping", "the engine stops")
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def reset(self) -> None:
        """Ask every runner to come back: after a doubt it is not known what was delivered.

        They say what they still execute and send again what was not acknowledged.
        """
        for link in list(self._links.values()):
            self._drop(link, closing.CLOSE_GOING, "engine-rebuilt", "a partition was rebuilt")

    # Hello -----------------------------------------------------------------

    def _begin_greeting(self, link: Link, hello: Hello) -> None:
        task = asyncio.get_running_loop().create_task(self._greet(link, hello))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _greet(self, link: Link, hello: Hello) -> None:
        """Let a runner in.

        1. Check the hello, and that nobody else has its name.
        2. Register its apps, each all or nothing.
        3. Check again: time has passed.
        4. End what it replaces: its own older connection, the older boot of its name.
        5. Answer, so that hello is the first frame it gets.
        6. Tell every partition what it still executes.
        7. Give it a seat, then take what it said meanwhile.
        """
        try:
            self._greeting.check(hello)  # 1
            self._roster.check(hello)
            offers = await self._greeting.register(hello)  # 2
            if link.stage is not Stage.GREETING:
                return
            self._roster.check(hello)  # 3
        except HelloRefusedError as error:
            told: list[Frame] = [Refused(code=error.code, message=str(error))]
            link.connection.send(encode(told))
            self._drop(link, error.close_code, error.code, str(error))
            return
        except Exception:  # noqa: BLE001 a defect of ours costs this connection, nothing else
            _log.exception("a runner's hello could not be answered")
            self._drop(link, closing.CLOSE_DEFECT, "engine-defect", "see the engine's log")
            return
        runner, replaced = self._roster.admit(hello, offers, link)  # 4
        for old in replaced:
            self._drop(old, closing.CLOSE_REPLACED, "runner-replaced", "a newer one took its place")
        link.runner, link.stage = runner, Stage.OPEN
        settings = self.settings
        answer = Hello(
            node=self._node,
            tokens=hello.tokens,
            ping_ms=settings.ping_ms,
            silence_ms=settings.silence_ms,
        )
        self._send(link, [answer])  # 5
        live = frozenset((live.run, live.token) for live in hello.tokens)
        name = hello.name if hello.explicit else None
        self._offer(None, RunnerSettled(boot=hello.boot, live=live, name=name))  # 6
        self._roster.seat(runner, [live.token for live in hello.tokens])  # 7
        _log.info("runner %s (%s) connected", hello.name, hello.boot)
        early, size = link.early, link.early_bytes
        link.early, link.early_bytes = [], 0
        self._take(link, early, size)

    def _keep_early(self, link: Link, frames: list[RunnerFrame], size: int) -> None:
        link.early.extend(frames)
        link.early_bytes += size
        if link.early_bytes > self.settings.early_bytes_max:
            self._unreadable(link, "too much was sent before hello was answered")

    # Frames ----------------------------------------------------------------

    def _take(self, link: Link, frames: list[RunnerFrame], size: int) -> None:
        runner = link.runner
        before = link.unanswered
        for frame in frames:
            if runner is None or link.stage is not Stage.OPEN:
                return
            if isinstance(frame, Ping):
                continue
            if isinstance(frame, Drain):
                self._roster.drain(runner)
            elif isinstance(frame, Hello):
                self._unreadable(link, "hello is said once")
            else:
                self._answered(link, runner.boot, frame)
        if link.unanswered > before:
            link.unanswered_bytes += size
            link.hold_back(self.settings, self._clock.now_ms())

    def _answered(self, link: Link, boot: str, answer: Answer) -> None:
        slot = slot_of_run(answer.run)
        partition = partition_of(slot, self._partitions)
        odd = slot < 0 or len(answer.token) > TOKEN_LENGTH_MAX
        if odd or not answer.token.startswith(f"{partition}."):
            self._send(link, [stale_answer(answer)])
            return
        fault = fault_of(answer)
        if fault is None:
            link.count(answer.token)
            self._offer(partition, Answered(boot, settled(answer)))
            return
        _log.warning("runner %s answered nonsense for %s: %s", boot, answer.run, fault)
        reason = f"the runner's answer makes no sense: {fault}"
        self._offer(partition, InvokeMissed(answer.run, answer.token, reason))

    def _deliver_to(self, runner: Runner, link: Link, frames: list[Frame]) -> None:
        ended = runner.ended
        if ended:
            frames = [f for f in frames if not (isinstance(f, Invoke) and f.token in ended)]
        self._send(link, frames)
        if link.unanswered:
            link.discount(frames)
            if link.paused:
                link.hold_back(self.settings, self._clock.now_ms())

    def _send(self, link: Link, frames: list[Frame]) -> None:
        """Send frames in as few messages as the protocol allows."""
        if not frames or link.stage is not Stage.OPEN:
            return
        message = encode(frames)
        if (len(message) > MESSAGE_BYTES_MAX or len(frames) > FRAMES_MAX) and len(frames) > 1:
            half = len(frames) // 2
            self._send(link, frames[:half])
            self._send(link, frames[half:])
            return
        link.connection.send(message)
        unsent = self._count_unsent(link)
        if unsent > self.settings.unsent_bytes_slow:
            self._slow(link, unsent)
        if self._unsent > self.settings.unsent_total_max:
            most = max(self._links.values(), key=lambda each: each.unsent)
            told = f"{self._unsent} bytes wait for all runners, {most.unsent} of them for this one"
            self._drop(most, closing.CLOSE_SLOW, "runner-slow", told)

    def _count_unsent(self, link: Link) -> int:
        unsent = link.connection.unsent
        if unsent != link.unsent:
            self._unsent += unsent - link.unsent
            link.unsent = unsent
        return unsent

    def _slow(self, link: Link, unsent: int) -> None:
        if unsent > self.settings.unsent_bytes_max:
            self._drop(
                link, closing.CLOSE_SLOW, "runner-slow", f"{unsent} bytes wait for the runner"
            )
        elif link.runner is not None and not link.runner.slow:
            self._roster.slow(link.runner)

    # Silence and loss ------------------------------------------------------

    def _beat(self) -> None:
        """Give every runner a sign of life, and close what was silent for too long."""
        now = self._clock.now_ms()
        for link in list(self._links.values()):
            if now - link.heard_ms >= self.settings.silence_ms and not link.paused:
                message = f"no frame for {now - link.heard_ms} ms"
                self._drop(link, closing.CLOSE_SILENT, "runner-silent", message)
            elif link.stage is Stage.OPEN:
                link.connection.send(_PING)
        self._stop_beat = None
        if self._links:
            self._stop_beat = self._clock.call_later_ms(self.settings.ping_ms, self._beat)

    def _unreadable(self, link: Link, message: str) -> None:
        self._drop(link, closing.CLOSE_UNREADABLE, "runner-unreadable", message)

    def _drop(self, link: Link, close_code: int, code: str, message: str) -> None:
        if link.stage is Stage.CLOSED:
            return
        runner = link.runner
        _log.warning(
            "runner %s: connection closed, %s (%s)", runner.name if runner else "?", message, code
        )
        link.connection.close(close_code, close_reason(code, message))
        self._gone(link, clean=False)

    def _gone(self, link: Link, *, clean: bool) -> None:
        self._links.pop(link.connection, None)
        link.stage = Stage.CLOSED
        link.early.clear()
        self._unsent -= link.unsent
        link.unsent = 0
        runner, link.runner = link.runner, None
        if runner is not None and runner.link is link:
            self._roster.disconnected(runner, clean=clean)
