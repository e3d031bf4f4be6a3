"""Acts on runs that have ended, and on many runs: what they carry, and the facts they make.

The facts are of the journal like those of `journal`; they stand apart because an act
is an idea of its own. What an ended run had is no longer in the state of its partition:
whoever acts reads it from the view and sends it ahead, in parts (DESIGN 9).
"""

from duraton_schemas.records.common import Caller, Fact, Place, Record
from duraton_schemas.records.public import Event


class CarriedEvent(Record, kw_only=True):
    """An event of the old run, and its place on the log."""

    event: Event
    place: Place


class CarriedStep(Record, kw_only=True):
    """A completed item of the old run that the new one begins with.

    Its number in the new run is its place among all that are carried, from 1. What it
    used is not carried: it is no spend of the new run (P29).

    Attributes:
        step: Its id.
        n: Which use of that id.
        kind: `run`, `sleep`, `wait`, `invoke`, `send` or `ai`.
        attempt: The attempt that succeeded.
        seen: How many results the handler had when it called it.
        output: What the handler sees, as JSON text.
    """

    step: str
    n: int
    kind: str
    attempt: int
    seen: int
    output: str


class Replay(Record, kw_only=True):
    """What a run that repeats another was made from, part of the fact that creates it.

    Attributes:
        of: The old run.
        step: The step that it begins again with, or None: from its first step.
        n: Which use of that step's id.
        input: What that step is given in place of its own input, as JSON text, or None.
        request: What was carried for it.
        results: How many results it begins with.
        job: The job that asked for it, or None.
        dedupe_id: By which the same request is known again, or None.
        expires_at: Until when, in milliseconds since 1970 UTC, or None.
    """

    of: str
    step: str | None = None
    n: int = 0
    input: str | None = None
    request: str
    results: int = 0
    job: str | None = None
    dedupe_id: str | None = None
    expires_at: int | None = None


class RunCarried(Fact, kw_only=True):
    """A part of what a new run will begin with is kept until the act that names it.

    Attributes:
        request: Whose part it is.
        of: The old run.
        part: Which part, from 0.
        events: Events of the old run, in order.
        steps: Completed items of the old run, in the order of their results.
        due: When it is dropped where no act has come, milliseconds since 1970 UTC.
    """

    request: str
    of: str
    part: int
    events: list[CarriedEvent] = []
    steps: list[CarriedStep] = []
    due: int


class CarryDropped(Fact, kw_only=True):
    """What was carried for a request is gone: its act was refused, or did not come."""

    request: str


class ReplayDeduped(Fact, kw_only=True):
    """A dedupe id of a replay is past its time."""

    of: str
    dedupe_id: str


class ReplayWanted(Fact, kw_only=True):
    """A job asks for the replay of a run; what the run had is fetched from the view."""

    job: str
    of: str
    caller: Caller


class ReplayRefused(Fact, kw_only=True):
    """The replay that a job asked for cannot be; the job is told."""

    job: str
    of: str
    code: str
    message: str


class JobRunsAdded(Fact, kw_only=True):
    """Ids of the runs that a job is about, in order.

    Attributes:
        job: The job.
        part: Which part of them, from 0.
        runs: The ids.
        due: When they are dropped where the job has not begun, milliseconds since 1970 UTC.
    """

    job: str
    part: int
    runs: list[str]
    due: int


class JobStarted(Fact, kw_only=True):
    """A job begins: its runs are fixed from here on (P57).

    Attributes:
        job: The job.
        act: `replay` or `cancel`.
        filter: The filter that chose the runs, as JSON text.
        total: How many runs.
        caller: Who asked.
        reason: Why, for people, or None.
    """

    job: str
    act: str
    filter: str
    total: int
    caller: Caller
    reason: str | None = None


class JobBatchSent(Fact, kw_only=True):
    """The next runs of a job are acted on.

    Attributes:
        job: The job.
        part: The part of its ids that they are of.
        first: The first of them within the part.
        count: How many.
    """

    job: str
    part: int
    first: int
    count: int


class JobRunReported(Fact, kw_only=True):
    """A job knows what became of one of its runs.

    Attributes:
        job: The job.
        of: The run.
        made: The new run, where one was made.
        code: Why it could not be acted on, or None where it was.
        message: As `code`, for people.
    """

    job: str
    of: str
    made: str | None = None
    code: str | None = None
    message: str | None = None


class JobStopAsked(Fact, kw_only=True):
    """A job begins no further batch."""

    job: str
    caller: Caller


class JobEnded(Fact, kw_only=True):
    """A job is over.

    Attributes:
        job: The job.
        status: `completed`; `stopped` where it was stopped.
    """

    job: str
    status: str


class JobDropped(Fact, kw_only=True):
    """The ids of a job that was never begun are gone."""

    job: str
