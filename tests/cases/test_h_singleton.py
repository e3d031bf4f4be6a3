"""Section H of the cases: singleton."""

import asyncio

import pytest
from case_tools import ALWAYS, Flaky, one_step, runs_of, send, status
from flow_tools import advance_to, scripted, send_at, send_each, starts, working

from duraton import (
    CapConfig,
    ConcurrencyConfig,
    NonRetriableError,
    RetryConfig,
    SingletonConfig,
    define_workflow,
)

BY_A = SingletonConfig(key="a", mode="skip")


async def test_case_083_fifty_at_once_one_run(engine_of):
    # One process here; whichever accepts an event, it is decided at the workflow's home.
    async with engine_of(working(1, singleton=BY_A)) as engine:
        answers = [
            answer
            for [answer] in await asyncio.gather(*(engine.send("w", {"a": 1}) for _ in range(50)))
        ]
        [first] = [answer for answer in answers if answer.run_id is not None]
        skipped = [answer for answer in answers if answer is not first]
        assert first.skipped is False
        assert all(answer.skipped for answer in skipped)
        assert {answer.blocked_by for answer in skipped} == {first.run_id}
        [late] = await send_at(engine, (1.1, {"a": 1}))
        assert late.skipped is False
        await engine.settle()
        assert engine.started == [("w", first.run_id, 0), ("w", late.run_id, 1.1)]
        assert len(await engine.runs()) == 2


async def test_case_083_a_skip_can_be_seen_at_its_event(engine_of):
    async with engine_of(working(1, singleton=BY_A)) as engine:
        await send_each(engine, [{"a": 1, "n": 1}, {"a": 1, "n": 2}])
        recorded = [await engine.event(each.id) for each in await engine.events(name="w")]
        [second] = [each for each in recorded if each.data["n"] == 2]
        [led_to] = second.runs
        assert (led_to.workflow, led_to.outcome, led_to.run_id) == ("w", "skipped", None)


@pytest.mark.parametrize(
    ("state", "shown", "event_at"),
    [
        ("sleep", "waiting", 1_800),
        ("wait", "waiting", 1_800),
        ("backoff", "waiting", 300),
        ("paused", "paused", 1_800),
    ],
)
async def test_case_084_whoever_has_not_ended_still_blocks(engine_of, state, shown, event_at):
    async def handle(ctx):
        if state == "wait":
            await ctx.step.wait_for_event("go", "go")
        elif state == "backoff":
            await ctx.step.run("work", work)
        else:
            await ctx.step.sleep("nap", "1h")

    work = Flaky(1)
    ten_minutes = RetryConfig(2, initial_delay_ms=600_000, max_delay_ms=600_000)
    workflow = define_workflow("w", handle, singleton=BY_A, retry=ten_minutes)
    async with engine_of(workflow) as engine:
        first = await send(engine, "w", {"a": 1})
        await engine.advance("1m")
        if state == "paused":
            await engine.act(first, "pause")
        [answer] = await send_at(engine, (event_at, {"a": 1}))
        assert await status(engine, first) == shown
        assert (answer.skipped, answer.run_id, answer.blocked_by) == (True, None, first)
        assert len(await engine.runs()) == 1


async def test_case_085_a_queued_run_already_counts(engine_of):
    async with engine_of(working(60, singleton=BY_A, concurrency=ConcurrencyConfig(1))) as engine:
        _, queued, second = await send_at(engine, (0, {"a": 2}), (1, {"a": 1}), (2, {"a": 1}))
        assert await status(engine, queued.run_id) == "queued"
        assert (second.skipped, second.blocked_by) == (True, queued.run_id)
        await engine.advance("5m")
        assert starts(engine) == [0, 60]


async def test_case_086_the_lock_has_no_lifetime_of_its_own(engine_of):
    async with engine_of(working(3 * 3600, singleton=SingletonConfig())) as engine:
        minutes = (0, 1, 60, 2 * 60 + 59)
        answers = await send_at(engine, *((minute * 60, {}) for minute in minutes))
        assert [each.skipped for each in answers] == [False, True, True, True]
        await engine.advance("2m")
        [after] = await engine.send("w", {})
        assert after.run_id


def ends_by_failing(error):
    return one_step(Flaky(ALWAYS, error=lambda _n: error), singleton=BY_A, retry=RetryConfig(2))


@pytest.mark.parametrize(
    ("workflow", "ends"),
    [
        (working(1, singleton=BY_A), "completed"),
        (ends_by_failing(ValueError("no")), "failed"),
        (ends_by_failing(NonRetriableError("no")), "failed"),
    ],
    ids=["completing", "failing", "NonRetriableError"],
)
async def test_case_087_every_ending_releases_it(engine_of, workflow, ends):
    async with engine_of(workflow) as engine:
        first = await send(engine, "w", {"a": 1})
        await engine.advance("1m")
        assert await status(engine, first) == ends
        assert await send(engine, "w", {"a": 1}) != first


@pytest.mark.parametrize("queued", [False, True])
async def test_case_087_also_cancelling(engine_of, queued):
    async with engine_of(working(60, singleton=BY_A, concurrency=ConcurrencyConfig(1))) as engine:
        if queued:
            await send(engine, "w", {"a": 2})
        first = await send(engine, "w", {"a": 1})
        await engine.settle()
        assert await status(engine, first) == ("queued" if queued else "running")
        await engine.act(first, "cancel")
        assert await send(engine, "w", {"a": 1}) != first


async def test_case_087_also_the_third_failed_invoke(engine_of):
    calls = []

    def front(app):
        async def asgi(scope, receive, send):
            calls.append(engine.clock.now())
            if len(calls) <= 3:
                raise ConnectionRefusedError("connection refused")
            await app(scope, receive, send)

        return asgi

    workflow = working(singleton=BY_A)
    async with engine_of(workflow, transport="serve", front=front) as engine:
        first = await send(engine, "w", {"a": 1})
        [while_retried] = await send_at(engine, (1, {"a": 1}))
        assert while_retried.skipped
        await engine.advance("1m")
        assert calls == [0, 1, 2]
        assert await status(engine, first) == "failed"
        second = await send(engine, "w", {"a": 1})
        await engine.settle()
        assert await status(engine, second) == "completed"


async def test_case_087_also_a_budget_error(engine_of):
    workflow = scripted(singleton=BY_A, cap=CapConfig(max_tokens=10))
    async with engine_of(workflow) as engine:
        first = await send(engine, "w", {"a": 1, "do": [["ai", 10], ["ai", 10]]})
        await engine.settle()
        shown = await engine.run(first)
        assert (shown.status, shown.error.name) == ("failed", "BudgetError")
        assert await send(engine, "w", {"a": 1, "do": []}) != first


@pytest.mark.parametrize("runner", [False, True])
async def test_case_088_the_lock_survives_an_engine_restart_with_its_run(engine_of, runner):
    async with engine_of(working(60, singleton=BY_A)) as engine:
        first = await send(engine, "w", {"a": 1})
        await engine.advance("1s")
        await engine.crash(down="1s", runner=runner)
        [second] = await send_at(engine, (3, {"a": 1}))
        assert await status(engine, first) == "running"
        assert (second.skipped, second.blocked_by) == (True, first)


async def test_case_089_on_failure_does_not_hold_the_lock(engine_of):
    async def on_failure(ctx):
        await ctx.step.run("undo", engine.clock.sleep, 59)

    async with engine_of(working(1, singleton=BY_A, on_failure=on_failure)) as engine:
        first = await send(engine, "w", {"a": 1, "fail": True})
        await advance_to(engine, 5)
        assert runs_of(engine, "onFailure/undo", first) == [1]
        second = await send(engine, "w", {"a": 1})
        await engine.settle()
        assert engine.started == [("w", first, 0), ("w", second, 5)]
        assert (await engine.run(first)).on_failure.status == "running"
