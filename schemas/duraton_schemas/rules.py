"""What a field of a control may be: each rule reads a value, and says what it allows."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from duraton_schemas.canonical import check_path
from duraton_schemas.duration import DURATION_MS_MAX

COUNT_MAX = 2**53 - 1
GROUP_LENGTH_MAX = 200


class Rule(NamedTuple):
    """What a field may be.

    Attributes:
        allowed: For people, after "must be".
        read: Gives the value as it is kept, or raises ValueError.
    """

    allowed: str
    read: Callable[[Any], Any]


def _is_number(value: Any) -> bool:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return number and math.isfinite(value)


def _whole(value: Any) -> int:
    if not _is_number(value) or value != int(value):
        raise ValueError
    return int(value)


def whole(low: int, high: int, unit: str) -> Rule:
    """A whole number from `low` to `high`."""

    def read(value: Any) -> int:
        number = _whole(value)
        if not low <= number <= high:
            raise ValueError
        return number

    top = "" if high >= min(DURATION_MS_MAX, COUNT_MAX) else f" and at most {high}"
    text = f"of at least {low}{top}" if low == 1 else f"from {low} to {high}"
    return Rule(f"a whole number{unit} {text}", read)


def _above_zero(value: Any) -> float:
    if not _is_number(value) or value <= 0:
        raise ValueError
    return float(value)


def _percent(value: Any) -> float:
    number = _above_zero(value)
    if number > 100:
        raise ValueError
    return number


def _path(value: Any) -> str:
    if isinstance(value, str):
        check_path(value)
        return value
    raise ValueError


def _group(value: Any) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= GROUP_LENGTH_MAX or "\0" in value:
        raise ValueError
    return value


def choice(*words: str) -> Rule:
    """One of some words."""

    def read(value: Any) -> str:
        if value not in words or not isinstance(value, str):
            raise ValueError
        return value

    return Rule("one of " + ", ".join(repr(word) for word in words), read)


COUNT = whole(1, COUNT_MAX, "")
MS = whole(1, DURATION_MS_MAX, " of milliseconds")
SHIFT = whole(-DURATION_MS_MAX, DURATION_MS_MAX, " of milliseconds")
PATH = Rule("a dotted path into the event's data without empty segments", _path)
MONEY = Rule("a number of dollars above 0", _above_zero)
PERCENT = Rule("a number above 0 and at most 100", _percent)
GROUP = Rule(f"a text of 1 to {GROUP_LENGTH_MAX} characters and no zero character", _group)
