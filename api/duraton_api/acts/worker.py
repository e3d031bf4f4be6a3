"""Fetches what the replays of jobs need, and sends it on, in the order in which they are wanted.

The engine says what is wanted once that is committed, and again after every restart until
it is done or refused. So nothing is kept here, and whatever fails is tried again later.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import NamedTuple

from duraton_api.acts.acts import Access, Acts
from duraton_api.acts.carrying import Asked, replay_commands
from duraton_api.errors import (
    AnswerUnknownError,
    ApiError,
    NotFoundError,
    PendingError,
    RefusedError,
    RunGoneError,
)
from duraton_engine.effects import CarryWanted, Reply
from duraton_engine.errors import CARRY_INCOMPLETE
from duraton_schemas.records.commands import CarryRun, Command, RefuseReplay
from duraton_schemas.values import text_bytes
from duraton_streams.errors import StreamError

_log = logging.getLogger("duraton.acts")

WINDOW_RUNS = 16
"""Runs that are under way at once."""
WINDOW_BYTES = 8 << 20
"""Bytes of their events after which no further one is added."""
AGAIN_MS = 1_000
"""After how long what failed is tried again."""

_Later = Callable[[int, Callable[[], None]], Callable[[], None]]


class _Ready(NamedTuple):
    wanted: CarryWanted
    commands: list[Command]


class ReplayWorker:
    """Carries out the replays that jobs want at this node's partitions.

    Args:
        access: The node.
        new_id: Gives a random id.
        later: Calls something after so many milliseconds; gives what cancels it.
    """

    def __init__(self, access: Access, new_id: Callable[[], str], later: _Later) -> None:
        self._access = access
        self._acts = Acts(access, new_id)
        self._new_id = new_id
        self._later = later
        self._wanted: dict[tuple[str, str], CarryWanted] = {}
        self._task: asyncio.Task[None] | None = None
        self._cancel_again: Callable[[], None] | None = None
        self._stopped = False

    def wanted(self, effect: CarryWanted) -> None:
        """A replay is wanted; handed on again, it keeps its place."""
        self._wanted[effect.job, effect.run] = effect
        self._begin()

    def _begin(self) -> None:
        if self._stopped:
            return
        if self._cancel_again is None and (self._task is None or self._task.done()):
            self._task = asyncio.get_running_loop().create_task(self._work())

    async def stop(self) -> None:
        """Go on no longer; what is wanted is handed on again at the next start."""
        self._stopped = True
        if self._cancel_again is not None:
            self._cancel_again()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))

    async def _work(self) -> None:
        while self._wanted:
            failure = await self._some()
            if failure is not None:
                self._try_later(failure)
                return

    async def _some(self) -> Exception | None:
        """Carry out the next of them; why some are to be tried again, or None."""
        try:
            ready = await self._window()
            failures = await self._send(ready)
        except (ApiError, StreamError) as error:
            return error
        for each, failure in zip(ready, failures, strict=True):
            key = (each.wanted.job, each.wanted.run)
            # What was handed on again meanwhile is another one, and still to be done.
            if failure is None and self._wanted.get(key) is each.wanted:
                del self._wanted[key]
        return next((failure for failure in failures if failure is not None), None)

    def _try_later(self, error: Exception) -> None:
        _log.warning("replays of a job wait: %s", error)

        def again() -> None:
            self._cancel_again = None
            self._begin()

        self._cancel_again = self._later(AGAIN_MS, again)

    async def _window(self) -> list[_Ready]:
        """The next replays with what they need, as many as are under way at once."""
        ready: list[_Ready] = []
        size = 0
        for wanted in list(self._wanted.values())[:WINDOW_RUNS]:
            commands = await self._commands(wanted)
            ready.append(_Ready(wanted, commands))
            size += sum(_bytes(command) for command in commands)
            if size > WINDOW_BYTES:
                break
        return ready

    async def _commands(self, wanted: CarryWanted) -> list[Command]:
        new_id = self._new_id()
        try:
            whole = await self._acts.read(wanted.run, steps=False)
            return replay_commands(whole, Asked(wanted.caller, job=wanted.job), new_id)
        except (NotFoundError, RefusedError, RunGoneError) as error:
            return [_refuse(wanted, new_id, error.code, str(error))]
        except (ApiError, StreamError):
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, it is said and refused
            # One run must not hold up its job, nor be tried without end.
            _log.exception("the run %s of %s cannot be read", wanted.run, wanted.job)
            return [_refuse(wanted, new_id, ApiError.code, f"the run cannot be read: {error}")]

    async def _send(self, ready: list[_Ready]) -> list[Exception | None]:
        """Send all of it in order, then wait for the answers; what is to be tried again."""
        loop = asyncio.get_running_loop()
        tasks = [
            [loop.create_task(self._access.command(command)) for command in each.commands]
            for each in ready
        ]
        try:
            await asyncio.wait([task for group in tasks for task in group])
        finally:
            for group in tasks:
                for task in group:
                    task.cancel()
        return [_outcome([_result(task) for task in group]) for group in tasks]


def _refuse(wanted: CarryWanted, new_id: str, code: str, message: str) -> RefuseReplay:
    return RefuseReplay(
        id=f"cmd_{new_id}",
        caller=wanted.caller,
        run=wanted.run,
        job=wanted.job,
        code=code,
        message=message,
    )


def _result(task: "asyncio.Task[Reply]") -> Reply | Exception | None:
    error = task.exception()
    if error is None:
        return task.result()
    if isinstance(error, (PendingError, AnswerUnknownError)):
        return None  # it will be decided about; after a doubt what is still wanted is handed on
    if isinstance(error, (ApiError, StreamError)):
        return error
    raise error


def _outcome(results: list[Reply | Exception | None]) -> Exception | None:
    """Why a replay is to be tried again; None where it is done, or refused for good."""
    for result in results:
        if isinstance(result, Exception):
            return result
        if result is not None and result.code == CARRY_INCOMPLETE:
            return RefusedError(result.message or "", result.code)
    return None


def _bytes(command: Command) -> int:
    if not isinstance(command, CarryRun):
        return 0
    return sum(text_bytes(each.event.data) for each in command.events)
