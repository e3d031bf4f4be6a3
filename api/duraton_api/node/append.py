"""Appends inputs to a shared log: whatever has come while the last append was under way."""

import asyncio

from duraton_streams.logs.base import Log, NewRecord

APPENDS_MAX = 20_000
"""Records in one append."""


class Appender:
    """Groups appends, so that many callers share one round to the broker.

    Args:
        log: The cluster's log.
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        self._queue: list[tuple[list[NewRecord], asyncio.Future[None]]] = []
        self._task: asyncio.Task[None] | None = None

    @property
    def busy(self) -> bool:
        """Whether records are on their way."""
        return self._task is not None and not self._task.done()

    async def append(self, records: list[NewRecord]) -> None:
        """Write records durably.

        Raises:
            LogError: They could not be written, or it is not known.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        self._queue.append((records, future))
        if self._task is None or self._task.done():
            self._task = loop.create_task(self._run())
        await future

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while self._queue:
            taken, self._queue = self._queue[:APPENDS_MAX], self._queue[APPENDS_MAX:]
            records = [record for group, _ in taken for record in group]
            try:
                await loop.run_in_executor(None, self._log.append, records)
            except Exception as error:  # noqa: BLE001 - handed to everyone whose records they were
                for _, future in taken:
                    if not future.done():
                        future.set_exception(error)
                continue
            for _, future in taken:
                if not future.done():
                    future.set_result(None)
