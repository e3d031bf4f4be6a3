"""User code that misbehaves: its run ends with an error that says so; nothing hangs."""

import asyncio

import pytest
from scenario_tools import shown, start

from duraton import App, define_workflow
from duraton.testing import Engine


class NoFieldsError(Exception):
    def __getattr__(self, name):
        raise RuntimeError(name)


class NoTextError(Exception):
    def __str__(self):
        raise RuntimeError("no text")


class Beyond(BaseException):
    pass


async def ended(handle, transport="connect"):
    async with Engine(App("shop", [define_workflow("w", handle)]), transport=transport) as engine:
        run = await start(engine)
        await engine.advance("1m")
        return await engine.run(run)


def throws(error):
    def plain():
        raise error

    return plain


def throws_later(error):
    async def coroutine():
        raise error

    return coroutine


@pytest.mark.parametrize("transport", ["connect", "serve"])
@pytest.mark.parametrize("make", [throws, throws_later], ids=["thread", "coroutine"])
@pytest.mark.parametrize(
    ("error", "name"),
    [
        (Beyond("out"), "Beyond"),
        (NoFieldsError("f"), "NoFieldsError"),
        (NoTextError("t"), "NoTextError"),
    ],
    ids=["base-exception", "no-fields", "no-text"],
)
async def test_whatever_a_step_throws_fails_the_run(transport, make, error, name):
    async def handle(ctx):
        await ctx.step.run("a", make(error))

    run = await ended(handle, transport)
    assert (run.status, run.error.name) == ("failed", name)


async def test_a_plain_step_that_exhausts_an_iterator_fails_the_run():
    async def handle(ctx):
        await ctx.step.run("a", lambda: next(iter([])))

    run = await ended(handle)
    assert run.status == "failed"
    assert "StopIteration" in run.error.message


@pytest.mark.parametrize("error", [Beyond("out"), NoFieldsError("f")], ids=["base", "no-fields"])
async def test_whatever_a_handler_throws_fails_the_run(error):
    async def handle(ctx):
        raise error

    assert (await ended(handle)).status == "failed"


def odd_calls():
    half = "a\ud800"
    return {
        "id": lambda step: step.run(half, lambda: 1),
        "event": lambda step: step.wait_for_event("a", half),
        "value": lambda step: step.wait_for_event("a", "e", match={"k": half}),
        "path": lambda step: step.wait_for_event("a", "e", match={half: 1}),
        "long-value": lambda step: step.wait_for_event("a", "e", match={"k": "v" * 4_001}),
        "long-path": lambda step: step.wait_for_event("a", "e", match={"k" * 501: 1}),
        "sent": lambda step: step.send_event("a", half),
        "child": lambda step: step.invoke("a", half),
        "app": lambda step: step.invoke("a", f"{half}/w"),
    }


@pytest.mark.parametrize("call", odd_calls())
async def test_a_call_that_no_frame_can_carry_fails_its_run_and_no_other(call):
    async def handle(ctx):
        if ctx.event.data.get("odd"):
            await odd_calls()[call](ctx.step)
        return await ctx.step.run("fine", lambda: 1)

    async with Engine(App("shop", [define_workflow("w", handle)])) as engine:
        [odd], [other] = await engine.send_many([("w", {"odd": True}), ("w", {})])
        await engine.advance("1m")
        failed, completed = await engine.run(odd.run_id), await engine.run(other.run_id)
        assert (failed.status, failed.error.name) == ("failed", "StepUseError")
        assert (completed.status, completed.output) == ("completed", 1)


async def test_a_step_inside_a_step_is_refused_at_once():
    async def handle(ctx):
        async def outer():
            return await ctx.step.run("inner", lambda: 1)

        await ctx.step.run("outer", outer)

    run = await ended(handle)
    assert run.error.name == "StepUseError"
    assert "inside step 'outer'" in run.error.message


async def test_a_step_called_from_a_thread_is_refused():
    async def handle(ctx):
        await ctx.step.run("outer", lambda: asyncio.run(ctx.step.run("inner", lambda: 1)))

    run = await ended(handle)
    assert run.error.name == "StepUseError"
    assert "another thread" in run.error.message


async def test_a_handler_that_catches_everything_lets_go_of_the_loop():
    over = []

    async def handle(ctx):
        while not over:
            try:
                await ctx.step.run("a", throws_later(ValueError("no")))
            except BaseException:
                continue

    async def calm(ctx):
        return 1

    flows = [define_workflow("w", handle), define_workflow("calm", calm)]
    try:
        async with Engine(App("shop", flows)) as engine:
            rough, quiet = await start(engine), await start(engine, "calm")
            await engine.settle()
            assert [status for status, _ in await shown(engine, rough, quiet)] == [
                "failed",
                "completed",
            ]
    finally:
        over.append(True)
