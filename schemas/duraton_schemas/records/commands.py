"""What the API asks of a slot. Each is a record of `duraton.commands` at its target's slot."""

from duraton_schemas.records.acts import CarriedEvent, CarriedStep
from duraton_schemas.records.common import Caller, Record


class Command(Record, kw_only=True):
    """Root of the commands.

    Attributes:
        id: The request's id, by which its answer is found.
        caller: Who asks.
    """

    id: str
    caller: Caller


class RegisterApp(Command, kw_only=True):
    """Register an app's workflows, all or nothing; goes to the project slot.

    Attributes:
        app: The app's name.
        body: `AppOptions` as JSON text.
    """

    app: str
    body: str


class SetPrices(Command, kw_only=True):
    """Put a price table in the place of the one in force; goes to the project slot.

    Attributes:
        body: `PriceTable` as JSON text.
    """

    body: str


class CancelRun(Command, kw_only=True):
    """End a run as cancelled."""

    run: str
    reason: str | None = None


class PauseRun(Command, kw_only=True):
    """Let a run begin nothing until it is resumed."""

    run: str


class ResumeRun(Command, kw_only=True):
    """Take every reason to pause from a run (P31)."""

    run: str


class SetProject(Command, kw_only=True):
    """Change what holds for the whole project; goes to the project slot.

    Attributes:
        ceiling: How many runs execute at once in the whole project; 0 for no limit.
    """

    ceiling: int


class CarryRun(Command, kw_only=True):
    """Keep a part of what a run that is to be repeated had, for the act that follows.

    Attributes:
        run: The old run; its slot is also the new one's.
        request: Whose part it is; the act names it.
        part: Which part, from 0, in order.
        events: Its events, in order.
        steps: The completed items that are carried, in the order of their results.
    """

    run: str
    request: str
    part: int
    events: list[CarriedEvent] = []
    steps: list[CarriedStep] = []


class ReplayRun(Command, kw_only=True):
    """Make a fresh run of what was carried for `request`.

    Attributes:
        run: The old run.
        request: What was carried.
        parts: How many parts there are.
        app: The old run's app.
        workflow: Its workflow.
        tick: The cron tick that it was for, or None.
        step: The step to begin again with, or None: the first.
        n: Which use of that step's id.
        input: What that step is given in place of its own input, as JSON text, or None.
        dedupe_id: By which the same request is known again within 24 h, or None.
        job: The job that it is for, or None.
    """

    run: str
    request: str
    parts: int
    app: str
    workflow: str
    tick: int | None = None
    step: str | None = None
    n: int = 0
    input: str | None = None
    dedupe_id: str | None = None
    job: str | None = None


class RefuseReplay(Command, kw_only=True):
    """A job's replay of a run cannot be, by what the view knows of the run."""

    run: str
    job: str
    code: str
    message: str


class AddJobRuns(Command, kw_only=True):
    """Ids of the runs that a job will be about, in order; goes to the project slot.

    Attributes:
        job: The job.
        part: Which part of them, from 0, in order.
        runs: The ids.
    """

    job: str
    part: int
    runs: list[str]


class StartJob(Command, kw_only=True):
    """Begin a job over the runs that were added to it; goes to the project slot.

    Attributes:
        job: The job.
        act: `replay` or `cancel`.
        filter: The filter that chose the runs, as JSON text.
        parts: How many parts of ids there are.
        total: How many runs.
        reason: Why, for people, or None.
    """

    job: str
    act: str
    filter: str
    parts: int
    total: int
    reason: str | None = None


class StopJob(Command, kw_only=True):
    """Let a job begin no further batch; goes to the project slot."""

    job: str
