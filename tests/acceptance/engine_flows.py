"""A workflow for each control, for engines that follow each other on one cluster.

Each step says in a file, KILL_LEDGER, that it begins and that it ends: `b WORKFLOW RUN STEP
ATTEMPT` and `f ...`, every line one write to a file opened for appending, so the lines of
all processes stand in the order in which things happened.

The steps of `joined`, `single` and `stopper` go on until the file ENGINES_GO is there: such
a run lives for as long as the test sends, however long that takes.
"""

import asyncio
import os
from pathlib import Path

from duraton import App, define_workflow
from duraton.context import StepContext, current_step

STEP_S = 0.05
LOOK_S = 0.02

_ledger = os.open(os.environ["KILL_LEDGER"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
_go = Path(os.environ["ENGINES_GO"])


def note(what: str, workflow: str) -> None:
    info = current_step()
    line = f"{what} {workflow} {info.run} {info.step} {info.attempt}\n"
    os.write(_ledger, line.encode())


def usage(tokens: int) -> dict[str, object]:
    return {"usage": {"prompt_tokens": tokens, "completion_tokens": 0}, "model": "m"}


async def brief(ctx: StepContext, step: str = "work") -> object:
    async def work() -> int:
        note("b", ctx.event.name)
        await asyncio.sleep(STEP_S * (1 + ctx.event.data["n"] % 3) / 2)
        note("f", ctx.event.name)
        return ctx.event.data["n"]

    return await ctx.step.run(step, work)


async def napping(ctx: StepContext) -> object:
    """Two steps with a sleep between, in which it gives its place back."""
    first = await brief(ctx)
    await ctx.step.sleep("nap", "100ms")
    await brief(ctx, "more")
    return first


async def gathered(ctx: StepContext) -> object:
    return await ctx.step.run("work", lambda: [event.data["n"] for event in ctx.events])


async def lasting(ctx: StepContext) -> object:
    async def work() -> int:
        note("b", ctx.event.name)
        while not _go.exists():  # noqa: ASYNC110, ASYNC240 - another process makes the file
            await asyncio.sleep(LOOK_S)
        note("f", ctx.event.name)
        return ctx.event.data["n"]

    return await ctx.step.run("work", work)


async def asking(ctx: StepContext) -> object:
    for number in range(4):
        await ctx.step.ai.wrap(f"ask {number}", lambda: usage(200))
    return "not halted"


app = App(
    "engines",
    workflows=[
        define_workflow("limited", brief, concurrency={"limit": 5}),
        define_workflow("keyed", napping, concurrency={"limit": 1, "key": "k"}),
        define_workflow("spaced", brief, throttle={"limit": 1, "perMs": 200}),
        define_workflow("few", brief, rate_limit={"limit": 7, "perMs": 3_600_000}),
        define_workflow("batch", gathered, batch={"maxSize": 5, "timeoutMs": 1_000}),
        define_workflow("once", brief, idempotency={"key": "k", "periodMs": 3_600_000}),
        define_workflow("single", lasting, singleton={"key": "k"}),
        define_workflow("joined", lasting, key="k", together={"then": "join"}),
        define_workflow("stopper", lasting, together={"max": 1, "then": "stop"}),
        define_workflow("crew.a", brief, key="k", together={"group": "crew", "max": 2}),
        define_workflow("crew.b", napping, key="k", together={"group": "crew", "max": 2}),
        define_workflow("capped", asking, cap={"maxTokens": 500}),
    ],
)
