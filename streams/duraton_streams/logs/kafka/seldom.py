"""Keeps what librdkafka logs readable while a broker is away."""

import logging
import time
from collections.abc import Callable

AGAIN_S = 10.0
"""A kind of message is let through once in that time: a node has dozens of clients, and
each says at every try that a broker refuses its connection, hundreds of lines a second."""
KINDS_MAX = 200
"""Kinds that are remembered; librdkafka has some tens."""


class Seldom(logging.Filter):
    """Lets the first message of a kind through, and says later how many it kept back.

    librdkafka's messages are of the kind that they begin with, such as FAIL; those of
    our own pass.

    Args:
        clock: Seconds, for tests.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._kinds: dict[object, tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if record.msg != "%s [%s] %s" or not isinstance(record.args, tuple):
            return True
        kind, now = record.args[0], self._clock()
        if kind not in self._kinds and len(self._kinds) >= KINDS_MAX:
            self._kinds.clear()
        since, kept = self._kinds.get(kind, (now - AGAIN_S, 0))
        if now - since < AGAIN_S:
            self._kinds[kind] = (since, kept + 1)
            return False
        self._kinds[kind] = (now, 0)
        if kept:
            record.msg = f"%s [%s] %s (and {kept} more of its kind before)"
        return True
