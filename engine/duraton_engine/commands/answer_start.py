"""Tell who asked for a start what became of it: a POST, or the step of another run."""

from duraton_engine.commands.take_start import JOINED, REFUSED, Outcome, Start
from duraton_engine.effects import EventAnswered
from duraton_engine.errors import START_DECLINED, START_REFUSED
from duraton_schemas.ids import run_slot
from duraton_schemas.records import messages
from duraton_schemas.records.common import ErrorInfo
from duraton_streams.partition.machine import Transition


def answer_start(tx: Transition, slot: int, start: Start, outcome: Outcome) -> None:
    """Answer the POST, or the parent's step."""
    app, workflow = start.flow.app, start.flow.name
    if start.post:
        error = _refused(app, workflow) if outcome.kind == REFUSED else None
        answer = EventAnswered(
            start.post, app, workflow, outcome.kind, outcome.run, error, outcome.blocker
        )
        tx.effect(answer)
    if start.parent is not None and start.step is not None:
        _answer_step(tx, slot, start, start.parent, start.step, outcome)


def _answer_step(
    tx: Transition, slot: int, start: Start, parent: str, step: str, outcome: Outcome
) -> None:
    if outcome.run is not None:
        started = messages.ChildStarted(
            parent=parent,
            step=step,
            n=start.n,
            attempt=start.attempt,
            child=outcome.run,
            joined=outcome.kind == JOINED,
        )
        tx.send(run_slot(parent), started, source=slot)
        return
    ended = messages.ChildEnded(
        parent=parent,
        step=step,
        n=start.n,
        attempt=start.attempt,
        child=None,
        status="refused",
        error=_declined(start, outcome),
    )
    tx.send(run_slot(parent), ended, source=slot)


def _declined(start: Start, outcome: Outcome) -> ErrorInfo:
    app, workflow = start.flow.app, start.flow.name
    if outcome.kind == REFUSED:
        return _refused(app, workflow)
    way = f", since the run {outcome.blocker} has not ended" if outcome.blocker else ""
    return ErrorInfo(
        message=f"{app}/{workflow} started no run for the step: it was {outcome.kind}{way}",
        name="StartDeclinedError",
        code=START_DECLINED[outcome.kind],
        final=True,
    )


def _refused(app: str, workflow: str) -> ErrorInfo:
    return ErrorInfo(
        message=(
            f"{app}/{workflow} takes no start of this key now: as many runs work as may, "
            "or the run that it would join was started by another caller or is the one that asks"
        ),
        name="StartRefusedError",
        code=START_REFUSED,
        final=True,
    )
