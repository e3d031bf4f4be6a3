"""What one run may hold, whatever brings it: outputs, events, children, data of calls."""

import pytest
from scenario_tools import start

from duraton import App, define_workflow
from duraton.testing import Engine, Settings

KIB = 1 << 10
LETTERS = 10 * KIB
"""Letters of one value; in another script than Latin they are three times as many bytes."""


async def outputs(ctx):
    for number in range(ctx.event.data["n"]):
        await ctx.step.run(f"s{number}", lambda: "\u6f22" * LETTERS)


async def waits(ctx):
    for number in range(ctx.event.data["n"]):
        await ctx.step.wait_for_event(f"s{number}", "told")


async def children(ctx):
    for number in range(ctx.event.data["n"]):
        await ctx.step.invoke(f"s{number}", "child")


async def calls(ctx):
    for number in range(ctx.event.data["n"]):
        await ctx.step.invoke(f"s{number}", "quiet", {"text": "\u6f22" * LETTERS})


async def child(ctx):
    return "\u6f22" * LETTERS


async def quiet(ctx):
    return None


@pytest.mark.parametrize("transport", ["connect", "serve"])
@pytest.mark.parametrize("handler", [outputs, waits, children, calls])
async def test_a_run_that_would_hold_too_much_fails(handler, transport):
    flows = [define_workflow("w", handler), define_workflow("child", child)]
    app = App("shop", [*flows, define_workflow("quiet", quiet)])
    settings = Settings(run_bytes_max=100 * KIB)
    async with Engine(app, transport=transport, settings=settings) as engine:
        fits, over = await start(engine, data={"n": 3}), await start(engine, data={"n": 4})
        await engine.settle()
        for _ in range(4 if handler is waits else 0):
            await engine.send("told", {"text": "\u6f22" * LETTERS})
            await engine.settle()
        assert (await engine.run(fits)).status == "completed"
        run = await engine.run(over)
        assert (run.status, run.error.name) == ("failed", "RunStateTooLargeError")
        assert [step.status for step in run.steps][-1] == "failed"
        await engine.crash()
        assert (await engine.run(over)).status == "failed"
