"""In which rows two states of the same tables differ, and how that is told."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from duraton_streams.state.overlay import State
from duraton_streams.state.table import Key

TEXT_MAX = 2_000
"""Characters of a value in a message."""

Row = tuple[str, Key, Any]
"""A table's name, a key, and the value as it would be read back."""


class Difference(NamedTuple):
    """A row that is not the same on both sides; None where one side lacks it.

    Attributes:
        table: The table's name.
        key: The row's key.
        left: The value on the first side.
        right: The value on the second side.
    """

    table: str
    key: Key
    left: Any
    right: Any


def describe(found: Difference, where: str, left: str, right: str) -> str:
    """A difference in words: table, key, both values.

    Args:
        found: The difference.
        where: Where it was found.
        left: What the first side is called.
        right: What the second side is called.
    """
    return (
        f"{where}: table {found.table}, key {found.key!r}: "
        f"{left} {_shown(found.left)}, {right} {_shown(found.right)}"
    )


def differences(left: State, right: State) -> Iterator[Difference]:
    """The rows that differ between two states of the same tables, by table and key.

    Both are walked once, side by side, so nothing but a page of each is held.

    Args:
        left: A state that nothing is written to meanwhile.
        right: Another one.
    """
    numbers = {table.name: table.number for table in left.tables}
    ends, others = _rows(left), _rows(right)
    row, other = next(ends), next(others)
    while row is not None or other is not None:
        if other is None or (row is not None and _place(row, numbers) < _place(other, numbers)):
            assert row is not None, "one of the two is there"
            yield Difference(*row, None)
            row = next(ends)
        elif row is None or _place(other, numbers) < _place(row, numbers):
            yield Difference(other[0], other[1], None, other[2])
            other = next(others)
        else:
            if _encoded(row[2]) != _encoded(other[2]):
                yield Difference(*row, other[2])
            row, other = next(ends), next(others)


def _rows(state: State) -> Iterator[Row | None]:
    yield from state.dump()
    while True:
        yield None


def _place(row: Row, numbers: Mapping[str, int]) -> tuple[int, tuple[tuple[bool, Any], ...]]:
    # Numbers sort before texts, as they do in a store.
    return (numbers[row[0]], tuple((isinstance(part, str), part) for part in row[1]))


def _encoded(value: Any) -> bytes:
    return msgspec.msgpack.encode(value)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= TEXT_MAX else f"{text[:TEXT_MAX]}…"
