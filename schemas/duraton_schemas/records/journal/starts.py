"""Facts of starts: what became of those that led to no run of their own, windows, buffers."""

from duraton_schemas.records.common import Caller, Claimed, Fact, Place, Rated
from duraton_schemas.records.public import Event


class StartDeclined(Fact, kw_only=True):
    """A start was asked for and led to no run (P1).

    Attributes:
        app: The app.
        workflow: The workflow.
        outcome: `deduped`, `dropped`, `skipped`, `refused`, or `superseded` where a later
            firing replaced one that was held (P15).
        event_ids: The events that asked.
        places: Their places on the log, in the same order.
        post: The POST that is answered, as `id/n`; empty for others.
        blocker: The run in the way, where one is known.
        parent: The run whose step asked, or None.
    """

    app: str
    workflow: str
    outcome: str
    event_ids: list[str]
    places: list[Place]
    post: str = ""
    blocker: str | None = None
    parent: str | None = None


class StartJoined(Fact, kw_only=True):
    """A start joined a run that had not ended (together seed, P26).

    Attributes:
        app: The app.
        workflow: The workflow.
        run: The run that it joined.
        event_ids: The events that asked.
        places: Their places on the log, in the same order.
        post: The POST that is answered, as `id/n`; empty for others.
        caller: Who asked.
        input_hash: BLAKE2b of the input that was not used, 32 hexadecimal digits.
        parent: The run whose step asked and now waits for the joined run, or None.
        parent_step: That step's id.
        parent_n: Which use of that id.
        parent_attempt: That step's attempt.
    """

    app: str
    workflow: str
    run: str
    event_ids: list[str]
    places: list[Place]
    post: str = ""
    caller: Caller
    input_hash: str
    parent: str | None = None
    parent_step: str | None = None
    parent_n: int = 0
    parent_attempt: int = 0


class WindowSlid(Fact, kw_only=True):
    """An event opened a debounce window, or slid it and replaced its payload.

    Attributes:
        app: The app.
        workflow: The workflow.
        scope: The window's scope.
        event: The event, or None where this partition's journal has it at `place` in the
            same transaction.
        event_id: Its id.
        place: Its place on the log.
        caller: Who sent it.
        due: When the window fires, milliseconds since 1970 UTC.
        opened: Whether it opened the window.
        post: The POST that is answered, as `id/n`.
        idempotency: The idempotency key that it takes, or None.
        rate: The admission that it uses, or None.
    """

    app: str
    workflow: str
    scope: str
    event: Event | None = None
    event_id: str
    place: Place
    caller: Caller
    due: int
    opened: bool
    post: str = ""
    idempotency: Claimed | None = None
    rate: Rated | None = None


class WindowFired(Fact, kw_only=True):
    """A debounce window's quiet period is over; its event is at hand for what follows.

    Attributes:
        held: The gate at which the firing is held (P15), or None where it goes on.
    """

    app: str
    workflow: str
    scope: str
    held: str | None = None


class BufferFilled(Fact, kw_only=True):
    """An event was put into a batch's buffer; fields as in `WindowSlid`.

    Attributes:
        due: When the buffer is flushed at the latest; it is that of its first event.
        bytes: How much the event adds.
    """

    app: str
    workflow: str
    scope: str
    event: Event | None = None
    event_id: str
    place: Place
    caller: Caller
    due: int
    opened: bool
    bytes: int
    post: str = ""
    idempotency: Claimed | None = None
    rate: Rated | None = None


class BufferFlushed(Fact, kw_only=True):
    """A batch's buffer is closed; its events are at hand for what follows.

    Attributes:
        why: `size`, `time`, `bytes` or `removed`.
        held: The gate at which the firing is held (P15), or None where it goes on.
    """

    app: str
    workflow: str
    scope: str
    why: str
    held: str | None = None


class FiringReleased(Fact, kw_only=True):
    """A held firing goes on, or is given up; its events are at hand for what follows.

    Attributes:
        gate: The gate at which it was held.
        number: Its number there.
    """

    app: str
    workflow: str
    gate: str
    number: int


class FiringHeld(Fact, kw_only=True):
    """A firing that was released is held at another gate; its events are at hand.

    Attributes:
        gate: The gate.
        kind: `debounce` or `batch`.
        scope: The scope of its window or buffer.
        first: The place of the event that opened that.
        opened_at: When it was opened, milliseconds since 1970 UTC.
        fired_at: When it fired, milliseconds since 1970 UTC.
        places: The places of its events.
        callers: Who sent each.
    """

    app: str
    workflow: str
    gate: str
    kind: str
    scope: str
    first: Place
    opened_at: int
    fired_at: int
    places: list[Place]
    callers: list[Caller]
