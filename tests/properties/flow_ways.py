"""The ways in which flow programs are carried out, by name."""

import asyncio
import random
from dataclasses import dataclass, field
from typing import Any

from crash_points import KILLS, Stop
from flow_compare import both
from flow_engine import Carrying
from flow_programs import make

POINTS = tuple(point for point in KILLS if not point.startswith("commit"))
"""Those that every log passes."""


@dataclass(frozen=True)
class Way:
    """A way.

    Attributes:
        options: Of `Carrying`.
        crashes: Of 100 actions, how many are crashes.
        exact: Whether the outcome is compared with the model's.
        turns: Whether partitions take their turns in an order that is drawn.
        stops: Whether the engine also dies at some point of a transition.
    """

    options: dict[str, Any] = field(default_factory=dict)
    crashes: int = 0
    exact: bool = False
    turns: bool = False
    stops: bool = False

    def make(self, seed, profile=None):
        return make(seed, crashes=self.crashes, profile=profile)

    async def carry_out(self, program):
        if self.exact:
            carrying, model = await both(program, **self.options)
            return carrying, bool(model.ties)
        drawn = random.Random(program.seed)
        options = dict(self.options)
        if self.turns:
            options["order"] = drawn
        if self.stops:
            options["stop"] = Stop(drawn.choice(POINTS), drawn.randint(1, 120))
        return await Carrying(program, **options).go(), False


WAYS = {
    "exact": Way(exact=True),
    "exact-serve": Way({"transport": "serve"}, exact=True),
    "one": Way(crashes=12),
    "twelve": Way({"partitions": 12}, crashes=6),
    "turns": Way({"partitions": 12}, turns=True),
    "stops": Way(crashes=6, stops=True),
    "sqlite": Way({"log": "sqlite"}, crashes=6, stops=True),
    "kafka": Way({"log": "kafka"}, crashes=6),
    "serve": Way({"partitions": 3, "transport": "serve"}, crashes=12),
}


def attempt(way, program):
    """The error with which a program fails, or None."""
    try:
        asyncio.run(WAYS[way].carry_out(program))
    except Exception as error:
        return error
    return None
