"""The facts: what the journal holds, and what state is folded from.

Facts are coarse (DESIGN 2): what a fact implies is not written again.
`RunStarted` implies the claims and the invocation, `RunSuspended` and
`RunEnded` the releases, `StepFailed` its retry's timer.
"""

from duraton_schemas.records.acts import Replay
from duraton_schemas.records.common import Caller, Cause, ErrorInfo, Fact, Place, Record, Spend
from duraton_schemas.records.public import Event


class InputPosition(Record, kw_only=True):
    """How far one input partition has been read: `next` is the offset to read next."""

    topic: str
    partition: int
    next: int


class OwnerTook(Fact, kw_only=True):
    """A new owner of the partition begins; its epoch is in the header.

    Attributes:
        cluster: The cluster's id.
        partitions: How many partitions the cluster has.
        node: The owner's name.
        version: The program's version.
    """

    cluster: str
    partitions: int
    node: str
    version: str


class OwnerAlive(Fact, kw_only=True):
    """The owner proves after a long commit that it is not fenced."""


class Positions(Fact, kw_only=True):
    """What a batch has read; the last fact of every transaction.

    Attributes:
        inputs: Only the inputs that moved.
        clock: The engine's time at the batch, milliseconds since 1970 UTC.
    """

    inputs: list[InputPosition] = []
    clock: int


class InputGap(Fact, kw_only=True):
    """Records of an input are gone (retention); the input goes on behind them."""

    topic: str
    partition: int
    lost_from: int
    lost_to: int


class CommandParked(Fact, kw_only=True):
    """An input whose decision raised and that names no run; its bytes are kept here.

    Attributes:
        source: Where it came from.
        payload: Its bytes.
        error: What was raised.
    """

    source: Cause
    payload: bytes
    error: ErrorInfo


class RegistryChanged(Fact, kw_only=True):
    """The project slot gave the registry a new version; it also stands on `duraton.registry`.

    Attributes:
        version: The registry's new version.
        kind: As in `RegistryEntry`.
        key: As in `RegistryEntry`.
        body: As in `RegistryEntry`.
        gates: As in `RegistryEntry`.
        due: For a wait shape, when it is looked at whether anybody waits by it; or None.
    """

    version: int
    kind: str
    key: str
    body: str | None
    gates: int = 0
    due: int | None = None


class RegistrationApplied(Fact, kw_only=True):
    """This partition decides by that version of the registry from here on."""

    version: int
    kind: str
    key: str
    body: str | None
    gates: int = 0


class PartitionReported(Fact, kw_only=True):
    """The project slot knows that a partition has applied the registry up to a version."""

    reporter: int
    version: int


class ShapeRequested(Fact, kw_only=True):
    """The project slot keeps who waits for a shape to be ready (DESIGN 4, waits)."""

    name: str
    path: str
    run: str
    step: str
    n: int


class ShapeAnswered(Fact, kw_only=True):
    """The project slot has answered all who asked for a shape."""

    name: str
    path: str


class ShapeIdle(Fact, kw_only=True):
    """The project slot knows that nobody waits by a retiring shape in a partition's slots.

    Attributes:
        key: The shape's key in the registry.
        reporter: The partition.
        version: The registry version of the retiring.
    """

    key: str
    reporter: int
    version: int


class Home(Record, kw_only=True):
    """A workflow that an event matches."""

    app: str
    workflow: str


class EventHeld(Fact, kw_only=True):
    """An event waits for its dedupe id's slot, or behind such an event of its POST."""

    event: Event
    place: Place
    post: str = ""
    asked: bool


class EventClaimed(Fact, kw_only=True):
    """A held event's dedupe id was answered before its turn: others of its POST still wait.

    Attributes:
        place: The event's place.
        first: Whether it is the first of its dedupe id.
        first_id: The id of the event that was first.
    """

    place: Place
    first: bool
    first_id: str


class EventDropped(Fact, kw_only=True):
    """A held event was a repeat: nothing of it is recorded or fanned out (P18)."""

    place: Place
    post: str = ""
    dedupe_id: str
    first_id: str


class EventRecorded(Fact, kw_only=True):
    """An event is recorded and offered to the homes that it matches.

    Attributes:
        event: The event, or None where `EventHeld` has it.
        event_id: The event's id.
        place: Its place on the log; for events made inside the engine the
            journal's partition and this fact's seq.
        post: The POST it came with, as `id/n`.
        homes: The workflows that it is offered to.
        run: The run that made it (`send_event`), or None.
    """

    event: Event | None = None
    event_id: str
    place: Place
    post: str = ""
    homes: list[Home] = []
    run: str | None = None


class DedupeClaimed(Fact, kw_only=True):
    """A dedupe id is taken until it expires (P18)."""

    dedupe_id: str
    event_id: str
    expires_at: int


class DedupeExpired(Fact, kw_only=True):
    """Dedupe ids past their time are swept."""

    dedupe_ids: list[str]


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
        triggers: Its events; empty for cron.
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
    replay: Replay | None = None


class RunQueued(Fact, kw_only=True):
    """A run exists and waits for its start."""

    run: str
    created: RunCreated


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
    spend: Spend | None = None


class StepFailed(Fact, kw_only=True):
    """An attempt of a step failed.

    Attributes:
        retry_at: When the next attempt is due, or None where it was the last.
        retry: The step's own policy as JSON text, or None (P34).
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
    spend: Spend | None = None


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
    spend: Spend | None = None


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
    """A step's child run exists."""

    run: str
    step: str
    n: int
    child: str


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
            due), `takeover`, `step` (a result came), `suspend` (something fell due
            meanwhile) or `resume`.
    """

    run: str
    why: str


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
    """

    run: str
    status: str
    output: str | None = None
    error: ErrorInfo | None = None
    failure_run: str | None = None
    failure: RunCreated | None = None


class RunPaused(Fact, kw_only=True):
    """A run has a reason to pause: `manual`, `quarantine`, later `budget`."""

    run: str
    reason: str
    caller: Caller | None = None


class RunResumed(Fact, kw_only=True):
    """All reasons to pause are taken from a run."""

    run: str
    caller: Caller | None = None


class RunQuarantined(Fact, kw_only=True):
    """A decision about the run raised; it is paused with reason `quarantine`."""

    run: str
    error: ErrorInfo


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


class CronArmed(Fact, kw_only=True):
    """A workflow's next tick; due None disarms it."""

    app: str
    workflow: str
    due: int | None
    schedule: str


class CronFired(Fact, kw_only=True):
    """A tick was due; the run it starts follows in the same transition."""

    app: str
    workflow: str
    tick: int
    due: int | None
