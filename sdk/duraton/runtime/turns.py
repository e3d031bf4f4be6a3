"""Passes of the event loop, counted while somebody needs to know.

Two results that arrive together are given to a handler one after the other, the
second once the loop has run whatever the first made ready. Nothing tells when that
is; a number of passes in which the execution did nothing is the measure.
"""

import asyncio
from collections.abc import Callable

SETTLE_TURNS = 16
"""Passes after which an execution counts as settled. One pass was enough in most
random programs of nested gather, wait_for and task groups; each level of nesting
takes up to three passes to return, so this covers five levels."""


class Turns:
    """The passes of one loop; it costs nothing while nobody waits for one.

    Args:
        loop: The loop whose passes are counted.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.now = 0
        self._loop = loop
        self._until = 0
        self._ticking = False
        self._at: dict[int, list[Callable[[], None]]] = {}

    def mark(self) -> int:
        """The pass at which something that happens now has settled."""
        self._until = until = self.now + SETTLE_TURNS
        if not self._ticking:
            self._ticking = True
            self._loop.call_soon(self._tick)
        return until

    def call_at(self, turn: int, action: Callable[[], None]) -> None:
        """Call something at a pass that `mark` gave and that has not come."""
        self._at.setdefault(turn, []).append(action)

    def _tick(self) -> None:
        self.now += 1
        self._ticking = self.now < self._until
        if self._ticking:
            self._loop.call_soon(self._tick)
        for action in self._at.pop(self.now, ()):
            action()
