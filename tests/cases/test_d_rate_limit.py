"""Section D of the cases: rate limit.

At most `limit` admissions in any span of `perMs`; what is rejected is not counted (P7).
"""

import pytest
from case_tools import send, status
from flow_tools import send_at, send_each, starts, working

from duraton import ConcurrencyConfig, RateLimitConfig


def dropped(answers):
    """Whether each was dropped; what was dropped has no run."""
    assert all((answer.run_id is None) == answer.dropped for answer in answers)
    return [answer.dropped for answer in answers]


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 9, 10, 11])
async def test_case_041_small_limits_admit_their_full_number(engine_of, limit):
    async with engine_of(working(rate_limit=RateLimitConfig(limit, "24h"))) as engine:
        answers = await send_at(engine, *((n / 12, {}) for n in range(limit + 1)))
        await engine.settle()
        assert dropped(answers) == [False] * limit + [True]
        assert len(engine.started) == limit
        assert len(await engine.runs()) == limit


async def test_case_042_no_double_portion_around_a_clock_boundary(engine_of):
    # The clock begins at a round second.
    async with engine_of(working(rate_limit=RateLimitConfig(2, 1000))) as engine:
        answers = await send_at(engine, *((at, {}) for at in (0.9, 0.95, 1.05, 1.1, 1.901)))
        assert dropped(answers) == [False, False, True, True, False]
        assert starts(engine) == [0.9, 0.95, 1.901]


async def test_case_044_dropped_events_do_not_prolong_the_block(engine_of):
    async with engine_of(working(rate_limit=RateLimitConfig(1, 1000))) as engine:
        answers = await send_at(engine, *((n * 0.4, {}) for n in range(7)))
        assert dropped(answers) == [False, True, True, False, True, True, False]
        assert starts(engine) == [0, 1.2, 2.4]


async def test_case_045_a_failed_run_still_used_its_place(engine_of):
    async with engine_of(working(rate_limit=RateLimitConfig(1, 60_000))) as engine:
        [e1, e2] = await send_at(engine, (0, {"s": 0.01, "fail": True}), (0.1, {}))
        assert dropped([e1, e2]) == [False, True]
        assert await status(engine, e1.run_id) == "failed"
        # What was dropped can be seen at the event.
        [newest, _] = await engine.events(name="w")
        [led_to] = (await engine.event(newest.id)).runs
        assert (led_to.workflow, led_to.outcome, led_to.run_id) == ("w", "dropped", None)


async def test_case_046_the_answer_is_per_workflow(engine_of):
    w1 = working(name="w1", triggers=["e"], rate_limit=RateLimitConfig(1, 60_000))
    w2 = working(name="w2", triggers=["e"])
    async with engine_of(w1, w2) as engine:
        first = {each.workflow: each for each in await engine.send("e", {})}
        second = {each.workflow: each for each in await engine.send("e", {})}
        assert set(first) == set(second) == {"w1", "w2"}
        assert first["w1"].run_id and first["w2"].run_id
        assert (second["w1"].dropped, second["w1"].run_id) == (True, None)
        assert second["w2"].dropped is False and second["w2"].run_id


async def test_case_047_raising_the_limit_helps_at_once(engine_of):
    async with engine_of(working(rate_limit=RateLimitConfig(1, 60_000))) as engine:
        before = await send_at(engine, (0, {}), (5, {}))
        await engine.advance("5s")
        await engine.register(working(rate_limit=RateLimitConfig(3, 60_000)))
        after = await send_at(engine, (11, {}), (12, {}), (13, {}))
        assert dropped(before + after) == [False, True, False, False, True]
        assert starts(engine) == [0, 11, 12]


async def test_case_048_admitted_while_queued_is_already_counted(engine_of):
    workflow = working(5, rate_limit=RateLimitConfig(2, 1000), concurrency=ConcurrencyConfig(1))
    async with engine_of(workflow) as engine:
        answers = await send_each(engine, [{}, {}])
        answers += await send_at(engine, (0.9, {}), (4, {}))
        await engine.advance("1m")
        assert dropped(answers) == [False, False, True, False]
        assert starts(engine) == [0, 5, 10]


async def test_case_048_a_cancelled_run_keeps_its_place_in_the_window(engine_of):
    workflow = working(5, rate_limit=RateLimitConfig(2, 1000), concurrency=ConcurrencyConfig(1))
    async with engine_of(workflow) as engine:
        await send(engine, "w")
        queued = await send(engine, "w")
        await engine.act(queued, "cancel")
        [third] = await send_at(engine, (0.5, {}))
        assert third.dropped
