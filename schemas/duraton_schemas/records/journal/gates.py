"""Facts of what is counted across workflows: the project's ceiling and groups (DESIGN 4, gates).

A home asks the project slot for places; the project slot counts and grants. A gate key is
`ceiling`, or `group`, the group's name and the key's value.
"""

from duraton_schemas.records.common import Fact, Record


class PlacesAsked(Fact, kw_only=True):
    """At the home: runs of a lane, the first in its order, have asked for places."""

    app: str
    workflow: str
    lane: str
    runs: list[str]


class AskClosed(Fact, kw_only=True):
    """At the home: an ask was answered and no run started by it, or it was taken back.

    Attributes:
        run: The run that it named.
        why: `returned` where nobody could take the place, `full` where there was none,
            `withdrawn` where the run needs none any more.
    """

    app: str
    workflow: str
    run: str
    why: str


class AsksDropped(Fact, kw_only=True):
    """At the home: gate keys have changed, so a workflow's runs ask anew."""

    app: str
    workflow: str


class RunGates(Record, kw_only=True):
    """A run that executes, and the gate keys under which it is counted from here on."""

    run: str
    gates: list[str] = []


class RunsRegated(Fact, kw_only=True):
    """At the home: executing runs are counted by the new gate keys; none is stopped."""

    runs: list[RunGates]


class StartProbed(Fact, kw_only=True):
    """At the home: a start that may be refused waits for the group's word (P28).

    Attributes:
        start: The start, as the engine keeps it, in msgpack.
    """

    app: str
    workflow: str
    start: bytes


class ProbeAnswered(Fact, kw_only=True):
    """At the home: the group has said whether there is room; what follows is decided.

    Attributes:
        number: The seq of the fact `StartProbed`.
    """

    app: str
    workflow: str
    number: int
    full: bool


class AskStood(Fact, kw_only=True):
    """At the project slot: an ask waits.

    Attributes:
        run: The run that it names.
        app: Its app.
        workflow: Its workflow.
        lane: Its lane.
        home: Its home's slot.
        partition: Its home's partition.
        keys: The gate keys that it needs, the group's first.
        line: The key that has no room, before which it stands; empty while counts are
            being reported anew.
        sort: Its sort key, milliseconds since 1970 UTC.
        version: The version of gate keys by which it was made.
        then: As in the message `PlaceAsked`.
        claim: As there.
        number: As there.
    """

    run: str
    app: str
    workflow: str
    lane: str
    home: int
    partition: int
    keys: list[str]
    line: str
    sort: int
    version: int
    then: str = "wait"
    claim: bool = False
    number: int = 0


class AskMoved(Fact, kw_only=True):
    """At the project slot: an ask stands before another key."""

    run: str
    line: str


class AskGone(Fact, kw_only=True):
    """At the project slot: an ask that stood was answered without a place, or taken back."""

    run: str


class PlaceGranted(Fact, kw_only=True):
    """At the project slot: a place is counted under each key; the home is told.

    Attributes:
        run: The run that the ask named, or empty for a start that is not a run yet.
    """

    run: str
    app: str
    workflow: str
    partition: int
    keys: list[str]


class PlacesReleased(Fact, kw_only=True):
    """At the project slot: a place under each key is free."""

    app: str
    workflow: str
    partition: int
    keys: list[str]


class Held(Record, kw_only=True):
    """How many runs of a workflow execute under some gate keys."""

    app: str
    workflow: str
    keys: list[str]
    count: int


class HoldingReported(Fact, kw_only=True):
    """At the project slot: a partition counts by a newer version of the gate keys.

    What was counted for it before is forgotten, and so are its asks, with the first part of
    a report; with the last one it counts by that version.
    """

    partition: int
    version: int
    held: list[Held]
    first: bool = True
    last: bool = True
