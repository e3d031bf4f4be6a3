"""People's own SQL over the view: one SELECT, read-only, bounded in time, rows and size."""

import sqlite3
import time
from typing import Any

import msgspec

from duraton_api.errors import BadSqlError, QueryTooSlowError

QUERY_CHARS_MAX = 20_000
QUERY_TIME_LIMIT_S = 30.0
"""How long a query may run; the view is for operating, long reports belong elsewhere."""
ROWS_MAX = 10_000
VALUE_BYTES_MAX = 16 << 20
"""The largest text or blob that a query may build."""
ANSWER_CHARS_MAX = 64 << 20
"""Characters and bytes of one answer; what is beyond is cut off as rows beyond the limit are."""
_STEPS_BETWEEN_CHECKS = 10_000

_ALLOWED = frozenset(
    {
        sqlite3.SQLITE_SELECT,
        sqlite3.SQLITE_READ,
        sqlite3.SQLITE_FUNCTION,
        sqlite3.SQLITE_RECURSIVE,
    }
)


class SqlAnswer(msgspec.Struct, rename="camel", frozen=True):
    """What a query gave.

    Attributes:
        columns: The columns' names.
        rows: The rows; blobs as hexadecimal text.
        truncated: Whether there were more rows than the limit.
    """

    columns: list[str]
    rows: list[list[Any]]
    truncated: bool


def run_sql(path: str, query: str, limit: int) -> SqlAnswer:
    """Run one read-only query over a view's file.

    Args:
        path: The view's file.
        query: One SELECT.
        limit: The most rows, at most `ROWS_MAX`.

    Raises:
        BadSqlError: It is too long, no SELECT, or SQLite cannot run it.
        QueryTooSlowError: It took longer than `QUERY_TIME_LIMIT_S`.
    """
    if len(query) > QUERY_CHARS_MAX:
        raise BadSqlError(f"the query is longer than {QUERY_CHARS_MAX} characters")
    limit = max(1, min(limit, ROWS_MAX))
    db = sqlite3.connect(f"file:{path}?mode=ro", uri=True, check_same_thread=False)
    try:
        db.execute("PRAGMA query_only = ON")
        db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, VALUE_BYTES_MAX)
        db.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        db.set_authorizer(_authorize)
        deadline = time.monotonic() + QUERY_TIME_LIMIT_S
        db.set_progress_handler(lambda: time.monotonic() > deadline, _STEPS_BETWEEN_CHECKS)
        cursor = db.execute(query)
        if cursor.description is None:
            raise BadSqlError("the query is no SELECT")
        rows, more = _fetch(cursor, limit, deadline)
        columns = [column[0] for column in cursor.description]
    except sqlite3.OperationalError as error:
        if "interrupted" in str(error):
            raise QueryTooSlowError(f"stopped after {QUERY_TIME_LIMIT_S:g} s") from error
        raise BadSqlError(str(error)) from error
    except (sqlite3.Error, sqlite3.Warning, ValueError, OverflowError) as error:
        raise BadSqlError(str(error)) from error
    finally:
        db.close()
    plain = [[_plain(value) for value in row] for row in rows]
    return SqlAnswer(columns=columns, rows=plain, truncated=more)


def _fetch(cursor: sqlite3.Cursor, limit: int, deadline: float) -> tuple[list[Any], bool]:
    """The first rows, and whether there are more than fit by number or by size."""
    rows: list[Any] = []
    size = 0
    for row in cursor:
        size += sum(len(value) for value in row if isinstance(value, (str, bytes)))
        if len(rows) == limit or (rows and size > ANSWER_CHARS_MAX):
            return rows, True
        if time.monotonic() > deadline:
            raise QueryTooSlowError(f"stopped after {QUERY_TIME_LIMIT_S:g} s")
        rows.append(row)
    return rows, False


def _authorize(action: int, *_: str | None) -> int:
    return sqlite3.SQLITE_OK if action in _ALLOWED else sqlite3.SQLITE_DENY


def _plain(value: Any) -> Any:
    return value.hex() if isinstance(value, bytes) else value
