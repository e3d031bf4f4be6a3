"""Facts of AI budgets: what is held over the whole workflow, in one fact each (P30)."""

from duraton_schemas.records.common import Fact


class BudgetTicked(Fact, kw_only=True):
    """A workflow's spend in its window was looked at.

    Attributes:
        floor: Spend of this second and of those before no longer counts, in seconds since
            1970 UTC.
        next: When it is looked at again, milliseconds since 1970 UTC, or None where only
            new spend can change anything.
    """

    app: str
    workflow: str
    floor: int
    next: int | None = None


class WorkflowHeld(Fact, kw_only=True):
    """A workflow's spend is over its budget: its runs rest until it is not.

    Runs that execute finish their step. Nothing is written per run.

    Attributes:
        axis: `maxTokens` or `maxCost`, whichever was crossed; of both the first.
        tokens: Tokens spent in the window.
        cost: Micro-dollars spent in the window.
    """

    app: str
    workflow: str
    axis: str
    tokens: int
    cost: int


class WorkflowReleased(Fact, kw_only=True):
    """A workflow's spend is within its budget again, or it has none any more."""

    app: str
    workflow: str
    tokens: int
    cost: int


class BudgetWarned(Fact, kw_only=True):
    """A workflow's spend has crossed `warnAtPct` upwards, or has sunk below it again.

    Attributes:
        over: Which of the two; an event tells of the first.
    """

    app: str
    workflow: str
    over: bool
    tokens: int
    cost: int
