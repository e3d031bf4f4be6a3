"""Parts that several records share."""

import msgspec


class Record(msgspec.Struct, rename="camel", kw_only=True):
    """Root of everything that is written to the log."""


class Cause(Record, kw_only=True, gc=False):
    """What led to a fact: a place on the log, a timer, or a call.

    Attributes:
        kind: A topic's name, `timer`, `call` or `start`.
        partition: The partition of that topic, otherwise -1.
        offset: The offset there; for a timer its due time; otherwise -1.
    """

    kind: str
    partition: int = -1
    offset: int = -1


class FactHeader(Record, kw_only=True, gc=False):
    """What every fact carries, first in its bytes and of one form for ever.

    Attributes:
        slot: Where the fact belongs.
        seq: Its number in its partition, without gaps.
        epoch: The owner that wrote it.
        at: When it was decided, milliseconds since 1970 UTC.
        cause: What led to it.
        registry: The registry version it was decided under.
        last: Whether it is the last of its transition.
        barrier: Whether a program that does not know its type must stop.
    """

    slot: int
    seq: int
    epoch: int
    at: int
    cause: Cause
    registry: int
    last: bool = False
    barrier: bool = True


class Fact(Record, kw_only=True):
    """Root of the journal's records."""

    header: FactHeader | None = None

    @property
    def slot(self) -> int:
        """Where it belongs."""
        assert self.header is not None, "a fact has its header once it is emitted"
        return self.header.slot

    @property
    def seq(self) -> int:
        """Its number in its partition."""
        assert self.header is not None, "a fact has its header once it is emitted"
        return self.header.seq

    @property
    def at(self) -> int:
        """When it was decided, in milliseconds since 1970 UTC."""
        assert self.header is not None, "a fact has its header once it is emitted"
        return self.header.at


class Caller(Record, kw_only=True):
    """Who started something (P53).

    Attributes:
        kind: `key`, `system` or `run`.
        id: The key's name, the system's part, or the run's id.
        root: The caller that the chain of runs began with, as `kind:id`.
    """

    kind: str
    id: str
    root: str


class Place(Record, kw_only=True, gc=False):
    """A place on the log.

    Attributes:
        topic: The topic's name.
        partition: The partition.
        offset: The offset; for events made inside the engine, the fact's seq.
    """

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}/{self.offset}"


class ErrorInfo(Record, kw_only=True):
    """An error as it is stored and shown.

    Attributes:
        message: What it said.
        name: Its type's name.
        stack: The traceback's text, or None.
        code: A stable code where the engine or the SDK gave one.
        final: Whether retrying cannot help (NonRetriableError, P36).
        note: What the SDK adds, for example that a delay was unusable (P35).
    """

    message: str
    name: str = "Error"
    stack: str | None = None
    code: str | None = None
    final: bool = False
    note: str | None = None


class Spend(Record, kw_only=True):
    """What AI steps have used.

    Attributes:
        tokens: Prompt and completion tokens as billed.
        cost: Micro-dollars, as far as prices were known.
        unknown: Whether some usage was not known; it counts 0.
        cost_unknown: Whether some cost was not known; it counts 0.
    """

    tokens: int = 0
    cost: int = 0
    unknown: bool = False
    cost_unknown: bool = False


class StepSpend(Spend, kw_only=True):
    """What one attempt of an AI step used.

    Attributes:
        model: The model, as its answer names it; several are separated by commas.
        prompt: Tokens of the prompt, cached ones included.
        completion: Tokens of the completion.
        cached: Those of the prompt that were read from a cache.
        cache_writes: Those of the prompt that were written to a cache.
        prices: The version of the price table that gave the cost, or None where no
            table did.
    """

    model: str | None = None
    prompt: int = 0
    completion: int = 0
    cached: int = 0
    cache_writes: int = 0
    prices: str | None = None


SPEND_MAX = 2**53 - 1
"""Sums stop here: larger ones could not be told apart in JSON."""


def add_spend(total: Spend | None, spend: Spend) -> Spend:
    """What was used with one more; a new object."""
    if total is None:
        total = Spend()
    return Spend(
        tokens=min(total.tokens + spend.tokens, SPEND_MAX),
        cost=min(total.cost + spend.cost, SPEND_MAX),
        unknown=total.unknown or spend.unknown,
        cost_unknown=total.cost_unknown or spend.cost_unknown,
    )


class Scopes(Record, kw_only=True):
    """Where a run is counted: the scope of each control of its workflow that may hold it back.

    None where the workflow does not state the control. A scope is the key's path, a zero
    character and the key's canonical text; it is empty where the control has no key or
    the path does not resolve (P2, P3).
    """

    concurrency: str | None = None
    throttle: str | None = None
    token_throttle: str | None = None
    together: str | None = None
    singleton: str | None = None


class Claimed(Record, kw_only=True, gc=False):
    """An idempotency key that a start takes (P17).

    Attributes:
        scope: The key's scope.
        until: When it is free again, milliseconds since 1970 UTC.
    """

    scope: str
    until: int


class Rated(Record, kw_only=True, gc=False):
    """An admission that the rate limit counts (P7).

    Attributes:
        scope: The key's scope.
        floor: Admissions at or before this time no longer count, milliseconds since 1970 UTC.
        until: When this one no longer counts.
    """

    scope: str
    floor: int
    until: int


class Throttled(Record, kw_only=True, gc=False):
    """A start that the throttle counts (P5).

    Attributes:
        last: The start's time in nanoseconds since 1970 UTC, its fraction kept so that
            the spacing does not drift.
        next: When the next start is allowed, milliseconds since 1970 UTC.
    """

    last: int
    next: int


class Drained(Record, kw_only=True, gc=False):
    """What a step's AI tokens made of its run's bucket (P32).

    Attributes:
        empty_at: When the bucket's level is 0, nanoseconds since 1970 UTC.
        tokens: The bucket's capacity, which fills in `per_ms`.
        per_ms: See `tokens`.
    """

    empty_at: int
    tokens: int
    per_ms: int
