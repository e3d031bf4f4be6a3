"""The engine's time: anchored once, carried on by elapsed time, never stepped back (DESIGN 7)."""

import time
from collections.abc import Callable
from typing import Protocol

LOOK_EVERY_MS = 60_000
"""How often the reference is looked at: it may cost a request to a broker."""
SLEW_PER_CENT = 5
"""The most that time runs faster or slower while it is drawn to the reference."""
IGNORED_BEHIND_MS = 3_600_000
"""A reference further behind than an hour is wrong, not slow: it is ignored."""

Source = Callable[[], int]
"""Milliseconds from some source."""


class Clock(Protocol):
    """The engine's time."""

    def now_ms(self) -> int:
        """Milliseconds since 1970 UTC; never below what it answered before."""


class ManualClock:
    """Virtual time: it stands until somebody moves it.

    Args:
        now: Where it begins, milliseconds since 1970 UTC.
    """

    def __init__(self, now: int = 0) -> None:
        self._now = now

    def now_ms(self) -> int:
        return self._now

    def set(self, now: int) -> None:
        """Go to a time.

        Raises:
            ValueError: It is in the past.
        """
        if now < self._now:
            raise ValueError(f"time does not go back: {now} is before {self._now}")
        self._now = now

    def advance(self, ms: int) -> None:
        """Go on by milliseconds."""
        self.set(self._now + ms)


def boot_ms() -> int:
    """Milliseconds since some moment, counting suspend where the system can tell."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    nanoseconds = time.monotonic_ns() if clock is None else time.clock_gettime_ns(clock)
    return nanoseconds // 1_000_000


def wall_ms() -> int:
    """The system's wall clock, milliseconds since 1970 UTC."""
    return time.time_ns() // 1_000_000


class EngineClock:
    """One partition owner's time, which no change of a clock can step back or freeze.

    1. It begins at the reference or the newest fact, whichever is later.
    2. It goes on by elapsed time, which counts suspend.
    3. Once a minute it looks at the reference. One that is more than an hour behind
       is ignored. Until the reference has once reached the newest fact, time steps
       forward to a reference that is ahead: the clock was wrong when the machine came
       up. From then on it is drawn to the reference by at most 5 %.

    Args:
        newest: The time of the newest fact, or 0.
        reference: The broker's time or the wall clock; None where it is not known
            now. It is called once a minute from `now_ms` and must not block for long.
        elapsed: Milliseconds since some moment, never stepping.
    """

    def __init__(
        self,
        newest: int,
        reference: Callable[[], int | None] = wall_ms,
        elapsed: Source = boot_ms,
    ) -> None:
        self._newest = newest
        self._reference = reference
        self._elapsed = elapsed
        self._reached = False
        self._behind = 0
        # 1
        self._looked = elapsed()
        self._base = newest
        self._error = 0
        self._look(newest)

    def now_ms(self) -> int:
        # 2
        since = self._elapsed() - self._looked
        now = self._at(since)
        # 3
        if since >= LOOK_EVERY_MS:
            self._looked += since
            self._look(now)
            return self._base
        return now

    @property
    def behind_ms(self) -> int:
        """How far the reference was behind when last looked at; below 0 it was ahead."""
        return self._behind

    @property
    def reference_ignored(self) -> bool:
        """Whether the reference is more than an hour behind, for `doctor` to report."""
        return self._behind > IGNORED_BEHIND_MS

    def _at(self, since: int) -> int:
        drawn = min(abs(self._error), since * SLEW_PER_CENT // 100)
        return self._base + since + (drawn if self._error > 0 else -drawn)

    def _look(self, now: int) -> None:
        """Begin anew from a time, with what the reference says."""
        self._base, self._error = now, 0
        reference = self._reference()
        if reference is None:
            return
        self._behind = now - reference
        if self._behind > IGNORED_BEHIND_MS:
            return
        if not self._reached and reference > now:
            self._base = reference
        self._error = reference - self._base
        self._reached = self._reached or reference >= self._newest
