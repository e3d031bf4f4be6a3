"""RetryAfterError's argument (P35): milliseconds from then, a moment, or a note."""

import math
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

from duraton_schemas.duration import RETRY_AFTER_MS_MAX, to_ms
from duraton_schemas.errors import DurationError

_SECONDS = re.compile(r"[0-9]{1,18}")
_HTTP_DATE = re.compile(r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,? .*[0-9]{2}:[0-9]{2}:[0-9]{2}.*")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TEXT_LENGTH_MAX = 100
"""A header's value; longer texts are not looked at."""
_TEXT_SHOWN_MAX = 80


@dataclass(frozen=True)
class Delay:
    """When a step is tried again; exactly one of the three is set.

    Attributes:
        after_ms: Milliseconds from the failure, 0 to a year.
        at_ms: A moment, milliseconds since 1970 UTC; the engine bounds it, since
            it has the clock.
        note: Why the argument was unusable; the policy's delay is taken.
    """

    after_ms: int | None = None
    at_ms: int | None = None
    note: str | None = None


def read_delay(argument: object) -> Delay:
    """Read RetryAfterError's argument. It never raises."""
    try:
        return _read(argument)
    except (ValueError, OverflowError, TypeError, DurationError):
        return _unusable(argument)


def _read(argument: object) -> Delay:
    if isinstance(argument, bool) or argument is None:
        return _unusable(argument)
    if isinstance(argument, timedelta):
        return _after(argument / timedelta(milliseconds=1))
    if isinstance(argument, (int, float)):
        return _after(argument) if math.isfinite(argument) else _unusable(argument)
    if isinstance(argument, datetime):
        return _at(argument)
    if isinstance(argument, str):
        return _text(argument.strip())
    return _unusable(argument)


def _text(text: str) -> Delay:
    if len(text) > _TEXT_LENGTH_MAX:
        return _unusable(text)
    if _SECONDS.fullmatch(text):
        return _after(int(text) * 1000)
    if _HTTP_DATE.fullmatch(text):
        return _at(parsedate_to_datetime(text))
    return _after(to_ms(text))


def _after(ms: float) -> Delay:
    return Delay(after_ms=round(min(max(ms, 0), RETRY_AFTER_MS_MAX)))


def _at(moment: datetime) -> Delay:
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return Delay(at_ms=max(round((aware - _EPOCH) / timedelta(milliseconds=1)), 0))


def _unusable(argument: object) -> Delay:
    shown = argument if isinstance(argument, str) else type(argument).__name__
    if isinstance(argument, (float, int)):
        shown = repr(argument)
    text = str(shown)[:_TEXT_SHOWN_MAX]
    return Delay(note=f"RetryAfterError's delay {text!r} is unusable; the policy's delay is taken")
