"""Time as the gateway sees it; the testing kit passes a virtual one."""

import asyncio
import time
from collections.abc import Callable
from typing import Protocol


class Clock(Protocol):
    """A time that never steps back, and calls at later times."""

    def now_ms(self) -> int:
        """Milliseconds since 1970 UTC, carried on from the start by elapsed time."""

    def call_later_ms(self, delay_ms: int, action: Callable[[], None]) -> Callable[[], None]:
        """Call something once after a delay.

        Args:
            delay_ms: Milliseconds from now.
            action: What to call, on the loop's thread.

        Returns:
            What cancels it; harmless once it was called.
        """


class LoopClock:
    """The clock of the running event loop. A set-back of the wall clock does not reach it."""

    def __init__(self) -> None:
        self._anchor_ms = int((time.time() - time.monotonic()) * 1000)

    def now_ms(self) -> int:
        return self._anchor_ms + int(time.monotonic() * 1000)

    def call_later_ms(self, delay_ms: int, action: Callable[[], None]) -> Callable[[], None]:
        return asyncio.get_running_loop().call_later(delay_ms / 1000, action).cancel
