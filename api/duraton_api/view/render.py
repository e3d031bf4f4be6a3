"""From what the view keeps to what it answers. Lists and details both go through here."""

import sqlite3
from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from duraton_api.view import shapes
from duraton_api.view.flow.events import nothing_came
from duraton_api.view.flow.holds import RESTING
from duraton_api.view.flow.reasons import Gates, gate_waiting
from duraton_api.view.runfold import RunFold
from duraton_api.view.schema import num_partition, num_place, num_seq
from duraton_api.view.spending import spend_shape, step_spend_shape
from duraton_api.view.states import (
    NO_OUTPUT,
    Failure,
    Pause,
    RunState,
    StepState,
    TriggerRef,
    Waiting,
)
from duraton_api.view.times import iso, maybe_iso
from duraton_schemas.records.common import Caller, ErrorInfo
from duraton_streams.logs.base import JOURNAL

_caller_decoder = msgspec.json.Decoder(Caller)
_REASON_ORDER = ("manual", "quarantine", "budget")


class EventInfo(NamedTuple):
    """What a trigger shows of its event."""

    name: str | None
    data: str | None
    ts: int | None


NO_EVENT = EventInfo(None, None, None)


def error_shape(error: ErrorInfo | None) -> shapes.ErrorShape | None:
    """An error, or None."""
    if error is None:
        return None
    return shapes.ErrorShape(
        message=error.message,
        name=error.name,
        code=error.code,
        stack=error.stack,
        note=error.note,
        final=error.final,
    )


def raw(text: str | None) -> msgspec.Raw | None:
    """Stored JSON text as it stands."""
    return None if text is None else msgspec.Raw(text.encode())


def waiting_shape(waiting: Waiting | None) -> shapes.WaitingShape | None:
    """Why a run waits, or None."""
    if waiting is None:
        return None
    match = None if waiting.path is None else {waiting.path: waiting.value or ""}
    return shapes.WaitingShape(
        kind=waiting.kind,
        until=maybe_iso(waiting.until),
        step=waiting.step,
        event=waiting.event,
        match=match,
        run=waiting.run,
        reason=waiting.reason,
        others=waiting.others,
    )


def paused_shape(pauses: list[Pause]) -> shapes.PausedShape | None:
    """Why a run is paused, or None."""
    if not pauses:
        return None
    by_reason = {pause.reason: pause for pause in pauses}
    known = [reason for reason in _REASON_ORDER if reason in by_reason]
    reasons = known + [reason for reason in by_reason if reason not in known]
    first = by_reason[reasons[0]]
    return shapes.PausedShape(
        reason=reasons[0],
        reasons=reasons,
        since=iso(first.at),
        caller=first.caller,
        error=error_shape(first.error),
    )


def failure_shapes(failures: Iterable[Failure]) -> list[shapes.FailureShape]:
    """Failed attempts, oldest first."""
    shown = []
    for failure in failures:
        error = error_shape(failure.error)
        assert error is not None, "a failure has its error"
        shown.append(shapes.FailureShape(attempt=failure.attempt, at=iso(failure.at), error=error))
    return shown


def trigger_shape(trigger: TriggerRef, event: EventInfo, *, whole: bool) -> shapes.TriggerShape:
    """An event that started a run; with its data where `whole`."""
    shape = shapes.TriggerShape(event_id=trigger.event_id, name=event.name, place=trigger.place)
    if whole:
        shape.data = raw(event.data) or msgspec.Raw(b"null")
        shape.ts = maybe_iso(event.ts)
    return shape


def run_fields(
    state: RunState, status: str, event: EventInfo, *, whole: bool, gates: Gates | None = None
) -> dict[str, Any]:
    """The fields that a run has in lists and in details.

    Args:
        state: The run.
        status: Its status.
        event: The first of its events.
        whole: Whether the event's data is shown.
        gates: What lanes wait for; None for a run as it stood once.
    """
    waiting = waiting_shape(state.waiting)
    budget = gates.budget(state) if gates is not None else None
    pauses = state.pauses if budget is None else [*state.pauses, budget]
    if budget is not None and status in RESTING:
        status = "paused"
    if state.lane is not None and gates is not None:
        waiting = gates.waiting(state)
    duration = None
    if state.ended_at is not None and state.started_at is not None:
        duration = state.ended_at - state.started_at
    first = state.triggers[0] if state.triggers else None
    return {
        "id": state.id,
        "app": state.app,
        "workflow": state.workflow,
        "kind": state.kind,
        "status": status,
        "created_at": iso(state.created_at),
        "started_at": maybe_iso(state.started_at),
        "ended_at": maybe_iso(state.ended_at),
        "duration_ms": duration,
        "trigger": None if first is None else trigger_shape(first, event, whole=whole),
        "caller": state.caller,
        "attempts": state.attempts,
        "step_count": state.steps,
        "waiting_for": waiting,
        "paused_by": paused_shape(pauses),
        "error": error_shape(state.error),
        "spend": spend_shape(state),
        "parent": state.parent,
        "failed_run": state.failed_run,
        "on_failure_run": state.failure_run,
        "replay_of": state.replay_of,
        "replay_step": state.replay_step,
        "job": state.job,
        "journal": shapes.JournalShape(
            topic=JOURNAL,
            partition=num_partition(state.num),
            first_seq=num_seq(state.num),
            last_seq=state.last_seq,
            last_offset=state.last_offset,
        ),
    }


def step_shape(step: StepState) -> shapes.StepShape:
    """A step."""
    errors = failure_shapes(step.failures)
    failing = errors and step.status != "completed"
    return shapes.StepShape(
        id=step.name,
        name=step.step,
        n=step.n,
        kind=step.kind,
        status=step.status,
        attempts=step.attempts,
        output=None if step.output is NO_OUTPUT else step.output,
        error=errors[-1].error if failing else None,
        errors=errors,
        started_at=maybe_iso(step.started_at),
        ended_at=maybe_iso(step.ended_at),
        retry_at=maybe_iso(step.retry_at),
        due=maybe_iso(step.due),
        event=step.event,
        match={step.path: step.value} if step.path else None,
        child=step.child,
        number=step.number,
        seen=step.seen,
        spend=step_spend_shape(step.spend),
        carried=step.carried,
    )


def run_detail(
    state: RunState,
    status: str,
    *,
    output: str | None,
    events: list[EventInfo],
    steps: list[shapes.StepShape],
    truncated: bool = False,
    on_failure: shapes.LinkedRun | None = None,
    parent: shapes.LinkedRun | None = None,
    children: list[shapes.LinkedRun] | None = None,
    replays: list[shapes.LinkedRun] | None = None,
    gates: Gates | None = None,
) -> shapes.RunDetail:
    """A run whole; the arguments are its fields, and what `run_fields` takes."""
    first = events[0] if events else NO_EVENT
    triggers = [
        trigger_shape(trigger, event, whole=True)
        for trigger, event in zip(state.triggers, events, strict=False)
    ]
    return shapes.RunDetail(
        **run_fields(state, status, first, whole=True, gates=gates),
        output=raw(output),
        triggers=triggers,
        steps=steps,
        steps_truncated=truncated,
        failures=failure_shapes(state.failures),
        handled_error=error_shape(state.handled),
        on_failure=on_failure,
        parent_run=parent,
        children=children or [],
        discarded=state.discarded,
        runner=state.runner,
        tick=maybe_iso(state.tick),
        replays=replays or [],
        joined=state.joins,
    )


def folded_detail(fold: RunFold, output: str | None, event: EventInfo) -> shapes.RunDetail:
    """A run as a fold has it, without the file: as it stood at some fact."""
    status = fold.settle()
    steps = [step_shape(step) for _, step in sorted(fold.dirty_steps.items())]
    events = [event] + [NO_EVENT] * (len(fold.state.triggers) - 1)
    detail = run_detail(fold.state, status, output=output, events=events, steps=steps)
    if status == "queued" and fold.gate is not None:
        detail.waiting_for = gate_waiting(*fold.gate)
    return detail


def event_item(row: sqlite3.Row, runs: list[shapes.EventRun], *, whole: bool) -> shapes.EventItem:
    """An event."""
    why = nothing_came(runs) if row["recorded_at"] is not None else None
    return shapes.EventItem(
        id=row["id"],
        name=row["name"],
        ts=maybe_iso(row["ts"]),
        recorded_at=maybe_iso(row["recorded_at"]),
        dedupe_id=row["dedupe_id"],
        subject=row["subject"],
        caller=None if row["caller"] is None else _caller_decoder.decode(row["caller"]),
        made_by=row["run"],
        place=num_place(row["num"]),
        runs=runs,
        why=why,
        duplicate_of=row["duplicate_of"],
        data=raw(row["data"]) if whole else None,
    )
