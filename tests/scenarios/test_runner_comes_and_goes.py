"""Runners that connect, break off, drain, die: what it costs and what goes on (DESIGN 8, P38)."""

import asyncio

import pytest
from scenario_tools import began, shown, start

from duraton import RetryConfig, define_workflow
from duraton.testing import Engine


@pytest.fixture(params=[1, 12])
def engines(request):
    def make(*apps, **more):
        return Engine(*apps, partitions=request.param, **more)

    return make


def working(seconds):
    """A workflow of a long step and one after it; the engine is put into what comes with it."""
    holder = []

    async def long():
        await holder[0].clock.sleep(seconds)

    async def handle(ctx):
        await ctx.step.run("work", long)
        await ctx.step.run("after", lambda: None)
        return "done"

    return define_workflow("w", handle, retry=RetryConfig(3)), holder


async def test_a_broken_connection_costs_nothing(engines):
    workflow, holder = working(10)
    async with engines(workflow) as engine:
        holder.append(engine)
        run = await start(engine)
        await engine.advance("5s")
        engine.host.disconnect()
        await engine.advance("14s")  # the step ended meanwhile; its answer waits at the runner
        assert (await engine.run(run)).status == "running"
        engine.host.connect()
        await engine.settle()
        assert await shown(engine, run) == [("completed", "done")]
        assert (began(engine, "work"), began(engine, "after")) == ([0], [19])
        assert not [f for f in engine.facts(run) if type(f).__name__ == "InvokeFailed"]


async def test_a_runner_that_is_away_too_long_is_lost_and_costs_an_invoke(engines):
    workflow, holder = working(60)
    async with engines(workflow) as engine:
        holder.append(engine)
        run = await start(engine)
        await engine.advance("5s")
        engine.host.disconnect()
        await engine.advance("15s")
        assert (await engine.run(run)).waiting_for.kind == "invoke"
        await engine.advance("10m")
        waits = await engine.run(run)
        assert (waits.status, waits.waiting_for.kind) == ("queued", "runner")
        engine.host.connect()  # the same process comes back
        await engine.advance("1m")
        assert await shown(engine, run) == [("completed", "done")]
        lost = [f for f in engine.facts(run) if type(f).__name__ == "InvokeFailed"]
        assert [(fact.invoke, fact.counts) for fact in lost] == [(1, True)]
        # What the lost invocation still did counts for nothing.
        assert len(began(engine, "work")) == 2
        [step, _] = (await engine.run(run)).steps
        assert step.attempts == 1


async def test_three_lost_runners_fail_the_run(engines):
    workflow, holder = working(600)
    async with engines(workflow) as engine:
        holder.append(engine)
        run = await start(engine)
        for _ in range(3):
            await engine.advance("5s")
            engine.host.disconnect()
            await engine.advance("16s")
            engine.host.connect()
        await engine.settle()
        found = await engine.run(run)
        assert (found.status, found.error.code) == ("failed", "runner-unreachable")


async def test_a_draining_runner_finishes_and_takes_nothing_new(engines):
    workflow, holder = working(10)
    async with engines(workflow) as engine:
        holder.append(engine)
        first = await start(engine)
        await engine.advance("1s")
        engine.host.runner.drain()
        await engine.settle()
        second = await start(engine)
        await engine.advance("20s")
        assert await shown(engine, first) == [("completed", "done")]
        waits = await engine.run(second)
        assert (waits.status, waits.waiting_for.kind) == ("queued", "runner")


async def test_a_result_that_was_lost_on_the_way_is_sent_again(engines):
    async def handle(ctx):
        await asyncio.gather(
            ctx.step.run("a", engine.clock.sleep, 1), ctx.step.run("b", engine.clock.sleep, 2)
        )
        return await ctx.step.run("c", lambda: "c")

    async with engines(define_workflow("w", handle)) as engine:
        run = await start(engine)
        for _ in range(5):
            await engine.advance("500ms")
            engine.host.connect()  # without ever settling first
        await engine.advance("1m")
        assert await shown(engine, run) == [("completed", "c")]
        assert [len(began(engine, step)) for step in "abc"] == [1, 1, 1]


async def test_work_done_while_the_engine_is_down_counts(engines):
    async def handle(ctx):
        await ctx.step.run("work", engine.clock.sleep, 10)
        return await ctx.step.run("after", lambda: "done")

    async with engines(define_workflow("w", handle)) as engine:
        run = await start(engine)
        await engine.advance("5s")
        await engine.crash(down="28s")
        assert await shown(engine, run) == [("completed", "done")]
        assert (began(engine, "work"), began(engine, "after")) == ([0], [33])


async def test_a_runner_that_comes_back_is_given_no_more_than_it_has_room_for(duraton):
    # Its capacity is one, and what it executes belongs to another partition than what waits.
    async def work(ctx):
        await ctx.step.run("a", lambda: engine.clock.sleep(1))

    workflows = [define_workflow(name, work) for name in ("red", "green", "blue")]
    async with duraton(*workflows, partitions=12, capacity=1) as engine:
        for name in ("red", "green", "blue"):
            await engine.send(name, {})
        await engine.settle()
        assert len(await engine.runs("running")) == 1
        await engine.crash()
        assert len(await engine.runs("running")) == 1
        await engine.advance("2500ms")
        assert len(await engine.runs("completed")) == 2
        assert len(await engine.runs("running")) == 1
