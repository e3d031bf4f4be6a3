"""Section G of the cases: priority.

The key is the time at which a run became ready minus `shiftMs`, the older first where two
are equal (P14). The ceiling is at another slot, so starts are within a tick.
"""

from case_tools import send
from flow_tools import advance_to, assert_at, began, send_each, starts, statuses, working

from duraton import PriorityConfig, ThrottleConfig

MINUTE = PriorityConfig("1m")


async def test_case_078_no_endless_starvation(engine_of):
    # One W1 event more than the case has at 0, so that one always waits and the end of a
    # run and the next event's arrival need not be told apart within one instant.
    w1 = working(1, name="w1", priority=MINUTE)
    w2 = working(1, name="w2")
    async with engine_of(w1, w2) as engine:
        await engine.set_ceiling(1)
        await send(engine, "w1", {"n": -1})
        for second in range(80):
            await advance_to(engine, second)
            if second == 10:
                await send(engine, "w2")
            await send(engine, "w1", {"n": second})
        await engine.advance("1m")
        # The W1 events from -1 to 69 have the keys -60 to 9, W2 has 10, and so has the one
        # at 70, which is younger.
        assert_at(starts(engine, "w2"), [71])
        before = [n for at, n in await began(engine, "w1") if at < 71]
        assert before == list(range(-1, 70))


async def test_case_079_order_inside_one_workflow_is_unchanged(engine_of):
    async with engine_of(working(1, name="w1", priority=MINUTE)) as engine:
        await engine.set_ceiling(1)
        await send_each(engine, [{"n": n} for n in range(1, 21)], name="w1")
        await engine.advance("1m")
        assert_at(starts(engine, "w1"), range(20))
        assert [n for _, n in await began(engine, "w1")] == list(range(1, 21))


async def test_case_080_waiting_for_a_limit_does_not_lose_priority(engine_of):
    w1 = working(1, name="w1", priority=MINUTE)
    async with engine_of(w1, working(1, name="w2")) as engine:
        await engine.set_ceiling(2)
        await send_each(engine, [{}] * 1_000, name="w2")
        await engine.advance("5s")
        await send(engine, "w1")
        await engine.advance("2s")
        assert_at(starts(engine, "w1"), [6])
        # It took one of the two places at 6.
        wanted = [at for at in range(8) for _ in range(2)]
        wanted.remove(6)
        assert_at(starts(engine, "w2"), wanted)


async def test_case_081_priority_does_not_pull_a_throttled_start_forward(engine_of):
    w1 = working(name="w1", throttle=ThrottleConfig(1, 10_000), priority=PriorityConfig(60_000))
    async with engine_of(w1) as engine:
        await send_each(engine, [{}, {}], name="w1")
        await engine.advance("1m")
        assert starts(engine, "w1") == [0, 10]


async def test_case_082_priority_does_not_preempt(engine_of):
    w1 = working(1, name="w1", extra={"priority": {"shiftMs": 600_000}})
    async with engine_of(w1, working(100, name="w2")) as engine:
        await engine.set_ceiling(1)
        first = await send(engine, "w2")
        await engine.advance("1s")
        await send(engine, "w1")
        second = await send(engine, "w2")
        await advance_to(engine, 99)
        assert starts(engine, "w1") == []
        assert await statuses(engine, first, second) == ["running", "queued"]
        await engine.advance("5m")
        assert_at(starts(engine, "w1"), [100])
        assert_at(starts(engine, "w2"), [0, 101])
