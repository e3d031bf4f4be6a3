"""What goes ahead of a replay: the old run's events and steps, in parts (DESIGN 9)."""

from collections.abc import Sequence
from typing import NamedTuple

from duraton_api.acts.choosing import Choice, carried_steps, choose_step
from duraton_api.errors import RefusedError, ReplayOfHandlerError, RunGoneError
from duraton_api.view.states import StepState
from duraton_api.view.whole import WholeRun
from duraton_engine.errors import RUN_NOT_ENDED
from duraton_schemas.records.acts import CarriedEvent, CarriedStep
from duraton_schemas.records.commands import CarryRun, Command, ReplayRun
from duraton_schemas.records.common import Caller
from duraton_schemas.values import text_bytes

PART_BYTES_MAX = 4 << 20
"""Bytes of values in one part; a single value may be as large, and goes alone."""
ENDED = frozenset({"completed", "failed", "cancelled"})


class Asked(NamedTuple):
    """A replay as it is asked for.

    Attributes:
        caller: Who asks.
        choice: The step to begin again with, or None: the first.
        dedupe_id: By which the same request is known again, or None.
        job: The job that it is for, or None.
    """

    caller: Caller
    choice: Choice | None = None
    dedupe_id: str | None = None
    job: str | None = None


def replay_commands(run: WholeRun, asked: Asked, new_id: str) -> list[Command]:
    """The commands that make a replay: first what it carries, then the act.

    Args:
        run: The old run, with its steps where a step was chosen.
        asked: What is asked for.
        new_id: A new id, which the request has and the commands' ids begin with.

    Raises:
        RefusedError: The run has not ended.
        ReplayOfHandlerError: It is an onFailure execution.
        RunGoneError: Its events are gone.
        StepUnknownError: It has no such step.
        BadParameterError: The step takes no such input.
    """
    events = check_run(run)
    state, choice = run.state, asked.choice
    chosen = choose_step(run.steps, choice) if choice is not None else None
    steps = carried_steps(run.steps, chosen) if chosen is not None else []
    request = f"req_{new_id}"
    parts = _parts(events, steps)
    commands: list[Command] = [
        CarryRun(
            id=f"cmd_{new_id}_{number}",
            caller=asked.caller,
            run=state.id,
            request=request,
            part=number,
            events=part.events,
            steps=part.steps,
        )
        for number, part in enumerate(parts)
    ]
    act = ReplayRun(
        id=f"cmd_{new_id}",
        caller=asked.caller,
        run=state.id,
        request=request,
        parts=len(parts),
        app=state.app,
        workflow=state.workflow,
        tick=state.tick,
        step=chosen.step if chosen is not None else None,
        n=chosen.n if chosen is not None else 0,
        input=choice.input if choice is not None else None,
        dedupe_id=asked.dedupe_id,
        job=asked.job,
    )
    return [*commands, act]


def check_run(run: WholeRun) -> list[CarriedEvent]:
    """The events of a run that can be replayed.

    Raises:
        RefusedError: The run has not ended.
        ReplayOfHandlerError: It is an onFailure execution.
        RunGoneError: Its events are gone.
    """
    state = run.state
    if state.kind != "main":
        raise ReplayOfHandlerError(
            f"{state.id} is the onFailure execution of the run {state.failed_run}; "
            "replay that run instead"
        )
    if run.status not in ENDED:
        raise RefusedError(
            f"the run {state.id} is {run.status}; cancel it first, or wait until it ends",
            RUN_NOT_ENDED,
        )
    if run.events is None:
        raise RunGoneError(f"the events that started {state.id} are kept no longer")
    return run.events


class _Part(NamedTuple):
    events: list[CarriedEvent]
    steps: list[CarriedStep]


def _parts(events: Sequence[CarriedEvent], steps: Sequence[StepState]) -> list[_Part]:
    """Everything in order, in at least one part."""
    parts, size = [_Part([], [])], 0
    for event in events:
        bytes_ = text_bytes(event.event.data)
        size = _room(parts, size, bytes_)
        parts[-1].events.append(event)
    for step in steps:
        carried = carried_step(step)
        size = _room(parts, size, text_bytes(carried.output))
        parts[-1].steps.append(carried)
    return parts


def _room(parts: list[_Part], size: int, more: int) -> int:
    """Begin another part where the last one would grow too large; the last one's new size."""
    if size and size + more > PART_BYTES_MAX:
        parts.append(_Part([], []))
        return more
    return size + more


def carried_step(step: StepState) -> CarriedStep:
    """A completed step as it is carried."""
    return CarriedStep(
        step=step.step,
        n=step.n,
        kind=step.kind,
        attempt=step.attempts,
        seen=step.seen,
        output=bytes(step.output).decode() or "null",
    )
