"""Delays between attempts (retries seed, P33 to P35)."""

import msgspec

from duraton_schemas.duration import RETRY_AFTER_MS_MAX
from duraton_schemas.options import Retry
from duraton_schemas.wire.frames import FrameError

BACKOFF_MS_MAX = 100 * 366 * 86_400_000
"""A hundred years, however large a policy's numbers are: times have to be written."""


def backoff_ms(policy: Retry, attempt: int) -> int:
    """The delay after a failed attempt, in milliseconds, without jitter.

    Args:
        policy: The policy.
        attempt: The attempt that failed, from 1.
    """
    if policy.backoff == "linear":
        delay = policy.initial_delay_ms * attempt
    elif policy.backoff == "exponential":
        # Doubling stops once the cap is reached, so that nothing overflows (P33).
        doublings = min(attempt - 1, policy.max_delay_ms.bit_length())
        delay = policy.initial_delay_ms << doublings
    else:
        delay = policy.initial_delay_ms
    return min(delay, policy.max_delay_ms, BACKOFF_MS_MAX)


def next_attempt_at(policy: Retry, attempt: int, error: FrameError, now: int) -> int | None:
    """When the next attempt is due, or None where there is none.

    Args:
        policy: The policy.
        attempt: The attempt that failed, from 1.
        error: What it failed with.
        now: The engine's time, milliseconds since 1970 UTC.
    """
    if error.final or attempt >= policy.max_attempts:
        return None
    if error.retry_at is not None:
        return max(now, min(error.retry_at, now + RETRY_AFTER_MS_MAX))
    if error.retry_after_ms is not None:
        return now + max(0, min(error.retry_after_ms, RETRY_AFTER_MS_MAX))
    return now + backoff_ms(policy, attempt)


def read_policy(text: str) -> Retry:
    """A step's own policy; fields left out take the general defaults (P34)."""
    return msgspec.json.decode(text, type=Retry)
