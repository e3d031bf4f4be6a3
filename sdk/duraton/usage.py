"""What a model's answer says it used: OpenAI's and Anthropic's forms, mappings and objects (P29).

Nothing here raises, whatever an answer is like: the call is paid for by then, and its
step is not to fail, and to be paid for again, because of a count.
"""

import logging
import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from duraton_schemas.cap import DOLLARS_MAX, MICROS, TOKENS_MAX
from duraton_schemas.wire.frames import FrameUsage

_log = logging.getLogger("duraton")

MODEL_LENGTH_MAX = 200


@dataclass(frozen=True, kw_only=True)
class Usage:
    """What a call of a model used, where its answer does not say it in a known form.

    Attributes:
        prompt_tokens: Tokens of the prompt, cached ones included.
        completion_tokens: Tokens of the completion.
        cached_tokens: Those of the prompt that were read from a cache.
        cache_write_tokens: Those of the prompt that were written to a cache.
        model: The model, for its price.
        cost: Dollars, where you know better than the price table.
    """

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    model: str | None = None
    cost: float | None = None


def usage_of(
    answer: Any, usage: Callable[[Any], Any] | None = None, model: str | None = None
) -> FrameUsage:
    """What an answer used; what it does not say counts 0 and is flagged.

    Args:
        answer: A model's answer.
        usage: Gives its usage, which may then state a `cost` in dollars; None reads
            the answer's own `usage`.
        model: The model, where neither the usage nor the answer names it.
    """
    try:
        found = _get(answer, "usage") if usage is None else usage(answer)
        read = _read(found, stated=usage is not None)
        read.model = read.model or _model(_get(answer, "model")) or _model(model)
    except Exception:  # noqa: BLE001 - answers are of any kind, and so is the user's `usage`
        _log.warning("what a model's answer used cannot be read; it counts 0", exc_info=True)
        return FrameUsage(unknown=True, model=_model(model))
    return read


def usage_itself(usage: Any) -> FrameUsage:
    """What was used, by an answer or by a usage itself; as `usage_of`."""
    if _holds_usage(usage):
        return usage_of(usage, lambda found: found)
    return usage_of(usage)


def _holds_usage(found: Any) -> bool:
    names = ("prompt_tokens", "input_tokens", "completion_tokens", "output_tokens", "total_tokens")
    try:
        return any(_get(found, name) is not None for name in names)
    except Exception:  # noqa: BLE001 - as in `usage_of`, which then says so
        return False


class _Counts:
    """Reads the counts of a usage; `odd` is set where one is none."""

    def __init__(self, usage: Any) -> None:
        self.usage = usage
        self.odd = False

    def first(self, *names: str) -> int | None:
        """The first of these counts that is there, or None."""
        for name in names:
            holder = self.usage
            *outer, name = name.split(".")  # noqa: PLW2901 - its last part
            for part in outer:
                holder = _get(holder, part)
            value = _get(holder, name)
            if value is not None:
                return self._count(value)
        return None

    def _count(self, value: Any) -> int:
        whole = int(value) if isinstance(value, float) and value.is_integer() else value
        try:
            count = -1 if isinstance(whole, bool) else operator.index(whole)
        except TypeError:
            count = -1
        if not 0 <= count <= TOKENS_MAX:
            self.odd = True
            return 0
        return count


def _read(usage: Any, *, stated: bool) -> FrameUsage:
    if usage is None:
        return FrameUsage(unknown=True)
    counts = _Counts(usage)
    cached = counts.first(
        "prompt_tokens_details.cached_tokens",
        "input_tokens_details.cached_tokens",
        "cache_read_input_tokens",
        "cached_tokens",
    )
    writes = counts.first("cache_creation_input_tokens", "cache_write_tokens")
    prompt = counts.first("prompt_tokens")
    if prompt is None:
        # Anthropic's cache counts stand beside its `input_tokens`; all others are part
        # of the prompt already.
        prompt = counts.first("input_tokens") or 0
        prompt += counts.first("cache_read_input_tokens") or 0
        prompt += counts.first("cache_creation_input_tokens") or 0
    prompt = min(prompt, TOKENS_MAX)
    completion = counts.first("completion_tokens", "output_tokens") or 0
    total = prompt + completion or counts.first("total_tokens") or 0
    cost = _micros(_get(usage, "cost"), counts) if stated else None
    cached = min(cached or 0, prompt)
    return FrameUsage(
        model=_model(_get(usage, "model")) if stated else None,
        tokens=min(total, TOKENS_MAX),
        prompt=prompt,
        completion=completion,
        cached=cached,
        cache_writes=min(writes or 0, prompt - cached),
        cost=cost,
        unknown=counts.odd or (not total and not _holds_usage(usage)),
    )


def _micros(dollars: Any, counts: _Counts) -> int | None:
    """Dollars as whole micro-dollars, rounded up as the price table does."""
    if dollars is None:
        return None
    try:
        amount = -1.0 if isinstance(dollars, (bool, str)) else float(dollars)
    except (TypeError, ValueError, OverflowError):
        amount = -1.0
    if not 0 <= amount <= DOLLARS_MAX:
        counts.odd = True
        return None
    # The third place swallows what is only the float's own inexactness.
    return math.ceil(round(amount * MICROS, 3))


def _model(name: Any) -> str | None:
    if not isinstance(name, str) or not name:
        return None
    return name.encode("utf-8", "backslashreplace").decode()[:MODEL_LENGTH_MAX]


def _get(holder: Any, name: str) -> Any:
    if holder is None:
        return None
    if isinstance(holder, Mapping):
        return holder.get(name)
    return getattr(holder, name, None)
