"""What one slot tells another, by way of `duraton.messages` or within one transaction."""

from duraton_schemas.records.common import Caller, ErrorInfo, Place, Record
from duraton_schemas.records.public import Event


class Envelope(Record, kw_only=True):
    """Who sends a message to whom; first in every message's bytes.

    Attributes:
        source: The slot that sends.
        target: The slot that is told.
        reply_to: The slot that an answer goes to, or -1.
        partition: The sender's partition.
        seq: The sender's fact seq when it was sent.
        registry: The registry version that the sender had applied.
        at: When it was sent, milliseconds since 1970 UTC.
    """

    source: int
    target: int
    reply_to: int = -1
    partition: int
    seq: int
    registry: int
    at: int


class Message(Record, kw_only=True):
    """Root of the messages."""

    envelope: Envelope | None = None


class EventOffered(Message, kw_only=True):
    """An event for one workflow that it matches; to the workflow's home.

    Attributes:
        app: The app.
        workflow: The workflow.
        event: The event, or None where the target is in the sender's partition.
        event_id: The event's id.
        place: The event's place on the log.
        post: The POST it came with and its number there, as `id/n`; empty for others.
        caller: Who acts.
    """

    app: str
    workflow: str
    event: Event | None = None
    event_id: str
    place: Place
    post: str = ""
    caller: Caller


class DedupeAsked(Message, kw_only=True):
    """Asks the dedupe id's slot whether an event is the first; answered to `reply_to`."""

    dedupe_id: str
    event_id: str
    place: Place


class DedupeAnswered(Message, kw_only=True):
    """Whether the event at a place is the first of its dedupe id.

    Attributes:
        place: The event's place.
        first: Whether it is the first.
        first_id: The id of the event that was first.
    """

    place: Place
    first: bool
    first_id: str


class ChildAsked(Message, kw_only=True):
    """`ctx.step.invoke`: start a run for a step of another; to the child's home."""

    app: str
    workflow: str
    data: str
    parent: str
    step: str
    n: int
    attempt: int
    caller: Caller


class ChildStarted(Message, kw_only=True):
    """The child exists; to the parent's slot.

    Attributes:
        joined: Whether the step joined a run that was there before.
    """

    parent: str
    step: str
    n: int
    attempt: int
    child: str
    joined: bool = False


class ChildEnded(Message, kw_only=True):
    """The child ended, or could not start; to the parent's slot.

    Attributes:
        child: The child's id, or None where it could not start.
        status: `completed`, `failed`, `cancelled` or `refused`.
    """

    parent: str
    step: str
    n: int
    attempt: int
    child: str | None
    status: str
    output: str | None = None
    error: ErrorInfo | None = None


class ChildCancelled(Message, kw_only=True):
    """The parent was cancelled, or its step ended; to the child's slot (P54)."""

    child: str
    parent: str


class WaitAsked(Message, kw_only=True):
    """A run waits for an event; to the slot of (event name, path, value)."""

    run: str
    step: str
    n: int
    name: str
    path: str
    value: str


class WaitPlaced(Message, kw_only=True):
    """The wait stands at its place; to the run's slot.

    Attributes:
        run: The run's id.
        step: The step's id.
        n: Which use of that id.
        known: Whether the shape is ready as the place's partition knows it; if not, it
            may have been retired since the run's partition looked.
    """

    run: str
    step: str
    n: int
    known: bool = True


class WaitEnded(Message, kw_only=True):
    """The run no longer waits; to the wait's slot."""

    run: str
    step: str
    n: int
    name: str
    path: str
    value: str


class EventPassed(Message, kw_only=True):
    """An event that somebody may wait for; to the slot of (event name, path, value)."""

    name: str
    path: str
    value: str
    event: Event
    place: Place


class WaitMatched(Message, kw_only=True):
    """The first matching event after the wait's place; to the run's slot."""

    run: str
    step: str
    n: int
    event: Event
    place: Place


class ShapeAsked(Message, kw_only=True):
    """A run waits by a shape that may be new; to the project slot."""

    name: str
    path: str
    run: str
    step: str
    n: int


class ShapeReady(Message, kw_only=True):
    """Every partition sends events of the shape; to the run's slot."""

    run: str
    step: str
    n: int


class ShapeRefused(Message, kw_only=True):
    """The shape cannot be registered, so the wait fails; to the run's slot."""

    run: str
    step: str
    n: int
    error: ErrorInfo


class ShapeReported(Message, kw_only=True):
    """Whether anybody waits by a retiring shape in a partition's slots; to the project slot.

    Attributes:
        key: The shape's key in the registry.
        reporter: The partition.
        version: The registry version of the retiring.
        waits: Whether anybody does.
    """

    key: str
    reporter: int
    version: int
    waits: bool


class RegistryReported(Message, kw_only=True):
    """A partition has applied the registry up to a version; to the project slot."""

    reporter: int
    version: int


class PlaceAsked(Message, kw_only=True):
    """A run could start but for the gates; to the project slot (DESIGN 4).

    Attributes:
        run: The run, or empty for a start that is probed or a firing that is held.
        app: Its app.
        workflow: Its workflow.
        lane: Its lane; of a firing the gate at which it is held, of a probe empty.
        keys: The gate keys that it needs, the group's first.
        sort: Its sort key, milliseconds since 1970 UTC.
        version: The version of gate keys by which it asks.
        then: `wait`, `stop`, `refuse` for a start that is probed, `hold` for a firing.
        claim: Of a probe or a firing, whether it takes the place that it finds.
        number: Of a probe or a firing, its number at the home.
    """

    run: str
    app: str
    workflow: str
    lane: str
    keys: list[str]
    sort: int
    version: int
    then: str = "wait"
    claim: bool = False
    number: int = 0


class PlaceAnswered(Message, kw_only=True):
    """What the project slot says to an ask; to the home.

    Attributes:
        run: The run that asked, or empty for a start that is probed or a firing that is held.
        app: Its app.
        workflow: Its workflow.
        lane: As it was asked.
        keys: The gate keys that were asked for.
        version: The version of gate keys by which it was asked.
        answer: `grant`, `full`, or to a probe or a firing also `room`.
        number: As it was asked.
    """

    run: str
    app: str
    workflow: str
    lane: str
    keys: list[str]
    version: int
    answer: str
    number: int = 0


class AskWithdrawn(Message, kw_only=True):
    """The run that asked ended, was paused, or started by another's grant; to the project slot."""

    run: str


class PlaceReturned(Message, kw_only=True):
    """A run no longer executes, or a grant was of no use; to the project slot.

    Attributes:
        app: Its app.
        workflow: Its workflow.
        keys: The gate keys under which it was counted.
        serve: Whether who waits is looked at; otherwise the home asks for more, and then
            sends `PlacesFree`.
    """

    app: str
    workflow: str
    keys: list[str]
    serve: bool = True


class PlacesFree(Message, kw_only=True):
    """All is asked for that came of what was returned under these keys; to the project slot."""

    keys: list[str]


class Holding(Record, kw_only=True):
    """How many runs of a workflow execute under some gate keys."""

    app: str
    workflow: str
    keys: list[str]
    count: int


class HoldingTold(Message, kw_only=True):
    """A partition counts by a newer version of the gate keys; to the project slot.

    Attributes:
        reporter: The partition.
        version: The version.
        held: What executes there, or a part of it.
        first: Whether it is the first part.
        last: Whether it is the last one.
    """

    reporter: int
    version: int
    held: list[Holding]
    first: bool = True
    last: bool = True


class JobRunAsked(Message, kw_only=True):
    """A job acts on a run; to the run's slot.

    Attributes:
        job: The job.
        act: `replay` or `cancel`.
        run: The run.
        caller: Who asked for the job.
        reason: Why, for people, or None.
    """

    job: str
    act: str
    run: str
    caller: Caller
    reason: str | None = None


class JobRunDone(Message, kw_only=True):
    """What became of a run that a job acted on; to the project slot.

    Attributes:
        job: The job.
        run: The run.
        made: The new run, where one was made.
        code: Why it could not be acted on, or None where it was.
        message: As `code`, for people.
    """

    job: str
    run: str
    made: str | None = None
    code: str | None = None
    message: str | None = None
