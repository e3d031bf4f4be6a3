"""What only the SQLite log does: locks, durability, reading beside the owner."""

import os
import signal
import sqlite3
import subprocess
import sys
import textwrap

import pytest

from duraton_streams.errors import (
    DoubtError,
    LogError,
    LogInUseError,
    LogMismatchError,
    OffsetGoneError,
)
from duraton_streams.logs.base import COMMANDS, EVENTS, JOURNAL, MESSAGES, NewRecord
from duraton_streams.logs.sqlite import SqliteLog
from duraton_streams.logs.sqlite_file import (
    SEGMENT_BYTES_MAX,
    SEGMENT_RECORDS_MAX,
    SqliteSettings,
)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "data" / "log.db"


@pytest.fixture
def log(path):
    log = SqliteLog(path)
    yield log
    log.close()


def nothing():
    pass


def values(records):
    return [record.value for record in records]


def child(code, *args):
    """Another process that runs `code`; its standard output is a pipe."""
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, args)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
    )


OWNER = """
    import sys
    from pathlib import Path
    from duraton_streams.logs.base import JOURNAL, MESSAGES, NewRecord
    from duraton_streams.logs.sqlite import SqliteLog
    log = SqliteLog(Path(sys.argv[1]))
    writer = log.writer(0)
    number = 0
    while True:
        both = [NewRecord(JOURNAL, 0, b"%d" % number), NewRecord(MESSAGES, 0, b"%d" % number)]
        writer.commit(both)
        print(number, flush=True)
        number += 1
"""


class TestOwner:
    def test_a_second_owner_is_refused_and_told_who_the_first_is(self, log, path):
        with pytest.raises(LogInUseError, match=f"in use by process {os.getpid()}$"):
            SqliteLog(path)
        code = """
            import sys
            from pathlib import Path
            from duraton_streams.errors import LogInUseError
            from duraton_streams.logs.sqlite import SqliteLog
            try:
                SqliteLog(Path(sys.argv[1]))
            except LogInUseError as error:
                print(error)
        """
        out, err = child(code, path).communicate(timeout=30)
        assert f"in use by process {os.getpid()}\n" in out, err

    def test_an_owner_that_closed_lets_the_next_in(self, log, path):
        log.writer(0).commit([NewRecord(JOURNAL, 0, b"a")])
        log.close()
        with pytest.raises(LogError, match="closed"):
            log.read(JOURNAL, 0, 0, 1)
        again = SqliteLog(path)
        assert values(again.read(JOURNAL, 0, 0, 10)) == [b"a"]
        again.close()

    def test_what_was_acknowledged_is_there_after_sigkill(self, path):
        owner = child(OWNER, path)
        acknowledged = -1
        for line in owner.stdout:
            acknowledged = int(line)
            if acknowledged == 60:
                break
        owner.send_signal(signal.SIGKILL)
        rest = owner.stdout.read().split()
        owner.wait(30)
        owner.stderr.close()
        owner.stdout.close()
        acknowledged = int(rest[-1]) if rest else acknowledged
        log = SqliteLog(path)  # the lock went with its owner
        facts = [int(r.value) for r in log.read(JOURNAL, 0, 0, 100_000)]
        messages = [int(r.value) for r in log.read(MESSAGES, 0, 0, 100_000)]
        assert facts == messages == list(range(len(facts)))
        assert acknowledged < len(facts) <= acknowledged + 2
        assert log.writer(0).commit([NewRecord(JOURNAL, 0, b"next")]) == [len(facts)]
        log.close()


class TestFile:
    def test_is_of_the_partitions_that_it_was_made_with(self, path):
        SqliteLog(path, 3).close()
        log = SqliteLog(path)
        assert log.partitions == 3
        log.close()
        with pytest.raises(LogMismatchError, match="made with 3 partitions, not 4"):
            SqliteLog(path, 4)
        with pytest.raises(LogMismatchError, match="1 to 1024 partitions"):
            SqliteLog(path, 0)

    def test_that_is_something_else_is_left_alone(self, path):
        path.parent.mkdir()
        path.write_bytes(b"not a database at all" * 100)
        with pytest.raises(LogMismatchError, match="not the log of a cluster"):
            SqliteLog(path)
        assert path.read_bytes() == b"not a database at all" * 100
        other = path.with_name("other.db")
        with sqlite3.connect(other) as connection:
            connection.execute("CREATE TABLE mine (a)")
        connection.close()
        with pytest.raises(LogMismatchError, match="not the log of a cluster"):
            SqliteLog(other)

    def test_of_a_later_format_is_refused(self, path):
        SqliteLog(path).close()
        connection = sqlite3.connect(path)
        connection.execute("UPDATE meta SET value = 99 WHERE name = 'format'")
        connection.commit()
        connection.close()
        with pytest.raises(LogMismatchError, match="has format 99"):
            SqliteLog(path)

    def test_where_no_directory_can_be(self, path):
        path.parent.write_text("a file")
        with pytest.raises(LogError, match="cannot make"):
            SqliteLog(path)

    def test_that_is_a_directory(self, path):
        path.mkdir(parents=True)
        with pytest.raises(LogError, match="cannot open"):
            SqliteLog(path)

    def test_knows_the_end_of_what_was_removed(self, log, path):
        log.append([NewRecord(EVENTS, 0, b"%d" % n) for n in range(9)])
        log.delete_below(EVENTS, 0, 4)
        log.close()
        again = SqliteLog(path)
        assert again.bounds(EVENTS, 0) == (4, 9)
        with pytest.raises(OffsetGoneError):
            again.read(EVENTS, 0, 3, 1)
        again.close()

    def test_its_write_ahead_file_does_not_grow_without_end(self, path):
        settings = SqliteSettings(checkpoint_pages=50, wal_limit_bytes=400_000)
        log = SqliteLog(path, settings=settings)
        for _ in range(300):
            log.append([NewRecord(EVENTS, 0, b"x" * 5_000)])
        assert path.with_name("log.db-wal").stat().st_size < 1_000_000
        log.close()

    def test_a_commit_that_fails_is_doubt_until_a_new_writer_looks(self, path):
        log = SqliteLog(path, settings=SqliteSettings(busy_timeout_ms=1))
        writer = log.writer(0)
        writer.commit([NewRecord(JOURNAL, 0, b"a")])
        person = sqlite3.connect(path, isolation_level=None)
        person.execute("BEGIN IMMEDIATE")
        many = [NewRecord(JOURNAL, 0, b"b")] * 200
        for records in (many, many[:1]):
            with pytest.raises(DoubtError, match="locked"):
                log.writer(0).commit(records)
        stale = log.writer(0)
        with pytest.raises(DoubtError):
            stale.commit(many)
        person.execute("ROLLBACK")
        person.close()
        with pytest.raises(DoubtError, match="make a new one"):
            stale.commit(many)
        assert log.writer(0).commit([NewRecord(JOURNAL, 0, b"b")]) == [1]
        assert values(log.read(JOURNAL, 0, 0, 10)) == [b"a", b"b"]
        log.close()


class TestReadonly:
    def test_reads_beside_the_owner(self, log, path):
        log.writer(0).commit([NewRecord(JOURNAL, 0, b"a", b"k", (("h", b"v"),), 5)])
        reader = SqliteLog.open_readonly(path)
        tail = reader.tail(JOURNAL, 0, 0, nothing)
        assert (reader.cluster, reader.partitions) == (log.cluster, 1)
        assert tail.take(10) == log.read(JOURNAL, 0, 0, 10)
        log.writer(0).commit([NewRecord(JOURNAL, 0, b"b")])
        assert reader.bounds(JOURNAL, 0) == (0, 2)
        assert values(tail.take(10)) == [b"b"]
        assert tail.take(10) == []
        log.delete_below(JOURNAL, 0, 1)
        with pytest.raises(OffsetGoneError):
            reader.read(JOURNAL, 0, 0, 10)
        reader.close()

    def test_writes_nothing(self, log, path):
        reader = SqliteLog.open_readonly(path)
        with pytest.raises(LogError, match="reading only"):
            reader.writer(0)
        with pytest.raises(LogError, match="reading only"):
            reader.append([NewRecord(EVENTS, 0, b"a")])
        reader.close()

    def test_reads_where_no_engine_runs(self, log, path):
        log.append([NewRecord(EVENTS, 0, b"a")])
        log.close()
        reader = SqliteLog.open_readonly(path)
        assert values(reader.read(EVENTS, 0, 0, 10)) == [b"a"]
        reader.close()

    def test_does_not_make_what_is_not_there(self, path):
        with pytest.raises(LogError, match="cannot open"):
            SqliteLog.open_readonly(path)
        assert not path.exists()

    def test_people_see_topics_by_name(self, log, path):
        log.append([NewRecord(EVENTS, 0, b"a", b"k"), NewRecord(EVENTS, 0, b"b")])
        person = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)
        assert person.execute("SELECT topic, first, last FROM log").fetchall() == [(EVENTS, 0, 1)]
        person.close()


class TestSegments:
    """Records that one commit wrote share a row; readers do not see where rows end."""

    def test_a_read_begins_and_ends_anywhere(self, log):
        for start in (0, 3, 6):
            log.append([NewRecord(EVENTS, 0, b"%d" % n) for n in range(start, start + 3)])
        for begin in range(9):
            for end in range(begin, 10):
                wanted = [b"%d" % n for n in range(begin, min(end, 9))]
                assert values(log.read(EVENTS, 0, begin, 100, end)) == wanted
            assert values(log.read(EVENTS, 0, begin, 2)) == [
                b"%d" % n for n in range(begin, min(begin + 2, 9))
            ]

    def test_what_is_long_or_large_is_cut(self, log, path):
        many = [NewRecord(EVENTS, 0, b"x") for _ in range(SEGMENT_RECORDS_MAX + 1)]
        large = [NewRecord(COMMANDS, 0, bytes(SEGMENT_BYTES_MAX)) for _ in range(2)]
        assert log.append([*many, *large]) == [*range(len(many)), 0, 1]
        person = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)
        rows = person.execute("SELECT topic, first, last FROM log").fetchall()
        person.close()
        assert sorted(rows) == [
            (COMMANDS, 0, 0),
            (COMMANDS, 1, 1),
            (EVENTS, 0, SEGMENT_RECORDS_MAX - 1),
            (EVENTS, SEGMENT_RECORDS_MAX, SEGMENT_RECORDS_MAX),
        ]
        assert len(log.read(EVENTS, 0, 0, 10_000)) == len(many)

    def test_what_was_removed_inside_a_segment_stays_removed(self, log):
        log.append([NewRecord(EVENTS, 0, b"%d" % n) for n in range(4)])
        log.delete_below(EVENTS, 0, 2)
        assert log.bounds(EVENTS, 0) == (2, 4)
        assert values(log.read(EVENTS, 0, 2, 10)) == [b"2", b"3"]
        with pytest.raises(OffsetGoneError):
            log.read(EVENTS, 0, 1, 10)


@pytest.mark.parametrize("how", ["removed", "replaced"])
def test_a_file_that_others_no_longer_find_takes_no_more_records(path, log, how):
    writer = log.writer(0)
    writer.commit([NewRecord(JOURNAL, 0, b"kept")])
    path.rename(path.with_name("elsewhere"))
    if how == "replaced":
        path.write_bytes(b"")
    for write in (writer.commit, log.append):
        with pytest.raises(LogError, match=how):
            write([NewRecord(EVENTS, 0, b"lost")])


def test_a_damaged_file_is_an_error_of_the_log(path):
    log = SqliteLog(path)
    log.append([NewRecord(EVENTS, 0, bytes(100_000)) for _ in range(20)])
    log.close()
    log = SqliteLog.open_readonly(path)
    with path.open("r+b") as file:
        file.seek(8_192)
        file.write(b"\xff" * (path.stat().st_size - 8_192))
    with pytest.raises(LogError, match="cannot read"):
        log.read(EVENTS, 0, 0, 100)
    log.close()
