"""Virtual time: one clock for the engine, its runners and the user's code under test."""

import asyncio
import heapq
from collections.abc import Callable

from duraton_streams.partition.clock import ManualClock


class VirtualTime:
    """Time that passes only when the test says so.

    It is the engine's clock, the timers of the runners' connections, and what step
    code awaits by `engine.clock.sleep`.

    Args:
        start_ms: Milliseconds since 1970 UTC at which it begins.
    """

    def __init__(self, start_ms: int) -> None:
        self.start_ms = start_ms
        self.manual = ManualClock(start_ms)
        self._number = 0
        self._timers: list[tuple[int, int]] = []
        self._live: dict[int, Callable[[], None]] = {}

    def now(self) -> float:
        """Seconds since the start."""
        return (self.manual.now_ms() - self.start_ms) / 1000

    def now_ms(self) -> int:
        """Milliseconds since 1970 UTC."""
        return self.manual.now_ms()

    async def sleep(self, seconds: float) -> None:
        """Wait for virtual time to pass; for user code under test."""
        done = asyncio.get_running_loop().create_future()

        def wake() -> None:
            if not done.done():
                done.set_result(None)

        stop = self.call_later_ms(round(seconds * 1000), wake)
        try:
            await done
        finally:
            stop()

    def call_later_ms(self, delay_ms: int, action: Callable[[], None]) -> Callable[[], None]:
        """Call an action once that much virtual time has passed; what it gives back cancels it."""
        self._number += 1
        number = self._number
        self._live[number] = action
        heapq.heappush(self._timers, (self.now_ms() + max(delay_ms, 0), number))

        def cancel() -> None:
            self._live.pop(number, None)

        return cancel

    def next_ms(self) -> int | None:
        """When the next timer is due, milliseconds since 1970 UTC."""
        while self._timers and self._timers[0][1] not in self._live:
            heapq.heappop(self._timers)
        return self._timers[0][0] if self._timers else None

    def move_to(self, at_ms: int) -> None:
        """Let time pass up to a moment; it never goes back."""
        if at_ms > self.now_ms():
            self.manual.set(at_ms)

    def fire(self) -> bool:
        """Do what is due now.

        Returns:
            Whether anything was.
        """
        fired = False
        due = self.next_ms()
        while due is not None and due <= self.now_ms():
            number = heapq.heappop(self._timers)[1]
            action = self._live.pop(number)
            action()
            fired = True
            due = self.next_ms()
        return fired


class Timers:
    """The timers of one process; they are gone when it dies.

    Args:
        time: The time that all share.
    """

    def __init__(self, time: VirtualTime) -> None:
        self._time = time
        self._dead = False

    def now_ms(self) -> int:
        """Milliseconds since 1970 UTC."""
        return self._time.now_ms()

    def call_later_ms(self, delay_ms: int, action: Callable[[], None]) -> Callable[[], None]:
        """As `VirtualTime.call_later_ms`; nothing happens once the process is dead."""

        def act() -> None:
            if not self._dead:
                action()

        return self._time.call_later_ms(delay_ms, act)

    def die(self) -> None:
        """Let nothing happen any more."""
        self._dead = True
