"""Metering one attempt of an AI step."""

import contextvars
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from duraton.usage import usage_of
from duraton_schemas.cap import TOKENS_MAX
from duraton_schemas.wire.frames import USAGES_MAX, FrameUsage


@dataclass(frozen=True)
class Metering:
    """How an AI step's answer is read.

    Attributes:
        usage: Gives the usage of an answer that does not carry it in a known form.
        parse: Makes the step's output of the answer, once that is metered.
        model: The model, where the answer does not name it.
    """

    usage: Callable[[Any], Any] | None = None
    parse: Callable[[Any], Any] | None = None
    model: str | None = None


class Tally:
    """What one attempt has used so far; step code in several threads may add to it."""

    def __init__(self) -> None:
        self.usages: list[FrameUsage] = []
        self._lock = threading.Lock()

    def add(self, usage: FrameUsage) -> None:
        """Count a call of a model; calls of one model are summed."""
        with self._lock:
            for other in self.usages:
                if other.model == usage.model and (other.cost is None) == (usage.cost is None):
                    _add(other, usage)
                    return
            if len(self.usages) < USAGES_MAX:
                self.usages.append(usage)
                return
            # So many models in one step: the last entry is of several, with no known price.
            last = self.usages[-1]
            last.model = last.cost = None
            _add(last, usage)

    def answered(self, metering: Metering, answer: Any) -> None:
        """Count what an answer says; code that has metered by itself meters alone."""
        if metering.usage is not None or not self.usages:
            self.add(usage_of(answer, metering.usage, metering.model))


tally_var: contextvars.ContextVar[Tally | None] = contextvars.ContextVar(
    "duraton_tally", default=None
)


def _add(total: FrameUsage, usage: FrameUsage) -> None:
    for name in ("tokens", "prompt", "completion", "cached", "cache_writes"):
        setattr(total, name, min(getattr(total, name) + getattr(usage, name), TOKENS_MAX))
    if total.cost is not None:
        total.cost = min(total.cost + (usage.cost or 0), TOKENS_MAX)
    total.unknown = total.unknown or usage.unknown
