"""What an event led to at each workflow, and why."""

import sqlite3
from collections.abc import Iterable

import msgspec

from duraton_api.view.flow.rows import BATCH, DEBOUNCE, HELD, OPEN
from duraton_api.view.shapes import EventRun
from duraton_api.view.times import iso
from duraton_engine.state.lanes import TOGETHER
from duraton_schemas.records.journal import Home

_homes_decoder = msgspec.json.Decoder(list[Home])

WHY = {
    "pending": "the workflow has not answered yet",
    "deduped": "its idempotency key was taken, by a start less than its period ago",
    "dropped": "the rate limit of its key was reached",
    "skipped": "a run of its singleton key had not ended",
    "refused": "as many runs of its key worked as may, or the run that it would have joined"
    " was started by another caller",
    "superseded": "its window fired and was held, and a later one of its key replaced it",
    "replaced": "a later event of its window took its place",
}
"""What is said of the outcomes that are not simply a run."""


def event_runs(db: sqlite3.Connection, event: sqlite3.Row) -> list[EventRun]:
    """What an event led to at the workflows that it was offered to, by app and workflow."""
    num = event["num"]
    found: dict[tuple[str, str], EventRun] = {}
    rows = db.execute(
        "SELECT app, workflow, id, status FROM run_rows"
        " WHERE event = ? AND kind = 'main' AND link IS NULL ORDER BY app, workflow, num",
        (num,),
    )
    for app, workflow, run, status in rows:
        found[app, workflow] = EventRun(
            app=app, workflow=workflow, outcome="run", run_id=run, status=status
        )
    for row in db.execute(
        "SELECT s.app, s.workflow, s.outcome, s.run, s.blocked_by, w.kind, w.status, w.due,"
        " w.last, w.outcome AS became, w.run AS became_run, w.blocked_by AS became_blocked,"
        " h.control AS held_at"
        " FROM starts s LEFT JOIN windows w"
        " ON w.first = s.first AND w.app = s.app AND w.workflow = s.workflow"
        " LEFT JOIN scopes h ON h.num = w.held WHERE s.event = ?",
        (num,),
    ):
        found[row["app"], row["workflow"]] = _start(num, row)
    homes = [] if event["homes"] is None else _homes_decoder.decode(event["homes"])
    for home in homes:
        key = (home.app, home.workflow)
        if key not in found:
            found[key] = _made(*key, "pending")
    shown = [found[key] for key in sorted(found)]
    _give_statuses(db, [each for each in shown if each.run_id and each.status is None])
    return shown


def nothing_came(runs: Iterable[EventRun]) -> str | None:
    """Why an event led to no run at all; None where it led to one, or still may."""
    said = []
    for each in runs:
        if each.run_id is not None or each.outcome in ("pending", "buffered"):
            return None
        said.append(f"{each.app}/{each.workflow} {each.outcome}: {each.why}")
    return "; ".join(said) or "no registered workflow is started by an event of this name"


def _made(
    app: str,
    workflow: str,
    outcome: str,
    run: str | None = None,
    blocked_by: str | None = None,
    why: str | None = None,
) -> EventRun:
    return EventRun(
        app=app,
        workflow=workflow,
        outcome=outcome,
        run_id=run,
        status=None,
        blocked_by=blocked_by,
        why=why or WHY.get(outcome),
    )


def _start(event: int, row: sqlite3.Row) -> EventRun:
    app, workflow = row["app"], row["workflow"]
    if row["kind"] is None:
        return _made(app, workflow, row["outcome"], row["run"], row["blocked_by"])
    if row["became"] is None:
        return _made(app, workflow, row["outcome"], why=_holds(row))
    # Of a window's events only the last one runs; the others share what became of it.
    replaced = row["kind"] == DEBOUNCE and row["last"] != event
    outcome = "replaced" if replaced else row["became"]
    return _made(app, workflow, outcome, row["became_run"], row["became_blocked"])


def _holds(row: sqlite3.Row) -> str | None:
    what = "batch buffer" if row["kind"] == BATCH else "debounce window"
    if row["status"] == OPEN:
        latest = " at the latest" if row["kind"] == BATCH else " unless another event comes"
        return f"a {what} has it until {iso(row['due'])}{latest}"
    if row["status"] == HELD:
        free = "fewer runs work than may" if row["held_at"] == TOGETHER else "its key is free"
        return f"its {what} is over and is held until {free}"
    return None


def _give_statuses(db: sqlite3.Connection, runs: list[EventRun]) -> None:
    for each in runs:
        row = db.execute("SELECT status FROM run_rows WHERE id = ?", (each.run_id,)).fetchone()
        each.status = None if row is None else row["status"]
