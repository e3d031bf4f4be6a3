"""Reading the view: lists, details, and where facts stand. Every method blocks, briefly.

Each thread has a connection of its own, which cannot write. Where several
statuses are asked for, each is read by its own index and the answers merged,
since one query over all of them would sort everything that matches. A workflow
or an app without a status is asked for in all of them, so that one index
serves both.
"""

import contextlib
import heapq
import sqlite3
import threading
import time
from array import array
from collections.abc import Iterator
from typing import Any

import msgspec

from duraton_api.errors import QueryTooSlowError, ViewFailedError
from duraton_api.view import shapes
from duraton_api.view.cursors import read_cursor, write_cursor
from duraton_api.view.filters import STATUSES, EventFilter, RunFilter, run_conditions
from duraton_api.view.flow import reads as flow
from duraton_api.view.flow.events import event_runs
from duraton_api.view.flow.holds import status_conditions
from duraton_api.view.flow.reasons import Gates
from duraton_api.view.flow.shapes import FlowDetail, FlowState
from duraton_api.view.flow.stated import Stated, ceiling
from duraton_api.view.jobs import job_shape, load_job, read_jobs
from duraton_api.view.render import (
    NO_EVENT,
    EventInfo,
    error_shape,
    event_item,
    run_detail,
    run_fields,
    step_shape,
)
from duraton_api.view.schema import num_partition, place_num
from duraton_api.view.states import RunState, StepState

READ_TIME_LIMIT_S = 5.0
"""How long one read may take before it is stopped."""
STEPS_MAX = 5_000
"""Steps in one detail; `GET /runs/{id}/journal` pages through all facts."""
CHILDREN_MAX = 1_000
REPLAYS_MAX = 100
_STEPS_BETWEEN_CHECKS = 10_000

_run_decoder = msgspec.json.Decoder(RunState)
_step_decoder = msgspec.json.Decoder(StepState)
_steps_decoder = msgspec.json.Decoder(list[StepState])


class FactPlaces(msgspec.Struct, frozen=True):
    """Where a run's facts stand: their partition, and offsets in order."""

    partition: int
    offsets: list[int]


class Reads:
    """Reads of one view's file.

    Args:
        path: The file.

    Attributes:
        stated: The controls that workflows state, for `Gates`.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._local = threading.local()
        self._open: list[sqlite3.Connection] = []
        self._lock = threading.Lock()
        self._opening = 0
        self.stated = Stated()

    def _db(self) -> sqlite3.Connection:
        db: sqlite3.Connection | None = getattr(self._local, "db", None)
        if db is not None and self._local.opening == self._opening:
            return db
        if db is not None:
            with self._lock:
                self._open.remove(db)
            db.close()
        db = sqlite3.connect(
            f"file:{self._path}?mode=ro",
            uri=True,
            isolation_level=None,
            check_same_thread=False,
        )
        db.row_factory = sqlite3.Row
        db.execute("PRAGMA query_only = ON")
        self._local.db, self._local.opening = db, self._opening
        with self._lock:
            self._open.append(db)
        return db

    def reopen(self) -> None:
        """The file was made anew: every thread opens it again at its next read."""
        self._opening += 1

    @contextlib.contextmanager
    def reading(self, limit_s: float = READ_TIME_LIMIT_S) -> Iterator[sqlite3.Connection]:
        """One state of the file for all queries in it, and a limit on their time.

        Raises:
            QueryTooSlowError: They took longer than `limit_s` seconds.
            ViewFailedError: The file cannot be read.
        """
        db = self._db()
        deadline = time.monotonic() + limit_s
        try:
            db.set_progress_handler(lambda: time.monotonic() > deadline, _STEPS_BETWEEN_CHECKS)
            db.execute("BEGIN")
            yield db
        except sqlite3.OperationalError as error:
            if "interrupted" in str(error):
                raise QueryTooSlowError(f"stopped after {limit_s:g} s") from error
            raise ViewFailedError(f"the view cannot be read: {error}") from error
        except sqlite3.DatabaseError as error:
            raise ViewFailedError(f"the view's file is damaged: {error}") from error
        finally:
            with contextlib.suppress(sqlite3.Error):  # closed meanwhile, or damaged
                db.set_progress_handler(None, 0)
                if db.in_transaction:
                    db.execute("ROLLBACK")

    def close(self) -> None:
        """Close every thread's connection; no read may be under way."""
        with self._lock:
            self._local = threading.local()
            opened, self._open = self._open, []
        for db in opened:
            db.close()

    # Runs ----------------------------------------------------------------

    def runs(self, wanted: RunFilter) -> shapes.RunPage:
        """A page of runs, newest first."""
        where, values = run_conditions(wanted)
        at, num = read_cursor(wanted.cursor)
        order = f" ORDER BY r.created_at DESC, r.num DESC LIMIT {wanted.limit + 1}"
        head = (
            "SELECT r.num, r.created_at, r.status, r.detail, e.name"
            " FROM run_rows r LEFT JOIN events e ON e.num = r.event"
        )
        statuses: tuple[str | None, ...] = wanted.statuses
        if not statuses:
            statuses = STATUSES if wanted.workflow or wanted.app else (None,)
        where.append("(r.created_at, r.num) < (?, ?)")
        values += [at, num]
        with self.reading() as db:
            found: list[list[sqlite3.Row]] = []
            for status in statuses:
                for condition in status_conditions(db, status):
                    every = [*where, condition]
                    query = f"{head} WHERE {' AND '.join(every)}{order}"
                    found.append(db.execute(query, values).fetchall())
            return self._run_page(db, found, wanted.limit)

    def _run_page(
        self, db: sqlite3.Connection, found: list[list[sqlite3.Row]], limit: int
    ) -> shapes.RunPage:
        gates = Gates(db, self.stated)
        rows = list(heapq.merge(*found, key=lambda row: (-row["created_at"], -row["num"])))
        shown = rows[:limit]
        runs = [run_item(row, gates) for row in shown]
        more = len(rows) > limit
        last = shown[-1] if more else None
        cursor = None if last is None else write_cursor(last["created_at"], last["num"])
        return shapes.RunPage(runs=runs, cursor=cursor)

    def run(self, run: str) -> shapes.RunDetail | None:
        """A run whole, or None where the view does not know it."""
        with self.reading() as db:
            row = _run_row(db, run)
            if row is None:
                return None
            state = _run_decoder.decode(row["detail"])
            steps = [] if row["steps"] is None else _steps_decoder.decode(row["steps"])
            rows = db.execute(
                "SELECT detail FROM step_rows WHERE run = ? ORDER BY seq LIMIT ?",
                (state.num, STEPS_MAX + 1),
            )
            steps += [_step_decoder.decode(detail) for (detail,) in rows]
            events = [_event_info(db, place_num(t.place)) for t in state.triggers]
            linked = db.execute(
                "SELECT status, detail FROM run_rows WHERE link = ? ORDER BY created_at LIMIT ?",
                (run, CHILDREN_MAX),
            ).fetchall()
            parent = None if state.parent is None else _run_row(db, state.parent)
            links = [(row["status"], _run_decoder.decode(row["detail"])) for row in linked]
            failure = [pair for pair in links if pair[1].failed_run == run]
            return run_detail(
                state,
                row["status"],
                output=row["output"],
                events=events,
                steps=[step_shape(step) for step in steps[:STEPS_MAX]],
                truncated=len(steps) > STEPS_MAX,
                on_failure=_linked(*failure[0]) if failure else None,
                parent=None if parent is None else _parent(parent, state),
                children=[_linked(*pair) for pair in links if pair[1].parent == run],
                replays=_replays(db, run),
                gates=Gates(db, self.stated),
            )

    def state(self, run: str) -> tuple[RunState, EventInfo] | None:
        """A run as the view keeps it, and the first of its events; None where it is not known."""
        with self.reading() as db:
            row = _run_row(db, run)
            if row is None:
                return None
            state = _run_decoder.decode(row["detail"])
            if not state.triggers:
                return state, NO_EVENT
            return state, _event_info(db, place_num(state.triggers[0].place))

    def run_status(self, run: str) -> str | None:
        """A run's status, or None where the view does not know it."""
        with self.reading() as db:
            row = db.execute("SELECT status FROM run_rows WHERE id = ?", (run,)).fetchone()
        return None if row is None else row["status"]

    def facts(self, run: str) -> FactPlaces | None:
        """Where a run's facts stand in the journal, or None where it is not known."""
        with self.reading() as db:
            row = db.execute("SELECT num, offsets FROM run_rows WHERE id = ?", (run,)).fetchone()
            if row is None:
                return None
            packed = db.execute(
                "SELECT offsets FROM facts WHERE run = ? ORDER BY first", (row["num"],)
            ).fetchall()
        offsets = array("q", row["offsets"] or b"")
        for (part,) in packed:
            offsets.frombytes(part)
        return FactPlaces(num_partition(row["num"]), offsets.tolist())

    # Jobs ----------------------------------------------------------------

    def jobs(
        self, statuses: tuple[str, ...], limit: int, cursor: str | None = None
    ) -> shapes.JobPage:
        """A page of jobs, newest first; `statuses` empty for all."""
        with self.reading() as db:
            return read_jobs(db, statuses, limit, cursor)

    def job(self, job: str) -> shapes.JobShape | None:
        """A job, or None where the view does not know it."""
        with self.reading() as db:
            found = load_job(db, job)
        return None if found is None else job_shape(found)

    # Events --------------------------------------------------------------

    def events(self, wanted: EventFilter) -> shapes.EventPage:
        """A page of recorded events, the newest first, and what each led to."""
        where = ["recorded_at IS NOT NULL", "(recorded_at, num) < (?, ?)"]
        values: list[Any] = list(read_cursor(wanted.cursor))
        for condition, value in (
            ("name = ?", wanted.name),
            ("id = ?", wanted.id),
            ("recorded_at >= ?", wanted.since),
            ("recorded_at < ?", wanted.until),
        ):
            if value is not None:
                where.append(condition)
                values.append(value)
        query = (
            f"SELECT * FROM events WHERE {' AND '.join(where)}"  # noqa: S608 - our own text
            f" ORDER BY recorded_at DESC, num DESC LIMIT {wanted.limit + 1}"
        )
        with self.reading() as db:
            rows = db.execute(query, values).fetchall()
            shown = rows[: wanted.limit]
            events = [event_item(row, event_runs(db, row), whole=False) for row in shown]
        more = len(rows) > wanted.limit
        last = shown[-1] if more else None
        cursor = None if last is None else write_cursor(last["recorded_at"], last["num"])
        return shapes.EventPage(events=events, cursor=cursor)

    def event(self, event: str) -> shapes.EventItem | None:
        """The newest event with an id (senders' ids may repeat), or None."""
        with self.reading() as db:
            row = db.execute(
                "SELECT * FROM events WHERE id = ?"
                " ORDER BY recorded_at IS NULL, recorded_at DESC, num DESC LIMIT 1",
                (event,),
            ).fetchone()
            if row is None:
                return None
            return event_item(row, event_runs(db, row), whole=True)

    # Workflows -----------------------------------------------------------

    def workflows(self) -> list[shapes.WorkflowItem]:
        """Every workflow that was ever registered, by app and name."""
        with self.reading() as db:
            rows = db.execute("SELECT * FROM workflows ORDER BY app, name").fetchall()
        return [_workflow(row) for row in rows]

    def workflow(self, app: str, name: str) -> shapes.WorkflowItem | None:
        """One workflow, or None where it was never registered."""
        with self.reading() as db:
            row = db.execute(
                "SELECT * FROM workflows WHERE app = ? AND name = ?", (app, name)
            ).fetchone()
        return None if row is None else _workflow(row)

    def registry(self, kind: str, key: str) -> str | None:
        """A registry entry as JSON text, or None where there is none."""
        with self.reading() as db:
            row = db.execute(
                "SELECT body FROM registry WHERE kind = ? AND key = ?", (kind, key)
            ).fetchone()
        return None if row is None else row[0]

    # Flow control --------------------------------------------------------

    def ceiling(self) -> int:
        """The project's ceiling; 0 is none."""
        with self.reading() as db:
            return ceiling(db)

    def flow_state(self, workflow: str | None = None) -> FlowState:
        """Windows, buffers and executing runs, of one workflow or of all (P47)."""
        with self.reading() as db:
            return flow.flow_state(db, workflow)

    def flow_detail(self, wanted: flow.ScopeFilter, now: int) -> FlowDetail:
        """Scope by scope who holds it and who waits; `now` in milliseconds since 1970 UTC."""
        with self.reading() as db:
            return flow.flow_detail(db, self.stated, wanted, now)

    def flow_counts(self) -> list[flow.FlowCount]:
        """How much of what waits and executes, workflow by workflow."""
        with self.reading() as db:
            return flow.flow_counts(db)


def run_item(row: sqlite3.Row, gates: Gates) -> shapes.RunItem:
    """A run as lists show it, from its `status`, `detail` and its event's `name`."""
    state = _run_decoder.decode(row["detail"])
    event = EventInfo(row["name"], None, None)
    return shapes.RunItem(**run_fields(state, row["status"], event, whole=False, gates=gates))


def _run_row(db: sqlite3.Connection, run: str) -> sqlite3.Row | None:
    query = "SELECT num, status, output, detail, steps FROM run_rows WHERE id = ?"
    row: sqlite3.Row | None = db.execute(query, (run,)).fetchone()
    return row


def _event_info(db: sqlite3.Connection, num: int | None) -> EventInfo:
    row = db.execute("SELECT name, data, ts FROM events WHERE num = ?", (num,)).fetchone()
    return NO_EVENT if row is None else EventInfo(*row)


def _replays(db: sqlite3.Connection, run: str) -> list[shapes.LinkedRun]:
    """The runs that repeat a run, oldest first; the newest of them where there are many."""
    rows = db.execute(
        "SELECT status, detail FROM run_rows WHERE link = ?"
        " AND json_extract(detail, '$.replayOf') = ? ORDER BY created_at DESC, num DESC LIMIT ?",
        (run, run, REPLAYS_MAX),
    ).fetchall()
    found = []
    for status, detail in reversed(rows):
        state = _run_decoder.decode(detail)
        found.append(_linked(status, state, state.replay_step))
    return found


def _linked(status: str, state: RunState, step: str | None = None) -> shapes.LinkedRun:
    return shapes.LinkedRun(
        id=state.id,
        workflow=state.workflow,
        status=status,
        step=step or state.parent_step,
        error=error_shape(state.error),
    )


def _parent(row: sqlite3.Row, child: RunState) -> shapes.LinkedRun:
    return _linked(row["status"], _run_decoder.decode(row["detail"]), child.parent_step)


def _workflow(row: sqlite3.Row) -> shapes.WorkflowItem:
    return shapes.WorkflowItem(
        app=row["app"],
        name=row["name"],
        version=row["version"],
        active=bool(row["active"]),
        options=msgspec.Raw(row["options"].encode()),
    )
