"""The SQLite file of a log: its tables, how it is opened, and how rows are made.

Each topic has a table of segments: a row holds the records that one commit wrote to
one partition, one after the other. A row each cost five times as much, most of it while
the interpreter's lock was held (measured: 8 µs a record against 1.5). A segment's id is
its partition and its last offset in one number, so that a commit appends at the right
edge of its tables; one table with the topic in its key split pages in the middle and
wrote their neighbours too (measured: 3.3 pages a commit against 1.6).

`topics` has the topics' names, and the view `log` puts the tables together for people
(`duraton log dump` shows the records). `cleared` says below which offset records were
removed.
"""

import sqlite3
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import msgspec

from duraton_streams.errors import LogError, LogMismatchError
from duraton_streams.logs.base import TOPICS, Headers, LogRecord

FORMAT = 2
"""The version of the tables below."""

SEGMENT_RECORDS_MAX = 512
SEGMENT_BYTES_MAX = 1 << 20
"""A segment is decoded whole, so neither may grow; a record above it stands alone."""

OFFSET_BITS = 48
"""A segment's id is `partition << OFFSET_BITS | last`."""
_OFFSETS = (1 << OFFSET_BITS) - 1

_SCHEMA = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE topics (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE cleared (
    topic INTEGER, partition INTEGER, below INTEGER NOT NULL,
    PRIMARY KEY (topic, partition)
) WITHOUT ROWID;
"""
_TABLE = """
CREATE TABLE {table} (
    id INTEGER PRIMARY KEY, first INTEGER NOT NULL, records BLOB NOT NULL
)
"""
_PART_OF_VIEW = (
    "SELECT '{topic}' AS topic, id >> {bits} AS partition, first, id & {mask} AS last,"
    " length(records) AS bytes FROM {table}"
)


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


def table_of(topic: str) -> str:
    """The table of a topic's segments."""
    return topic.removeprefix("duraton.").replace("-", "_")


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
    for number, topic in enumerate(TOPICS, 1):
        _add_topic(connection, number, topic)
    _make_view(connection, TOPICS)
    connection.execute("COMMIT")


def _add_topics(connection: sqlite3.Connection, known: dict[str, int]) -> dict[str, int]:
    """Give topics that the file does not know yet an id and a table; all ids by name."""
    missing = [topic for topic in TOPICS if topic not in known]
    if not missing:
        return known
    topics = dict(known)
    connection.execute("BEGIN IMMEDIATE")
    for topic in missing:
        topics[topic] = max(topics.values(), default=0) + 1
        _add_topic(connection, topics[topic], topic)
    _make_view(connection, list(topics))
    connection.execute("COMMIT")
    return topics


def _add_topic(connection: sqlite3.Connection, number: int, topic: str) -> None:
    connection.execute("INSERT INTO topics VALUES (?, ?)", (number, topic))
    connection.execute(_TABLE.format(table=table_of(topic)))


def _make_view(connection: sqlite3.Connection, topics: Sequence[str]) -> None:
    parts = [
        _PART_OF_VIEW.format(topic=topic, table=table_of(topic), bits=OFFSET_BITS, mask=_OFFSETS)
        for topic in topics
    ]
    connection.execute("DROP VIEW IF EXISTS log")
    connection.execute("CREATE VIEW log AS " + " UNION ALL ".join(parts))


class Segment(NamedTuple):
    """A row: records of one partition that follow each other.

    Attributes:
        id: The partition and the last record's offset.
        first: The first record's offset.
        records: Its records, as `pack` makes them.
    """

    id: int
    first: int
    records: bytes


def segment_id(partition: int, offset: int) -> int:
    """The id of a segment whose last record has this offset."""
    return partition << OFFSET_BITS | offset


def last_of(segment: int) -> int:
    """The last offset in a segment's id."""
    return segment & _OFFSETS


Row = tuple[bytes | None, bytes | None, Headers | None, int]
"""A record inside a segment: value, key, headers, timestamp."""


def pack(partition: int, first: int, rows: Sequence[Row]) -> list[Segment]:
    """The segments of records that follow each other."""
    found: list[Segment] = []
    begin, size = 0, 0
    for place, row in enumerate(rows):
        size += len(row[0] or b"")
        full = size >= SEGMENT_BYTES_MAX or place + 1 - begin >= SEGMENT_RECORDS_MAX
        if full or place + 1 == len(rows):
            raw = _encode(rows[begin : place + 1])
            found.append(Segment(segment_id(partition, first + place), first + begin, raw))
            begin, size = place + 1, 0
    return found


def insert(connection: sqlite3.Connection, segments: Sequence[tuple[str, Segment]]) -> None:
    """Write segments, each into its topic's table, in one transaction."""
    if len(segments) == 1:
        topic, segment = segments[0]
        connection.execute(_INSERT[topic], segment)  # a statement is its own transaction
        return
    connection.execute("BEGIN IMMEDIATE")
    for topic, segment in segments:
        connection.execute(_INSERT[topic], segment)
    connection.execute("COMMIT")


def last(connection: sqlite3.Connection, topic: str, partition: int) -> int | None:
    """The last offset that a partition of a topic holds, or None where it holds nothing."""
    row = connection.execute(
        _LAST[topic], (segment_id(partition, 0), segment_id(partition + 1, 0))
    ).fetchone()
    return None if row is None else last_of(row[0])


def delete(connection: sqlite3.Connection, topic: str, partition: int, offset: int) -> None:
    """Delete the segments whose records are all below an offset."""
    connection.execute(_DELETE[topic], (segment_id(partition, 0), segment_id(partition, offset)))


def select(
    connection: sqlite3.Connection,
    topic: str,
    at: tuple[int, int, int, int],
    bytes_limit: int,
) -> list[LogRecord]:
    """Read records in order, at most about `bytes_limit` bytes of values.

    Args:
        connection: Where to read.
        topic: The topic's name.
        at: Partition, first offset, end offset, most records.
        bytes_limit: See above; one record is given whatever its size.
    """
    partition, begin, end, limit = at
    found: list[LogRecord] = []
    if limit < 1:
        return found
    size = 0
    # No segment that begins below the end reaches further than this.
    stop = min(end + SEGMENT_RECORDS_MAX, _OFFSETS)
    low, high = segment_id(partition, begin), segment_id(partition, stop)
    rows = connection.execute(_SELECT[topic], (low, high))
    try:
        for first, raw in rows:
            for offset, (value, key, headers, at_ms) in enumerate(_decode(raw), first):
                if offset < begin:
                    continue
                size += len(value) if value else 0
                if offset >= end or len(found) == limit or (size > bytes_limit and found):
                    return found
                found.append(LogRecord(topic, partition, offset, value, key, headers or (), at_ms))
    finally:
        rows.close()
    return found


def _statements(text: str) -> dict[str, str]:
    return {topic: text.format(table=table_of(topic)) for topic in TOPICS}


_SELECT = _statements("SELECT first, records FROM {table} WHERE id >= ? AND id < ? ORDER BY id")
_INSERT = _statements("INSERT INTO {table} VALUES (?, ?, ?)")
_LAST = _statements("SELECT id FROM {table} WHERE id >= ? AND id < ? ORDER BY id DESC LIMIT 1")
_DELETE = _statements("DELETE FROM {table} WHERE id >= ? AND id < ?")

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[Row]).decode
