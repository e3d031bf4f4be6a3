"""What is stated of flow control as it is registered now: controls, the ceiling, groups."""

import sqlite3
from typing import Any

import msgspec

from duraton_api.view.flow.rows import BATCH, DEBOUNCE
from duraton_api.view.flow.schema import PROJECT
from duraton_engine.state.lanes import (
    CONCURRENCY,
    SINGLETON,
    THROTTLE,
    TOGETHER,
    TOKEN_THROTTLE,
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
