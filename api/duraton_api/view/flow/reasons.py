"""Why a queued run waits: what its lane stands before, looked up where the run is read."""

import sqlite3

from duraton_api.view.flow.holds import Hold, Workflow, pause_of, read_holds
from duraton_api.view.flow.rows import TURN
from duraton_api.view.flow.schema import PROJECT
from duraton_api.view.flow.stated import Stated, ceiling, group_max, shown_key
from duraton_api.view.shapes import WaitingShape
from duraton_api.view.states import Pause, RunState
from duraton_api.view.times import maybe_iso
from duraton_engine.state.lanes import (
    CONCURRENCY,
    TOGETHER,
    split_gate,
    split_scope,
)
from duraton_schemas.controls import Controls


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
