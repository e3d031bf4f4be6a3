"""The ways in which flow programs are carried out, by name."""

import asyncio
import random
from dataclasses import dataclass, field
from typing import Any

from flow_compare import both
from flow_engine import Carrying
from flow_programs import make


@dataclass(frozen=True)
class Way:
    """A way.

    Attributes:
        options: Of `Carrying`.
        crashes: Of 100 actions, how many are crashes.
        exact: Whether the outcome is compared with the model's.
        turns: Whether partitions take their turns in an order that is drawn.
    """

    options: dict[str, Any] = field(default_factory=dict)
    crashes: int = 0
    exact: bool = False
    turns: bool = False

    def make(self, seed, profile=None):
        return make(seed, crashes=self.crashes, profile=profile)

    async def carry_out(self, program):
        if self.exact:
            carrying, model = await both(program, **self.options)
            return carrying, bool(model.ties)
        order = random.Random(program.seed) if self.turns else None
        return await Carrying(program, order=order, **self.options).go(), False


WAYS = {
    "exact": Way(exact=True),
    "exact-serve": Way({"transport": "serve"}, exact=True),
    "one": Way(crashes=12),
    "twelve": Way({"partitions": 12}, crashes=6),
    "turns": Way({"partitions": 12}, turns=True),
    "serve": Way({"partitions": 3, "transport": "serve"}, crashes=12),
}


def attempt(way, program):
    """The error with which a program fails, or None."""
    try:
        asyncio.run(WAYS[way].carry_out(program))
    except Exception as error:
        return error
    return None
