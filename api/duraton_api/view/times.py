"""Times: milliseconds since 1970 UTC inside, ISO-8601 with Z in JSON."""

import re
from datetime import UTC, datetime

from duraton_api.errors import BadParameterError

TIME_MS_MAX = 253_402_300_799_999
"""The end of the year 9999, the last moment that ISO-8601 writes with four digits."""

_DIGITS = re.compile(r"\d{1,15}")


def iso(ms: int) -> str:
    """A moment as `2026-01-01T00:00:00.000Z`."""
    moment = datetime.fromtimestamp(min(ms, TIME_MS_MAX) // 1000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{ms % 1000:03d}Z"


def maybe_iso(ms: int | None) -> str | None:
    """As `iso`, or None."""
    return None if ms is None else iso(ms)


def read_time(value: int | str, what: str) -> int:
    """A moment that somebody wrote, in milliseconds.

    Args:
        value: ISO-8601 text (UTC where it names no zone), or whole milliseconds.
        what: The field or parameter, for the error.

    Raises:
        BadParameterError: It is neither, or before 1970 or after 9999.
    """
    if isinstance(value, str) and _DIGITS.fullmatch(value):
        value = int(value)
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
        except ValueError as error:
            raise BadParameterError(
                f"{what}: {value!r} is neither ISO-8601 nor whole milliseconds"
            ) from error
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        value = round(moment.timestamp() * 1000)
    if not 0 <= value <= TIME_MS_MAX:
        raise BadParameterError(f"{what}: the time must be between the years 1970 and 9999")
    return value
