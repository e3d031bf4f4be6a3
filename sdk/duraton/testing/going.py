"""Letting a test's engine go on: until it is settled, to a time, until an answer comes."""

import asyncio
from collections.abc import Coroutine
from typing import Any, Protocol, TypeVar

from duraton.testing.virtual import VirtualTime
from duraton_api.errors import EngineStoppedError

T = TypeVar("T")

CALM_TURNS = 3
"""Turns of the loop in which nobody had anything to do after which nothing more happens.
One would do; the others are for callbacks that arrive from outside the loop."""
CALM_TURNS_BLIND = 80
"""As above on loops that do not show whether anything is ready to run (uvloop)."""
RESTLESS_TURNS_MAX = 5_000
"""Turns in which only user code ran, for example a loop around `asyncio.sleep(0)`, after
which it is not waited for any longer."""
THREAD_POLL_S = 0.0005
"""How long the loop rests while worker threads or a broker have something in hand."""


class Moving(Protocol):
    """What is let go on."""

    time: VirtualTime
    signs: int
    """Grows whenever something happens: a message, a commit, a step that begins."""

    def turn(self) -> bool:
        """Let every partition do what it has to do now; whether there was anything."""

    def busy_elsewhere(self) -> bool:
        """Whether threads or a broker have something in hand that will come back."""

    def next_due(self) -> int | None:
        """When the next thing is due, milliseconds since 1970 UTC."""


class Going:
    """Lets an engine go on.

    Args:
        moving: The engine and what is around it.
    """

    def __init__(self, moving: Moving) -> None:
        self._moving = moving
        self._spinning = 0

    async def settle(self) -> None:
        """Go on until nothing more happens without time passing."""
        moving = self._moving
        ready = getattr(asyncio.get_running_loop(), "_ready", None)
        enough = CALM_TURNS if ready is not None else CALM_TURNS_BLIND
        calm = restless = 0
        self._spinning += 1
        try:
            while calm < enough and restless < RESTLESS_TURNS_MAX:
                signs = moving.signs
                worked = moving.turn()
                worked = moving.time.fire() or worked
                await asyncio.sleep(0)
                if moving.busy_elsewhere():
                    await asyncio.sleep(THREAD_POLL_S)
                    worked = True
                if worked or moving.signs != signs:
                    calm = restless = 0
                    continue
                restless += 1
                # Whoever else goes round in here stands in the loop's queue as well.
                idle = ready is None or len(ready) < self._spinning
                calm = calm + 1 if idle else 0
        finally:
            self._spinning -= 1

    async def advance(self, ms: int) -> None:
        """Let time pass, stopping at each instant at which something is due."""
        time = self._moving.time
        target = time.now_ms() + ms
        while True:
            await self.settle()
            due = self._moving.next_due()
            if due is None or due > target:
                break
            time.move_to(due)
        time.move_to(target)
        await self.settle()

    async def during(self, work: Coroutine[Any, Any, T]) -> T:
        """Await something of the engine's while it goes on, time standing still.

        Raises:
            ConnectionError: The engine was crashed meanwhile.
        """
        moving = self._moving
        task = asyncio.ensure_future(work)
        self._spinning += 1
        try:
            while not task.done():
                moving.turn()
                await asyncio.sleep(THREAD_POLL_S if moving.busy_elsewhere() else 0)
        finally:
            self._spinning -= 1
            task.cancel()
        try:
            return task.result()
        except EngineStoppedError as error:
            raise ConnectionError(str(error)) from error
