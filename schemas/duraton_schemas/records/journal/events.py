"""Facts of events: held, recorded, their dedupe ids, and cron."""

from duraton_schemas.records.common import Fact, Place, Record
from duraton_schemas.records.public import Event


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
