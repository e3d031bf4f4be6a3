"""The reference that engine clocks follow: the broker's time on Kafka, the wall clock embedded."""

import asyncio
import contextlib
import time
from collections.abc import Callable

from duraton_streams.errors import LogError
from duraton_streams.logs.base import Log
from duraton_streams.partition.clock import wall_ms

ASK_EVERY_S = 60.0
"""How often the broker is asked for its time (DESIGN 7: once a minute)."""
STALE_AFTER_S = 600.0
"""After so long without an answer the broker's time counts as unknown; clocks then go on
by themselves, which is exact to a few parts in a million."""


class ReferenceTime:
    """What time it is by the log, without ever waiting for it.

    Args:
        log: The cluster's log.
        elapsed_s: Seconds since some moment, never stepping.
    """

    def __init__(self, log: Log, elapsed_s: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._elapsed_s = elapsed_s
        self._known: tuple[int, float] | None = None
        self._task: asyncio.Task[None] | None = None

    def ask(self) -> None:
        """Ask the log once. It blocks; a broker that is away leaves what was known."""
        with contextlib.suppress(LogError):
            at = self._log.now_ms()
            if at is not None:
                self._known = (at, self._elapsed_s())

    def now_ms(self) -> int | None:
        """Milliseconds since 1970 UTC, or None where the broker has not answered for long."""
        if self._log.embedded:
            return wall_ms()
        if self._known is None:
            return wall_ms()  # a clock must begin somewhere
        at, asked = self._known
        since = self._elapsed_s() - asked
        return at + int(since * 1000) if since < STALE_AFTER_S else None

    def start(self) -> None:
        """Ask the broker from time to time; an embedded log has nobody to ask."""
        if not self._log.embedded:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="reference-time")

    async def stop(self) -> None:
        """Ask no longer."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(ASK_EVERY_S)
            await loop.run_in_executor(None, self.ask)
