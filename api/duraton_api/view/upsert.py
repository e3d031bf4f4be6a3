"""Writing many rows in one statement.

SQLite lets go of the interpreter's lock at every statement and then waits to
get it back, which is what costs most beside a busy loop. So rows are written
64 to a statement instead of one by one.
"""

import sqlite3
from collections.abc import Sequence
from itertools import chain
from typing import Any

_CHUNKS = (64, 8, 1)


class Upsert:
    """An INSERT of many rows, for each chunk size its own text.

    Args:
        table: The table.
        columns: Its columns, with spaces between them.
        conflict: What is done with a row that is there, from ` ON CONFLICT` on.
    """

    def __init__(self, table: str, columns: str, conflict: str) -> None:
        names = columns.split()
        row = f"({','.join('?' * len(names))})"
        head = f"INSERT INTO {table} ({','.join(names)}) VALUES "  # noqa: S608 - our own names
        self._sql = {size: head + ",".join([row] * size) + conflict for size in _CHUNKS}

    def __call__(self, db: sqlite3.Connection, rows: Sequence[tuple[Any, ...]]) -> None:
        done, count = 0, len(rows)
        for size in _CHUNKS:
            while count - done >= size:
                db.execute(self._sql[size], list(chain.from_iterable(rows[done : done + size])))
                done += size
