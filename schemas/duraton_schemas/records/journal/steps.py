"""Facts of steps, and of the places where runs wait for events."""

from duraton_schemas.records.common import Drained, ErrorInfo, Fact, StepSpend


class StepCalled(Fact, kw_only=True):
    """A step that the engine brings to its end was called: a sleep, a wait, a child.

    Attributes:
        kind: `sleep`, `wait` or `invoke`.
        seen: How many results the handler had when it called it.
        due: When its timer fires, or None.
        event: The awaited event's name.
        path: The awaited field's path; empty where any event of the name does.
        value: The awaited field's canonical text.
        app: The child's app.
        workflow: The child's workflow.
        data: The child's input as JSON text.
        attempt: Which attempt this is.
    """

    run: str
    step: str
    n: int
    kind: str
    seen: int
    due: int | None = None
    event: str | None = None
    path: str = ""
    value: str = ""
    app: str | None = None
    workflow: str | None = None
    data: str | None = None
    attempt: int = 1
    retry: str | None = None


class StepCompleted(Fact, kw_only=True):
    """A step succeeded: it is never executed again.

    Attributes:
        number: The result's number in its run, in commit order, from 1.
        seen: How many results the handler had when it called the step.
        output: What the handler sees, as JSON text.
        attempt: The attempt that succeeded.
        started_at: When the user's code began, by the runner's account, or None.
        spend: What it used, or None.
        drained: What that made of its bucket of AI tokens; None where no tokenThrottle
            counts it.
        budget_at: When the workflow's budget is looked at for it, or None.
    """

    run: str
    step: str
    n: int
    kind: str
    attempt: int
    number: int
    seen: int
    output: str
    started_at: int | None = None
    spend: StepSpend | None = None
    drained: Drained | None = None
    budget_at: int | None = None


class StepFailed(Fact, kw_only=True):
    """An attempt of a step failed.

    Attributes:
        retry_at: When the next attempt is due, or None where it was the last.
        retry: The step's own policy as JSON text, or None (P34).
        drained: As in `StepCompleted`.
        budget_at: As in `StepCompleted`.
    """

    run: str
    step: str
    n: int
    kind: str
    attempt: int
    seen: int
    error: ErrorInfo
    retry_at: int | None = None
    retry: str | None = None
    started_at: int | None = None
    spend: StepSpend | None = None
    drained: Drained | None = None
    budget_at: int | None = None


class StepDue(Fact, kw_only=True):
    """A failed step's backoff is over; `attempt` is the one to come."""

    run: str
    step: str
    n: int
    attempt: int


class StepDiscarded(Fact, kw_only=True):
    """An answer that no longer counts, kept for the record; its spend still counts."""

    run: str
    step: str
    n: int
    attempt: int
    token: str
    reason: str
    spend: StepSpend | None = None
    drained: Drained | None = None
    budget_at: int | None = None


class WaitAcknowledged(Fact, kw_only=True):
    """Part of a wait is in place: at its slot (`placed`) or in the registry (`ready`).

    Attributes:
        run: The run's id.
        step: The step's id.
        n: Which use of that id.
        part: `placed`, `ready`, or `unready` where the shape was retired meanwhile.
    """

    run: str
    step: str
    n: int
    part: str


class ChildKnown(Fact, kw_only=True):
    """A step's child run exists.

    Attributes:
        joined: Whether it was there before, so that it is not the step's to cancel (P54).
    """

    run: str
    step: str
    n: int
    child: str
    joined: bool = False


class WaitStood(Fact, kw_only=True):
    """A run's wait stands at its place (DESIGN 4)."""

    run: str
    step: str
    n: int
    name: str
    path: str
    value: str


class WaitGone(Fact, kw_only=True):
    """A wait left its place: it took an event, or its run no longer waits."""

    run: str
    step: str
    n: int
    name: str
    path: str
    value: str
    taken: bool
