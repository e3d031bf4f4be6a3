"""What the view keeps of a run and of its steps, stored as JSON."""

import msgspec

from duraton_schemas.records.common import Caller, ErrorInfo, Place, Scopes

FAILURES_KEPT = 20
"""Failed attempts kept a step, the newest; the journal holds all of them."""

NO_OUTPUT = msgspec.Raw(b"")
"""The output of a step that has none; it is left out of what is stored."""


class Stored(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, gc=False):
    """Root of what is stored as JSON in the view."""


def shown_step(step: str, n: int) -> str:
    """A step as it is shown: its id, and which use of it (P42)."""
    return step if n == 0 else f"{step}:{n}"


class Failure(Stored, kw_only=True):
    """A failed attempt: of a step, of the handler's own code, or of an invoke."""

    attempt: int
    at: int
    error: ErrorInfo


class TriggerRef(Stored, kw_only=True):
    """An event that started a run; the event itself is in `events`."""

    event_id: str
    place: Place


class Pause(Stored, kw_only=True):
    """A reason to pause, since when, and who or what gave it."""

    reason: str
    at: int
    caller: Caller | None = None
    error: ErrorInfo | None = None


class Waiting(Stored, kw_only=True):
    """Why a run that is not queued does not go on; a queued one waits for what its lane does.

    Attributes:
        kind: `sleep`, `event`, `child`, `backoff` or `invoke`.
        until: When it is over at the latest, milliseconds since 1970 UTC.
        step: The step that waits.
        event: The awaited event's name.
        path: The field that must match.
        value: The canonical text that it must have.
        run: The awaited child's id.
        reason: What went wrong before, for people.
        others: How many more steps wait.
    """

    kind: str
    until: int | None = None
    step: str | None = None
    event: str | None = None
    path: str | None = None
    value: str | None = None
    run: str | None = None
    reason: str | None = None
    others: int = 0


class Spent(Stored, kw_only=True):
    """What a step's attempts used together; fields as in `StepSpend`."""

    tokens: int = 0
    cost: int = 0
    unknown: bool = False
    cost_unknown: bool = False
    model: str | None = None
    prompt: int = 0
    completion: int = 0
    cached: int = 0
    cache_writes: int = 0
    prices: str | None = None


class StepState(Stored, kw_only=True):
    """A step.

    Attributes:
        seq: The seq of the first fact that named it, its key within its run.
        status: `completed`, `failed`, `retrying`, `due`, `waiting` or `cancelled`.
        attempts: Executions so far.
        failures: Its newest failed attempts.
        spend: What its calls of models used, or None.
        output: What it gave, as JSON; `NO_OUTPUT` without.
        carried: Whether the run began with it, since it repeats another run.
    """

    seq: int
    step: str
    n: int = 0
    kind: str = "run"
    status: str = "waiting"
    attempts: int = 0
    number: int = 0
    seen: int = 0
    called_at: int
    started_at: int | None = None
    ended_at: int | None = None
    due: int | None = None
    retry_at: int | None = None
    event: str | None = None
    path: str = ""
    value: str = ""
    app: str | None = None
    workflow: str | None = None
    child: str | None = None
    placed: bool = False
    ready: bool = False
    failures: list[Failure] = []
    spend: Spent | None = None
    output: msgspec.Raw = NO_OUTPUT
    carried: bool = False

    @property
    def name(self) -> str:
        """The step as it is shown: its id, and which use of it (P42)."""
        return shown_step(self.step, self.n)


class RunState(Stored, kw_only=True):
    """A run; its output stands in a column of its own.

    Attributes:
        num: Its number in the view: partition and seq of the fact that made it.
        phase: `queued`, `running`, `waiting` or `ended`.
        ended: Its final status, once it ended.
        backoff: Until when the whole run waits (P37, P38), or None.
        waiting: Why it does not go on.
        pauses: Why it is paused.
        replay_of: The run that it repeats, or None.
        replay_step: The step that it began again with, as it is shown, or None.
        job: The job that made it, or None.
        sort_at: Its sort key in its lane (P14); None where that is `created_at`.
        scopes: Where it is counted, or None.
        exempt: Whether the budget does not hold it (P31).
        lane: The number of the lane in which it is queued, or None.
        joins: How many starts have joined it.
        steps: How many steps it has had.
        last_seq: The seq of its newest fact.
        last_offset: That fact's offset in the journal.
    """

    num: int
    id: str
    app: str
    workflow: str
    kind: str = "main"
    phase: str = "queued"
    ended: str = ""
    created_at: int
    sort_at: int | None = None
    started_at: int | None = None
    ended_at: int | None = None
    attempts: int = 0
    runner: str | None = None
    backoff: int | None = None
    backoff_kind: str = ""
    waiting: Waiting | None = None
    pauses: list[Pause] = []
    scopes: Scopes | None = None
    exempt: bool = False
    lane: int | None = None
    joins: int = 0
    triggers: list[TriggerRef] = []
    caller: Caller | None = None
    parent: str | None = None
    parent_step: str | None = None
    parent_n: int = 0
    failed_run: str | None = None
    failure_run: str | None = None
    tick: int | None = None
    replay_of: str | None = None
    replay_step: str | None = None
    job: str | None = None
    handled: ErrorInfo | None = None
    error: ErrorInfo | None = None
    failures: list[Failure] = []
    tokens: int = 0
    cost: int = 0
    cost_unknown: bool = False
    usage_unknown: bool = False
    steps: int = 0
    discarded: int = 0
    last_seq: int = 0
    last_offset: int = 0
