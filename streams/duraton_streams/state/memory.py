"""A store in memory: for tests, the testing kit, and shadows."""

from collections.abc import Iterable

from sortedcontainers import SortedDict

from duraton_streams.state.store import SCAN_BYTES_MAX, Row


class MemoryStore:
    """Keeps rows as bytes, so that what it answers is what any store would."""

    def __init__(self) -> None:
        self._rows: SortedDict[bytes, bytes] = SortedDict()

    def get(self, key: bytes) -> bytes | None:
        value: bytes | None = self._rows.get(key)
        return value

    def scan(self, low: bytes, high: bytes, limit: int) -> list[Row]:
        rows: list[Row] = []
        size = 0
        if limit <= 0:
            return rows
        for key in self._rows.irange(low, high, inclusive=(True, False)):
            value = self._rows[key]
            rows.append((key, value))
            size += len(value)
            if len(rows) >= limit or size >= SCAN_BYTES_MAX:
                break
        return rows

    def write(self, puts: Iterable[Row], deletes: Iterable[bytes]) -> None:
        for key in deletes:
            self._rows.pop(key, None)
        self._rows.update(puts)

    def close(self) -> None:
        pass

    def destroy(self) -> None:
        self._rows.clear()
