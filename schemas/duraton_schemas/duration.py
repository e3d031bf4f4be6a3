"""Durations: a whole number of milliseconds on the wire, friendlier forms in Python."""

import math
import re
from datetime import timedelta

from duraton_schemas.errors import DurationError

Duration = int | float | str | timedelta

_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_TEXT = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)")

_TEXT_LENGTH_MAX = 100
_FORMS = "write whole milliseconds, a timedelta, or text such as 500ms, 30s, 5m, 2h, 1d"

RETRY_AFTER_MS_MAX = 366 * 86_400_000
"""A year, the longest that RetryAfterError may ask for (P35): what a header or a slip of
units says beyond it helps nobody."""
DURATION_MS_MAX = 366 * 86_400_000 * 100
"""A hundred years: far above any use, and safe to add to any time in 64 bits."""


def to_ms(value: Duration) -> int:
    """A duration as whole milliseconds.

    Args:
        value: Milliseconds, a timedelta, or text such as "1.5m" or "1h30m".

    Raises:
        DurationError: It is negative, not finite, too long, or not of these forms.
    """
    if isinstance(value, bool):
        raise DurationError(f"{value!r} is no duration; {_FORMS}")
    if isinstance(value, timedelta):
        ms = value / timedelta(milliseconds=1)
    elif isinstance(value, (int, float)):
        ms = float(value)
    elif isinstance(value, str):
        ms = _text_to_ms(value)
    else:
        raise DurationError(f"{value!r} is no duration; {_FORMS}")
    if not math.isfinite(ms) or ms < 0 or ms > DURATION_MS_MAX:
        raise DurationError(f"{value!r} is no duration between 0 and a hundred years")
    return round(ms)


def _text_to_ms(text: str) -> float:
    total, place = 0.0, 0
    stripped = text.strip()
    if len(stripped) > _TEXT_LENGTH_MAX:
        raise DurationError(f"{stripped[:20]!r}... is no duration; {_FORMS}")
    for match in _TEXT.finditer(stripped):
        if match.start() != place:
            break
        total += float(match[1]) * _UNITS_MS[match[2]]
        place = match.end()
    if place == 0 or place != len(stripped):
        raise DurationError(f"{text!r} is no duration; {_FORMS}")
    return total
