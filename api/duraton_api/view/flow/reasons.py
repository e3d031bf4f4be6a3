"""Why a queued run waits: what its lane stands before, looked up where the run is read."""

import sqlite3
from typing import Any

import msgspec

from duraton_api.view.flow.holds import Hold, Workflow, pause_of, read_holds
from duraton_api.view.flow.rows import BATCH, DEBOUNCE, TURN
from duraton_api.view.flow.schema import PROJECT
from duraton_api.view.shapes import WaitingShape
from duraton_api.view.states import Pause, RunState
from duraton_api.view.times import maybe_iso
from duraton_engine.state.lanes import (
    CONCURRENCY,
    SINGLETON,
    THROTTLE,
    TOGETHER,
    TOKEN_THROTTLE,
    split_gate,
    split_scope,
)
from duraton_schemas.controls import Controls
from duraton_schemas.errors import OptionsError
from duraton_schemas.options import WorkflowOptions

KEPT_MAX = 5_000
"""Workflows whose controls are kept, understood, until they are registered anew."""

_options = msgspec.json.Decoder(WorkflowOptions)
_NONE = Controls()


class Stated:
    """The controls that workflows state, as they are registered now."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], tuple[int, Controls]] = {}

    def of(self, db: sqlite3.Connection, app: str, workflow: str) -> Controls:
        """A workflow's controls; none where it is not registered."""
        given = (app, workflow)
        query = "SELECT version, active FROM workflows WHERE app = ? AND name = ?"
        row = db.execute(query, given).fetchone()
        if row is None or not row[1]:
            return _NONE
        known = self._known.get(given)
        if known is not None and known[0] == row[0]:
            return known[1]
        query = "SELECT options FROM workflows WHERE app = ? AND name = ?"
        controls = _read(db.execute(query, given).fetchone()[0])
        if len(self._known) >= KEPT_MAX:
            self._known.clear()
        self._known[given] = (row[0], controls)
        return controls


def _read(options: str) -> Controls:
    try:
        return _options.decode(options).read_controls()
    except (OptionsError, msgspec.DecodeError):
        return _NONE  # accepted by another version of this program


def key_of(controls: Controls, control: str) -> str | None:
    """The path by which a control counts, as it is stated now, or None."""
    stated: dict[str, Any] = {
        CONCURRENCY: controls.concurrency,
        THROTTLE: controls.throttle,
        TOKEN_THROTTLE: controls.token_throttle,
        SINGLETON: controls.singleton,
        DEBOUNCE: controls.debounce,
        BATCH: controls.batch,
    }
    if control == TOGETHER:
        return controls.key
    found = stated.get(control)
    return None if found is None else found.key


def shown_key(controls: Controls, control: str, path: str | None, value: str | None) -> str | None:
    """The path that is shown of a scope: its own, or where it names none the control's."""
    return path or key_of(controls, control) if value is None else path


def ceiling(db: sqlite3.Connection) -> int:
    """The project's ceiling; 0 is none."""
    row = db.execute(
        "SELECT body FROM registry WHERE kind = ? ORDER BY version DESC LIMIT 1", (PROJECT,)
    ).fetchone()
    if row is None or row[0] is None:
        return 0
    found = msgspec.json.decode(row[0])
    limit = found.get("ceiling") if isinstance(found, dict) else None
    return limit if isinstance(limit, int) else 0


def group_max(db: sqlite3.Connection, stated: Stated, group: str) -> int | None:
    """How many runs of a group work at once: as the newest registration has it (P24)."""
    rows = db.execute(
        "SELECT app, name, version FROM workflows"
        " WHERE active = 1 AND json_extract(options, '$.together.group') = ?",
        (group,),
    ).fetchall()
    newest = (-1, 0)
    for app, name, version in rows:
        together = stated.of(db, app, name).together
        if together is not None:
            newest = max(newest, (version, together.max))
    return newest[1] or None


class Gates:
    """What lanes stand before, within one reading of the file.

    Args:
        db: Where to read.
        stated: The workflows' controls.
    """

    def __init__(self, db: sqlite3.Connection, stated: Stated) -> None:
        self._db = db
        self._stated = stated
        self._known: dict[int, WaitingShape | None] = {}
        self._holds: dict[Workflow, Hold] | None = None

    def budget(self, run: RunState) -> Pause | None:
        """The pause that its workflow's budget is to a run, or None."""
        if self._holds is None:
            self._holds = read_holds(self._db)
        return pause_of(self._holds, run) if self._holds else None

    def waiting(self, run: RunState) -> WaitingShape | None:
        """Why a run waits; all runs of a lane wait for the same."""
        lane = run.lane
        if lane is None:
            return None
        if lane not in self._known:
            self._known[lane] = self._look(lane, run)
        return self._known[lane]

    def _look(self, lane: int, run: RunState) -> WaitingShape | None:
        row = self._db.execute(
            "SELECT s.control, s.path, s.value, s.due"
            " FROM lanes l JOIN scopes s ON s.num = l.scope WHERE l.num = ?",
            (lane,),
        ).fetchone()
        if row is None:
            return None
        control, path, value, due = row
        controls = self._stated.of(self._db, run.app, run.workflow)
        if control == PROJECT:
            return self._project(controls, run)
        limit = None
        if control == CONCURRENCY and controls.concurrency is not None:
            limit = controls.concurrency.limit
        elif control == TOGETHER and controls.together is not None:
            limit = controls.together.max
        return WaitingShape(
            kind=control,
            until=maybe_iso(due),
            key=shown_key(controls, control, path, value),
            value=value,
            limit=limit,
        )

    def _project(self, controls: Controls, run: RunState) -> WaitingShape:
        """The project slot has not given it a place: for the ceiling, or for its group."""
        limit = ceiling(self._db)
        group = controls.together.group if controls.together is not None else None
        if group is None or run.kind != "main":
            return WaitingShape(kind=PROJECT, limit=limit or None)
        if limit:
            # It may be either of the two; which one the project slot knows.
            return WaitingShape(kind=PROJECT)
        scope = run.scopes.together if run.scopes is not None else None
        path, value = split_scope(scope or "")
        key = path or controls.key if value is None else path or None
        limit = group_max(self._db, self._stated, group) or 0
        return WaitingShape(kind=TOGETHER, key=key, value=value, limit=limit or None)


def gate_waiting(gate: str, due: int | None) -> WaitingShape:
    """Why a run waits by the fact that queued it, for a run as it stood then."""
    control, scope = split_gate(gate)
    path, value = split_scope(scope)
    return WaitingShape(kind=control or TURN, until=maybe_iso(due), key=path or None, value=value)
