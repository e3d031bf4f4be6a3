"""Facts of what controls keep by key: its rates and periods change, and it expires."""

from duraton_schemas.records.common import Fact


class BucketsRated(Fact, kw_only=True):
    """A tokenThrottle's rate has changed; levels are kept (P32)."""

    app: str
    workflow: str
    tokens: int
    per_ms: int


class PeriodsChanged(Fact, kw_only=True):
    """A throttle's or a rate limit's period is another: what was used counts for the new one.

    Attributes:
        throttle_ms: The spacing of starts, or None where there is no throttle.
        rate_ms: The span of the rate limit, or None where there is none.
    """

    app: str
    workflow: str
    throttle_ms: int | None = None
    rate_ms: int | None = None


class KeysExpired(Fact, kw_only=True):
    """What is kept by key and no longer counts is swept, up to a time and a number.

    Attributes:
        until: What expired at or before this time goes, milliseconds since 1970 UTC.
        most: The most keys that are looked at.
    """

    until: int
    most: int
