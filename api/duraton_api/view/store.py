"""Writing the view's file: one upsert a row and batch, many rows a statement."""

import sqlite3
from array import array
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from duraton_api.view import carried, jobs, search
from duraton_api.view.flow.file import write_flow
from duraton_api.view.flow.lanes import holds_of
from duraton_api.view.runfold import RunFold
from duraton_api.view.schema import FORM, NAMES, TABLES, place_num
from duraton_api.view.states import RunState, StepState
from duraton_api.view.upsert import Upsert
from duraton_schemas.errors import OptionsError
from duraton_schemas.options import read_app

if TYPE_CHECKING:
    from duraton_api.view.fold import Fold

BUSY_TIMEOUT_MS = 5_000
"""How long a write waits for a reader's checkpoint; readers never block it otherwise."""
PAGE_BYTES = 8_192
"""SQLite's page: measured best for rows of this size."""
CHECKPOINT_PAGES = 4_000
"""Pages in the write-ahead log before it is copied into the file: 32 MiB."""
INLINE_STEPS_MAX = 16
"""Steps that stand in the run's own row, where it began and ended in one batch."""
INLINE_BYTES_MAX = 16_384
"""Bytes of their outputs; lists of runs read past them."""
KEPT_KINDS = frozenset(("prices", "project"))
"""Kinds of registry entries that are kept as they are; apps have tables of their own."""
CACHE_KIB = 16_384
"""SQLite's page cache of the writing connection."""

_encode = msgspec.json.Encoder().encode
_run_decoder = msgspec.json.Decoder(RunState)
_step_decoder = msgspec.json.Decoder(StepState)


class EventRow:
    """An event as it is known so far; None where it is not."""

    __slots__ = (
        "caller",
        "data",
        "dedupe_id",
        "duplicate_of",
        "homes",
        "id",
        "name",
        "num",
        "recorded_at",
        "run",
        "subject",
        "ts",
    )

    def __init__(self, num: int, event_id: str) -> None:
        self.num = num
        self.id = event_id
        self.name: str | None = None
        self.data: str | None = None
        self.ts: int | None = None
        self.recorded_at: int | None = None
        self.dedupe_id: str | None = None
        self.subject: str | None = None
        self.caller: str | None = None
        self.homes: str | None = None
        self.run: str | None = None
        self.duplicate_of: str | None = None

    def plain(self) -> bool:
        """Whether it is whole, and has nothing that most events lack."""
        return (
            self.name is not None
            and self.recorded_at is not None
            and self.dedupe_id is None
            and self.subject is None
            and self.run is None
            and self.duplicate_of is None
        )

    def plain_values(self) -> tuple[Any, ...]:
        """The columns of a plain one."""
        return (
            self.num,
            self.id,
            self.name,
            self.data,
            self.ts,
            self.recorded_at,
            self.caller,
            self.homes,
        )

    def values(self) -> tuple[Any, ...]:
        """All columns."""
        return (
            *self.plain_values(),
            self.dedupe_id,
            self.subject,
            self.run,
            self.duplicate_of,
        )


_RUNS = Upsert(
    "run_rows",
    "num id app workflow kind status created_at event link output detail steps offsets",
    " ON CONFLICT (num) DO UPDATE SET status = excluded.status,"
    " output = ifnull(excluded.output, output), detail = excluded.detail",
)
_STEPS = Upsert(
    "step_rows",
    "run seq status detail",
    " ON CONFLICT (run, seq) DO UPDATE SET status = excluded.status, detail = excluded.detail",
)
_FACTS = Upsert("facts", "run first offsets", " ON CONFLICT (run, first) DO NOTHING")
_PLAIN_EVENTS = Upsert(
    "events",
    "num id name data ts recorded_at caller homes",
    " ON CONFLICT (num) DO UPDATE SET recorded_at = excluded.recorded_at, homes = excluded.homes",
)
_EVENTS = Upsert(
    "events",
    "num id name data ts recorded_at caller homes dedupe_id subject run duplicate_of",
    " ON CONFLICT (num) DO UPDATE SET"
    " id = iif(excluded.id = '', id, excluded.id), name = ifnull(name, excluded.name),"
    " data = ifnull(data, excluded.data), ts = ifnull(ts, excluded.ts),"
    " recorded_at = ifnull(excluded.recorded_at, recorded_at),"
    " caller = ifnull(caller, excluded.caller), homes = ifnull(excluded.homes, homes),"
    " dedupe_id = ifnull(dedupe_id, excluded.dedupe_id),"
    " subject = ifnull(subject, excluded.subject), run = ifnull(excluded.run, run),"
    " duplicate_of = ifnull(excluded.duplicate_of, duplicate_of)",
)
_PARKED = Upsert("parked", "partition seq at source error payload", " ON CONFLICT DO NOTHING")
_GAPS = Upsert("gaps", "partition seq at topic source lost_from lost_to", " ON CONFLICT DO NOTHING")


class Store:
    """The view's file as its one writer sees it.

    Args:
        path: The file.
        cluster: The cluster whose journal it folds; a file of another is dropped.
        temporary: Whether the file goes with the process, so that nothing need be synced.
    """

    def __init__(self, path: str, cluster: str, *, temporary: bool = False) -> None:
        self._path = path
        self._cluster = cluster
        self._synchronous = "OFF" if temporary else "NORMAL"
        self.searchable = False
        try:
            self.db = self._open()
        except sqlite3.OperationalError:
            raise  # a directory that is not there, no right to write: a person's to mend
        except sqlite3.DatabaseError:
            self.db = self._replace()

    def _open(self) -> sqlite3.Connection:
        self.db = sqlite3.connect(
            self._path, isolation_level=None, check_same_thread=False, cached_statements=256
        )
        # NORMAL: the file is whole after a power loss; what it lacks is read from the log.
        for pragma in (
            f"page_size = {PAGE_BYTES}",
            "journal_mode = WAL",
            f"wal_autocheckpoint = {CHECKPOINT_PAGES}",
            f"journal_size_limit = {2 * CHECKPOINT_PAGES * PAGE_BYTES}",
            f"synchronous = {self._synchronous}",
            f"busy_timeout = {BUSY_TIMEOUT_MS}",
            f"cache_size = -{CACHE_KIB}",
            "temp_store = MEMORY",
        ):
            self.db.execute(f"PRAGMA {pragma}")
        if not self._fits():
            self.drop()
        return self.db

    def _replace(self) -> sqlite3.Connection:
        """The file is damaged or no database: make a new one, since the journal has it all."""
        self.db.close()
        for suffix in ("", "-wal", "-shm"):
            Path(self._path + suffix).unlink(missing_ok=True)
        return self._open()

    def replace(self) -> None:
        """Make the file anew after SQLite found it damaged; its readers must open it again."""
        self.searchable = False
        self.db = self._replace()

    def _fits(self) -> bool:
        try:
            found = dict(self.db.execute("SELECT key, value FROM meta").fetchall())
        except sqlite3.OperationalError:
            return False
        self.searchable = found.get("searchable") == "1"
        return found.get("form") == str(FORM) and found.get("cluster") == self._cluster

    def drop(self) -> None:
        """Make the file anew, empty, at the beginning of the journal."""
        self.searchable = False
        with self.transaction():
            for kind, name in NAMES:
                self.db.execute(f"DROP {kind} IF EXISTS {name}")
            for statement in TABLES.split(";\n"):
                if statement.strip():
                    self.db.execute(statement)
            self.db.execute(
                "INSERT INTO meta VALUES ('form', ?), ('cluster', ?), ('searchable', '0')",
                (str(FORM), self._cluster),
            )

    def transaction(self) -> "_Transaction":
        """One transaction; it is rolled back where its body raises."""
        return _Transaction(self.db)

    def positions(self) -> dict[int, tuple[int, int, int]]:
        """For each partition the next offset, the newest seq and its time."""
        rows = self.db.execute("SELECT partition, next, seq, at FROM positions")
        return {partition: (after, seq, at) for partition, after, seq, at in rows}

    def make_searchable(self) -> None:
        """Index every run for full text, from now on at every write; see `search`."""
        if self.searchable:
            return
        with self.transaction():
            search.build(self.db)
            self.db.execute("UPDATE meta SET value = '1' WHERE key = 'searchable'")
        self.searchable = True

    def load_run(self, run: str) -> RunFold | None:
        """A run with its steps that are not over, or None where it is not known."""
        row = self.db.execute("SELECT num, detail FROM run_rows WHERE id = ?", (run,)).fetchone()
        if row is None:
            return None
        fold = RunFold(_run_decoder.decode(row[1]))
        fold.executes = fold.state.phase == "running"
        fold.holds = holds_of(fold.state)
        for (detail,) in self.db.execute(
            "SELECT detail FROM step_rows WHERE run = ?"
            " AND status IN ('waiting', 'retrying', 'due') ORDER BY seq",
            (row[0],),
        ):
            step = _step_decoder.decode(detail)
            fold.pending[step.step, step.n] = step
        return fold

    def load_job(self, job: str) -> jobs.JobState | None:
        """A job, or None where it is not known."""
        return jobs.load_job(self.db, job)

    def load_parts(self, request: str) -> list[carried.Part]:
        """What was carried for a request and is written."""
        return carried.load_parts(self.db, request)

    def write(self, fold: "Fold", moved: dict[int, tuple[int, int, int]]) -> None:
        """Write what a batch changed, and how far the journal was read, in one transaction."""
        steps: list[tuple[Any, ...]] = []
        facts: list[tuple[Any, ...]] = []
        runs = [_run_row(run, steps, facts) for run in fold.dirty]
        plain: list[tuple[Any, ...]] = []
        events: list[tuple[Any, ...]] = []
        for row in fold.events.values():
            if row.plain():
                plain.append(row.plain_values())
            else:
                events.append(row.values())
        lanes = fold.flow.lanes
        for run in fold.dirty:
            state = run.state
            if state.scopes is not None or run.holds or run.executes != (state.phase == "running"):
                lanes.settle(run)
        with self.transaction():
            _PLAIN_EVENTS(self.db, plain)
            _EVENTS(self.db, events)
            _RUNS(self.db, runs)
            _STEPS(self.db, steps)
            _FACTS(self.db, facts)
            _PARKED(self.db, fold.parked)
            _GAPS(self.db, fold.gaps)
            if fold.carried.parts or fold.carried.gone:
                carried.write_carried(self.db, fold.carried)
            if fold.jobs.changed:
                jobs.write_jobs(self.db, fold.jobs)
            write_flow(self.db, fold.flow)
            for entry in fold.registry:
                if entry.kind == "app":
                    self._register(entry.version, entry.key, entry.body)
                elif entry.kind in KEPT_KINDS:
                    self._keep(entry.kind, entry.key, entry.version, entry.body)
            if self.searchable:
                search.index_runs(self.db, fold.dirty)
            self.db.executemany(
                "INSERT INTO positions VALUES (?, ?, ?, ?) ON CONFLICT (partition) DO UPDATE"
                " SET next = excluded.next, seq = excluded.seq, at = excluded.at",
                [(partition, *position) for partition, position in moved.items()],
            )

    def _keep(self, kind: str, key: str, version: int, body: str | None) -> None:
        self.db.execute(
            "INSERT INTO registry VALUES (?, ?, ?, ?) ON CONFLICT (kind, key) DO UPDATE SET"
            " version = excluded.version, body = excluded.body"
            " WHERE excluded.version > registry.version",
            (kind, key, version, body),
        )

    def _register(self, version: int, app: str, body: str | None) -> None:
        known = self.db.execute("SELECT version FROM apps WHERE name = ?", (app,)).fetchone()
        if known is not None and known[0] >= version:
            return
        try:
            options = None if body is None else read_app(body)
        except OptionsError:
            # It was accepted by another version of this program; show what can be shown.
            options = None
        url = None if options is None else options.url
        self.db.execute(
            "INSERT INTO apps VALUES (?, ?, ?, ?) ON CONFLICT (name) DO UPDATE SET"
            " version = excluded.version, url = excluded.url, active = excluded.active",
            (app, version, url, int(options is not None)),
        )
        self.db.execute("UPDATE workflows SET active = 0 WHERE app = ?", (app,))
        for workflow in () if options is None else options.workflows:
            self.db.execute(
                "INSERT INTO workflows VALUES (?, ?, ?, 1, ?) ON CONFLICT (app, name) DO UPDATE"
                " SET version = excluded.version, active = 1, options = excluded.options",
                (app, workflow.name, version, _encode(workflow).decode()),
            )

    def close(self) -> None:
        """Close the file."""
        self.db.close()


class _Transaction:
    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def __enter__(self) -> None:
        self._db.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if kind is None:
            self._db.execute("COMMIT")
        elif self._db.in_transaction:
            self._db.execute("ROLLBACK")


def _run_row(
    run: RunFold, steps: list[tuple[Any, ...]], facts: list[tuple[Any, ...]]
) -> tuple[Any, ...]:
    """A run's row; what stands in tables of its own is added to `steps` and `facts`."""
    state = run.state
    status = run.settle()
    offsets = array("q", run.offsets).tobytes()
    inline: str | None = None
    if run.fresh and run.ended_now and _is_small(run):
        # Most runs: everything is in one row, which costs half as much to write.
        inline = _encode(list(run.dirty_steps.values())).decode()
    else:
        _step_rows(run, steps)
        if run.offsets:
            facts.append((state.num, run.offsets[0], offsets))
    return (
        state.num,
        state.id,
        state.app,
        state.workflow,
        state.kind,
        status,
        state.created_at,
        place_num(state.triggers[0].place) if state.triggers else None,
        state.parent or state.failed_run or state.replay_of,
        run.output,
        _encode(state).decode(),
        inline,
        None if inline is None else offsets,
    )


def _is_small(run: RunFold) -> bool:
    if len(run.dirty_steps) > INLINE_STEPS_MAX:
        return False
    size = 0
    for step in run.dirty_steps.values():
        if step.failures:
            return False
        size += len(memoryview(step.output))
    return size <= INLINE_BYTES_MAX


def _step_rows(run: RunFold, rows: list[tuple[Any, ...]]) -> None:
    num = run.state.num
    for seq, step in run.dirty_steps.items():
        rows.append((num, seq, step.status, _encode(step).decode()))
