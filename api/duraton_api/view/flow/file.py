"""Flow control's rows of the view's file: loading what a batch needs, writing what it changed."""

import sqlite3
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from duraton_api.view.flow.rows import (
    Lane,
    Place,
    Scope,
    ScopeKey,
    Window,
)
from duraton_api.view.upsert import Upsert
from duraton_engine.state.lanes import split_scope

if TYPE_CHECKING:
    from duraton_api.view.flow.fold import FlowFold

PLACES_READ = 16
"""Places of a lane that are read at a time, each time four times as many, up to the most."""
PLACES_READ_MAX = 1_024

_SCOPE = (
    "SELECT num, app, workflow, control, scope, holding, lanes, waiting, firings, due, next_at,"
    " empty_at, tokens, per_ms, until FROM scopes WHERE "
)
_LANE = (
    "SELECT num, app, workflow, name, scope, count, sort, first_sort, first_run, together"
    " FROM lanes WHERE "
)
_WINDOW = (
    "SELECT first, app, workflow, kind, scope, opened_at, due, last, status, count, bytes, held,"
    " hold, outcome, run, blocked_by FROM windows WHERE "
)

_SCOPES = Upsert(
    "scopes",
    "num app workflow control scope path value holding lanes waiting firings due next_at"
    " empty_at tokens per_ms until",
    " ON CONFLICT (num) DO UPDATE SET holding = excluded.holding, lanes = excluded.lanes,"
    " waiting = excluded.waiting, firings = excluded.firings, due = excluded.due,"
    " next_at = excluded.next_at, empty_at = excluded.empty_at, tokens = excluded.tokens,"
    " per_ms = excluded.per_ms, until = excluded.until",
)
_LANES = Upsert(
    "lanes",
    "num app workflow name scope count sort first_sort first_run together",
    " ON CONFLICT (num) DO UPDATE SET scope = excluded.scope, count = excluded.count,"
    " sort = excluded.sort, first_sort = excluded.first_sort, first_run = excluded.first_run",
)
_QUEUED = Upsert("queued", "lane sort run", " ON CONFLICT DO NOTHING")
_HOLDERS = Upsert("holders", "scope run", " ON CONFLICT DO NOTHING")
_WINDOWS = Upsert(
    "windows",
    "first app workflow kind scope path value status opened_at due count bytes last held hold"
    " outcome run blocked_by",
    " ON CONFLICT (first, app, workflow) DO UPDATE SET status = excluded.status,"
    " due = excluded.due, count = excluded.count, bytes = excluded.bytes, last = excluded.last,"
    " held = excluded.held, hold = excluded.hold, outcome = excluded.outcome,"
    " run = excluded.run, blocked_by = excluded.blocked_by",
)
_STARTS = Upsert(
    "starts",
    "event app workflow outcome run blocked_by first",
    " ON CONFLICT (event, app, workflow) DO UPDATE SET outcome = excluded.outcome,"
    " run = excluded.run, blocked_by = excluded.blocked_by, first = excluded.first",
)
_COUNTS = Upsert(
    "flow_counts",
    "app workflow kind of count",
    " ON CONFLICT (app, workflow, kind, of) DO UPDATE SET count = count + excluded.count",
)

ScopeOf = Callable[[int], Scope | None]


class FlowFile:
    """The rows of the view's file, as its one writer reads them.

    Args:
        db: Gives the connection.
    """

    def __init__(self, db: Callable[[], sqlite3.Connection]) -> None:
        self.db = db
        self.forget()

    def forget(self) -> None:
        """What was numbered and not written is given up."""
        self._lane = self._scope = -1

    def new_lane(self) -> int:
        """A number for a lane."""
        if self._lane < 0:
            self._lane = self._newest("lanes")
        self._lane += 1
        return self._lane

    def new_scope(self) -> int:
        """A number for a scope."""
        if self._scope < 0:
            self._scope = self._newest("scopes")
        self._scope += 1
        return self._scope

    def _newest(self, table: str) -> int:
        query = f"SELECT ifnull(max(num), 0) FROM {table}"  # noqa: S608 - our own names
        return int(self.db().execute(query).fetchone()[0])

    # Scopes and lanes -------------------------------------------------------------

    def load_scope(self, key: ScopeKey) -> Scope | None:
        """A scope by what it is."""
        where = "app = ? AND workflow = ? AND control = ? AND scope = ?"
        return _scope(self.db().execute(_SCOPE + where, key).fetchone())

    def load_numbered(self, num: int) -> Scope | None:
        """A scope by its number."""
        return _scope(self.db().execute(_SCOPE + "num = ?", (num,)).fetchone())

    def scopes_of(self, app: str, workflow: str, control: str) -> list[ScopeKey]:
        """All scopes of one control."""
        where = "app = ? AND workflow = ? AND control = ?"
        rows = self.db().execute(_SCOPE + where, (app, workflow, control)).fetchall()
        return [ScopeKey(*row[1:5]) for row in rows]

    def find_lane(self, app: str, workflow: str, name: str, scope_of: ScopeOf) -> Lane | None:
        """A lane by its name."""
        where = "app = ? AND workflow = ? AND name = ?"
        row = self.db().execute(_LANE + where, (app, workflow, name)).fetchone()
        return self._read_lane(row, scope_of)

    def load_lane(self, num: int, scope_of: ScopeOf) -> Lane | None:
        """A lane by its number."""
        row = self.db().execute(_LANE + "num = ?", (num,)).fetchone()
        return self._read_lane(row, scope_of)

    def lanes_of(self, app: str, workflow: str, scope_of: ScopeOf) -> Iterator[Lane]:
        """All lanes of a workflow."""
        where = "app = ? AND workflow = ?"
        for row in self.db().execute(_LANE + where, (app, workflow)).fetchall():
            lane = self._read_lane(row, scope_of)
            if lane is not None:
                yield lane

    def _read_lane(self, row: tuple[Any, ...] | None, scope_of: ScopeOf) -> Lane | None:
        if row is None:
            return None
        num, app, workflow, name, scope_num, count, sort, first_sort, first_run, together = row
        scope = scope_of(scope_num)
        if scope is None:
            return None
        lane = Lane(num, (app, workflow, name), scope, Place(first_sort, first_run), self.places)
        lane.count, lane.together = count, together
        if sort != first_sort:
            lane.over = Place(sort, first_run)
        return lane

    def places(self, lane: int, after: Place) -> Iterator[Place]:
        """A lane's runs behind a place, in order."""
        limit = PLACES_READ
        while True:
            rows = (
                self.db()
                .execute(
                    "SELECT sort, run FROM queued WHERE lane = ? AND (sort, run) > (?, ?)"
                    " ORDER BY sort, run LIMIT ?",
                    (lane, *after, limit),
                )
                .fetchall()
            )
            for row in rows:
                yield Place(*row)
            if len(rows) < limit:
                return
            after = Place(*rows[-1])
            limit = min(limit * 4, PLACES_READ_MAX)

    # Windows and starts -----------------------------------------------------------

    def load_window(self, first: int, app: str, workflow: str) -> Window | None:
        """A window or buffer by the event that opened it."""
        where = "first = ? AND app = ? AND workflow = ?"
        return _window(self.db().execute(_WINDOW + where, (first, app, workflow)).fetchone())

    def open_window(self, app: str, workflow: str, kind: str, scope: str) -> Window | None:
        """The open window or buffer of a scope."""
        where = "app = ? AND workflow = ? AND kind = ? AND scope = ? AND status = 'open'"
        given = (app, workflow, kind, scope)
        return _window(self.db().execute(_WINDOW + where, given).fetchone())

    def held_window(self, scope: int, hold: int) -> Window | None:
        """The window or buffer whose firing is held at a scope, by its number there."""
        given = (scope, hold)
        return _window(self.db().execute(_WINDOW + "held = ? AND hold = ?", given).fetchone())

    def opened_by(self, event: int, app: str, workflow: str) -> int | None:
        """The event that opened the window or buffer which took an event; None without one."""
        row = (
            self.db()
            .execute(
                "SELECT first FROM starts WHERE event = ? AND app = ? AND workflow = ?",
                (event, app, workflow),
            )
            .fetchone()
        )
        return None if row is None else row[0]


def _scope(row: tuple[Any, ...] | None) -> Scope | None:
    return None if row is None else Scope(row[0], ScopeKey(*row[1:5]), *row[5:])


def _window(row: tuple[Any, ...] | None) -> Window | None:
    return None if row is None else Window(*row)


# Writing --------------------------------------------------------------------------


def write_flow(db: sqlite3.Connection, flow: "FlowFold") -> None:
    """Write what a batch changed, within the transaction of the whole batch."""
    _write_lanes(db, flow)
    _WINDOWS(db, [_window_row(window) for window in flow.windows.dirty.values()])
    _STARTS(db, [(*key, *row) for key, row in flow.windows.starts.items()])
    changes = flow.counts.changes.items()
    _COUNTS(db, [(*key, change) for key, change in changes if change])
    flow.holds.write(db)


def _write_lanes(db: sqlite3.Connection, flow: "FlowFold") -> None:
    lanes = flow.lanes
    # A lane's first run is looked for before its places are written: what the file has
    # and what the batch changed are apart until then.
    rows = []
    for lane in lanes.dirty.values():
        first = lane.first() or Place(0, 0)
        counted = (lane.scope.num, lane.count, lane.sort(first))
        rows.append((lane.num, *lane.name, *counted, *first, lane.together))
    changed = [*lanes.gone.values(), *lanes.dirty.values()]
    removed = [(lane.num, *place) for lane in changed for place in lane.removed]
    added = [(lane.num, *place) for lane in changed for place in lane.added]
    if removed:
        db.executemany("DELETE FROM queued WHERE lane = ? AND sort = ? AND run = ?", removed)
    if lanes.gone:
        db.executemany("DELETE FROM lanes WHERE num = ?", [(num,) for num in lanes.gone])
    _QUEUED(db, added)
    _LANES(db, rows)
    if lanes.freed:
        db.executemany("DELETE FROM holders WHERE scope = ? AND run = ?", lanes.freed)
    _HOLDERS(db, lanes.held)
    over = [(scope.num,) for scope in lanes.scopes.values() if scope.idle and not scope.until]
    if over:
        db.executemany("DELETE FROM scopes WHERE num = ?", over)
    kept = [scope for scope in lanes.scopes.values() if not scope.idle or scope.until]
    _SCOPES(db, [_scope_row(scope) for scope in kept])
    if lanes.swept:
        db.execute(
            "DELETE FROM scopes WHERE until > 0 AND until <= ?"
            " AND holding = 0 AND lanes = 0 AND firings = 0",
            (lanes.swept,),
        )


def _scope_row(scope: Scope) -> tuple[Any, ...]:
    path, value = split_scope(scope.key.scope)
    return (
        scope.num,
        *scope.key,
        path or None,
        value,
        scope.holding,
        scope.lanes,
        scope.waiting,
        scope.firings,
        scope.due,
        scope.next_at,
        scope.empty_at,
        scope.tokens,
        scope.per_ms,
        scope.until,
    )


def _window_row(window: Window) -> tuple[Any, ...]:
    path, value = split_scope(window.scope)
    return (
        window.first,
        window.app,
        window.workflow,
        window.kind,
        window.scope,
        path or None,
        value,
        window.status,
        window.opened_at,
        window.due,
        window.count,
        window.bytes,
        window.last,
        window.held,
        window.hold,
        window.outcome,
        window.run,
        window.blocked_by,
    )
