"""What the view answers: the JSON of lists and details. Times are ISO-8601 with Z."""

import msgspec

from duraton_schemas.records.common import Caller, Place


class Shape(msgspec.Struct, rename="camel", kw_only=True):
    """Root of the answers."""


class ErrorShape(Shape, kw_only=True, omit_defaults=True):
    """An error as it was reported."""

    message: str
    name: str = ""
    code: str | None = None
    stack: str | None = None
    note: str | None = None
    final: bool = False


class FailureShape(Shape, kw_only=True):
    """A failed attempt."""

    attempt: int
    at: str
    error: ErrorShape


class WaitingShape(Shape, kw_only=True, omit_defaults=True):
    """Why a run does not go on.

    Attributes:
        kind: `sleep`, `event`, `child`, `backoff` (a retry), or `invoke` (its runner was
            not reached). Of a queued run what its lane stands before: `runner` (no runner
            has room), `concurrency`, `throttle`, `tokenThrottle`, `together`, `budget`,
            `project` (the ceiling), or `turn` (it is looked at next).
        until: When it is over at the latest; of a queued run when the next start of its key
            is allowed.
        step: The step that waits.
        event: The awaited event's name.
        match: The field and the text that must match.
        run: The awaited child.
        reason: What failed before.
        others: How many more steps wait.
        key: The path by which the control counts.
        value: The run's value of it; None where it does not resolve (P2).
        limit: How many runs of the key may execute.
    """

    kind: str
    until: str | None = None
    step: str | None = None
    event: str | None = None
    match: dict[str, str] | None = None
    run: str | None = None
    reason: str | None = None
    others: int = 0
    key: str | None = None
    value: str | None = None
    limit: int | None = None


class PausedShape(Shape, kw_only=True):
    """Why a run is paused; a person's reason outranks the others as `reason` (P31)."""

    reason: str
    reasons: list[str]
    since: str
    caller: Caller | None = None
    error: ErrorShape | None = None


class SpendShape(Shape, kw_only=True):
    """What AI steps used, failed attempts included.

    Attributes:
        tokens: As billed.
        cost: Dollars; None where some of it is not known.
        known_cost: Dollars, of what is known; a cap counts these.
        usage_unknown: Whether an answer did not say what it used; that counts 0.
    """

    tokens: int
    cost: float | None
    known_cost: float
    usage_unknown: bool


class StepSpendShape(SpendShape, kw_only=True):
    """What a step used, all its attempts together.

    Attributes:
        model: The model, or the models.
        prompt: Tokens of the prompt, cached ones included.
        completion: Tokens of the completion.
        cached: Those of the prompt that were read from a cache.
        cache_writes: Those of the prompt that were written to a cache.
        prices: The version of the price table that gave the cost, or None.
    """

    model: str | None
    prompt: int
    completion: int
    cached: int
    cache_writes: int
    prices: str | None


class TriggerShape(Shape, kw_only=True):
    """The event that started a run; `data` in details only."""

    event_id: str
    name: str | None
    place: Place
    data: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    ts: str | msgspec.UnsetType | None = msgspec.UNSET


class JournalShape(Shape, kw_only=True):
    """Where a run stands in the journal: its first and its newest fact."""

    topic: str
    partition: int
    first_seq: int
    last_seq: int
    last_offset: int


class StepShape(Shape, kw_only=True):
    """A step of a run.

    Attributes:
        id: As it is shown: its name, and which use of it (P42).
        status: `completed`, `failed`, `retrying`, `due`, `waiting`, `cancelled`.
        attempts: Executions so far.
        error: Its newest error, unless it completed.
        errors: Its newest failed attempts.
        number: The number of its result within the run; 0 without one.
        seen: How many results the handler had when it called it.
        spend: What its calls of models used, or None where it called none.
        carried: Whether the run began with its result, since it repeats another run.
    """

    id: str
    name: str
    n: int
    kind: str
    status: str
    attempts: int
    output: msgspec.Raw | None
    error: ErrorShape | None
    errors: list[FailureShape]
    started_at: str | None
    ended_at: str | None
    retry_at: str | None
    due: str | None
    event: str | None
    match: dict[str, str] | None
    child: str | None
    number: int
    seen: int
    spend: StepSpendShape | None
    carried: bool


class RunItem(Shape, kw_only=True):
    """A run as lists show it; a detail has the same fields and more.

    Attributes:
        replay_of: The run that it repeats.
        replay_step: The step that it began again with, where it is not the first.
        job: The job that made it.
    """

    id: str
    app: str
    workflow: str
    kind: str
    status: str
    created_at: str
    started_at: str | None
    ended_at: str | None
    duration_ms: int | None
    trigger: TriggerShape | None
    caller: Caller | None
    attempts: int
    step_count: int
    waiting_for: WaitingShape | None
    paused_by: PausedShape | None
    error: ErrorShape | None
    spend: SpendShape
    parent: str | None
    failed_run: str | None
    on_failure_run: str | None
    replay_of: str | None
    replay_step: str | None
    job: str | None
    journal: JournalShape


class LinkedRun(Shape, kw_only=True):
    """A run that another names.

    Attributes:
        step: What links the two: the step that invoked it, or that it began again with.
    """

    id: str
    workflow: str
    status: str
    step: str | None = None
    error: ErrorShape | None = None


class RunDetail(RunItem, kw_only=True):
    """A run whole; `joined` is how many starts have joined it."""

    output: msgspec.Raw | None
    triggers: list[TriggerShape]
    steps: list[StepShape]
    steps_truncated: bool
    failures: list[FailureShape]
    handled_error: ErrorShape | None
    on_failure: LinkedRun | None
    parent_run: LinkedRun | None
    children: list[LinkedRun]
    discarded: int
    runner: str | None
    tick: str | None
    replays: list[LinkedRun]
    joined: int


class RunPage(Shape, kw_only=True):
    """A page of runs, newest first; `cursor` asks for the next one, None at the end."""

    runs: list[RunItem]
    cursor: str | None


class EventRun(Shape, kw_only=True, omit_defaults=True):
    """What an event led to at one workflow.

    Attributes:
        outcome: `run`, `joined`, `buffered`, `replaced` (by a later event of its debounce
            window), `deduped`, `dropped`, `skipped`, `refused`, `superseded` (its firing was
            held, and a later one replaced it), or `pending`.
        run_id: The run that it led to: its own, the one it joined, or the one that its
            window or buffer became.
        status: That run's status.
        blocked_by: The run in the way.
        why: Why it led to no run of its own, for people.
    """

    app: str
    workflow: str
    outcome: str
    run_id: str | None
    status: str | None
    blocked_by: str | None = None
    why: str | None = None


class EventItem(Shape, kw_only=True):
    """A recorded event and what it led to.

    Attributes:
        why: Why it led to nothing, where it did.
        duplicate_of: The first event of its dedupe id, where it is a repeat; then
            nothing of it was recorded.
    """

    id: str
    name: str | None
    ts: str | None
    recorded_at: str | None
    dedupe_id: str | None
    subject: str | None
    caller: Caller | None
    made_by: str | None
    place: Place
    runs: list[EventRun]
    why: str | None
    duplicate_of: str | None
    data: msgspec.Raw | None


class EventPage(Shape, kw_only=True):
    """A page of events, newest first."""

    events: list[EventItem]
    cursor: str | None


class WorkflowItem(Shape, kw_only=True):
    """A registered workflow.

    Attributes:
        version: The registry's version of its registration.
        active: Whether its app still has it.
        options: As registered, in wire form.
    """

    app: str
    name: str
    version: int
    active: bool
    options: msgspec.Raw


class RefusalShape(Shape, kw_only=True):
    """A run that a job could not act on, and why."""

    run: str
    code: str
    message: str


class JobShape(Shape, kw_only=True):
    """An act on many runs.

    Attributes:
        act: `replay` or `cancel`.
        status: `running`, `stopping` (what is under way is finished), `completed`, `stopped`.
        filter: The filter that chose its runs.
        reason: Why, for people.
        total: How many runs it is about; fixed when it was accepted.
        done: How many it has acted on.
        refused: How many it could not act on.
        refusals: The first hundred of those.
    """

    id: str
    act: str
    status: str
    filter: msgspec.Raw
    reason: str | None
    total: int
    done: int
    refused: int
    created_at: str
    ended_at: str | None
    caller: Caller | None
    stopped_by: Caller | None
    refusals: list[RefusalShape]


class JobPage(Shape, kw_only=True):
    """A page of jobs, newest first."""

    jobs: list[JobShape]
    cursor: str | None


class DryRun(Shape, kw_only=True):
    """What an act on many runs would be about: how many, and the first of them in order."""

    act: str
    total: int
    sample: list[RunItem]
    dry_run: bool = True
