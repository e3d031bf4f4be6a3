"""The objects of state. They are changed by appliers only, by way of `StateWriter.edit`.

Containers inside them are replaced, never changed, so that a rolled back
transition finds the old object whole.
"""

import msgspec

from duraton_schemas.records.acts import Replay
from duraton_schemas.records.common import Caller, ErrorInfo, Place, Scopes, Spend
from duraton_schemas.records.public import Event

QUEUED, RUNNING, WAITING = "queued", "running", "waiting"

DONE, BACKOFF, DUE, PENDING = "done", "backoff", "due", "pending"
"""A step: has its result; waits for its next attempt; is to be tried again; is the engine's."""


class StepState(msgspec.Struct, array_like=True):
    """One step of an unended run.

    Attributes:
        kind: `run`, `sleep`, `wait`, `invoke`, `send` or `ai`.
        status: `done`, `backoff`, `due` or `pending`.
        attempt: The attempt that succeeded, or the one that comes next.
        number: The result's number; 0 until done.
        seen: How many results the handler had when it first called the step.
        due: When its timer fires, or None.
        retry: Its own retry policy as JSON text, or None.
        event: The awaited event's name.
        path: The awaited field's path.
        value: The awaited field's canonical text.
        placed: Whether the wait stands at its place.
        ready: Whether every partition sends events of its shape.
        app: The child's app.
        workflow: The child's workflow.
        data: The child's input as JSON text.
        child: The child's id, once it is known.
        joined: Whether the child was there before.
    """

    kind: str
    status: str
    attempt: int = 1
    number: int = 0
    seen: int = 0
    due: int | None = None
    retry: str | None = None
    event: str | None = None
    path: str = ""
    value: str = ""
    placed: bool = False
    ready: bool = False
    app: str | None = None
    workflow: str | None = None
    data: str | None = None
    child: str | None = None
    joined: bool = False


class RunState(msgspec.Struct):
    r"""An unended run: what changes as it goes.

    Attributes:
        id: Its id.
        app: Its app.
        workflow: Its workflow.
        kind: `main` or `onFailure`.
        created_at: Milliseconds since 1970 UTC.
        ready_at: When it first could start.
        sort_at: Its place in the queue (P14, P19).
        started_at: Its first start, or None.
        status: `queued`, `running` or `waiting`; `paused` stands beside it.
        paused: Its reasons to pause (P31).
        attempt: The current attempt of the handler's own code (P37).
        losses: Invokes lost since the last answer (P38).
        lost_since: When the first of them was lost, or None.
        retry_at: When it is invoked again after a loss or a failed attempt, or None.
        epoch: The current token's epoch; 0 without one.
        number: The current token's number.
        boot: The runner process that has the token.
        results: How many results it has.
        bytes: About how much it holds.
        queued: Whether it stands in its lane.
        lane: The lane in which it is queued, or was last.
        steps: Its steps, by `id\0n`.
        spend: What its AI steps used.
        seq: The seq of the fact that created it.
        scopes: Where it is counted; None where no control may hold it back.
        worked_ms: How long it has executed under tokens that ended.
        since: When its current token began, milliseconds since 1970 UTC; 0 without one.
        exempt: Whether the budget does not hold it (P31).
        waits: Whether `together` lets it wait whatever its flow says: a replay (P40).
        gates: The gate keys under which it is counted while it executes (DESIGN 4).
        joined: Whether steps of other runs wait for its end (P26); few runs are joined,
            so the end of all others need not look for them in the store.
    """

    id: str
    app: str
    workflow: str
    kind: str
    created_at: int
    ready_at: int
    sort_at: int
    started_at: int | None = None
    status: str = QUEUED
    paused: tuple[str, ...] = ()
    attempt: int = 1
    losses: int = 0
    lost_since: int | None = None
    retry_at: int | None = None
    epoch: int = 0
    number: int = 0
    boot: str = ""
    results: int = 0
    bytes: int = 0
    queued: bool = False
    lane: str = ""
    steps: dict[str, StepState] = {}
    spend: Spend | None = None
    seq: int = 0
    scopes: Scopes | None = None
    worked_ms: int = 0
    since: int = 0
    exempt: bool = False
    waits: bool = False
    gates: tuple[str, ...] = ()
    joined: bool = False

    def token(self, partition: int) -> str:
        """Its current token's text."""
        return f"{partition}.{self.epoch}.{self.number}"


class RunInput(msgspec.Struct):
    """What a run began with; it never changes.

    Attributes:
        caller: Who started it.
        events: Its events; the first is `ctx.event`.
        parent: The run whose step invoked it, or None.
        parent_step: That step's id.
        parent_n: Which use of that id.
        parent_attempt: That step's attempt.
        failed_run: The run whose failure it handles, or None.
        error: The error that it handles, or None.
        replay: What it repeats, where it repeats another run, or None.
    """

    caller: Caller
    events: list[Event]
    parent: str | None = None
    parent_step: str | None = None
    parent_n: int = 0
    parent_attempt: int = 0
    failed_run: str | None = None
    error: ErrorInfo | None = None
    replay: Replay | None = None


class Output(msgspec.Struct, array_like=True):
    """A result, by its number: the step's key and its JSON text."""

    step: str
    text: str


class Queued(msgspec.Struct, array_like=True):
    """A place in a workflow's queue."""

    run: str


class Live(msgspec.Struct, array_like=True):
    """An executing run: the runner process that has its token, and that runner's name."""

    boot: str
    name: str


class RegistryRow(msgspec.Struct):
    """One registry entry: at the project slot as it was made, elsewhere as it was applied.

    Attributes:
        version: The version that it was made at.
        body: The entry as JSON text.
        due: At the project slot, when a wait shape is looked at again, or None.
    """

    version: int
    body: str | None
    due: int | None = None


class RegistryHead(msgspec.Struct):
    """The registry's newest version, at the project slot; `gates` as in DESIGN 4.

    Attributes:
        version: The newest version.
        gates: The last version that changed a gate's keys.
        shapes: How many wait shapes there are.
    """

    version: int = 0
    gates: int = 0
    shapes: int = 0


class HeldEvent(msgspec.Struct):
    """An event that waits for its dedupe id, or behind one of its POST.

    Attributes:
        event: The event.
        place: Its place on the log.
        post: The POST it came with, as `id/n`; empty for others.
        asked: Whether its dedupe id's slot was asked.
        first: What that answered; None while it has not, or was not asked.
        first_id: The id of the event that was first, once that is known.
    """

    event: Event
    place: Place
    post: str
    asked: bool
    first: bool | None = None
    first_id: str = ""


class HeldPost(msgspec.Struct, array_like=True):
    """The held events of a POST: how many, and the offset of the one whose turn is next."""

    count: int
    head: int


class Claim(msgspec.Struct, array_like=True):
    """A dedupe id that is taken."""

    event_id: str
    expires_at: int


class Wait(msgspec.Struct, array_like=True):
    """A run that waits for an event, at the wait's place."""

    run: str
    step: str
    n: int


class ShapeWaiter(msgspec.Struct, array_like=True):
    """A run that asked for a shape to be ready."""

    run: str
    step: str
    n: int


class Reported(msgspec.Struct, array_like=True):
    """The registry version that a partition reported."""

    version: int


class Armed(msgspec.Struct, array_like=True):
    """A workflow's next cron tick and the schedule it was computed from."""

    due: int
    schedule: str


class Count(msgspec.Struct, array_like=True):
    """A number of things."""

    count: int


def step_key(step: str, n: int) -> str:
    """A step's key within its run."""
    return f"{step}\0{n}"


def split_step_key(key: str) -> tuple[str, int]:
    """The id and the use that a step's key names."""
    step, _, n = key.rpartition("\0")
    return step, int(n)
