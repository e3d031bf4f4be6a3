"""Timers: rows ordered by due time, whose first ones are in memory (DESIGN 7).

A timer is a row of a table like any other, so savepoints, flushes and recovery
hold for it; its window keeps the earliest ones at hand and knows up to where it
is exact, so that fired timers, removed at the head, are never walked over again.
"""

import msgspec

from duraton_streams.state.level import Level
from duraton_streams.state.table import Key, Table


class TimerRow(msgspec.Struct, array_like=True, frozen=True):
    """A timer's value: nothing, all of it is in the key."""


TIMERS: Table[TimerRow] = Table("timers", 1, TimerRow)
"""Key: the due time in milliseconds since 1970 UTC, then the target's parts."""

TIMER_ROW = TimerRow()


class Timers:
    """The timers of a state, seen from the clock.

    Args:
        level: Their table's part of the state.
    """

    def __init__(self, level: Level) -> None:
        self._level = level

    def next_due(self) -> int | None:
        """When the earliest timer is due (ms since 1970 UTC), or None: there is none."""
        window = self._level.windows.get(())
        if window is not None and window.raws:
            window.used = True
            key = window.keys[window.raws[0]]
        elif window is not None and window.whole:
            window.used = True
            return None
        else:
            keys = self._level.keys((), 1)
            if not keys:
                return None
            key = keys[0]
        due = key[0]
        assert isinstance(due, int)
        return due

    def due(self, now: int, limit: int) -> list[tuple[int, Key]]:
        """Timers that are due, in order of due time, then of target; they stay.

        A timer goes when the facts that follow from it clear it.

        Args:
            now: Milliseconds since 1970 UTC; a timer of that very time is due.
            limit: The most timers.
        """
        keys = self._level.keys((), limit, below=(now + 1,))
        return [(key[0], key[1:]) for key in keys if isinstance(key[0], int)]
