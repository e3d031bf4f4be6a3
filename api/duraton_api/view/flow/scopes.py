"""From a scope's row to what is told of it: who holds it, who waits, why, and when next."""

import sqlite3
from itertools import islice

from duraton_api.view.cursors import write_texts
from duraton_api.view.flow.holds import hold_of
from duraton_api.view.flow.line import START, Turn, line
from duraton_api.view.flow.rows import BATCH, DEBOUNCE, TURN
from duraton_api.view.flow.schema import PROJECT
from duraton_api.view.flow.shapes import HeldShape, RunRef, ScopeShape
from duraton_api.view.flow.stated import Stated, ceiling, group_max, shown_key
from duraton_api.view.times import iso
from duraton_engine.state.flow import RUNNER, Bucket
from duraton_engine.state.lanes import (
    BUDGET,
    CONCURRENCY,
    SINGLETON,
    THROTTLE,
    TOGETHER,
    TOKEN_THROTTLE,
)
from duraton_schemas.cap import MICROS
from duraton_schemas.controls import Controls

SHOWN = 10
"""Runs and firings of a scope that are shown at first."""

_ALWAYS = {
    RUNNER: "no runner that offers the workflow has room",
    TURN: "it is looked at next",
    PROJECT: "as many runs of the project execute as may",
}


class Describer:
    """Tells of scopes, within one reading of the file.

    Args:
        db: Where to read.
        stated: The workflows' controls.
        now: The time, milliseconds since 1970 UTC.
    """

    def __init__(self, db: sqlite3.Connection, stated: Stated, now: int) -> None:
        self._db = db
        self._stated = stated
        self._now = now

    def scope(self, row: sqlite3.Row, limit: int = SHOWN, after: Turn = START) -> ScopeShape:
        """A scope or an open window.

        Args:
            row: Its row.
            limit: The most runs of its line.
            after: The turn behind which they begin.
        """
        control = row["control"]
        controls = self._stated.of(self._db, row["app"], row["workflow"])
        path, value = row["path"], row["value"]
        shape = ScopeShape(
            app=row["app"],
            workflow=row["workflow"],
            control=control,
            key=shown_key(controls, control, path, value),
            value=value,
        )
        if control in (DEBOUNCE, BATCH):
            self._window(shape, row, controls)
            return shape
        self._holders(shape, row)
        self._line(shape, row, limit, after)
        self._held(shape, row)
        self._state(shape, row, controls)
        return shape

    def _window(self, shape: ScopeShape, row: sqlite3.Row, controls: Controls) -> None:
        shape.count = row["count"]
        shape.opened_at = iso(row["opened_at"])
        shape.age_ms = max(0, self._now - row["opened_at"])
        shape.due_at = iso(row["due"])
        if shape.control == DEBOUNCE:
            shape.why = "it fires once no event has come for its period"
            if controls.debounce is not None:
                shape.per_ms = controls.debounce.period_ms
            return
        shape.bytes = row["bytes"]
        shape.why = "it is flushed when it is full, at the latest when it is due"
        if controls.batch is not None:
            shape.limit, shape.per_ms = controls.batch.max_size, controls.batch.timeout_ms

    def _holders(self, shape: ScopeShape, row: sqlite3.Row) -> None:
        if shape.control in (CONCURRENCY, TOGETHER):
            shape.in_use = row["holding"]
        if row["holding"]:
            rows = self._db.execute(
                "SELECT r.id, r.status, r.created_at FROM holders h JOIN run_rows r"
                " ON r.num = h.run WHERE h.scope = ? ORDER BY h.run LIMIT ?",
                (row["num"], SHOWN),
            )
            shape.holders = [_ref(each) for each in rows]

    def _line(self, shape: ScopeShape, row: sqlite3.Row, limit: int, after: Turn) -> None:
        shape.waiting = row["waiting"]
        if not shape.waiting:
            return
        held = shape.control == BUDGET
        turns = list(islice(line(self._db, row["num"], after), limit + 1))
        for turn in turns[:limit]:
            found = self._db.execute(
                "SELECT id, status, created_at FROM run_rows WHERE num = ?", (turn.run,)
            ).fetchone()
            if found is not None:
                shape.line.append(_ref(found, status="paused" if held else None))
        if len(turns) > limit:
            key = (row["app"], row["workflow"], row["control"], row["scope"])
            shape.cursor = write_texts(*key, *(str(each) for each in turns[limit - 1]))

    def _held(self, shape: ScopeShape, row: sqlite3.Row) -> None:
        shape.firings = row["firings"]
        if shape.firings:
            rows = self._db.execute(
                "SELECT kind, path, value, count, opened_at FROM windows"
                " WHERE held = ? ORDER BY hold LIMIT ?",
                (row["num"], SHOWN),
            )
            shape.held = [
                HeldShape(kind=kind, key=path, value=value, events=count, opened_at=iso(opened_at))
                for kind, path, value, count, opened_at in rows
            ]

    def _state(self, shape: ScopeShape, row: sqlite3.Row, controls: Controls) -> None:
        """What the control is, how it stands, and why it holds back."""
        control = shape.control
        if control == CONCURRENCY and controls.concurrency is not None:
            shape.limit = controls.concurrency.limit
            shape.why = f"{shape.in_use} of {shape.limit} runs execute"
        elif control == TOGETHER and controls.together is not None:
            stated = controls.together
            shape.max, shape.group, shape.then = stated.max, stated.group, stated.then
            shape.why = f"{shape.in_use} of {shape.max} runs work"
            if stated.group is not None:
                shape.max = group_max(self._db, self._stated, stated.group)
                shape.why = f"{shape.in_use} of its runs work, of the whole group {shape.max} may"
        elif control == SINGLETON and controls.singleton is not None:
            shape.mode = controls.singleton.mode
            shape.why = "a run of it has not ended" if shape.holders else ""
        elif control == THROTTLE:
            self._throttle(shape, row, controls)
        elif control == TOKEN_THROTTLE:
            self._bucket(shape, row)
        elif control == BUDGET:
            self._budget(shape, controls)
        else:
            shape.why = _ALWAYS.get(control, "")
            if control == PROJECT:
                self._project(shape, controls)

    def _project(self, shape: ScopeShape, controls: Controls) -> None:
        """Places that the project slot gives: by the ceiling, by the workflow's group, or both."""
        shape.limit = ceiling(self._db)
        shape.group = controls.together.group if controls.together is not None else None
        if shape.group is not None and shape.limit:
            shape.why += f", or of the group {shape.group}"
        elif shape.group is not None:
            shape.why = f"as many runs of the group {shape.group} work as may"

    def _budget(self, shape: ScopeShape, controls: Controls) -> None:
        """Over which budget the workflow is, and what was spent when it was found to be."""
        hold = hold_of(self._db, shape.app, shape.workflow)
        shape.why = "the workflow is over its budget"
        if hold is not None:
            shape.held_at = iso(hold.at)
            shape.used_tokens, shape.used_cost = hold.tokens, hold.cost / MICROS
        if controls.budget is None:
            return
        stated = controls.budget
        shape.max_tokens, shape.max_cost = stated.max_tokens, stated.max_cost
        shape.per_ms = stated.window_ms
        if hold is not None:
            spent = f"${hold.cost / MICROS:g} of ${stated.max_cost or 0:g}"
            if hold.axis == "maxTokens":
                spent = f"{hold.tokens} of {stated.max_tokens} tokens"
            shape.why = f"over its budget: {spent}, until its window has rolled"

    def _throttle(self, shape: ScopeShape, row: sqlite3.Row, controls: Controls) -> None:
        if controls.throttle is not None:
            shape.limit, shape.per_ms = controls.throttle.limit, controls.throttle.per_ms
            shape.why = f"one start every {controls.throttle.per_ms / controls.throttle.limit:g} ms"
        # Where somebody waits, the engine's timer follows the newest rate.
        opens = row["due"] if row["due"] is not None else row["next_at"]
        if opens is not None and opens > self._now:
            shape.next_start_at = iso(opens)

    def _bucket(self, shape: ScopeShape, row: sqlite3.Row) -> None:
        empty_at, tokens, per_ms = row["empty_at"], row["tokens"], row["per_ms"]
        if empty_at is None:
            return
        bucket = Bucket(empty_at, tokens, per_ms)
        shape.tokens, shape.per_ms, shape.level = tokens, per_ms, bucket.level(self._now)
        if bucket.opens_at > self._now:
            shape.next_start_at = iso(bucket.opens_at)
            shape.why = "its bucket of tokens is empty"


def _ref(row: sqlite3.Row, status: str | None = None) -> RunRef:
    created_at = iso(row["created_at"])
    return RunRef(id=row["id"], status=status or row["status"], created_at=created_at)
