"""Facts of waiting: before which gates lanes stand, when those open, where runs are counted."""

from duraton_schemas.records.common import Fact, Record, Scopes


class LaneMoved(Fact, kw_only=True):
    r"""The runs of a lane wait at another gate.

    A lane is the queue of a workflow's runs that no gate tells apart. A gate is a control
    and a scope, as `control\0scope`; `runner` is room at a runner; the empty one is where
    lanes wait to be looked at.

    Attributes:
        lane: The lane.
        gate: The gate.
        due: When it opens at the earliest, or None where no time opens it.
        sort: The lane's place in the gate's line, milliseconds since 1970 UTC.
    """

    app: str
    workflow: str
    lane: str
    gate: str
    due: int | None = None
    sort: int


class GateArmed(Fact, kw_only=True):
    """A gate before which runs wait opens at another time than was thought."""

    app: str
    workflow: str
    gate: str
    due: int | None = None


class LanesReviewed(Fact, kw_only=True):
    """What a workflow states has changed: all its lanes are looked at anew (P20)."""

    app: str
    workflow: str


class RunScopes(Record, kw_only=True):
    """A run and where it is counted from here on."""

    run: str
    scopes: Scopes | None = None


class RunsRescoped(Fact, kw_only=True):
    """A workflow's keys have changed: its unended runs are counted by the new ones (P20)."""

    app: str
    workflow: str
    runs: list[RunScopes]
