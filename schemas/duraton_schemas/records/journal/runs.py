"""Facts of a run's life."""

from duraton_schemas.records.acts import Replay
from duraton_schemas.records.common import (
    Caller,
    Claimed,
    ErrorInfo,
    Fact,
    Place,
    Rated,
    Record,
    Scopes,
    Throttled,
)
from duraton_schemas.records.public import Event


class Trigger(Record, kw_only=True):
    """An event that started a run.

    Attributes:
        event: The event, or None where this partition's journal has it at `place`
            in the same transaction.
        event_id: Its id.
        place: Its place on the log.
    """

    event: Event | None = None
    event_id: str
    place: Place


class RunCreated(Record, kw_only=True):
    """A new run, part of the fact that creates it.

    Attributes:
        app: Its app.
        workflow: Its workflow.
        kind: `main` or `onFailure`.
        origin: What started it, as in its id.
        triggers: Its events; of a cron tick the one that the tick made.
        caller: Who started it.
        ready_at: From when it may start, milliseconds since 1970 UTC.
        sort_at: Its place in the queue (P14).
        parent: The run whose step invoked it, or None.
        parent_step: That step's id.
        parent_n: Which use of that id.
        parent_attempt: That step's attempt.
        failed_run: The run whose failure it handles, or None.
        error: The error that it handles, or None.
        tick: The cron tick, or None.
        post: The POST that it answers, as `id/n`.
        scopes: Where it is counted; None where no control may hold it back.
        idempotency: The idempotency key that it takes, or None.
        rate: The admission that it uses, or None.
        replay: What it repeats, where it repeats another run, or None; its events are
            then those that were carried.
    """

    app: str
    workflow: str
    kind: str = "main"
    origin: str
    triggers: list[Trigger] = []
    caller: Caller
    ready_at: int
    sort_at: int
    parent: str | None = None
    parent_step: str | None = None
    parent_n: int = 0
    parent_attempt: int = 0
    failed_run: str | None = None
    error: ErrorInfo | None = None
    tick: int | None = None
    post: str = ""
    scopes: Scopes | None = None
    idempotency: Claimed | None = None
    rate: Rated | None = None
    replay: Replay | None = None


class RunQueued(Fact, kw_only=True):
    """A run exists and waits for its start.

    Attributes:
        gate: What holds it back, as in `LaneMoved`.
        due: When that lets it go at the earliest, or None where no time does.
    """

    run: str
    created: RunCreated
    gate: str = ""
    due: int | None = None


class RunStarted(Fact, kw_only=True):
    """A run executes: it holds its places and is invoked once this is committed.

    Attributes:
        run: The run's id.
        created: The run, where this fact also creates it.
        token_epoch: With the partition and the number, the invocation's token.
        token_number: See `token_epoch`.
        runner: The runner's name.
        boot: The runner process's random id.
        transport: `connect` or `serve`.
        deadline: When an answer must have come, or None.
        attempt: Which attempt of the handler's own code this is (P37).
        invoke: Which invoke since the last answer this is (P38).
        results: How many results the invocation carries.
        first: Whether it is the run's first start.
        ready_at: When a throttle let it go, where that was later than it came: its order
            from here on goes by it (P14, P19). Otherwise None.
        throttled: What a first start takes of the throttle, or None.
        gates: The gate keys under which it is counted across workflows (DESIGN 4).
        granted: The run whose ask it uses up, or None where it needed none.
    """

    run: str
    created: RunCreated | None = None
    token_epoch: int
    token_number: int
    runner: str
    boot: str
    transport: str
    deadline: int | None = None
    attempt: int = 1
    invoke: int = 1
    results: int = 0
    first: bool = False
    ready_at: int | None = None
    throttled: Throttled | None = None
    gates: list[str] = []
    granted: str | None = None


class RunSuspended(Fact, kw_only=True):
    """A run waits for what the engine brings: its token ends, its places are free.

    Attributes:
        seen: How many results its handler had.
        ready: Whether something fell due meanwhile, so that it queues at once.
    """

    run: str
    seen: int
    ready: bool = False


class RunReady(Fact, kw_only=True):
    """A run that waited may go on and queues.

    Attributes:
        why: What let it go on: `retry` (its backoff is over), `invoke` (the next invoke is
            due), `takeover` (the invoke was lost at no cost of the three), `step` (a result
            came) or `suspend` (something fell due meanwhile).
        gate: What holds it back, as in `LaneMoved`.
        due: When that lets it go at the earliest, or None where no time does.
    """

    run: str
    why: str
    gate: str = ""
    due: int | None = None


class RunAttemptFailed(Fact, kw_only=True):
    """The handler's own code threw; it is invoked again at `retry_at` (P37)."""

    run: str
    attempt: int
    error: ErrorInfo
    retry_at: int


class InvokeFailed(Fact, kw_only=True):
    """An invoke did not reach its runner, or the runner was lost (P38).

    Attributes:
        invoke: Which invoke since the last answer.
        reason: What happened.
        retry_at: When the next one is due, or None where none is.
        counts: Whether it used one of the three.
    """

    run: str
    invoke: int
    reason: str
    retry_at: int | None = None
    counts: bool = True


class RunEnded(Fact, kw_only=True):
    """A run ended; with it all it waited for.

    Attributes:
        status: `completed`, `failed` or `cancelled`.
        output: What its handler returned, as JSON text.
        error: Why it failed or was cancelled.
        failure_run: The id of the onFailure execution that this fact creates, or None.
        failure: That execution.
        late: Whether what its runner still reports as used is to be counted.
    """

    run: str
    status: str
    output: str | None = None
    error: ErrorInfo | None = None
    failure_run: str | None = None
    failure: RunCreated | None = None
    late: bool = False


class RunPaused(Fact, kw_only=True):
    """A run has a reason to pause, `manual`; a budget holds all runs by one `WorkflowHeld`."""

    run: str
    reason: str
    caller: Caller | None = None


class RunResumed(Fact, kw_only=True):
    """All reasons to pause are taken from a run.

    Attributes:
        exempt: Whether its workflow's budget no longer holds it, until it spends again
            while over it (P31).
    """

    run: str
    caller: Caller | None = None
    exempt: bool = False


class RunQuarantined(Fact, kw_only=True):
    """A decision about the run raised; it is paused with reason `quarantine`."""

    run: str
    error: ErrorInfo
