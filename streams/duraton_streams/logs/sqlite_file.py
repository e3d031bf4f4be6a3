"""The SQLite file of a log: its tables, how it is opened, and how rows are made.

`records` holds them all, `topics` their names; the view `log` joins the two for
people. `cleared` says below which offset records were removed.
"""

import sqlite3
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from duraton_streams.errors import LogError, LogMismatchError
from duraton_streams.logs.base import TOPICS, Headers, LogRecord

FORMAT = 1
"""The version of the tables below."""

ROWS_A_STATEMENT = 64
"""The most rows one INSERT writes; larger batches take several in one transaction."""

_SCHEMA = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE topics (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE cleared (
    topic INTEGER, partition INTEGER, below INTEGER NOT NULL,
    PRIMARY KEY (topic, partition)
) WITHOUT ROWID;
CREATE TABLE records (
    topic INTEGER, partition INTEGER, offset INTEGER,
    value BLOB, key BLOB, headers BLOB, timestamp_ms INTEGER NOT NULL,
    PRIMARY KEY (topic, partition, offset)
) WITHOUT ROWID;
CREATE VIEW log AS
    SELECT name AS topic, partition, offset, timestamp_ms, key, value, headers
    FROM records JOIN topics ON topics.id = records.topic;
"""


@dataclass(frozen=True)
class SqliteSettings:
    """How the file is used.

    Attributes:
        checkpoint_pages: Pages of 4 KiB in the write-ahead file after which a commit
            also copies them into the database; fewer keep the file small, more make
            those longer commits rarer.
        wal_limit_bytes: What the write-ahead file is cut back to after that.
        busy_timeout_ms: How long a commit waits for a person's own write lock.
        read_bytes: About the most bytes of values that one read gives.
    """

    checkpoint_pages: int = 2_000
    wal_limit_bytes: int = 64 << 20
    busy_timeout_ms: int = 5_000
    read_bytes: int = 16 << 20


@dataclass(frozen=True)
class Identity:
    """What a log file says about itself: cluster id, partitions, and topic ids by name."""

    cluster: str
    partitions: int
    topics: dict[str, int]


def connect(path: Path, settings: SqliteSettings, *, readonly: bool) -> sqlite3.Connection:
    """Open a connection in autocommit mode that any thread may use, one at a time.

    Raises:
        LogError: It cannot be opened.
        LogMismatchError: The file is not SQLite's.
    """
    mode = "ro" if readonly else "rwc"
    try:
        connection = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode={mode}",
            uri=True,
            isolation_level=None,
            check_same_thread=False,
            timeout=settings.busy_timeout_ms / 1000,
            cached_statements=2 * ROWS_A_STATEMENT,
        )
        try:
            if not readonly:
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute("PRAGMA synchronous = FULL")
                connection.execute(f"PRAGMA wal_autocheckpoint = {settings.checkpoint_pages}")
                connection.execute(f"PRAGMA journal_size_limit = {settings.wal_limit_bytes}")
            connection.execute("SELECT 1 FROM sqlite_master").fetchone()
        except BaseException:
            connection.close()
            raise
    except sqlite3.OperationalError as error:
        raise LogError(f"cannot open {path}: {error}") from error
    except sqlite3.DatabaseError as error:
        raise LogMismatchError(f"{path} is not the log of a cluster: {error}") from error
    return connection


def open_log(
    path: Path, settings: SqliteSettings, partitions: int | None, *, readonly: bool
) -> tuple[sqlite3.Connection, Identity]:
    """Open a log's file, made where it is new, and say whose it is.

    Raises:
        LogError: It cannot be opened.
        LogMismatchError: It is no log, or has other partitions than wanted.
    """
    connection = connect(path, settings, readonly=readonly)
    try:
        identity = _settle(connection, path, partitions, readonly=readonly)
    except BaseException:
        connection.close()
        raise
    return connection, identity


def _settle(
    connection: sqlite3.Connection, path: Path, partitions: int | None, *, readonly: bool
) -> Identity:
    identity = _identify(connection, path)
    if identity is None and not readonly:
        _create(connection, partitions or 1)
        identity = _identify(connection, path)
    if identity is None:
        raise LogMismatchError(f"{path} is empty")
    if partitions not in {None, identity.partitions}:
        raise LogMismatchError(
            f"{path} was made with {identity.partitions} partitions, not {partitions}"
        )
    if readonly:
        return identity
    return replace(identity, topics=_add_topics(connection, identity.topics))


def _identify(connection: sqlite3.Connection, path: Path) -> Identity | None:
    """Read what a file says about itself; None where it is new and empty.

    Raises:
        LogMismatchError: It is something else, or of a later format.
    """
    if connection.execute("SELECT 1 FROM sqlite_master").fetchone() is None:
        return None
    try:
        meta = dict(connection.execute("SELECT name, value FROM meta"))
        topics = dict(connection.execute("SELECT name, id FROM topics"))
        form, cluster, partitions = int(meta["format"]), meta["cluster"], int(meta["partitions"])
    except (sqlite3.Error, KeyError, ValueError, TypeError) as error:
        raise LogMismatchError(f"{path} is not the log of a cluster") from error
    if form != FORMAT:
        raise LogMismatchError(
            f"{path} has format {form}, this program reads {FORMAT}; use the version that made it"
        )
    return Identity(cluster, partitions, topics)


def _create(connection: sqlite3.Connection, partitions: int) -> None:
    """Make the tables and the cluster's identity, all in one transaction."""
    meta = {"format": FORMAT, "cluster": uuid.uuid4().hex, "partitions": partitions}
    connection.executescript(f"BEGIN IMMEDIATE; {_SCHEMA}")
    connection.executemany("INSERT INTO meta VALUES (?, ?)", meta.items())
    connection.executemany("INSERT INTO topics VALUES (?, ?)", enumerate(TOPICS, 1))
    connection.execute("COMMIT")


def _add_topics(connection: sqlite3.Connection, known: dict[str, int]) -> dict[str, int]:
    """Give topics that the file does not know yet an id; all ids by name."""
    for name in TOPICS:
        if name not in known:
            number = max(known.values(), default=0) + 1
            connection.execute("INSERT INTO topics VALUES (?, ?)", (number, name))
            known = {**known, name: number}
    return known


def insert(connection: sqlite3.Connection, values: Sequence[object], rows: int) -> None:
    """Write rows in one transaction, `values` being their seven columns one after the other.

    Rows share a statement because Python's SQLite lets go of the interpreter's lock at
    each step: with another thread busy, fifty rows one by one took 8.6 ms, in one
    statement 1.8 ms. A single statement is its own transaction.
    """
    if rows <= ROWS_A_STATEMENT:
        connection.execute(_INSERT[rows], values)
        return
    connection.execute("BEGIN IMMEDIATE")
    for start in range(0, rows, ROWS_A_STATEMENT):
        count = min(ROWS_A_STATEMENT, rows - start)
        connection.execute(_INSERT[count], values[start * 7 : (start + count) * 7])
    connection.execute("COMMIT")


def select(
    connection: sqlite3.Connection,
    topic: str,
    at: tuple[int, int, int, int, int],
    bytes_limit: int,
) -> list[LogRecord]:
    """Read records in order, at most about `bytes_limit` bytes of values.

    Args:
        connection: Where to read.
        topic: The topic's name.
        at: Topic id, partition, first offset, end offset, most records.
        bytes_limit: See above; one record is given whatever its size.
    """
    found: list[LogRecord] = []
    size = 0
    partition = at[1]
    rows = connection.execute(_SELECT, at)
    try:
        for offset, value, key, headers, at_ms in rows:
            size += len(value) if value else 0
            if size > bytes_limit and found:
                break
            unpacked = unpack_headers(headers) if headers else ()
            found.append(LogRecord(topic, partition, offset, value, key, unpacked, at_ms))
    finally:
        rows.close()
    return found


_SELECT = """
SELECT offset, value, key, headers, timestamp_ms FROM records
WHERE topic = ? AND partition = ? AND offset >= ? AND offset < ? ORDER BY offset LIMIT ?
"""
_INSERT = [
    "INSERT INTO records VALUES " + ",".join(["(?,?,?,?,?,?,?)"] * rows)  # noqa: S608 - constants
    for rows in range(ROWS_A_STATEMENT + 1)
]

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[tuple[str, bytes], ...]).decode


def pack_headers(headers: Headers) -> bytes | None:
    """Headers as a row holds them."""
    return _encode(headers) if headers else None


def unpack_headers(packed: bytes | None) -> Headers:
    """Headers from a row."""
    return _decode(packed) if packed else ()
