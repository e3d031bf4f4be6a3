"""What a store is: an ordered map of bytes that outlives the process, or does not.

It knows nothing of tables. It is written by one owner, a batch at a time.
"""

from collections.abc import Iterable
from typing import Protocol

SCAN_BYTES_MAX = 4 << 20
"""About the most bytes of values that one scan answers: rows may hold large values."""

Row = tuple[bytes, bytes]
"""A key and its value."""


class Store(Protocol):
    """An ordered map of bytes."""

    def get(self, key: bytes) -> bytes | None:
        """The value of a key, or None."""

    def scan(self, low: bytes, high: bytes, limit: int) -> list[Row]:
        """Rows in key order.

        An answer of fewer than `limit` rows whose values hold less than
        `SCAN_BYTES_MAX` bytes together reached the end of the range.

        Args:
            low: The lowest key.
            high: The key above the highest.
            limit: The most rows.
        """

    def write(self, puts: Iterable[Row], deletes: Iterable[bytes]) -> None:
        """Set some keys and remove others, all or nothing; a key is in one of the two."""

    def close(self) -> None:
        """Release it; what was written stays where the store outlives the process."""

    def destroy(self) -> None:
        """Close it and remove all that it holds."""


def reached_end(rows: list[Row], limit: int) -> bool:
    """Whether the answer to a scan holds all that its range does."""
    if len(rows) >= limit:
        return False
    return sum(len(value) for _, value in rows) < SCAN_BYTES_MAX
