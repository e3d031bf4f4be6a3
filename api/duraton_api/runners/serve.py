"""Invocations by HTTP: the engine POSTs, the runner answers with what happened (serve).

One POST is one invocation. Its answer brings the run to its next commit point; what
falls due meanwhile waits for that answer (DESIGN 8).
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from duraton_api.runners.answers import Answer, fault_of, settled, slot_of_run
from duraton_api.runners.clock import Clock
from duraton_api.runners.errors import MissedError
from duraton_api.runners.http import HttpTransport
from duraton_api.runners.post import Poster
from duraton_api.runners.roster import Offer
from duraton_api.runners.settings import ServeSettings
from duraton_engine.calls import Answered, InvokeMissed, RunnerLost
from duraton_engine.effects import ToRunner
from duraton_engine.room import SERVED_PREFIX, Room, Seat
from duraton_schemas.errors import BadRecordError
from duraton_schemas.options import AppOptions
from duraton_schemas.slots import partition_of
from duraton_schemas.wire.frames import (
    Cancel,
    Complete,
    Fail,
    Frame,
    Invoke,
    Step,
    Suspend,
    decode_from_runner,
    encode,
)

_log = logging.getLogger("duraton.runners")

_ENDINGS = (Suspend, Complete, Fail)


@dataclass(eq=False)
class _Call:
    """A POST that is to be made or under way.

    Attributes:
        app: The app's name.
        invoke: What it carries.
        began_ms: When it was made, or None while it waits for its turn.
        heard_ms: When the last byte came.
        late: Why it was given up, once it was.
        task: What carries it out.
        stop_watch: Cancels the look at its deadlines.
    """

    app: str
    invoke: Invoke
    began_ms: int | None = None
    heard_ms: int = 0
    late: str | None = None
    task: "asyncio.Task[None] | None" = None
    stop_watch: Callable[[], None] = lambda: None


class ServeCaller:
    """Calls the runners of apps that are registered with a URL.

    Args:
        partitions: How many partitions the cluster has.
        offer: Gives a call to a partition, or to all.
        room: The node's room.
        clock: Time and timers; deadlines go by it.
        settings: Bounds and deadlines.
        transport: What makes the requests; it is closed by whoever made it.
        wall_s: The wall clock in seconds since 1970 UTC, for signatures.
    """

    def __init__(
        self,
        *,
        partitions: int,
        offer: Offer,
        room: Room,
        clock: Clock,
        transport: HttpTransport,
        settings: ServeSettings | None = None,
        wall_s: Callable[[], float] = time.time,
    ) -> None:
        self.settings = settings or ServeSettings()
        self._partitions = partitions
        self._offer = offer
        self._room = room
        self._clock = clock
        self._poster = Poster(transport, self.settings, wall_s)
        self._urls: dict[str, str] = {}
        self._calls: dict[str, _Call] = {}
        self._places = asyncio.Semaphore(self.settings.calls_max)

    def registered(self, app: AppOptions) -> None:
        """An app's newest registration: it takes a seat, changes it, or gives it up."""
        if app.url is None:
            self.removed(app.name)
            return
        self._urls[app.name] = app.url
        seat = Seat(
            boot=SERVED_PREFIX + app.name,
            name=app.name,
            transport="serve",
            offers=frozenset((app.name, workflow.name) for workflow in app.workflows),
            capacity=self.settings.capacity,
        )
        old = self._room.seats.get(seat.boot)
        if old is None or old.offers != seat.offers:
            self._room.join(seat)

    def removed(self, app: str) -> None:
        """An app is no longer served: calls in flight end and their runs go elsewhere."""
        if self._urls.pop(app, None) is None:
            return
        for call in [call for call in self._calls.values() if call.app == app]:
            self._abort(call)
        boot = SERVED_PREFIX + app
        self._room.leave(boot)
        reason = f"the app {app!r} is registered without a URL now"
        self._offer(None, RunnerLost(boot=boot, reason=reason, counts=False))

    def deliver(self, effects: Sequence[ToRunner]) -> None:
        """Make the invocations of a committed batch, and give up what it cancels.

        Acknowledgements and wakes have no one to go to: the next invocation brings
        what they would say.
        """
        for effect in effects:
            frame = effect.frame
            if isinstance(frame, Invoke):
                self._begin(effect.boot.removeprefix(SERVED_PREFIX), frame)
            elif isinstance(frame, Cancel):
                call = self._calls.get(frame.token)
                if call is not None:
                    self._abort(call)

    async def stop(self) -> None:
        """Give up every call; their runs are invoked again by the next owner."""
        calls = list(self._calls.values())
        for call in calls:
            self._abort(call)
        tasks = [call.task for call in calls if call.task is not None]
        await asyncio.gather(*tasks, return_exceptions=True)

    # One call --------------------------------------------------------------

    def _begin(self, app: str, invoke: Invoke) -> None:
        call = _Call(app, invoke)
        self._calls[invoke.token] = call
        call.task = asyncio.get_running_loop().create_task(self._carry_out(call))

    async def _carry_out(self, call: _Call) -> None:
        """Make a call and tell the run's partition how it went.

        1. Wait for a place among the calls in flight.
        2. POST, watched for silence and for its whole length.
        3. Check the whole answer; one that makes no sense counts as none.
        4. Offer its frames, and the end of the invocation after them.
        """
        try:
            async with self._places:  # 1
                body = await self._post(call)  # 2
            answers = self._read(call.invoke, body)  # 3
        except MissedError as missed:
            self._missed(call, str(missed), counts=missed.counts)
        except asyncio.CancelledError:
            if call.late is None:
                raise
            self._missed(call, call.late)
        except Exception:  # noqa: BLE001 a defect of ours costs this call, nothing else
            _log.exception("the call of app %s for %s broke", call.app, call.invoke.run)
            self._missed(call, "the call broke inside the engine; its log says how")
        else:
            boot = SERVED_PREFIX + call.app
            partition = self._partition(call.invoke)
            for answer in answers:  # 4
                self._offer(partition, Answered(boot, settled(answer)))
        finally:
            call.stop_watch()
            if self._calls.get(call.invoke.token) is call:
                del self._calls[call.invoke.token]

    async def _post(self, call: _Call) -> bytes:
        url = self._urls.get(call.app)
        if url is None:
            raise MissedError(f"the app {call.app!r} has no URL now", counts=False)
        call.began_ms = call.heard_ms = self._clock.now_ms()
        self._watch(call)
        frames: list[Frame] = [call.invoke]

        def heard() -> None:
            call.heard_ms = self._clock.now_ms()

        return await self._poster.post(url, encode(frames), heard)

    def _watch(self, call: _Call) -> None:
        """Look when the next deadline could be over, and give the call up if it is."""
        began_ms = call.began_ms or 0
        now = self._clock.now_ms()
        silent_in = call.heard_ms + self.settings.silence_ms - now
        over_in = began_ms + self.settings.total_ms - now
        if silent_in <= 0 or over_in <= 0:
            call.late = (
                f"the runner gave no sign of life for {self.settings.silence_ms} ms"
                if silent_in <= 0
                else f"the runner did not answer within {self.settings.total_ms} ms"
            )
            self._abort(call)
            return
        call.stop_watch = self._clock.call_later_ms(
            min(silent_in, over_in), lambda: self._watch(call)
        )

    def _abort(self, call: _Call) -> None:
        if call.task is not None:
            call.task.cancel()

    def _read(self, invoke: Invoke, body: bytes) -> list[Answer]:
        """The frames of an answer, the end of the invocation last.

        Raises:
            MissedError: They make no sense; nothing of them is used.
        """
        try:
            frames = decode_from_runner(body)
        except BadRecordError as error:
            raise MissedError(f"the runner's answer is not of the protocol: {error}") from error
        answers: list[Answer] = []
        for frame in frames:
            if not isinstance(frame, (Step, *_ENDINGS)):
                continue
            if frame.run != invoke.run or frame.token != invoke.token:
                raise MissedError(f"the runner answered for {frame.run}, not for this invocation")
            if answers and isinstance(answers[-1], _ENDINGS):
                raise MissedError("the runner's answer goes on after its end")
            fault = fault_of(frame)
            if fault is not None:
                raise MissedError(f"the runner's answer makes no sense: {fault}")
            answers.append(frame)
        if not answers:
            raise MissedError("the runner's answer is empty")
        if not isinstance(answers[-1], _ENDINGS):
            # The handler stopped at a commit point. Compared with the results that it
            # was given, any that this answer brings makes the run ready at once.
            answers.append(Suspend(run=invoke.run, token=invoke.token, seen=invoke.results))
        return answers

    def _missed(self, call: _Call, reason: str, *, counts: bool = True) -> None:
        invoke = call.invoke
        _log.info("app %s was not reached for %s: %s", call.app, invoke.run, reason)
        missed = InvokeMissed(invoke.run, invoke.token, reason, counts)
        self._offer(self._partition(invoke), missed)

    def _partition(self, invoke: Invoke) -> int:
        return partition_of(slot_of_run(invoke.run), self._partitions)
