"""A partition that has read less of the registry than who sends to it (DESIGN 4)."""

import json

from scenario_tools import Behind, partition, shown, start

from duraton import App, define_workflow
from duraton.testing import Engine
from duraton_streams.logs.base import EVENTS, NewRecord


async def test_an_event_offered_to_a_home_that_is_behind_is_not_lost():
    async def handle(ctx):
        return ctx.event.data["n"]

    async with Engine(define_workflow("first", handle), partitions=12) as engine:
        home = partition(engine, "new", "shop")
        behind = Behind(engine, home)
        await engine.register(App("shop", [define_workflow("new", handle)]))
        elsewhere = (home + 1) % 12
        value = json.dumps({"name": "new", "data": {"n": 7}}).encode()
        engine.core.log.append([NewRecord(EVENTS, elsewhere, value, None, (), 0)])
        await engine.settle()
        assert await engine.runs(workflow="new") == []
        behind.end()
        await engine.settle()
        [run] = await engine.runs(workflow="new")
        assert (await engine.run(run.id)).output == 7


async def test_a_child_asked_of_a_home_that_is_behind_is_not_refused():
    async def parent(ctx):
        return await ctx.step.invoke("child", "shop/new", {"n": 7})

    async def handle(ctx):
        return ctx.event.data["n"]

    async with Engine(define_workflow("parent", parent), partitions=12) as engine:
        home = partition(engine, "new", "shop")
        assert home != partition(engine, "parent")
        behind = Behind(engine, home)
        await engine.register(App("shop", [define_workflow("new", handle)]))
        run = await start(engine, "parent")
        await engine.settle()
        assert await shown(engine, run) == [("waiting", None)]
        behind.end()
        await engine.settle()
        assert await shown(engine, run) == [("completed", 7)]
