"""A run whole, as an act on it needs it: all of its steps, its events as they were sent."""

import sqlite3
from typing import NamedTuple

import msgspec

from duraton_api.view.reads import Reads
from duraton_api.view.schema import place_num
from duraton_api.view.states import RunState, StepState, TriggerRef
from duraton_schemas.records.acts import CarriedEvent
from duraton_schemas.records.common import Caller
from duraton_schemas.records.public import Event

_run_decoder = msgspec.json.Decoder(RunState)
_step_decoder = msgspec.json.Decoder(StepState)
_steps_decoder = msgspec.json.Decoder(list[StepState])
_caller_decoder = msgspec.json.Decoder(Caller)


class WholeRun(NamedTuple):
    """A run whole.

    Attributes:
        state: The run.
        status: Its status.
        events: The events that started it, in order; None where one is gone.
        steps: All of its steps.
    """

    state: RunState
    status: str
    events: list[CarriedEvent] | None
    steps: list[StepState]


def read_whole(reads: Reads, run: str, *, steps: bool) -> WholeRun | None:
    """A run whole, or None where the view does not know it.

    Args:
        reads: The view's reads.
        run: The run's id.
        steps: Whether its steps are needed.
    """
    with reads.reading() as db:
        row = db.execute(
            "SELECT num, status, detail, steps FROM run_rows WHERE id = ?", (run,)
        ).fetchone()
        if row is None:
            return None
        state = _run_decoder.decode(row["detail"])
        found = [_event(db, trigger) for trigger in state.triggers]
        events = [event for event in found if event is not None]
        return WholeRun(
            state,
            row["status"],
            events if len(events) == len(found) else None,
            _steps(db, row) if steps else [],
        )


def _steps(db: sqlite3.Connection, row: sqlite3.Row) -> list[StepState]:
    steps = [] if row["steps"] is None else _steps_decoder.decode(row["steps"])
    rows = db.execute("SELECT detail FROM step_rows WHERE run = ? ORDER BY seq", (row["num"],))
    return steps + [_step_decoder.decode(detail) for (detail,) in rows]


def _event(db: sqlite3.Connection, trigger: TriggerRef) -> CarriedEvent | None:
    num = place_num(trigger.place)
    row = db.execute(
        "SELECT id, name, data, ts, dedupe_id, subject, caller FROM events WHERE num = ?", (num,)
    ).fetchone()
    if row is None or row["name"] is None:
        return None
    caller = None if row["caller"] is None else _caller_decoder.decode(row["caller"])
    event = Event(
        id=row["id"],
        name=row["name"],
        data=row["data"],
        ts=row["ts"],
        dedupe_id=row["dedupe_id"],
        subject=row["subject"],
        caller=caller,
    )
    return CarriedEvent(event=event, place=trigger.place)
