"""The view: takes committed facts as they come, folds them in its own thread, answers reads.

What it holds is made from the journal alone, so it may be dropped at any time.
Its position stands in the same transaction as what was folded; where facts are
missing (a restart, a queue that grew too long) it reads them from the log.
"""

import asyncio
import contextlib
import logging
import shutil
import sqlite3
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from duraton_api.errors import ViewBehindError, ViewFailedError
from duraton_api.view.fold import Fold
from duraton_api.view.reads import Reads
from duraton_api.view.sql import SqlAnswer, run_sql
from duraton_api.view.store import Store
from duraton_schemas.codec import Codec
from duraton_schemas.errors import UnknownSchemaError
from duraton_schemas.records import acts
from duraton_schemas.records import journal as j
from duraton_schemas.records.common import Fact
from duraton_streams.errors import OffsetGoneError
from duraton_streams.logs.base import JOURNAL, Log, LogRecord

logger = logging.getLogger(__name__)
T = TypeVar("T")

FOLD_INTERVAL_S = 0.08
"""How long facts are gathered before they are folded when nobody waits for them."""
QUEUE_FACTS_MAX = 100_000
"""Facts that wait to be folded; above it they are forgotten and read from the log instead."""
QUEUE_BYTES_MAX = 256 << 20
"""As above, by the size of data and outputs."""
WRITE_FACTS_MAX = 5_000
"""Facts in one write, so that folding a long queue stays bounded in memory."""
READ_RECORDS = 2_000
"""Records that are read from the log at a time."""
REACH_TIMEOUT_S = 2.0
"""How long a reader waits until the view has its own writes (DESIGN 9)."""
_WITH_EVENT = frozenset((j.EventRecorded, j.WindowSlid, j.BufferFilled))
_WAITER_POLL_S = 0.02
_POLLS_BEFORE_LOG = 3
"""Polls with a reader waiting before the log is read for what nobody handed over."""
_BACKOFF_S = (0.1, 0.5, 2.0, 10.0)
"""Waits after a fold that failed, for example on a full disk; the last one repeats."""
_STOP_TIMEOUT_S = 10.0
READ_THREADS = 2

Progress = Callable[[int, int, int], None]
"""Told while the log is read: partition, the next offset, the end."""


class Position(NamedTuple):
    """How far a partition's journal is folded."""

    next: int
    seq: int
    at: int


class View:
    """One node's view.

    Args:
        path: The SQLite file, or `:memory:` for a temporary one that `close` removes.
        log: The log to catch up from; without one, facts that are missing are an error.
        cluster: The cluster's id; the log's, where there is one.
        interval_s: How long facts are gathered when nobody waits for them.
        live_max: How many unended runs are kept in memory, or None for the default.
    """

    def __init__(
        self,
        path: str | Path = ":memory:",
        log: Log | None = None,
        *,
        cluster: str = "",
        interval_s: float = FOLD_INTERVAL_S,
        live_max: int | None = None,
    ) -> None:
        self._folder: str | None = None
        if str(path) == ":memory:":
            self._folder = tempfile.mkdtemp(prefix="duraton-view-")
            path = Path(self._folder) / "view.sqlite"
        self.path = str(path)
        self._log = log
        self._codec = Codec()
        self._store = Store(
            self.path,
            log.cluster if log is not None else cluster,
            temporary=self._folder is not None,
        )
        self._fold = Fold(self._store) if live_max is None else Fold(self._store, live_max)
        self._positions = self._stored_positions()
        self._moved: set[int] = set()
        self._unwritten = 0
        self._written: dict[int, int] = {p: at.next for p, at in self._positions.items()}
        self._gate = threading.Lock()  # around the queue; held for an append
        self._folding = threading.RLock()  # around the store; held for a write
        self._queue: list[tuple[int, Sequence[tuple[int, Fact]]]] = []
        self._queued = self._queued_bytes = 0
        self._overflowed = False
        self._interval_s = interval_s
        self._some, self._urgent = threading.Event(), threading.Event()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._waiters: list[tuple[Mapping[int, int], Callable[[], None]]] = []
        self._pool: ThreadPoolExecutor | None = None
        self.failure: Exception | None = None
        self.reads = Reads(self.path)

    # Facts ---------------------------------------------------------------

    def feed(self, partition: int, facts: Sequence[tuple[int, Fact]]) -> None:
        """Take a batch's facts with their journal offsets; cheap, never raises, never blocks.

        Facts that are already folded are skipped, and missing ones are read from
        the log, so it may be called from any point of the journal.
        """
        if not facts:
            return
        size = 0
        for _, fact in facts:
            kind = type(fact)
            if kind is j.StepCompleted:
                size += len(fact.output)  # type: ignore[attr-defined] # its type is just above
            elif kind in _WITH_EVENT and fact.event is not None:  # type: ignore[attr-defined] # as above
                size += len(fact.event.data)  # type: ignore[attr-defined] # as above
            elif isinstance(fact, acts.RunCarried):
                size += sum([len(step.output) for step in fact.steps])
        with self._gate:
            self._queue.append((partition, facts))
            self._queued += len(facts)
            self._queued_bytes += size
            if self._log is not None and (
                self._queued > QUEUE_FACTS_MAX or self._queued_bytes > QUEUE_BYTES_MAX
            ):
                self._queue.clear()
                self._queued = self._queued_bytes = 0
                self._overflowed = True
        if not self._some.is_set():
            self._some.set()

    @property
    def queued(self) -> int:
        """How many facts wait to be folded."""
        return self._queued

    def drain(self) -> None:
        """Fold everything that was fed and write it; for tests, and for the folding thread."""
        with self._gate:
            taken, self._queue = self._queue, []
            self._queued = self._queued_bytes = 0
            overflowed, self._overflowed = self._overflowed, False
        with self._folding:
            try:
                for partition, facts in taken:
                    self._take(partition, facts)
                if overflowed:
                    self._read_all(None)
                self._write()
            except BaseException:
                self._forget_safely()
                raise

    def _forget_safely(self) -> None:
        # Where the file cannot even be read, what was raised before is what counts.
        with contextlib.suppress(sqlite3.Error):
            self._forget()

    def _forget(self) -> None:
        """Start again from what is written; the log has the rest."""
        self._fold.clear()
        self._moved.clear()
        self._unwritten = 0
        self._positions = self._stored_positions()
        self._overflowed = self._log is not None

    def _stored_positions(self) -> dict[int, Position]:
        return {p: Position(*row) for p, row in self._store.positions().items()}

    def _take(self, partition: int, facts: Sequence[tuple[int, Fact]]) -> None:
        known = self._positions.get(partition, Position(0, -1, 0))
        first, last = _seq(facts[0][1]), _seq(facts[-1][1])
        if last <= known.seq:
            return
        if first > known.seq + 1 and not (known.seq < 0 and facts[0][0] == 0):
            self._catch_up(partition, facts[0][0], None)
            known = self._positions.get(partition, known)
        new = facts if first > known.seq else list(facts)[known.seq + 1 - first :]
        self._fold.apply(partition, new)
        offset, newest = facts[-1]
        self._moved_to(partition, Position(offset + 1, last, newest.at), len(facts))

    def _moved_to(self, partition: int, position: Position, facts: int) -> None:
        self._positions[partition] = position
        self._moved.add(partition)
        self._unwritten += facts
        if self._unwritten >= WRITE_FACTS_MAX:
            self._write()

    def _write(self) -> None:
        if not self._moved:
            return
        self._store.write(self._fold, {p: self._positions[p] for p in self._moved})
        self._fold.written()
        self._moved.clear()
        self._unwritten = 0
        self._written = {p: at.next for p, at in self._positions.items()}

    # The log -------------------------------------------------------------

    def catch_up(self, progress: Progress | None = None) -> None:
        """Read what the log has beyond the view's position; it blocks."""
        with self._folding:
            try:
                self._read_all(progress)
                self._write()
            except BaseException:
                self._forget_safely()
                raise

    def rebuild(self, log: Log | None = None, progress: Progress | None = None) -> None:
        """Drop everything and fold the journal from its beginning; it blocks.

        Args:
            log: The log to read; the view's own where None.
            progress: Told after every write.
        """
        with self._folding:
            self._log = log or self._log
            self._store.drop()
            self._forget()
            self._overflowed = False
            self._written = {}
            self.catch_up(progress)

    def _read_all(self, progress: Progress | None) -> None:
        if self._log is None:
            return
        for partition in range(self._log.partitions):
            end = self._log.bounds(JOURNAL, partition)[1]
            if self._positions.get(partition, Position(0, -1, 0)).next > end:
                logger.warning("the view is ahead of the journal and is made anew")
                self._store.drop()
                self._forget()
                self._overflowed = False
        for partition in range(self._log.partitions):
            self._catch_up(partition, None, progress)

    def _catch_up(self, partition: int, end: int | None, progress: Progress | None) -> None:
        if self._log is None:
            raise ViewFailedError(f"facts of partition {partition} before {end} are missing")
        while True:
            position = self._positions.get(partition, Position(0, -1, 0))
            try:
                records = self._log.read(JOURNAL, partition, position.next, READ_RECORDS, end)
            except OffsetGoneError as gone:
                # Retention removed them; what they told is no longer shown.
                self._positions[partition] = position._replace(next=gone.first)
                continue
            if not records:
                return
            self._apply_records(partition, records)
            if progress is not None:
                self._write()
                progress(partition, records[-1].offset + 1, self._log.bounds(JOURNAL, partition)[1])

    def _apply_records(self, partition: int, records: Sequence[LogRecord]) -> None:
        known = self._positions.get(partition, Position(0, -1, 0))
        seq, at = known.seq, known.at
        facts: list[tuple[int, Fact]] = []
        for record in records:
            raw = record.value or b""
            try:
                fact = self._codec.decode(raw)
            except UnknownSchemaError:
                # Written by a newer program: the view shows what it can read.
                header = self._codec.decode_header(raw)
                seq, at = header.seq, header.at
                continue
            assert isinstance(fact, Fact), "the journal holds facts only"
            if _seq(fact) > known.seq:
                facts.append((record.offset, fact))
                seq, at = _seq(fact), fact.at
        self._fold.apply(partition, facts)
        self._moved_to(partition, Position(records[-1].offset + 1, seq, at), len(records))

    # Readers -------------------------------------------------------------

    def positions(self) -> dict[int, int]:
        """For each partition the journal offset up to which everything is in the file."""
        return dict(self._written)

    async def reached(self, ends: Mapping[int, int], timeout_s: float = REACH_TIMEOUT_S) -> None:
        """Wait until the file has the journal up to these offsets (each the next one to come).

        Raises:
            ViewBehindError: It has not after `timeout_s` seconds.
            ViewFailedError: Folding fails at present.
        """
        if self._has(ends):
            return
        if self._thread is None:
            self.drain()
            if not self._has(ends):
                self.catch_up()
            if not self._has(ends):
                raise ViewBehindError(self._behind(ends))
            return
        loop = asyncio.get_running_loop()
        done = asyncio.Event()
        waiter = (ends, lambda: _wake(loop, done))
        with self._gate:
            self._waiters.append(waiter)
        self._urgent.set()
        self._some.set()
        try:
            await asyncio.wait_for(done.wait(), timeout_s)
        except TimeoutError as error:
            if self.failure is not None:
                raise ViewFailedError(f"folding fails: {self.failure}") from self.failure
            raise ViewBehindError(self._behind(ends)) from error
        finally:
            with self._gate, contextlib.suppress(ValueError):
                self._waiters.remove(waiter)

    def _has(self, ends: Mapping[int, int]) -> bool:
        written = self._written
        return all(written.get(partition, 0) >= end for partition, end in ends.items())

    def _behind(self, ends: Mapping[int, int]) -> str:
        written = self._written
        behind = sum(max(0, end - written.get(partition, 0)) for partition, end in ends.items())
        return f"the view is {behind} records behind the journal"

    async def ask(self, read: Callable[..., T], *args: Any) -> T:
        """Run a read off the event loop; `read` is a method of `reads`, or `sql`."""
        if self._thread is None:
            return read(*args)
        if self._pool is None:
            self._pool = ThreadPoolExecutor(READ_THREADS, thread_name_prefix="duraton-view-read")
        return await asyncio.get_running_loop().run_in_executor(self._pool, read, *args)

    def search_ready(self) -> None:
        """Index everything for full text, at the first search; it blocks."""
        if not self._store.searchable:
            with self._folding:
                self._store.make_searchable()

    def sql(self, query: str, limit: int = 1_000) -> SqlAnswer:
        """Run one read-only query of a person's; it blocks.

        Raises:
            BadSqlError: It is refused or cannot be run.
            QueryTooSlowError: It took too long.
        """
        return run_sql(self.path, query, limit)

    # The thread ----------------------------------------------------------

    def start(self) -> None:
        """Catch up and go on folding in a thread of the view's own."""
        self._thread = threading.Thread(target=self._run, name="duraton-view", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        failed = 0
        polls = 0
        self._overflowed = True  # so that the first pass reads what the log has
        self._some.set()
        while not self._stopped.is_set():
            waiting = bool(self._waiters)
            self._some.wait(_WAITER_POLL_S if waiting else None)
            if not waiting:
                self._urgent.wait(self._interval_s)
            self._urgent.clear()
            self._some.clear()
            polls = polls + 1 if waiting else 0
            try:
                self.drain()
                if polls > _POLLS_BEFORE_LOG:
                    polls = 0
                    self.catch_up()
                failed, self.failure = 0, None
            except Exception as error:  # anything: the log has it all, so it is tried again
                logger.exception("folding the view failed; it is tried again from the log")
                self.failure = error
                self._mend(error)
                self._stopped.wait(_BACKOFF_S[min(failed, len(_BACKOFF_S) - 1)])
                failed += 1
                self._some.set()
            self._wake_waiters()

    def _mend(self, error: Exception) -> None:
        # SQLite says DatabaseError itself, and none of its kinds, where the file is damaged.
        if type(error) is not sqlite3.DatabaseError:
            return
        with self._folding, contextlib.suppress(sqlite3.Error, OSError):
            self._store.replace()
            self.reads.reopen()
            self._written = {}
            self._forget()

    def _wake_waiters(self) -> None:
        with self._gate:
            ready = [waiter for waiter in self._waiters if self._has(waiter[0])]
            self._waiters = [waiter for waiter in self._waiters if waiter not in ready]
        for _, wake in ready:
            wake()

    def close(self) -> None:
        """Fold what was fed, stop, and close the file."""
        self._stopped.set()
        self._urgent.set()
        self._some.set()
        if self._thread is not None:
            self._thread.join(_STOP_TIMEOUT_S)
        if self._pool is not None:
            self._pool.shutdown()
        self.reads.close()
        with self._folding:
            if self.failure is None:
                with contextlib.suppress(Exception):  # the log has it; the next start reads it
                    self.drain()
            self._store.close()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


def _wake(loop: asyncio.AbstractEventLoop, done: asyncio.Event) -> None:
    with contextlib.suppress(RuntimeError):  # its loop is closed
        loop.call_soon_threadsafe(done.set)


def _seq(fact: Fact) -> int:
    assert fact.header is not None, "a fact of the journal has its header"
    return fact.header.seq
