"""Folding the facts of one run: pure, total, and the only place that knows their meaning."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from duraton_api.view.spending import spent
from duraton_api.view.states import (
    FAILURES_KEPT,
    Failure,
    Pause,
    RunState,
    StepState,
    TriggerRef,
    Waiting,
    shown_step,
)
from duraton_schemas.records import journal as j
from duraton_schemas.records.common import ErrorInfo, Fact

_WAITING_KIND = {"sleep": "sleep", "wait": "event", "invoke": "child"}


class RunFold:
    """A run while facts are folded into it.

    Attributes:
        state: The run.
        pending: Its steps that are not over, by (step, n).
        output: What it returned, once it did, as JSON text.
        dirty: Whether it must be written.
        fresh: Whether it was made in this batch.
        ended_now: Whether it ended in this batch.
        dirty_steps: The steps to be written, by seq.
        offsets: Offsets of its facts in this batch.
        gate: What held it back by the fact that queued it, and until when, or None.
        executes: Whether it executes, as the file has it.
        holds: The scopes that it holds, as (control, scope), as the file has them.
        seq: The seq of its newest fact.
    """

    __slots__ = (
        "dirty",
        "dirty_steps",
        "ended_now",
        "executes",
        "fresh",
        "gate",
        "holds",
        "offsets",
        "output",
        "pending",
        "seq",
        "state",
    )

    def __init__(self, state: RunState) -> None:
        self.state = state
        self.pending: dict[tuple[str, int], StepState] = {}
        self.output: str | None = None
        self.dirty = False
        self.fresh = False
        self.ended_now = False
        self.dirty_steps: dict[int, StepState] = {}
        self.offsets: list[int] = []
        self.seq = state.last_seq
        self.gate: tuple[str, int | None] | None = None
        self.executes = False
        self.holds: tuple[tuple[str, str], ...] = ()

    def status(self) -> str:
        """The run's status in the words of the API."""
        state = self.state
        if state.ended:
            return state.ended
        if state.pauses:
            return "paused"
        # A run shows `waiting` once its waits stand where events come by (P51).
        if state.phase == "waiting" and any(
            step.kind == "wait" and not (step.placed and step.ready)
            for step in self.pending.values()
        ):
            return "running"
        return state.phase

    def waiting(self) -> Waiting | None:
        """Why the run does not go on; None where it goes on, has ended, or is queued.

        What a queued run waits for is told by its lane, where it is read.
        """
        state = self.state
        if state.ended or state.phase in ("running", "queued"):
            return None
        if state.backoff_kind:
            last = state.failures[-1].error.message if state.failures else None
            return Waiting(kind=state.backoff_kind, until=state.backoff, reason=last)
        return self._waiting_for_step()

    def settle(self) -> str:
        """Bring what follows from the rest up to date, and give the status."""
        status = self.status()
        self.state.last_seq = self.seq
        if self.offsets:
            self.state.last_offset = self.offsets[-1]
        self.state.waiting = None if status == "running" else self.waiting()
        return status

    def _waiting_for_step(self) -> Waiting | None:
        first: StepState | None = None
        first_at = 0
        for step in self.pending.values():
            at = step.retry_at if step.status == "retrying" else step.due
            at = 1 << 62 if at is None else at
            if first is None or at < first_at:
                first, first_at = step, at
        if first is None:
            return None
        others = len(self.pending) - 1
        if first.status == "retrying":
            reason = first.failures[-1].error.message if first.failures else None
            return Waiting(
                kind="backoff", until=first.retry_at, step=first.name, reason=reason, others=others
            )
        return Waiting(
            kind=_WAITING_KIND.get(first.kind, first.kind),
            until=first.due,
            step=first.name,
            event=first.event,
            path=first.path or None,
            value=first.value if first.path else None,
            run=first.child,
            others=others,
        )

    def step(self, fact: Any, kind: str) -> StepState:
        """The pending step that a fact names; it is made where the fact is its first."""
        key = (fact.step, fact.n)
        step = self.pending.get(key)
        if step is None:
            step = StepState(
                seq=fact.header.seq, step=fact.step, n=fact.n, kind=kind, called_at=fact.at
            )
            self.pending[key] = step
            self.state.steps += 1
        self.dirty_steps[step.seq] = step
        return step


def new_run(
    num: int, run: str, created: j.RunCreated, at: int, failed: RunState | None = None
) -> RunFold:
    """A run as the fact that creates it says.

    Args:
        num: Its number in the view.
        run: Its id.
        created: What the fact says of it.
        at: When it was created.
        failed: The run whose failure it handles; its events are that run's.
    """
    triggers = [TriggerRef(event_id=t.event_id, place=t.place) for t in created.triggers]
    replay = created.replay
    chosen = None if replay is None or replay.step is None else shown_step(replay.step, replay.n)
    return RunFold(
        RunState(
            num=num,
            id=run,
            app=created.app,
            workflow=created.workflow,
            kind=created.kind,
            created_at=at,
            sort_at=None if created.sort_at == at else created.sort_at,
            scopes=created.scopes,
            triggers=triggers if failed is None else failed.triggers,
            caller=created.caller,
            parent=created.parent,
            parent_step=created.parent_step,
            parent_n=created.parent_n,
            failed_run=created.failed_run,
            tick=created.tick,
            replay_of=None if replay is None else replay.of,
            replay_step=chosen,
            job=None if replay is None else replay.job,
            handled=created.error,
        )
    )


def _queued(run: RunFold, fact: j.RunQueued) -> None:
    run.gate = (fact.gate, fact.due)


def _started(run: RunFold, fact: j.RunStarted) -> None:
    state = run.state
    state.phase = "running"
    state.backoff, state.backoff_kind = None, ""
    if state.started_at is None:
        state.started_at = fact.at
    state.attempts = fact.attempt
    state.runner = fact.runner


def _step_called(run: RunFold, fact: j.StepCalled) -> None:
    step = run.step(fact, fact.kind)
    step.kind = fact.kind
    step.status = "waiting"
    step.attempts = fact.attempt
    step.seen, step.due, step.retry_at = fact.seen, fact.due, None
    step.event, step.path, step.value = fact.event, fact.path, fact.value
    step.app, step.workflow = fact.app, fact.workflow
    step.child = None
    if step.started_at is None:
        step.started_at = fact.at


def _step_completed(run: RunFold, fact: j.StepCompleted) -> None:
    header = fact.header
    assert header is not None, "a fact of the journal has its header"
    step = run.pending.pop((fact.step, fact.n), None)
    if step is None:
        # Nearly every step: nothing was known of it before its result.
        step = StepState(
            seq=header.seq,
            step=fact.step,
            n=fact.n,
            kind=fact.kind,
            status="completed",
            attempts=fact.attempt,
            number=fact.number,
            seen=fact.seen,
            called_at=header.at,
            started_at=fact.started_at,
            ended_at=header.at,
            output=msgspec.Raw(fact.output),
        )
        run.state.steps += 1
    else:
        step.status = "completed"
        step.attempts, step.number, step.seen = fact.attempt, fact.number, fact.seen
        step.retry_at = None
        step.ended_at = header.at
        step.output = msgspec.Raw(fact.output)
        if step.started_at is None:
            step.started_at = fact.started_at
    run.dirty_steps[step.seq] = step
    if fact.spend is not None:
        spent(run.state, step, fact.spend)


def _step_failed(run: RunFold, fact: j.StepFailed) -> None:
    step = run.step(fact, fact.kind)
    step.attempts, step.seen = fact.attempt, fact.seen
    if fact.started_at is not None and step.started_at is None:
        step.started_at = fact.started_at
    failure = Failure(attempt=fact.attempt, at=fact.at, error=fact.error)
    step.failures = [*step.failures[1 - FAILURES_KEPT :], failure]
    step.retry_at = fact.retry_at
    if fact.retry_at is None:
        step.status = "failed"
        step.ended_at = fact.at
        del run.pending[fact.step, fact.n]
    else:
        step.status = "retrying"
    spent(run.state, step, fact.spend)


def _step_due(run: RunFold, fact: j.StepDue) -> None:
    step = run.step(fact, "run")
    # A child is asked for anew by the engine itself; other steps are the runner's.
    step.status = "waiting" if step.kind == "invoke" else "due"
    step.retry_at = None
    step.child = None


def _step_discarded(run: RunFold, fact: j.StepDiscarded) -> None:
    run.state.discarded += 1
    spent(run.state, None, fact.spend)


def _wait_acknowledged(run: RunFold, fact: j.WaitAcknowledged) -> None:
    step = run.pending.get((fact.step, fact.n))
    if step is not None:
        if fact.part == "placed":
            step.placed = True
        else:
            step.ready = fact.part == "ready"
        run.dirty_steps[step.seq] = step


def _child_known(run: RunFold, fact: j.ChildKnown) -> None:
    step = run.pending.get((fact.step, fact.n))
    if step is not None:
        step.child = fact.child
        run.dirty_steps[step.seq] = step


def _suspended(run: RunFold, fact: j.RunSuspended) -> None:
    run.state.phase = "queued" if fact.ready else "waiting"
    run.state.backoff, run.state.backoff_kind = None, ""


def _ready(run: RunFold, fact: j.RunReady) -> None:
    run.gate = (fact.gate, fact.due)
    run.state.phase = "queued"
    run.state.backoff, run.state.backoff_kind = None, ""


def _attempt_failed(run: RunFold, fact: j.RunAttemptFailed) -> None:
    _hold(run.state, "backoff", fact.retry_at, fact.attempt, fact.at, fact.error)


def _invoke_failed(run: RunFold, fact: j.InvokeFailed) -> None:
    error = ErrorInfo(message=fact.reason, name="InvokeFailed")
    _hold(run.state, "invoke", fact.retry_at, fact.invoke, fact.at, error)


def _hold(
    state: RunState, kind: str, until: int | None, attempt: int, at: int, error: ErrorInfo
) -> None:
    failure = Failure(attempt=attempt, at=at, error=error)
    state.failures = [*state.failures[1 - FAILURES_KEPT :], failure]
    if until is None:
        state.phase = "queued"
        return
    state.phase, state.backoff, state.backoff_kind = "waiting", until, kind


def _ended(run: RunFold, fact: j.RunEnded) -> None:
    state = run.state
    state.phase, state.ended, state.ended_at = "ended", fact.status, fact.at
    state.error = fact.error
    state.failure_run = fact.failure_run
    state.pauses = []
    state.backoff, state.backoff_kind = None, ""
    run.output = fact.output
    run.ended_now = True
    for step in run.pending.values():
        step.status = "cancelled"
        step.ended_at = fact.at
        run.dirty_steps[step.seq] = step
    run.pending.clear()


def _paused(run: RunFold, fact: j.RunPaused) -> None:
    _pause(run.state, Pause(reason=fact.reason, at=fact.at, caller=fact.caller))


def _resumed(run: RunFold, fact: j.RunResumed) -> None:
    run.state.pauses = []
    run.state.exempt = run.state.exempt or fact.exempt
    run.gate = ("", None)


def _joined(run: RunFold, _: j.StartJoined) -> None:
    run.state.joins += 1


def _quarantined(run: RunFold, fact: j.RunQuarantined) -> None:
    _pause(run.state, Pause(reason="quarantine", at=fact.at, error=fact.error))
    if run.state.phase == "running":
        run.state.phase = "queued"  # its places are free, so it does not execute


def _pause(state: RunState, pause: Pause) -> None:
    others = [old for old in state.pauses if old.reason != pause.reason]
    state.pauses = [*others, pause]


RUN_FACTS: Mapping[type[Fact], Callable[[RunFold, Any], None]] = {
    j.RunQueued: _queued,
    j.RunStarted: _started,
    j.StepCalled: _step_called,
    j.StepCompleted: _step_completed,
    j.StepFailed: _step_failed,
    j.StepDue: _step_due,
    j.StepDiscarded: _step_discarded,
    j.WaitAcknowledged: _wait_acknowledged,
    j.ChildKnown: _child_known,
    j.RunSuspended: _suspended,
    j.RunReady: _ready,
    j.RunAttemptFailed: _attempt_failed,
    j.InvokeFailed: _invoke_failed,
    j.RunEnded: _ended,
    j.RunPaused: _paused,
    j.RunResumed: _resumed,
    j.RunQuarantined: _quarantined,
    j.StartJoined: _joined,
}
"""How each fact that names a run, in its own partition, changes it."""
