"""Drives one partition's processor on the event loop: a batch is whatever has come meanwhile."""

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor

from duraton_streams.errors import DoubtError, FencedError
from duraton_streams.partition.processor import PartitionProcessor

_log = logging.getLogger("duraton.partition")

IDLE_MS_MAX = 60_000
"""The longest sleep without work; clocks are looked at at least this often."""


class Driver:
    """Takes turns with a processor until it is stopped or fenced.

    Commits run in a thread, so that the loop of sockets goes on while the log syncs.

    Args:
        processor: An open processor.
        commits: Where commits run.
        ended: Called with the reason where the partition stops by itself.
        committed: Told each commit's duration in seconds.
    """

    def __init__(
        self,
        processor: PartitionProcessor,
        commits: Executor,
        *,
        ended: Callable[[BaseException], None],
        committed: Callable[[float], None],
    ) -> None:
        self.processor = processor
        self._commits = commits
        self._ended = ended
        self._committed = committed
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._awake = True
        self._sleeper: asyncio.Future[None] | None = None
        self._stopping = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to take turns."""
        name = f"partition-{self.processor.partition}"
        self._task = self._loop.create_task(self._run(), name=name)

    async def stop(self) -> None:
        """Finish the batch under way, then end."""
        self._stopping = True
        self.wake()
        if self._task is not None:
            await self._task
        self.processor.close()

    def wake(self) -> None:
        """There is something to do. It may be called from any thread."""
        if threading.get_ident() == self._thread:
            self._wake()
        else:
            self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        self._awake = True
        sleeper = self._sleeper
        if sleeper is not None and not sleeper.done():
            sleeper.set_result(None)

    async def _run(self) -> None:
        try:
            while not self._stopping:
                self._awake = False
                if await self._turn():
                    continue
                if not self._awake:
                    await self._sleep()
        except FencedError as error:
            _log.warning("partition %d: another node took it over", self.processor.partition)
            self._ended(error)
        except Exception as error:
            _log.exception("partition %d stopped", self.processor.partition)
            self._ended(error)

    async def _turn(self) -> bool:
        processor = self.processor
        batch = processor.prepare()
        if batch is None:
            return False
        if not batch.records:
            processor.finish(batch, [])
            return True
        began = time.monotonic()
        try:
            offsets = await self._loop.run_in_executor(self._commits, processor.commit, batch)
            took = time.monotonic() - began
            processor.finish(batch, offsets, int(took * 1000))
        except DoubtError as error:
            _log.warning("partition %d: %s; rebuilding from its journal", processor.partition, error)
            unknown = await self._loop.run_in_executor(self._commits, processor.doubt, batch)
            for tell in unknown:
                tell(None)
            processor.in_doubt()
            return True
        self._committed(took)
        return True

    async def _sleep(self) -> None:
        due = self.processor.next_due()
        wait_ms = IDLE_MS_MAX
        if due is not None:
            wait_ms = max(0, min(due - self.processor.clock_ms, IDLE_MS_MAX))
        self._sleeper = self._loop.create_future()
        # A timer is never early: the clock counts whole milliseconds, so one is added.
        handle = self._loop.call_later((wait_ms + 1) / 1000, self._wake)
        try:
            await self._sleeper
        finally:
            handle.cancel()
            self._sleeper = None
