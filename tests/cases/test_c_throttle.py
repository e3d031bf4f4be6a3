"""Section C of the cases: throttle.

Pure spacing (P5): one start every `perMs / limit` since the last, no burst, no credit.
"""

import pytest
from case_tools import Flaky, attempts_of, runs_of, send, status
from flow_tools import advance_to, began, send_at, send_each, starts, working

from duraton import ConcurrencyConfig, RetryConfig, ThrottleConfig, define_workflow


async def test_case_032_even_spacing(engine_of):
    async with engine_of(working(throttle=ThrottleConfig(4, 1000))) as engine:
        answers = await send_each(engine, [{"n": n} for n in range(8)])
        await engine.advance("1m")
        assert await began(engine) == [(n / 4, n) for n in range(8)]
        assert len({each.run_id for each in answers}) == 8


async def test_case_034_idle_time_earns_no_credit(engine_of):
    async with engine_of(working(throttle=ThrottleConfig(1, "1s"))) as engine:
        await send_at(engine, (0, {}), (3600, {}), (3600, {}), (3600, {}))
        await engine.advance("1m")
        assert starts(engine) == [0, 3600, 3601, 3602]


async def test_case_035_it_keeps_going_after_the_first_window(engine_of):
    async with engine_of(working(extra={"throttle": {"limit": 2, "perMs": 3000}})) as engine:
        await send_each(engine, [{}] * 10)
        await engine.advance("1h")
        assert starts(engine) == [1.5 * n for n in range(10)]


async def test_case_036_no_drift_with_an_interval_that_is_not_whole(engine_of):
    async with engine_of(working(throttle=ThrottleConfig(3, 1000))) as engine:
        await send_each(engine, [{}] * 301)
        await engine.advance("5m")
        found = starts(engine)
        assert len(found) == 301
        assert found[300] == pytest.approx(100, abs=0.001)
        wrong = [(n, at) for n, at in enumerate(found) if abs(at - n / 3) > 0.001]
        assert wrong == []


async def test_case_037_retries_and_resumptions_are_not_starts(engine_of):
    work = Flaky(2)

    async def handle(ctx):
        if ctx.event.data.get("who") != "e1":
            return
        await ctx.step.run("work", work)
        await ctx.step.sleep("nap", "3s")
        await ctx.step.run("last", lambda: None)

    throttle = ThrottleConfig(1, 10_000)
    workflow = define_workflow("w", handle, throttle=throttle, retry=RetryConfig(3))
    async with engine_of(workflow) as engine:
        e1 = await send(engine, "w", {"who": "e1"})
        e2 = await send(engine, "w", {"who": "e2"})
        await engine.advance("1m")
        assert runs_of(engine, "work", e1) == [0, 1, 2]
        assert attempts_of(engine, "work", e1) == [1, 2, 3]
        assert runs_of(engine, "last", e1) == [5]
        assert engine.started == [("w", e1, 0), ("w", e2, 10)]
        [step, *_] = (await engine.run(e1)).steps
        assert (step.id, step.attempts) == ("work", 3)


async def test_case_038_after_downtime_the_backlog_does_not_burst(engine_of):
    async with engine_of(working(throttle=ThrottleConfig(1, 1000))) as engine:
        await send_each(engine, [{"n": n} for n in range(10)])
        await advance_to(engine, 2.5)
        await engine.crash(down="5500ms")
        await engine.advance("1m")
        seconds = [0, 1, 2, 8, 9, 10, 11, 12, 13, 14]
        assert await began(engine) == [(at, n) for n, at in enumerate(seconds)]


async def test_case_039_a_cancelled_waiter_does_not_leave_a_hole(engine_of):
    async with engine_of(working(throttle=ThrottleConfig(1, 10_000))) as engine:
        e1, e2, e3 = [each.run_id for each in await send_each(engine, [{}] * 3)]
        await engine.advance("5s")
        await engine.act(e2, "cancel")
        await engine.advance("1m")
        assert engine.started == [("w", e1, 0), ("w", e3, 10)]
        assert await status(engine, e2) == "cancelled"


async def test_case_040_throttle_together_with_a_concurrency_limit(engine_of):
    workflow = working(3, throttle=ThrottleConfig(1, 1000), concurrency=ConcurrencyConfig(1))
    async with engine_of(workflow) as engine:
        await send_each(engine, [{}] * 3)
        await engine.advance("1m")
        assert starts(engine) == [0, 3, 6]
