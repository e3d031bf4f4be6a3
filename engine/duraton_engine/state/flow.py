"""The objects of flow control's state. They are changed by appliers only."""

import msgspec

from duraton_schemas.records.common import Caller, Place
from duraton_schemas.records.public import Event

RUNNER = "runner"
"""The gate that room at a runner is."""
PROJECT = "project"
"""The gate that the project's ceiling and groups are, which the project slot opens."""
UNSEEN = ""
"""The gate at which lanes stand that have to be looked at."""
NS_PER_MS = 1_000_000
"""Nanoseconds of a millisecond: starts and levels keep fractions that no clock tells."""
_MILLIONTHS = 1_000_000
"""Millionths of a token in one."""


class Lane(msgspec.Struct, array_like=True):
    """A workflow's queued runs that no gate tells apart.

    Attributes:
        gate: What holds its first run back.
        sort: Its place in that gate's line: a sort key.
        seq: Its place among equal sort keys.
        head: Its first run.
        count: How many runs it has.
    """

    gate: str
    sort: int
    seq: int
    head: str
    count: int


class Standing(msgspec.Struct, array_like=True):
    """A lane's place in a gate's line."""

    lane: str


class GateTimer(msgspec.Struct, array_like=True):
    """When a gate before which lanes stand opens by itself."""

    due: int


class Throttle(msgspec.Struct, array_like=True):
    """The last start in a throttle's scope.

    Attributes:
        last: Its time in nanoseconds since 1970 UTC, its fraction kept (P5).
        next: When the next was allowed as it started, milliseconds since 1970 UTC.
        keep: Until when it counts by a period that was stated since; 0 where none was.
    """

    last: int
    next: int
    keep: int = 0


class Bucket(msgspec.Struct, array_like=True):
    """A bucket of AI tokens (P32).

    Attributes:
        empty_at: When its level is 0, nanoseconds since 1970 UTC; in the past it has tokens.
        tokens: Its capacity, and with `per_ms` the rate at which it fills.
        per_ms: See `tokens`.
    """

    empty_at: int
    tokens: int
    per_ms: int

    @property
    def opens_at(self) -> int:
        """The first millisecond since 1970 UTC in which its level is above 0."""
        return self.empty_at // NS_PER_MS + 1

    @property
    def full_at(self) -> int:
        """When it is full if nothing more is taken out, milliseconds since 1970 UTC."""
        return self.empty_at // NS_PER_MS + self.per_ms

    def level(self, now: int) -> int:
        """Its level in whole tokens, below 0 in debt, at a time in ms since 1970 UTC."""
        filled = (now * NS_PER_MS - self.empty_at) * self.tokens // (self.per_ms * NS_PER_MS)
        return min(self.tokens, filled)

    def rated(self, tokens: int, per_ms: int, now: int) -> "Bucket":
        """The bucket under a new rate: its level is kept, up to the new capacity (P32).

        Args:
            tokens: The new capacity.
            per_ms: In which time that fills.
            now: From when on, milliseconds since 1970 UTC.
        """
        now_ns = now * NS_PER_MS
        # Levels in millionths of a token: a nanosecond fills tokens / per_ms of them.
        level = (now_ns - self.empty_at) * self.tokens // self.per_ms
        level = min(level, min(self.tokens, tokens) * _MILLIONTHS)
        return Bucket(now_ns - level * per_ms // tokens, tokens, per_ms)


class Rate(msgspec.Struct, array_like=True):
    """The admissions of a rate limit's scope (P7).

    Attributes:
        count: How many rows stand in `ADMISSIONS`.
        until: When the newest of them no longer counts.
    """

    count: int
    until: int


class Mark(msgspec.Struct, array_like=True):
    """A row whose meaning is all in its key."""


MARK = Mark()


class KeyClaim(msgspec.Struct, array_like=True):
    """An idempotency key that is taken until a time."""

    until: int


class Late(msgspec.Struct, array_like=True):
    """A run that ended while it executed.

    Attributes:
        app: Its app.
        workflow: Its workflow.
        scope: The scope of its bucket of AI tokens, or None.
        until: Until when what it used still counts, milliseconds since 1970 UTC.
    """

    app: str
    workflow: str
    scope: str | None
    until: int


class RunRef(msgspec.Struct, array_like=True):
    """A run, found by a key of its own."""

    run: str


class Parent(msgspec.Struct, array_like=True):
    """A step that waits for the end of a run that it joined."""

    run: str
    step: str
    n: int
    attempt: int


class Taken(msgspec.Struct, array_like=True):
    """An event that a window or a buffer holds."""

    event: Event
    place: Place
    caller: Caller


class Window(msgspec.Struct):
    """A debounce window.

    Attributes:
        taken: Its newest event.
        first: The place of the event that opened it; the run's id comes from it.
        opened_at: When it was opened, milliseconds since 1970 UTC.
        due: When it fires.
        count: How many events came into it.
    """

    taken: Taken
    first: Place
    opened_at: int
    due: int
    count: int


class Buffer(msgspec.Struct):
    """A batch's open buffer.

    Attributes:
        first: The place of the event that opened it; the run's id comes from it.
        opened_at: When it was opened, milliseconds since 1970 UTC.
        due: When it is flushed at the latest.
        count: How many events it holds.
        bytes: How much they hold.
    """

    first: Place
    opened_at: int
    due: int
    count: int
    bytes: int


class Firing(msgspec.Struct):
    """A fired window or flushed buffer that is held (P15).

    Attributes:
        kind: `debounce` or `batch`.
        scope: The window's or buffer's scope.
        first: As in `Window`.
        opened_at: As in `Window`.
        fired_at: When it fired, milliseconds since 1970 UTC.
        events: Its events.
    """

    kind: str
    scope: str
    first: Place
    opened_at: int
    fired_at: int
    events: list[Taken]


class Number(msgspec.Struct, array_like=True):
    """Where a held firing stands: its gate and its number there."""

    gate: str
    number: int


class Ask(msgspec.Struct):
    """An ask that waits at the project slot; fields as in the fact `AskStood`."""

    app: str
    workflow: str
    lane: str
    home: int
    partition: int
    keys: tuple[str, ...]
    line: str
    sort: int
    seq: int
    version: int
    then: str
    claim: bool
    number: int


class Probe(msgspec.Struct, array_like=True):
    """A start that waits for its group's word, in msgpack."""

    start: bytes


class ProbedStart(msgspec.Struct, array_like=True):
    """What of a start is kept while it waits; fields as in `take_start.Start`."""

    events: list[Taken]
    caller: Caller
    origin: str
    post: str
    parent: str | None
    step: str | None
    n: int
    attempt: int
    tick: int | None


class Spent(msgspec.Struct, array_like=True):
    """What a workflow's AI steps used in a second, or an old hour: tokens and micro-dollars."""

    tokens: int
    cost: int


class Spending(msgspec.Struct):
    """A workflow's spend in its budget's window.

    Attributes:
        tokens: Tokens of the seconds above `floor`.
        cost: Their micro-dollars.
        floor: Spend of this second since 1970 UTC and before does not count.
        held: Whether the workflow is held.
        warned: Whether it has been warned of, and not sunk below since.
        due: When it is looked at next, milliseconds since 1970 UTC, or None.
        folded: Spend up to this second since 1970 UTC is kept by the hour.
    """

    tokens: int = 0
    cost: int = 0
    floor: int = 0
    held: bool = False
    warned: bool = False
    due: int | None = None
    folded: int = 0
