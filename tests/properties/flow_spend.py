"""What AI costs and holds back, as the seeds say it: windows of spend and buckets of tokens.

Used by the model, and by the checks of what the facts tell.
"""

from fractions import Fraction
from typing import NamedTuple

CENTS = 100
"""In a dollar."""


class Used(NamedTuple):
    """What an attempt used, and when that was recorded."""

    at: int
    tokens: int
    cents: int


def within(spent, floor):
    """Tokens and cents of all that was recorded after a time."""
    later = [used for used in spent if used.at > floor]
    return sum(used.tokens for used in later), sum(used.cents for used in later)


def axes(control):
    """The limits that a cap or a budget sets: whole tokens, exact cents, or None."""
    cost = control.get("maxCost")
    return control.get("maxTokens"), None if cost is None else round(cost * CENTS)


def over(budget, sums):
    """Whether an axis of a budget is crossed (P30)."""
    return any(
        axis is not None and used > axis for axis, used in zip(axes(budget), sums, strict=True)
    )


def reached(cap, sums):
    """Whether an axis of a cap is reached, so that no call is made any more (P29)."""
    return any(
        axis is not None and used >= axis for axis, used in zip(axes(cap), sums, strict=True)
    )


def warns(budget, sums):
    """Whether spend has reached the share that is warned of."""
    pct = budget.get("warnAtPct")
    if pct is None:
        return False
    pairs = zip(axes(budget), sums, strict=True)
    return any(axis is not None and used * 100 >= axis * pct for axis, used in pairs)


class Bucket:
    """A bucket of tokens: full at first, filled evenly, without a bottom (P32).

    Attributes:
        empty: When its level is 0.
    """

    def __init__(self, control, now):
        self.tokens, self.per = control["tokens"], control["perMs"]
        self.empty = Fraction(now - self.per)

    def debit(self, now, tokens):
        full = max(self.empty, now - self.per)
        self.empty = full + Fraction(tokens * self.per, self.tokens)

    def rated(self, now, control):
        """Its level is kept, up to the new capacity."""
        level = min((now - self.empty) * self.tokens / self.per, self.tokens, control["tokens"])
        self.tokens, self.per = control["tokens"], control["perMs"]
        self.empty = now - level * self.per / self.tokens

    @property
    def opens(self):
        """The first millisecond in which its level is above 0."""
        return self.empty.__floor__() + 1

    @property
    def vague(self):
        """Whether parts of a millisecond decide when it opens."""
        off = abs(self.empty - round(self.empty))
        return off < Fraction(1, 1_000) and off != 0
