"""Workflows that are deployed anew while the engines follow each other.

With ENGINES_LATE set, the debounce is gone, which lets go what it gathered, and the budget
is raised, which lets go what it held.
"""

import os

from engine_flows import brief, usage

from duraton import App, define_workflow
from duraton.context import StepContext

LATE = "ENGINES_LATE" in os.environ


async def spending(ctx: StepContext) -> object:
    """The first of them spends more than there is, and waits for a word."""
    if ctx.event.data["n"] == 0:
        await ctx.step.ai.wrap("ask", lambda: usage(1_200))
        await ctx.step.wait_for_event("word", "spent.go", timeout="1h")
    return await brief(ctx)


app = App(
    "late",
    workflows=[
        define_workflow("last", brief, debounce=None if LATE else {"periodMs": 3_600_000}),
        define_workflow(
            "spent",
            spending,
            budget={"maxTokens": 10_000 if LATE else 1_000, "windowMs": 3_600_000},
        ),
    ],
)
