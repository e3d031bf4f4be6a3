"""Which of several engines has a cluster on a broker: whoever took its first partition last."""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import TypeVar

from duraton_streams.errors import FencedError, LogError
from duraton_streams.partition.processor import PartitionProcessor

_log = logging.getLogger("duraton.node")
T = TypeVar("T")

LOOK_S = 2.0
"""How often an engine looks whether another one took the cluster: one question to the
broker. An engine that has something to commit hears of it by that."""

TAKES_MAX = 10
"""Times that one partition is taken over in a row while rivals take it again; each of them
does so about once, between its own looks at the first partition."""


class Claim:
    """Whether the cluster is this engine's.

    An engine owns all partitions. Two that start together would each fence the other on
    some of them, and both would end. So every engine takes the first partition before the
    others, and looks there before it takes another and when it has them all:

    - whose first partition was taken after it took it has lost the cluster, and ends;
    - who still has it may take any other partition again that a loser took meanwhile.

    Fencing keeps every partition to one owner all the while; this only settles who stays.

    Args:
        first: The first partition's processor.
    """

    def __init__(self, first: PartitionProcessor) -> None:
        self._first = first

    def check(self) -> None:
        """Look whether another engine took the cluster. It blocks; it writes nothing.

        Raises:
            FencedError: Another engine took it.
            LogUnreachableError: The broker does not answer.
        """
        took = self._first.successor()
        if took is not None:
            raise FencedError(f"another engine, {took.node}, took the cluster over")

    def take(self, partition: int, take: Callable[[], T]) -> T:
        """Take a partition over, as long as the cluster is this engine's. It blocks.

        Args:
            partition: Which one; the first too, once it was taken.
            take: Takes it.

        Raises:
            FencedError: Another engine took the cluster.
            StreamError: As `take` says.
        """
        for left in reversed(range(TAKES_MAX)):
            self.check()
            try:
                return take()
            except FencedError:
                if not self.outlives(partition) or not left:
                    raise
        raise AssertionError("the last try returns or raises")

    def outlives(self, partition: int) -> bool:
        """Whether the loss of a partition leaves the claim as it is."""
        return partition != self._first.partition


class ClaimWatch:
    """Looks from time to time, so that an engine without work ends as well.

    Args:
        claim: The claim.
        lost: Called once, when another engine took the cluster.
    """

    def __init__(self, claim: Claim, lost: Callable[[FencedError], None]) -> None:
        self._claim = claim
        self._lost = lost
        self._stopping = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._run(), name="claim")

    async def stop(self) -> None:
        """Look no longer; a look under way is waited for, since the log is closed next."""
        self._stopping.set()
        await self._task

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), LOOK_S)
            if self._stopping.is_set():
                return
            try:
                await loop.run_in_executor(None, self._claim.check)
            except FencedError as error:
                _log.warning("%s", error)
                self._lost(error)
                return
            except LogError as error:
                # Whoever commits finds out about a broker that is away, and waits for it.
                _log.debug("cannot look for another engine: %s", error)
