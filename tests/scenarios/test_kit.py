"""What tests may rely on in `duraton.testing` (SPEC 4)."""

import asyncio
import time

import pytest
from scenario_tools import began, shown, start

from duraton import App, define_workflow
from duraton.testing import Engine, RefusedError


async def nothing(ctx):
    return None


async def test_calls_while_time_passes():
    async def handle(ctx):
        await ctx.step.sleep("nap", "5s")
        return "done"

    async with Engine(define_workflow("w", handle)) as engine:
        passing = asyncio.ensure_future(engine.advance("1m"))
        run = await start(engine)
        await engine.act(run, "pause")
        await engine.register(App("more", [define_workflow("more", nothing)]))
        await asyncio.gather(passing, engine.settle(), engine.settle())
        assert engine.clock.now() == 60
        assert (await engine.run(run)).status == "paused"
        [answer] = await engine.send("more", {})
        await engine.settle()
        assert (await engine.run(answer.run_id)).status == "completed"


@pytest.mark.parametrize("turns", range(6))
async def test_calls_that_a_crash_meets_end(turns):
    # However far they have come: begun, recorded, decided or answered.
    async with Engine(define_workflow("w", nothing)) as engine:
        run = await start(engine)
        calls = [
            asyncio.ensure_future(engine.send("w", {})),
            asyncio.ensure_future(engine.act(run, "cancel")),
        ]
        for _ in range(turns):
            await asyncio.sleep(0)
        await engine.crash(down="1s")
        async with asyncio.timeout(5):
            outcomes = await asyncio.gather(*calls, return_exceptions=True)
        sent, acted = outcomes
        assert isinstance(sent, (list, ConnectionError))
        assert isinstance(acted, (RefusedError, ConnectionError))


async def test_step_code_may_use_the_engine():
    async def handle(ctx):
        async def work():
            await engine.clock.sleep(2)
            await engine.send("other", {})
            await engine.register(App("late", [define_workflow("late", nothing)]))
            return (await engine.run(ctx.run.id)).status

        return await ctx.step.run("work", work)

    workflows = [define_workflow("w", handle), define_workflow("other", nothing)]
    async with Engine(*workflows) as engine:
        run = await start(engine)
        await engine.advance("2s")
        assert await shown(engine, run) == [("completed", "running")]
        assert [(name, at) for name, _, at in engine.started] == [("w", 0), ("other", 2)]


@pytest.mark.parametrize("transport", ["connect", "serve"])
async def test_threads_are_waited_for(transport):
    def slow():
        time.sleep(0.05)
        return "slow"

    async def handle(ctx):
        return await asyncio.gather(*(ctx.step.run(f"s{n}", slow) for n in range(4)))

    async with Engine(define_workflow("w", handle), transport=transport) as engine:
        run = await start(engine)
        await engine.settle()
        assert await shown(engine, run) == [("completed", ["slow"] * 4)]


async def test_user_code_that_goes_round_without_end_does_not_hang_a_test():
    async def handle(ctx):
        async def spin():
            while engine.clock.now() < 5:  # noqa: ASYNC110 - such a loop is what is tested
                await asyncio.sleep(0)

        await ctx.step.run("spin", spin)

    async with Engine(define_workflow("w", handle)) as engine:
        run = await start(engine)
        await engine.settle()
        assert (await engine.run(run)).status == "running"
        await engine.advance("5s")
        assert (await engine.run(run)).status == "completed"


async def test_all_that_falls_due_happens_at_its_own_instant():
    async def handle(ctx):
        await ctx.step.sleep("nap", ctx.event.data["nap"])
        await ctx.step.run("awake", lambda: None)

    async with Engine(define_workflow("w", handle), partitions=12) as engine:
        for nap in ("3s", "1s", "1.5s", "2ms"):
            await start(engine, data={"nap": nap})
        await engine.advance("1h")
        assert began(engine, "awake") == [0.002, 1, 1.5, 3]
        assert engine.clock.now() == 3600


async def test_answers_and_refusals():
    async with Engine(define_workflow("w", nothing)) as engine:
        [answer] = await engine.send("w", {"a": 1}, key="shop")
        assert (answer.workflow, answer.app) == ("w", "test")
        assert (answer.dropped, answer.deduped, answer.skipped) == (False, False, False)
        assert (answer.joined, answer.refused, answer.buffered) == (False, None, False)
        await engine.settle()
        assert (await engine.run(answer.run_id)).caller.id == "shop"
        assert await engine.send("nobody", {}) == []
        with pytest.raises(RefusedError):
            await engine.act(answer.run_id, "cancel")
        with pytest.raises(ValueError, match="no act"):
            await engine.act(answer.run_id, "rewind")
        with pytest.raises(KeyError):
            await engine.run("run_00000000000000000000000000")
        with pytest.raises(ValueError, match="name"):
            await engine.send("", {})
        assert (await engine.flow_state())["concurrency"]["inUse"] == 0


async def test_a_refused_redeploy_leaves_the_old_version_in_force():
    async def newer(ctx):
        return "newer"

    async def older(ctx):
        return "older"

    for transport in ("connect", "serve"):
        app = App("shop", [define_workflow("w", older)])
        async with Engine(app, transport=transport) as engine:
            bad = App("shop", [define_workflow("w", newer, cron="not a cron")])
            with pytest.raises(RefusedError):
                await engine.register(bad)
            run = await start(engine)
            await engine.settle()
            await engine.crash(runner=True)
            again = await start(engine)
            await engine.settle()
            assert await shown(engine, run, again) == [("completed", "older")] * 2


async def test_every_part_can_be_started_at_a_moment():
    async with Engine(define_workflow("w", nothing), start="2030-06-01T12:00:00+02:00") as engine:
        run = await start(engine)
        await engine.settle()
        assert (await engine.run(run)).created_at == "2030-06-01T10:00:00.000Z"
        assert engine.clock.now() == 0
