"""Budgets over long windows: any length, to the second up to 31 days, by the hour beyond (P30)."""

from collections import Counter

import pytest
from tests.cases.flow_tools import CLOCK, scripted, statuses

from duraton import BudgetConfig
from duraton.testing import Engine
from duraton_engine.state.tables import SPENT
from duraton_streams.logs.base import JOURNAL

DAY_S = 86_400
SPENDS = {"do": [["ai", 400]]}


@pytest.fixture(params=[1, 12], ids=["P1", "P12"])
def engine_of(request):
    def make(flow):
        CLOCK.engine = Engine(flow, partitions=request.param)
        return CLOCK.engine

    return make


def budget(tokens, days):
    return scripted(budget=BudgetConfig(max_tokens=tokens, window_ms=f"{days}d"))


def kept(engine):
    """How many rows of spend there are."""
    rows = [row for each in engine.core.processors for row in each.state.dump()]
    return sum(1 for table, *_ in rows if table == SPENT.name)


async def spend(engine, times=1):
    """Spend 400 tokens so often, a second apart; the last run's id."""
    for _ in range(times):
        [answer] = await engine.send("w", SPENDS)
        await engine.advance("1s")
    return answer.run_id


@pytest.mark.parametrize(("days", "late_s"), [(20, 15), (31, 15), (90, 3_615), (36_500, None)])
async def test_spend_of_a_long_window_holds_until_it_rolls_off(engine_of, days, late_s):
    async with engine_of(budget(1_000, days)) as engine:
        await spend(engine, 2)
        rest = min(days, 365) - 1
        await engine.advance(f"{rest}d")
        await spend(engine)
        await engine.advance("10s")
        [held] = await engine.send("w", SPENDS)
        assert (await engine.run(held.run_id)).paused_by.reason == "budget"
        await engine.crash()
        await engine.advance(round((DAY_S - 30) * 1000))
        assert await statuses(engine, held.run_id) == ["paused"]
        if late_s is not None:
            await engine.advance(round((late_s + 30) * 1000))
            assert await statuses(engine, held.run_id) == ["completed"]


async def test_spend_of_long_ago_is_kept_by_the_hour(engine_of):
    async with engine_of(scripted()) as engine:
        await spend(engine, 30)
        assert kept(engine) == 30
        await engine.advance("32d")
        # Each new spend puts some of the old seconds into their hour.
        await spend(engine, 4)
        assert kept(engine) == 1 + 4


async def test_a_budget_that_is_turned_on_counts_old_spend_once(engine_of):
    # Case 131, over a longer time: what has been put into its hours is neither lost nor doubled.
    async with engine_of(scripted()) as engine:
        await spend(engine, 30)
        await engine.advance("40d")
        await spend(engine, 4)
        for tokens, days, status in (
            (13_599, 60, "paused"),
            (13_600, 60, "completed"),
            (1_599, 10, "paused"),
            (1_600, 10, "completed"),
            (13_599, 60, "paused"),
        ):
            await engine.register(budget(tokens, days))
            [answer] = await engine.send("w", {"do": [["work", 0]]})
            await engine.settle()
            assert await statuses(engine, answer.run_id) == [status], (tokens, days)


# A pause is one fact --------------------------------------------------------------


def facts_of(engine):
    """How many facts the journal has, by type; what a batch read is told apart from them."""
    log, found = engine.core.log, Counter()
    for partition in range(log.partitions):
        offset, end = 0, log.bounds(JOURNAL, partition)[1]
        while records := log.read(JOURNAL, partition, offset, 1_000, end=end):
            found.update(type(engine.core.codec.decode(each.value)).__name__ for each in records)
            offset = records[-1].offset + 1
    del found["Positions"]
    return found


@pytest.mark.parametrize("sleeping", [10, 2_000])
async def test_a_pause_over_sleeping_runs_takes_effect_at_once_and_is_one_fact(engine_of, sleeping):
    flow = scripted(budget=BudgetConfig(max_tokens=300, window_ms="1h"))
    async with engine_of(flow) as engine:
        data = {"do": [["sleep", 1_800], ["work", 0]]}
        [first, *_] = [a for [a] in await engine.send_many([("w", data)] * sleeping)]
        await engine.settle()
        await engine.send("w", SPENDS)
        await engine.settle()
        before = facts_of(engine)
        assert await statuses(engine, first.run_id) == ["waiting"]
        await engine.advance("10s")
        assert facts_of(engine) - before == {"BudgetTicked": 1, "WorkflowHeld": 1}
        assert await statuses(engine, first.run_id) == ["paused"]
        assert len(await engine.runs(status="paused")) == sleeping
        # Their sleeps end meanwhile; when the spend has rolled off, all go on.
        await engine.advance("61m")
        assert await engine.runs(status="paused") == []
        assert facts_of(engine)["WorkflowReleased"] == 1
