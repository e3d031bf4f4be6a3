"""The price table in the registry: one writer, every partition, and what is committed stays."""

import pytest
from scenario_tools import Behind, partition

from duraton import define_workflow
from duraton.errors import RefusedError

TABLE = {"version": "mine-1", "models": {"m": {"input": 1, "output": 2}}}
DEARER = {"version": "mine-2", "models": {"m": {"input": 10, "output": 20}}}


def asking(name, model="m"):
    usage = {"prompt_tokens": 100, "completion_tokens": 10}

    async def handle(ctx):
        for number in range(ctx.event.data.get("calls", 1)):
            await ctx.step.ai.wrap(f"ask-{number}", lambda: {"model": model, "usage": usage})
            await ctx.step.sleep(f"nap-{number}", "1m")

    return define_workflow(name, handle)


async def spent(engine, name, data=None, advance="1h"):
    [answer] = await engine.send(name, data or {})
    await engine.advance(advance)
    return await engine.run(answer.run_id)


async def test_the_built_in_table_holds_until_there_is_another(cluster):
    async with cluster(asking("w", "gpt-4o-2024-08-06")) as engine:
        run = await spent(engine, "w")
        [step, _] = run.steps
        assert (run.spend.cost, step.spend.prices) == (100 * 2.5e-6 + 10 * 10e-6, "default-1")
        await engine.set_prices(TABLE)
        run = await spent(engine, "w")
        assert (run.spend.cost, run.spend.tokens) == (None, 110)


async def test_a_table_holds_at_every_partition_and_outlives_a_crash(cluster):
    names = [f"w-{number}" for number in range(12)]
    async with cluster([asking(name) for name in names]) as engine:
        await engine.set_prices(TABLE)
        await engine.crash()
        for name in names:
            assert (await spent(engine, name)).spend.cost == 120e-6


async def test_what_is_committed_keeps_its_cost_and_names_its_table(cluster):
    async with cluster(asking("w")) as engine:
        await engine.set_prices(TABLE)
        [answer] = await engine.send("w", {"calls": 2})
        await engine.settle()
        await engine.set_prices(DEARER)
        await engine.advance("1h")
        run = await engine.run(answer.run_id)
        spends = [step.spend for step in run.steps if step.spend]
        assert [(each.cost, each.prices) for each in spends] == [
            (120e-6, "mine-1"),
            (1200e-6, "mine-2"),
        ]
        assert run.spend.known_cost == pytest.approx(1320e-6)


async def test_a_partition_that_is_behind_prices_by_what_it_has_applied(duraton):
    async with duraton(asking("w"), partitions=12) as engine:
        await engine.set_prices(TABLE)
        [answer] = await engine.send("w", {"calls": 3})
        await engine.settle()
        behind = Behind(engine, partition(engine, "w"))
        await engine.set_prices(DEARER)
        await engine.advance("1m")
        behind.end()
        await engine.advance("1h")
        steps = (await engine.run(answer.run_id)).steps
        assert [step.spend.prices for step in steps if step.spend] == ["mine-1", "mine-1", "mine-2"]


async def test_what_cannot_work_changes_nothing(duraton):
    async with duraton(asking("w")) as engine:
        await engine.set_prices(TABLE)
        for bad in ({"version": "x"}, DEARER | {"version": "mine-1"}):
            with pytest.raises(RefusedError) as refused:
                await engine.set_prices(bad)
            assert refused.value.engine_code == "prices-refused"
        assert (await spent(engine, "w")).steps[0].spend.prices == "mine-1"


async def test_the_same_table_again_changes_nothing(duraton):
    async with duraton(asking("w")) as engine:
        await engine.set_prices(TABLE)
        version = engine.core.registry
        await engine.set_prices(TABLE)
        assert engine.core.registry == version
