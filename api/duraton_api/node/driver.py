"""Drives one partition's processor on the event loop: a batch is whatever has come meanwhile."""

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from duraton_api.node.claim import Claim
from duraton_streams.errors import DoubtError, FencedError, LogUnreachableError, StreamError
from duraton_streams.partition.intake import Taken
from duraton_streams.partition.processor import PartitionProcessor
from duraton_streams.partition.transition import Batch

_log = logging.getLogger("duraton.partition")

IDLE_MS_MAX = 60_000
"""The longest sleep without work; clocks are looked at at least this often."""


INLINE_RECORDS_MAX = 1_024
"""A batch up to this is committed on the loop, where commits have been quick lately and
the log is this process's own: in a thread they and the next batch take the interpreter's
lock from each other, which costs more than the wait (measured: a tenth to a quarter)."""
INLINE_S_MAX = 0.003
"""What counts as quick; on a slow disk every commit goes to the thread."""
_RECENT = 0.2  # the newest commit's weight in the mean


AWAY_S = 0.5
"""Between two tries to reach a log; each has deadlines of seconds of its own."""
_AWAY = (DoubtError, LogUnreachableError)


Committed = tuple[list[int], float]
"""The offsets that a commit's records got, and its seconds."""


class Driver:
    """Takes turns with a processor until it is stopped or fenced.

    Commits run in a thread, so that the loop of sockets goes on while the log syncs,
    and the next batch is decided about meanwhile.

    Args:
        processor: An open processor.
        inline: Whether small batches may be committed on the loop.
        ended: Called with the reason where the partition stops by itself.
        committed: Told each commit's duration in seconds.
        claim: Whether the cluster is still this engine's; None on an embedded log.
    """

    def __init__(
        self,
        processor: PartitionProcessor,
        *,
        inline: bool,
        ended: Callable[[BaseException], None],
        committed: Callable[[float], None],
        claim: Claim | None = None,
    ) -> None:
        self.processor = processor
        self._inline = inline
        self._claim = claim
        self._mean_s = INLINE_S_MAX
        self._ended = ended
        self._committed = committed
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        # One thread, so that commits keep the order of their batches.
        self._commits = ThreadPoolExecutor(1, f"duraton-commit-{processor.partition}")
        self._under_way: deque[tuple[Batch, asyncio.Future[Committed]]] = deque()
        self._awake = True
        self._owed = False  # it was woken while no batch could be begun
        self._sleeper: asyncio.Future[None] | None = None
        self._stopping = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to take turns."""
        name = f"partition-{self.processor.partition}"
        self._task = self._loop.create_task(self._run(), name=name)

    async def stop(self) -> None:
        """Finish the batches under way, then end."""
        self._stopping = True
        self.wake()
        if self._task is not None:
            await self._task
        self.processor.close()
        self._commits.shutdown()

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
            while self._under_way or not self._stopping:
                self._awake = False
                if await self._turn_or_rebuild() and self._more():
                    # Sockets get their share between two batches.
                    await asyncio.sleep(0)
                elif not self._awake:
                    await self._sleep()
        except FencedError as error:
            _log.warning("partition %d: %s", self.processor.partition, error)
            self._ended(error)
        except _AWAY as error:
            if not self._stopping:
                _log.error("partition %d stopped: %s", self.processor.partition, error)
                self._ended(error)
        except Exception as error:  # noqa: BLE001 - whatever it is, the partition has stopped
            _log.exception("partition %d stopped", self.processor.partition)
            self._ended(error)

    def _more(self) -> bool:
        """Whether another turn is due at once; looking in vain costs a tenth of a turn."""
        processor = self.processor
        if self._awake or self._owed or self._stopping or processor.left_over:
            return True
        if self._under_way and self._under_way[0][1].done():
            return True
        due = processor.next_due()
        return due is not None and due <= processor.clock_ms

    async def _turn_or_rebuild(self) -> bool:
        try:
            return await self._turn()
        except _AWAY as error:
            # Looking at the log failed; what was decided meanwhile falls.
            await self._rebuild(error)
            return True

    async def _turn(self) -> bool:
        """Finish what is committed, or begin another batch."""
        if self._under_way and self._under_way[0][1].done():
            first, committed = self._under_way.popleft()
            await self._finish(first, committed.result)
            return True
        processor = self.processor
        if self._stopping or not processor.may_prepare:
            self._owed = True
            return False
        self._owed = False
        batch = processor.prepare()
        if batch is None:
            return False
        if not batch.records and not self._under_way:
            processor.finish(batch, [])
            return True
        if self._quick(batch):
            await self._finish(batch, lambda: self._commit(batch))
            return True
        future = self._loop.run_in_executor(self._commits, self._commit, batch)
        future.add_done_callback(lambda _: self._wake())
        self._under_way.append((batch, future))
        return True

    def _quick(self, batch: Batch) -> bool:
        small = len(batch.records) <= INLINE_RECORDS_MAX and not self._under_way
        return small and self._inline and self._mean_s < INLINE_S_MAX

    def _commit(self, batch: Batch) -> Committed:
        began = time.monotonic()
        offsets = self.processor.commit(batch)
        return offsets, time.monotonic() - began

    async def _finish(self, batch: Batch, committed: Callable[[], Committed]) -> None:
        try:
            offsets, took = committed()
            self.processor.finish(batch, offsets, int(took * 1000))
        except FencedError as error:
            if self._claim is None or not self._claim.outlives(self.processor.partition):
                raise
            # By an engine that has lost the cluster, or this one has: `_take` finds out.
            await self._rebuild(error)
            return
        except _AWAY as error:
            await self._rebuild(error)
            return
        if batch.records:
            self._mean_s += (took - self._mean_s) * _RECENT
            self._committed(took)

    async def _rebuild(self, error: StreamError) -> None:
        processor = self.processor
        _log.warning("partition %d: %s; rebuilding from its journal", processor.partition, error)
        # Those behind it fail as well, since the writer is broken.
        for _, future in self._under_way:
            await asyncio.wait((future,))
            future.exception()
        self._under_way.clear()
        unknown = await self._open_again()
        for tell in unknown:
            tell(None)
        processor.in_doubt()

    async def _open_again(self) -> list[Taken]:
        """Take the partition over anew; a shared log that is away is waited for."""
        told = False
        while True:
            try:
                return await self._loop.run_in_executor(self._commits, self._take)
            except _AWAY as error:
                # The embedded log is this process's own: nobody else will bring it back.
                if self._inline or self._stopping:
                    raise
                log = _log.debug if told else _log.warning
                log("partition %d: %s; trying again", self.processor.partition, error)
                told = True
            await asyncio.sleep(AWAY_S)

    def _take(self) -> list[Taken]:
        processor = self.processor
        if self._claim is None:
            return processor.doubt()
        # Who was away for long may have lost the cluster, and must not take it back.
        return self._claim.take(processor.partition, processor.doubt)

    async def _sleep(self) -> None:
        due = self.processor.next_due() if not self._under_way else None
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
