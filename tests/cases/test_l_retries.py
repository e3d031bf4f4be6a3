"""Section L of the cases: retries and backoff."""

import asyncio
import math

import pytest
from case_tools import ALWAYS, Flaky, attempts_of, one_step, runs_of, send, status

from duraton import App, OptionsError, RetryConfig, define_workflow
from duraton_schemas.records.commands import RegisterApp
from duraton_schemas.records.common import Caller


@pytest.mark.parametrize("retry", [None, {"backoff": "exponential"}])
async def test_case_139_no_retry_unless_asked(duraton, retry):
    async with duraton(one_step(Flaky(ALWAYS), retry=retry)) as engine:
        run = await send(engine, "w")
        await engine.advance("1h")
        assert runs_of(engine, "work") == [0.0]
        assert await status(engine, run) == "failed"


async def failing_timeline(duraton, retry):
    async with duraton(one_step(Flaky(ALWAYS), retry=retry)) as engine:
        run = await send(engine, "w")
        await engine.advance("1h")
        shown = await engine.run(run)
        assert shown.status == "failed"
        assert attempts_of(engine, "work") == list(range(1, len(engine.executions) + 1))
        ended = engine.facts(run)[-1].at - engine.clock.start_ms
        return runs_of(engine, "work"), ended / 1000


async def test_case_140_exponential_timeline(duraton):
    retry = RetryConfig(5, "exponential", initial_delay_ms=1000, max_delay_ms=30000)
    assert await failing_timeline(duraton, retry) == ([0, 1, 3, 7, 15], 15)


async def test_case_141_linear_timeline_and_cap(duraton):
    retry = RetryConfig(4, "linear", initial_delay_ms=2000)
    assert await failing_timeline(duraton, retry) == ([0, 2, 6, 12], 12)
    retry = RetryConfig(4, "linear", initial_delay_ms=2000, max_delay_ms=5000)
    assert await failing_timeline(duraton, retry) == ([0, 2, 6, 11], 11)


async def test_case_143_the_cap_also_binds_a_large_base_delay(duraton):
    retry = RetryConfig(2, "fixed", initial_delay_ms=60000)
    assert await failing_timeline(duraton, retry) == ([0, 30], 30)


async def test_case_144_success_on_the_last_attempt_is_success(duraton):
    for failures, ended in ((2, "completed"), (3, "failed")):
        workflow = one_step(Flaky(failures), retry=RetryConfig(3))
        async with duraton(workflow) as engine:
            run = await send(engine, "w")
            await engine.advance("1m")
            assert await status(engine, run) == ended
            assert runs_of(engine, "work") == [0, 1, 2]


async def test_case_145_only_the_failing_step_is_repeated(duraton):
    flaky = Flaky(2)
    made = []

    async def handle(ctx):
        async def a():
            made.append(len(made))
            return {"made": made[-1]}

        got = await ctx.step.run("a", a)
        await ctx.step.run("b", flaky)
        return await ctx.step.run("c", lambda: got)

    async with duraton(define_workflow("w", handle, retry=RetryConfig(3))) as engine:
        run = await send(engine, "w")
        await engine.advance("10s")
        assert [len(runs_of(engine, step)) for step in "abc"] == [1, 3, 1]
        assert (await engine.run(run)).output == {"made": 0}


async def test_case_146_parallel_steps_have_separate_budgets(duraton):
    x, y = Flaky(2, "x"), Flaky(2, "y")

    async def handle(ctx):
        return await asyncio.gather(ctx.step.run("x", x), ctx.step.run("y", y))

    async with duraton(define_workflow("w", handle, retry=RetryConfig(3))) as engine:
        run = await send(engine, "w")
        await engine.advance("2s")
        assert runs_of(engine, "x") == runs_of(engine, "y") == [0, 1, 2]
        shown = await engine.run(run)
        assert (shown.status, shown.output) == ("completed", ["x", "y"])


async def test_case_147_per_step_policy(duraton):
    verify = Flaky(19)

    async def handle(ctx):
        retry = RetryConfig(30, "fixed", initial_delay_ms=5000)
        await ctx.step.run("verify", verify, retry=retry)
        await ctx.step.run("later", Flaky(ALWAYS))

    async with duraton(define_workflow("w", handle, retry=RetryConfig(3))) as engine:
        run = await send(engine, "w")
        await engine.advance("10m")
        assert runs_of(engine, "verify") == [5 * n for n in range(20)]
        assert runs_of(engine, "later") == [95, 96, 97]
        assert await status(engine, run) == "failed"


async def test_case_149_sleeping_does_not_touch_the_attempts(duraton):
    a, b = Flaky(1), Flaky(2)

    async def handle(ctx):
        await ctx.step.run("a", a)
        for _ in range(50):
            await ctx.step.sleep("nap", "1s")
        await ctx.step.run("b", b)

    retry = RetryConfig(3, "exponential", initial_delay_ms=1000)
    async with duraton(define_workflow("w", handle, retry=retry)) as engine:
        run = await send(engine, "w")
        await engine.advance("5m")
        assert await status(engine, run) == "completed"
        assert runs_of(engine, "a") == [0, 1]
        assert runs_of(engine, "b") == [51, 52, 54]
        assert attempts_of(engine, "b") == [1, 2, 3]


async def test_case_150_delays_are_exact_without_jitter(duraton):
    async def handle(ctx):
        return await ctx.step.run("work", Flaky(1))

    async with duraton(define_workflow("w", handle, retry=RetryConfig(2))) as engine:
        await engine.send_many([("w", {"n": n}) for n in range(100)])
        await engine.advance("3s")
        assert runs_of(engine, "work") == [0.0] * 100 + [1.0] * 100


async def test_case_151_while_retrying_it_is_not_a_failed_run(duraton):
    async with duraton(one_step(Flaky(ALWAYS), retry=RetryConfig(2))) as engine:
        run = await send(engine, "w")
        await engine.settle()
        assert await engine.runs(status="failed") == []
        assert (await engine.run(run)).waiting_for.kind == "backoff"
        await engine.advance("1s")
        [failed] = await engine.runs(status="failed")
        assert (failed.id, failed.error.message) == (run, "failure 2")


@pytest.mark.parametrize(
    "retry",
    [
        {"maxAttempts": 0},
        {"maxAttempts": -1},
        {"maxAttempts": 1.5},
        {"maxAttempts": math.nan},
        {"initialDelayMs": -1},
        {"backoff": "expo"},
    ],
)
async def test_case_152_values_that_make_no_policy(duraton, retry):
    with pytest.raises(OptionsError):
        one_step(Flaky(0), retry=retry)


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "NaN"])
async def test_case_152_the_engine_refuses_them_too(duraton, text):
    good = App("shop", [one_step(Flaky(0))])
    async with duraton(good) as engine:
        body = f'{{"name":"shop","workflows":[{{"name":"w","retry":{{"maxAttempts":{text}}}}}]}}'
        command = RegisterApp(
            id="c1", caller=Caller(kind="key", id="k", root="key:k"), app="shop", body=body
        )
        reply = await engine.during(engine.core.command(command))
        assert not reply.ok
        assert reply.code == "options-refused"
        run = await send(engine, "w")
        await engine.settle()
        assert await status(engine, run) == "completed"


async def test_case_152_no_longest_delay_retries_at_once(duraton):
    retry = RetryConfig(3, max_delay_ms=0)
    async with duraton(one_step(Flaky(2), retry=retry)) as engine:
        run = await send(engine, "w")
        await engine.settle()
        assert runs_of(engine, "work") == [0, 0, 0]
        assert await status(engine, run) == "completed"
