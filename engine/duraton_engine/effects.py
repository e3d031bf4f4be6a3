"""What the engine hands on once it is committed; plain values, no I/O."""

import msgspec

from duraton_schemas.records.common import Caller, ErrorInfo, StepSpend
from duraton_schemas.wire.frames import Frame


class ToRunner(msgspec.Struct, frozen=True):
    """A frame for the runner process with that boot id; dropped where it is gone."""

    boot: str
    frame: Frame


class Reply(msgspec.Struct, frozen=True):
    """The answer to a command, by its id.

    Attributes:
        id: The command's id.
        ok: Whether it was done.
        run: The run that it changed or made.
        status: That run's status then.
        version: The registry's version, for registrations.
        warnings: What works otherwise than its author may think.
        code: Why it was refused, a stable code.
        message: Why, for people.
        repeated: Whether an earlier request of its dedupe id had done it already.
    """

    id: str
    ok: bool
    run: str | None = None
    status: str | None = None
    version: int = 0
    warnings: tuple[str, ...] = ()
    code: str | None = None
    message: str | None = None
    repeated: bool = False


class CarryWanted(msgspec.Struct, frozen=True):
    """A job asks for the replay of a run: fetch from the view what the run had, and send it.

    It is handed on again after a restart, until the replay is done or refused.

    Attributes:
        job: The job.
        run: The old run.
        caller: Who asked for the job.
    """

    job: str
    run: str
    caller: Caller


class EventAccepted(msgspec.Struct, frozen=True):
    """An event of a POST was recorded, or dropped as a repeat.

    Attributes:
        post: The POST and the event's number in it, as `id/n`.
        event_id: The recorded event's id; of a repeat the first one's.
        homes: The (app, workflow) pairs whose answers follow as `EventAnswered`.
        repeated: Whether it was a repeat of its dedupe id.
    """

    post: str
    event_id: str
    homes: tuple[tuple[str, str], ...]
    repeated: bool = False


class EventAnswered(msgspec.Struct, frozen=True):
    """What one workflow made of an event of a POST.

    Attributes:
        post: As in `EventAccepted`.
        outcome: `run`, `joined`, `buffered`, `dropped`, `deduped`, `skipped`, `refused`, or
            `unknown` where its registration was replaced meanwhile.
        run: The run that it made or joined, or None.
        error: Why the workflow could not take it.
        blocker: The run in its way, or None.
    """

    post: str
    app: str
    workflow: str
    outcome: str
    run: str | None = None
    error: ErrorInfo | None = None
    blocker: str | None = None


class Metered(msgspec.Struct, frozen=True):
    """A call of a model was paid for.

    Attributes:
        app: The app, or empty where the run has ended and nobody knows any more.
        workflow: The workflow, likewise.
        spend: What it used, of one model.
        prices: The version of the price table that was in force.
    """

    app: str
    workflow: str
    spend: StepSpend
    prices: str


class RegistryMoved(msgspec.Struct, frozen=True):
    """This partition has applied the registry up to a version."""

    partition: int
    version: int
