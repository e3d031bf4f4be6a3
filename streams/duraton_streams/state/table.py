"""Tables: typed views of ordered keys and encoded values.

A key is a tuple of whole numbers (0 to 2^64-1) and texts; tuples sort as their
encoded bytes do, so a range of keys can be walked.
"""

from collections.abc import Iterator
from typing import Any, Generic, Protocol, TypeVar

import msgspec

Part = int | str
Key = tuple[Part, ...]

V = TypeVar("V")


class Table(Generic[V]):
    """What a table is: its name, its number in keys, and the type of its values.

    Args:
        name: Its name, for people and for `verify`.
        number: Its first byte in keys, 1 to 255; never reused.
        value: The msgspec struct that its values are.
    """

    __slots__ = ("decoder", "encoder", "name", "number", "prefix", "value")

    def __init__(self, name: str, number: int, value: type[V]) -> None:
        self.name = name
        self.number = number
        self.value = value
        self.prefix = bytes((number,))
        self.encoder = msgspec.msgpack.Encoder()
        self.decoder = msgspec.msgpack.Decoder(value)

    def __repr__(self) -> str:
        return f"Table({self.name!r})"


class StateReader(Protocol):
    """What a decision may do with state: look at it. Objects it gets are not to be changed."""

    @property
    def scratch(self) -> "dict[str, Any]":
        """What one transaction keeps at hand; emptied at its end, never stored."""

    def get(self, table: Table[V], key: Key) -> V | None:
        """The value of a key, or None."""

    def scan(
        self, table: Table[V], prefix: Key, limit: int, after: Key | None = None
    ) -> list[tuple[Key, V]]:
        """Entries whose key begins with a prefix of whole parts, in key order.

        Args:
            table: The table.
            prefix: The first parts; empty for the whole table.
            limit: The most entries.
            after: Give only keys above this one.
        """


def scan_all(
    state: StateReader,
    table: Table[V],
    prefix: Key = (),
    *,
    page: int = 1_000,
    after: Key | None = None,
) -> Iterator[tuple[Key, V]]:
    """All entries whose key begins with a prefix, read page by page.

    What is written meanwhile is met where its key is above the page that is being walked.

    Args:
        state: Where to look.
        table: The table.
        prefix: The first parts; empty for the whole table.
        page: Entries held at once.
        after: Give only keys above this one.
    """
    while True:
        rows = state.scan(table, prefix, page, after)
        yield from rows
        if len(rows) < page:
            return
        after = rows[-1][0]


class StateWriter(StateReader, Protocol):
    """What an applier may do with state."""

    def put(self, table: Table[V], key: Key, value: V) -> None:
        """Set a key's value. The value belongs to the state from then on."""

    def insert(self, table: Table[V], key: Key, value: V) -> None:
        """As `put`, for a key that is known not to be there, so that nothing is looked up.

        What is inserted and deleted between two writes of the store never reaches it.
        """

    def edit(self, table: Table[V], key: Key) -> V:
        """A key's value to change in place: a shallow copy at its first edit of a transition.

        Containers inside it are replaced, not changed.

        Raises:
            KeyError: The key is not there.
        """

    def delete(self, table: Table[V], key: Key) -> None:
        """Remove a key; nothing happens where it is not there."""

    def set_timer(self, due: int, target: Key) -> None:
        """Fire `target` at `due` (ms since 1970 UTC); the pair is the timer's identity."""

    def clear_timer(self, due: int, target: Key) -> None:
        """Take a timer back; nothing happens where it is not there."""
