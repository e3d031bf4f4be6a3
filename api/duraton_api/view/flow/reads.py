"""Reading flow control: its state as people ask for it, whole or scope by scope.

Nothing here is counted by walking over what waits: the counts are kept, the earliest and the
oldest are the first of an index, and lists come in pages.
"""

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from heapq import merge
from itertools import islice
from typing import Any, NamedTuple

from duraton_api.errors import BadParameterError
from duraton_api.view.cursors import read_texts, write_texts
from duraton_api.view.filters import PAGE_DEFAULT
from duraton_api.view.flow import shapes
from duraton_api.view.flow.line import Turn
from duraton_api.view.flow.rows import (
    BATCH,
    BUFFERED,
    DEBOUNCE,
    EXECUTING,
    STARTS,
    TURN,
    WINDOWS,
)
from duraton_api.view.flow.schema import PROJECT
from duraton_api.view.flow.scopes import Describer
from duraton_api.view.flow.stated import Stated, ceiling
from duraton_api.view.times import iso
from duraton_engine.state.flow import RUNNER
from duraton_engine.state.lanes import (
    BUDGET,
    CONCURRENCY,
    SINGLETON,
    THROTTLE,
    TOGETHER,
    TOKEN_THROTTLE,
)

CONTROLS = (
    *(CONCURRENCY, TOGETHER, THROTTLE, TOKEN_THROTTLE, SINGLETON, DEBOUNCE, BATCH, BUDGET),
    *(PROJECT, RUNNER, TURN),
)
"""What a scope may be of."""


@dataclass(frozen=True)
class ScopeFilter:
    """Which scopes are asked for; None means all.

    Attributes:
        workflow: The workflow's name.
        app: The app's name.
        control: The control, as `ScopeShape` has it.
        limit: The most scopes of a page, or runs of a line.
        cursor: The last page's cursor, or a scope's own for more of its line.
    """

    workflow: str | None = None
    app: str | None = None
    control: str | None = None
    limit: int = PAGE_DEFAULT
    cursor: str | None = None


class FlowCount(NamedTuple):
    """One count of a workflow.

    Attributes:
        app: The app.
        workflow: The workflow.
        kind: `executing`, `waiting`, `windows`, `buffers`, `buffered` or `starts`.
        of: Of waiting runs the control, of starts the outcome.
        total: How many.
    """

    app: str
    workflow: str
    kind: str
    of: str
    total: int


def flow_counts(db: sqlite3.Connection) -> list[FlowCount]:
    """All counts that are not 0."""
    rows = db.execute("SELECT app, workflow, kind, of, count FROM flow_counts WHERE count > 0")
    return [FlowCount(*row) for row in rows]


def in_use(db: sqlite3.Connection) -> int:
    """How many runs execute."""
    query = "SELECT ifnull(sum(count), 0) FROM flow_counts WHERE kind = ?"
    return int(db.execute(query, (EXECUTING,)).fetchone()[0])


def flow_state(db: sqlite3.Connection, workflow: str | None) -> shapes.FlowState:
    """The three reads of the seed: windows, buffers, and how many runs execute (P47).

    Args:
        db: Where to read.
        workflow: The workflow that is asked about, or None for all.
    """
    debounce: list[shapes.DebounceRow] = []
    batch: list[shapes.BatchRow] = []
    query = "SELECT app, workflow, kind, count FROM flow_counts WHERE kind IN (?, ?) AND count > 0"
    given = [WINDOWS, BUFFERED]
    if workflow is not None:
        query += " AND workflow = ?"
        given.append(workflow)
    for app, name, kind, count in db.execute(query + " ORDER BY app, workflow", given).fetchall():
        if kind == WINDOWS:
            fires = _first(db, "due", "status = 'open'", (app, name, DEBOUNCE))
            debounce.append(
                shapes.DebounceRow(app=app, workflow=name, pending=count, next_fire_at=fires)
            )
        else:
            oldest = _first(db, "opened_at", "status IN ('open', 'held')", (app, name, BATCH))
            batch.append(shapes.BatchRow(app=app, workflow=name, buffered=count, oldest_at=oldest))
    project = shapes.ConcurrencyShape(limit=ceiling(db), in_use=in_use(db))
    return shapes.FlowState(debounce=debounce, batch=batch, concurrency=project)


def _first(
    db: sqlite3.Connection, column: str, where: str, given: tuple[str, str, str]
) -> str | None:
    query = (
        f"SELECT {column} FROM windows WHERE app = ? AND workflow = ? AND kind = ?"  # noqa: S608 - our own text
        f" AND {where} ORDER BY {column} LIMIT 1"
    )
    row = db.execute(query, given).fetchone()
    return None if row is None else iso(row[0])


# Scope by scope -------------------------------------------------------------------

_SCOPE_COLUMNS = (
    "SELECT num, app, workflow, control, scope, path, value, holding, waiting, firings, due,"
    " next_at, empty_at, tokens, per_ms FROM scopes WHERE "
)
_WINDOW_COLUMNS = (
    "SELECT app, workflow, kind AS control, scope, path, value, opened_at, due, count, bytes"
    " FROM windows WHERE "
)
_HOLD_COLUMNS = (
    "SELECT NULL AS num, app, workflow, {control} AS control, '' AS scope, NULL AS path,"
    " NULL AS value, 0 AS holding, 0 AS waiting, 0 AS firings, NULL AS due, NULL AS next_at,"
    " NULL AS empty_at, NULL AS tokens, NULL AS per_ms FROM (SELECT *, '' AS scope FROM holds) h"
    " WHERE NOT EXISTS (SELECT 1 FROM scopes s WHERE s.app = h.app AND s.workflow = h.workflow"
    " AND s.control = {control} AND s.lanes > 0) AND "
)
"""A budget holds its workflow also while none of its runs would go on."""
_TELLS = "(holding > 0 OR lanes > 0 OR firings > 0 OR until > ?)"


def flow_detail(
    db: sqlite3.Connection, stated: Stated, wanted: ScopeFilter, now: int
) -> shapes.FlowDetail:
    """A page of scopes; or, by a scope's own cursor, that scope with the next of its line.

    Args:
        db: Where to read.
        stated: The workflows' controls.
        wanted: Which scopes.
        now: The time, milliseconds since 1970 UTC.

    Raises:
        BadParameterError: The cursor is none of this list.
    """
    describe = Describer(db, stated, now)
    after = read_texts(wanted.cursor)
    if 0 < len(after) < len(_Key._fields):
        raise BadParameterError("the cursor is none of this list")
    if len(after) > len(_Key._fields):
        return _line_page(db, describe, wanted, after)
    start = _Key(*after) if after else None
    found = islice(_scopes(db, wanted, start, now), wanted.limit + 1)
    rows = list(found)
    shown = rows[: wanted.limit]
    starts = [] if wanted.workflow is None or start is not None else _starts(db, wanted)
    more = len(rows) > wanted.limit
    return shapes.FlowDetail(
        scopes=[describe.scope(row) for _, row in shown],
        starts=starts,
        cursor=write_texts(*shown[-1][0]) if more else None,
    )


class _Key(NamedTuple):
    """A scope's place among all of them."""

    app: str
    workflow: str
    control: str
    scope: str


def _line_page(
    db: sqlite3.Connection, describe: Describer, wanted: ScopeFilter, after: list[str]
) -> shapes.FlowDetail:
    where = "app = ? AND workflow = ? AND control = ? AND scope = ?"
    row = db.execute(_SCOPE_COLUMNS + where, after[:4]).fetchone()
    if row is None:
        return shapes.FlowDetail(scopes=[], starts=[], cursor=None)
    turn = Turn.read(after[4:])
    scope = describe.scope(row, wanted.limit, turn)
    return shapes.FlowDetail(scopes=[scope], starts=[], cursor=None)


def _scopes(
    db: sqlite3.Connection, wanted: ScopeFilter, after: _Key | None, now: int
) -> Iterator[tuple[_Key, sqlite3.Row]]:
    """Scopes and open windows behind a place, in order; read as far as they are asked for."""
    for home in _homes(db, wanted):
        if after is not None and home < after[:2]:
            continue
        behind = after[2:] if after is not None and home == after[:2] else ("", "")
        yield from _of_home(db, home, behind, wanted.control, now)


def _homes(db: sqlite3.Connection, wanted: ScopeFilter) -> list[tuple[str, str]]:
    """The workflows that are asked about: as many as were ever registered."""
    rows = db.execute(
        "SELECT app, name FROM workflows UNION SELECT app, workflow FROM flow_counts ORDER BY 1, 2"
    )
    return [
        (app, workflow)
        for app, workflow in rows
        if wanted.app in (None, app) and wanted.workflow in (None, workflow)
    ]


def _of_home(
    db: sqlite3.Connection,
    home: tuple[str, str],
    behind: tuple[str, ...],
    control: str | None,
    now: int,
) -> Iterator[tuple[_Key, sqlite3.Row]]:
    where, given = "app = ? AND workflow = ?", [*home]
    if control is not None:
        where += " AND {control} = ?"
        given.append(control)
    where += " AND ({control}, scope) > (?, ?)"
    given += behind
    order = " ORDER BY {control}, scope"
    query = _SCOPE_COLUMNS + where + f" AND {_TELLS}" + order
    scopes = db.execute(query.format(control="control"), [*given, now])
    query = _WINDOW_COLUMNS + where + " AND status = 'open'" + order
    windows = db.execute(query.format(control="kind"), given)
    query = (_HOLD_COLUMNS + where + order).format(control=f"'{BUDGET}'")
    holds = db.execute(query, given)
    return merge(*(_keyed(home, rows) for rows in (scopes, windows, holds)), key=_key)


def _keyed(
    home: tuple[str, str], rows: Iterator[sqlite3.Row]
) -> Iterator[tuple[_Key, sqlite3.Row]]:
    for row in rows:
        yield _Key(*home, row["control"], row["scope"]), row


def _key(pair: tuple[_Key, Any]) -> _Key:
    return pair[0]


def _starts(db: sqlite3.Connection, wanted: ScopeFilter) -> list[shapes.StartsShape]:
    found: dict[tuple[str, str], shapes.StartsShape] = {}
    for app, workflow in _homes(db, wanted):
        rows = db.execute(
            "SELECT of, count FROM flow_counts WHERE app = ? AND workflow = ? AND kind = ?",
            (app, workflow, STARTS),
        )
        shape = shapes.StartsShape(app=app, workflow=workflow)
        for outcome, count in rows:
            if outcome in shape.__struct_fields__:
                setattr(shape, outcome, count)
        found[app, workflow] = shape
    return list(found.values())
