"""Workflows that their AI budget holds: one row each, whatever the number of their runs (P30).

No row of a run says so. Whether a run rests by its workflow's budget is seen where it is
read, by the same rule in Python and in SQL.
"""

import sqlite3
from collections.abc import Callable
from typing import NamedTuple

from duraton_api.view.flow.schema import HELD
from duraton_api.view.states import Pause, RunState
from duraton_api.view.upsert import Upsert
from duraton_schemas.records import journal as j

RESTING = ("queued", "waiting")
"""Statuses of runs that rest where their workflow is held; one that executes goes on."""
HOUR_MS = 3_600_000

_HOLDS = Upsert(
    "holds",
    "app workflow at axis tokens cost",
    " ON CONFLICT (app, workflow) DO UPDATE SET at = excluded.at, axis = excluded.axis,"
    " tokens = excluded.tokens, cost = excluded.cost",
)
_SPEND = Upsert(
    "spend_hours",
    "app workflow hour tokens cost",
    " ON CONFLICT (app, workflow, hour) DO UPDATE SET tokens = tokens + excluded.tokens,"
    " cost = cost + excluded.cost",
)

Workflow = tuple[str, str]


class Hold(NamedTuple):
    """Why and since when a workflow is held; fields as in the fact `WorkflowHeld`."""

    at: int
    axis: str
    tokens: int
    cost: int


class Holds:
    """What the facts folded since the last write have changed of budgets and spend.

    Args:
        db: Gives the writer's connection.
    """

    def __init__(self, db: Callable[[], sqlite3.Connection]) -> None:
        self._db = db
        self._known: dict[Workflow, Hold] | None = None
        self.clear()

    def clear(self) -> None:
        """Forget everything that is not written."""
        self._known = None
        self._reset()

    def _reset(self) -> None:
        self._changed: dict[Workflow, Hold | None] = {}
        self._spent: dict[tuple[str, str, int], tuple[int, int]] = {}

    def written(self) -> None:
        """All of it stands in the file."""
        self._reset()

    @property
    def _all(self) -> dict[Workflow, Hold]:
        if self._known is None:
            self._known = read_holds(self._db())
        return self._known

    def held(self, fact: j.WorkflowHeld) -> None:
        """A workflow is held from here on."""
        hold = Hold(fact.at, fact.axis, fact.tokens, fact.cost)
        self._all[fact.app, fact.workflow] = hold
        self._changed[fact.app, fact.workflow] = hold

    def released(self, fact: j.WorkflowReleased) -> None:
        """A workflow is held no more."""
        self._all.pop((fact.app, fact.workflow), None)
        self._changed[fact.app, fact.workflow] = None

    def spent(self, run: RunState, tokens: int, cost: int, at: int) -> None:
        """A run's step used AI; one that was exempt is so no more while its workflow is held."""
        key = (run.app, run.workflow, at // HOUR_MS * HOUR_MS)
        old = self._spent.get(key, (0, 0))
        self._spent[key] = (old[0] + tokens, old[1] + cost)
        if run.exempt and (run.app, run.workflow) in self._all:
            run.exempt = False

    def write(self, db: sqlite3.Connection) -> None:
        """Write what a batch changed, within its transaction."""
        gone = [key for key, hold in self._changed.items() if hold is None]
        if gone:
            db.executemany("DELETE FROM holds WHERE app = ? AND workflow = ?", gone)
        _HOLDS(db, [(*key, *hold) for key, hold in self._changed.items() if hold is not None])
        _SPEND(db, [(*key, *sums) for key, sums in self._spent.items()])


def read_holds(db: sqlite3.Connection) -> dict[Workflow, Hold]:
    """The workflows that are held."""
    rows = db.execute("SELECT app, workflow, at, axis, tokens, cost FROM holds")
    return {(row[0], row[1]): Hold(*row[2:]) for row in rows}


def hold_of(db: sqlite3.Connection, app: str, workflow: str) -> Hold | None:
    """Why one workflow is held, or None."""
    query = "SELECT at, axis, tokens, cost FROM holds WHERE app = ? AND workflow = ?"
    row = db.execute(query, (app, workflow)).fetchone()
    return None if row is None else Hold(*row)


def pause_of(holds: dict[Workflow, Hold], run: RunState) -> Pause | None:
    """The pause that a budget is to a run, or None."""
    if run.kind != "main" or run.ended or run.exempt or run.phase == "running":
        return None
    hold = holds.get((run.app, run.workflow))
    return None if hold is None else Pause(reason="budget", at=hold.at)


def status_conditions(db: sqlite3.Connection, status: str | None) -> list[str]:
    """The conditions on a run `r` that together are a status, each of which an index serves.

    Args:
        db: Where to look whether any workflow is held.
        status: A status that runs are shown with, or None for all.
    """
    if status is None:
        return ["1"]
    plain = f"r.status = '{status}'"
    if db.execute("SELECT 1 FROM holds LIMIT 1").fetchone() is None:
        return [plain]
    if status == "paused":
        return [plain, *(f"(r.status = '{word}' AND {HELD})" for word in RESTING)]
    return [f"({plain} AND NOT {HELD})"] if status in RESTING else [plain]
