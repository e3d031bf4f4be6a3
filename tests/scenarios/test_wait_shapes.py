"""Shapes that nobody waits by any more are retired, and no wait is lost by it (DESIGN 4)."""

import asyncio

import pytest
from scenario_tools import Behind, partition, shown, start

from duraton import define_workflow
from duraton.testing import Engine, Settings
from duraton_engine.commands.record_event import wait_slot
from duraton_engine.registrations import SHAPE
from duraton_engine.state import tables
from duraton_schemas.slots import PROJECT_SLOT, partition_of


@pytest.fixture(params=[1, 12])
def engines(request):
    def make(*apps, **more):
        return Engine(*apps, partitions=request.param, **more)

    return make


def shapes(engine):
    """The shapes that the project slot has, and those that each partition applies."""
    processors = engine.core.processors
    project = processors[partition_of(PROJECT_SLOT, len(processors))].state
    made = {key[2] for key, _ in project.scan(tables.REGISTRY, (PROJECT_SLOT, SHAPE), 1_000)}
    applied = [
        {key[1] for key, _ in processor.state.scan(tables.APPLIED, (SHAPE,), 1_000)}
        for processor in processors
    ]
    assert all(each == made for each in applied)
    return made


def waiter(name="w"):
    async def handle(ctx):
        data = ctx.event.data
        await ctx.step.sleep("nap", data.get("nap", 0))
        event = await ctx.step.wait_for_event("got", data["name"], timeout=data.get("timeout"))
        return None if event is None else event.data["n"]

    return define_workflow(name, handle)


async def test_a_shape_goes_once_nobody_waits_and_comes_back(engines):
    async with engines(waiter()) as engine:
        short = await start(engine, data={"name": "a", "timeout": "10d"})
        long = await start(engine, data={"name": "b", "timeout": "100d"})
        await engine.settle()
        assert shapes(engine) == {"a\0", "b\0"}
        await engine.advance("29d")
        assert await shown(engine, short, long) == [("completed", None), ("waiting", None)]
        assert shapes(engine) == {"a\0", "b\0"}
        await engine.crash()
        await engine.advance("2d")
        assert shapes(engine) == {"b\0"}
        again = await start(engine, data={"name": "a"})
        await engine.settle()
        assert (await engine.run(again)).waiting_for.kind == "event"
        await engine.send_many([("a", {"n": 1}), ("b", {"n": 2})])
        await engine.settle()
        assert await shown(engine, again, long) == [("completed", 1), ("completed", 2)]
        await engine.advance("62d")
        assert shapes(engine) == set()


async def test_it_frees_a_place_among_the_shapes(engines):
    async with engines(waiter(), settings=Settings(shapes_max=1)) as engine:
        await start(engine, data={"name": "a", "timeout": "1d"})
        await engine.advance("31d")
        run = await start(engine, data={"name": "b"})
        await engine.settle()
        assert shapes(engine) == {"b\0"}
        await engine.send("b", {"n": 1})
        await engine.settle()
        assert await shown(engine, run) == [("completed", 1)]


@pytest.mark.parametrize("turns", range(0, 60, 3))
async def test_a_wait_that_begins_while_its_shape_is_retired_is_not_lost(turns):
    # The moment at which the wait begins moves through the retiring, turn by turn.
    async with Engine(waiter(), partitions=12) as engine:
        await start(engine, data={"name": "a", "timeout": "1d"})
        await engine.advance(30 * 86_400_000 - 1)  # to the instant before the check
        assert shapes(engine) == {"a\0"}
        engine.clock.move_to(engine.clock.now_ms() + 1)
        sent = []
        for turn in range(100):
            if turn == turns:
                sent.append(asyncio.ensure_future(engine.send("w", {"name": "a"})))
            # One partition at a time, so that they know the retiring at different moments.
            engine.core.processors[turn * 5 % 12].turn()
            await asyncio.sleep(0)
        [[answer]] = await asyncio.gather(*sent)
        await engine.settle()
        assert (await engine.run(answer.run_id)).waiting_for.kind == "event"
        await engine.send("a", {"n": 7})
        await engine.settle()
        assert await shown(engine, answer.run_id) == [("completed", 7)]


async def test_a_wait_of_a_home_that_does_not_know_of_the_retiring_asks_anew():
    async with Engine(waiter(), partitions=12) as engine:
        home = partition(engine, "w")
        assert home != partition_of(wait_slot("a", "", ""), 12)
        await start(engine, data={"name": "a", "timeout": "1d"})
        run = await start(engine, data={"name": "a", "nap": "30d"})
        await engine.advance(30 * 86_400_000 - 1)
        behind = Behind(engine, home)
        await engine.advance(1)
        assert (await engine.run(run)).waiting_for is None
        behind.end()
        await engine.settle()
        assert (await engine.run(run)).waiting_for.kind == "event"
        parts = [f.part for f in engine.facts(run) if type(f).__name__ == "WaitAcknowledged"]
        assert parts == ["ready", "unready", "placed", "ready"]
        assert shapes(engine) == {"a\0"}
        await engine.send("a", {"n": 7})
        await engine.settle()
        assert await shown(engine, run) == [("completed", 7)]
