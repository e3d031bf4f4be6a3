"""Section K of the cases: the cap on a run's AI spend, and what it counts."""

import asyncio
import math
from itertools import count

import pytest
from case_tools import attempts_of, runs_of, send

from duraton import App, CapConfig, OptionsError, RetryConfig, define_workflow
from duraton.ai import Usage, meter

PRICES = {"version": "test-1", "models": {"m": {"input": 1.0, "output": 2.0, "cachedInput": 0.1}}}


@pytest.fixture(params=[(1, "connect"), (1, "serve"), (12, "connect"), (12, "serve")], ids=str)
def engines(request, duraton):
    """Makes engines with one partition and with twelve, by either transport."""
    partitions, transport = request.param

    def make(*apps, **more):
        return duraton(*apps, partitions=partitions, transport=transport, **more)

    return make


def answer(tokens, **more):
    """A model's answer that used so many tokens."""
    usage = {"prompt_tokens": tokens - tokens // 4, "completion_tokens": tokens // 4}
    return {"model": "m", "usage": usage, **more}


def calls(*tokens, **options):
    """A workflow that calls a model once for each of these, one after the other."""

    async def handle(ctx):
        for number, used in enumerate(tokens, 1):
            await ctx.step.ai.wrap(f"call-{number}", lambda used=used: answer(used))
        return "done"

    return define_workflow("w", handle, **options)


def made(engine, run=None):
    """The calls that were made, in order."""
    return [step for id, step, _, _ in engine.executions if run in (None, id)]


async def test_case_120_the_cap_halts_the_next_call(engines):
    async with engines(calls(600, 400, 10, cap=CapConfig(max_tokens=1000))) as engine:
        run = await send(engine, "w")
        await engine.settle()
        shown = await engine.run(run)
        assert made(engine) == ["call-1", "call-2"]
        assert [step.status for step in shown.steps] == ["completed", "completed", "failed"]
        assert [step.spend and step.spend.tokens for step in shown.steps] == [600, 400, None]
        assert (shown.status, shown.spend.tokens) == ("failed", 1000)
        assert (shown.error.name, shown.error.code) == ("BudgetError", "cap-reached")


async def test_case_121_overshoot_is_one_call(engines):
    async with engines(calls(5000, 10, cap=CapConfig(max_tokens=100))) as engine:
        run = await send(engine, "w")
        await engine.settle()
        shown = await engine.run(run)
        assert (made(engine), shown.spend.tokens) == (["call-1"], 5000)
        assert "maxTokens is 100 and the run has used 5000" in shown.error.message
        assert "maxCost" not in shown.error.message

    async def handle(ctx):
        usage = {"prompt_tokens": 40_000, "completion_tokens": 1_000, "cost": 0.01}
        await ctx.step.ai.wrap("big", dict, usage=lambda _: usage)
        await ctx.step.ai.wrap("more", dict, usage=lambda _: usage)

    workflow = define_workflow("w", handle, cap=CapConfig(max_cost=0.25, max_tokens=40_000))
    async with engines(workflow) as engine:
        run = await send(engine, "w")
        await engine.settle()
        shown = await engine.run(run)
        assert (made(engine), shown.spend.cost) == (["big"], 0.01)
        assert "maxTokens is 40000 and the run has used 41000" in shown.error.message
        assert "maxCost" not in shown.error.message


async def test_the_cap_on_cost_counts_what_the_price_table_says(engines):
    # 750 of the prompt at 1 and 250 of the completion at 2 micro-dollars.
    async with engines(calls(1000, 1000, 1000, cap=CapConfig(max_cost=0.0025))) as engine:
        await engine.set_prices(PRICES)
        run = await send(engine, "w")
        await engine.settle()
        shown = await engine.run(run)
        assert made(engine) == ["call-1", "call-2"]
        assert (shown.spend.cost, shown.steps[0].spend.prices) == (0.0025, "test-1")
        assert "maxCost is $0.0025 and the run has spent $0.0025" in shown.error.message
        assert "maxTokens" not in shown.error.message


async def test_case_122_a_halt_is_final_for_the_run(engines):
    told = []

    async def clean(ctx):
        told.append((ctx.error.name, ctx.error.message))

    async def handle(ctx):
        await ctx.step.ai.wrap("first", lambda: answer(1000))
        await ctx.step.ai.wrap("second", lambda: answer(10))

    workflow = define_workflow(
        "w", handle, cap={"maxTokens": 1000}, retry=RetryConfig(5), on_failure=clean
    )
    async with engines(workflow) as engine:
        run = await send(engine, "w")
        await engine.advance("10m")
        shown = await engine.run(run)
        assert (made(engine), shown.status) == (["first"], "failed")
        assert [error.attempt for error in shown.steps[1].errors] == [1]
        [(name, message)] = told
        assert name == "BudgetError" and "the cap is reached" in message
        assert [each.id for each in await engine.runs(status="failed")] == [run]


async def test_case_124_parallel_calls_are_each_checked_against_committed_spend(engines):
    async def handle(ctx):
        wrap = ctx.step.ai.wrap
        await asyncio.gather(*(wrap(id, lambda: answer(800)) for id in "abc"))
        await wrap("d", lambda: answer(10))

    async with engines(define_workflow("w", handle, cap={"maxTokens": 1000})) as engine:
        run = await send(engine, "w")
        await engine.settle()
        shown = await engine.run(run)
        assert sorted(made(engine)) == ["a", "b", "c"]
        assert (shown.status, shown.spend.tokens) == ("failed", 2400)
        assert shown.error.name == "BudgetError"


def by_parse(tries):
    async def handle(ctx):
        def parse(_):
            if next(tries) == 0:
                raise ValueError("no JSON")
            return "parsed"

        got = await ctx.step.ai.wrap("ask", lambda: answer(600), parse=parse)
        assert got == "parsed"
        await ctx.step.ai.wrap("more", lambda: answer(10))

    return handle


def by_meter(tries):
    async def handle(ctx):
        def ask():
            meter(answer(600))
            if next(tries) == 0:
                raise ValueError("no JSON")
            return "parsed"

        await ctx.step.ai.wrap("ask", ask)
        await ctx.step.ai.wrap("more", lambda: answer(10))

    return handle


@pytest.mark.parametrize("program", [by_parse, by_meter])
async def test_case_125_failed_attempts_cost_too(engines, program):
    workflow = define_workflow("w", program(count()), cap={"maxTokens": 1000}, retry=RetryConfig(3))
    async with engines(workflow) as engine:
        run = await send(engine, "w")
        await engine.advance("1m")
        shown = await engine.run(run)
        assert attempts_of(engine, "ask") == [1, 2]
        assert runs_of(engine, "more") == []
        assert (shown.steps[0].spend.tokens, shown.spend.tokens) == (1200, 1200)
        assert (shown.status, shown.error.name) == ("failed", "BudgetError")


async def test_attempts_are_checked_one_by_one(engines):
    async def handle(ctx):
        await ctx.step.ai.wrap("ask", lambda: answer(600), parse=lambda _: 1 / 0)

    workflow = define_workflow("w", handle, cap={"maxTokens": 1000}, retry=RetryConfig(5))
    async with engines(workflow) as engine:
        run = await send(engine, "w")
        await engine.advance("1m")
        shown = await engine.run(run)
        assert attempts_of(engine, "ask") == [1, 2]
        names = [each.error.name for each in shown.steps[0].errors]
        assert names == ["ZeroDivisionError", "ZeroDivisionError", "BudgetError"]


OPENAI = {
    "prompt_tokens": 1000, "completion_tokens": 10, "total_tokens": 1010,
    "prompt_tokens_details": {"cached_tokens": 900},
}  # fmt: skip
RESPONSES = {
    "input_tokens": 1000, "output_tokens": 10, "input_tokens_details": {"cached_tokens": 900}
}  # fmt: skip
ANTHROPIC = {"input_tokens": 100, "output_tokens": 10, "cache_read_input_tokens": 900}


@pytest.mark.parametrize(
    "usage", [OPENAI, RESPONSES, ANTHROPIC], ids=["chat", "responses", "other"]
)
async def test_case_126_cached_prompt_tokens_are_part_of_the_prompt(engines, usage):
    async def handle(ctx):
        await ctx.step.ai.wrap("ask", lambda: {"model": "m", "usage": usage})

    async with engines(define_workflow("w", handle)) as engine:
        await engine.set_prices(PRICES)
        run = await send(engine, "w")
        await engine.settle()
        shown = await engine.run(run)
        spend = shown.steps[0].spend
        assert (shown.spend.tokens, spend.prompt, spend.cached) == (1010, 1000, 900)
        assert shown.spend.cost == (100 * 1.0 + 900 * 0.1 + 10 * 2.0) / 1e6


NO_USAGE = [{"text": "hi"}, {"usage": None}, {"usage": {"prompt_tokens": math.nan}}, "hi"]


@pytest.mark.parametrize("given", NO_USAGE, ids=["none", "null", "nan", "text"])
async def test_case_127_a_call_without_usage(engines, given):
    async def handle(ctx):
        await ctx.step.ai.wrap("ask", lambda: given, parse=str)
        await ctx.step.ai.wrap("more", lambda: answer(1000))
        await ctx.step.ai.wrap("halted", lambda: answer(10))

    async with engines(define_workflow("w", handle, cap={"maxTokens": 1000})) as engine:
        run = await send(engine, "w")
        await engine.settle()
        shown = await engine.run(run)
        first = shown.steps[0]
        assert (first.status, first.spend.tokens, first.spend.usage_unknown) == (
            "completed",
            0,
            True,
        )
        assert (shown.spend.tokens, shown.spend.usage_unknown, shown.spend.cost) == (
            1000,
            True,
            None,
        )
        assert made(engine) == ["ask", "more"]
        assert shown.error.name == "BudgetError"


async def test_a_recorded_result_counts_once_however_often_it_is_replayed(engines):
    async def handle(ctx):
        await ctx.step.ai.wrap("a", lambda: answer(400))
        for _ in range(5):
            await ctx.step.sleep("nap", "1m")
        await ctx.step.ai.wrap("b", lambda: answer(400))
        await ctx.step.ai.wrap("c", lambda: answer(400))

    async with engines(define_workflow("w", handle, cap={"maxTokens": 1000})) as engine:
        run = await send(engine, "w")
        await engine.advance("150s")
        await engine.crash(runner=True)
        await engine.advance("1h")
        shown = await engine.run(run)
        assert (shown.status, shown.spend.tokens) == ("completed", 1200)
        assert made(engine) == ["a", "b", "c"]


async def test_spend_outlives_a_crash_between_two_calls(engines):
    async def handle(ctx):
        await ctx.step.ai.wrap("a", lambda: answer(1000))
        await ctx.step.sleep("nap", "1m")
        await ctx.step.ai.wrap("b", lambda: answer(10))

    async with engines(define_workflow("w", handle, cap={"maxTokens": 1000})) as engine:
        run = await send(engine, "w")
        await engine.settle()
        await engine.crash()
        await engine.advance("2m")
        assert made(engine) == ["a"]
        assert (await engine.run(run)).error.name == "BudgetError"


async def test_on_failure_has_a_cap_of_its_own_that_starts_at_nothing(engines):
    async def clean(ctx):
        await ctx.step.ai.wrap("explain", lambda: answer(900))
        await ctx.step.ai.wrap("more", lambda: answer(100))
        await ctx.step.ai.wrap("too-much", lambda: answer(1))

    async def handle(ctx):
        await ctx.step.ai.wrap("ask", lambda: answer(5000))
        await ctx.step.ai.wrap("again", lambda: answer(10))

    workflow = define_workflow("w", handle, cap={"maxTokens": 1000}, on_failure=clean)
    async with engines(workflow) as engine:
        run = await send(engine, "w")
        await engine.settle()
        assert made(engine, run) == ["ask", "onFailure/explain", "onFailure/more"]
        failed = await engine.run(run)
        handler = await engine.run(failed.on_failure.id)
        assert (failed.spend.tokens, handler.spend.tokens) == (5000, 1000)
        assert (handler.status, handler.error.name) == ("failed", "BudgetError")


async def test_a_redeploy_that_raises_the_cap_counts_at_the_next_invoke(engines):
    def workflow(cap):
        async def handle(ctx):
            await ctx.step.ai.wrap("a", lambda: answer(1000))
            await ctx.step.sleep("nap", "1m")
            await ctx.step.ai.wrap("b", lambda: answer(1000))
            return "done"

        return define_workflow("w", handle, cap=cap)

    async with engines(App("shop", [workflow({"maxTokens": 1000})])) as engine:
        first, second = await send(engine, "w"), await send(engine, "w")
        await engine.settle()
        await engine.act(second, "pause")
        await engine.advance("1m")
        assert (await engine.run(first)).error.name == "BudgetError"
        await engine.register(App("shop", [workflow({"maxTokens": 2000})]))
        await engine.act(second, "resume")
        await engine.settle()
        assert (await engine.run(second)).output == "done"


async def test_other_steps_are_not_halted(engines):
    async def handle(ctx):
        await ctx.step.ai.wrap("a", lambda: answer(1000))
        return await ctx.step.run("b", lambda: "done")

    async with engines(define_workflow("w", handle, cap={"maxTokens": 1})) as engine:
        run = await send(engine, "w")
        await engine.settle()
        assert (await engine.run(run)).output == "done"


@pytest.mark.parametrize(
    ("cap", "names"),
    [
        ({}, "maxCost"),
        ({"maxTokens": 0}, "maxTokens"),
        ({"maxTokens": -1, "maxCost": 1}, "maxTokens"),
        ({"maxTokens": 1.5}, "maxTokens"),
        ({"maxTokens": True}, "maxTokens"),
        ({"maxTokens": "many"}, "maxTokens"),
        ({"maxCost": 0}, "maxCost"),
        ({"maxCost": -0.5}, "maxCost"),
        ({"maxCost": math.nan}, "maxCost"),
        ({"maxCost": math.inf}, "maxCost"),
        ({"maxCost": 1e-9}, "maxCost"),
        ({"maxCost": 10**400}, "maxCost"),
        ({"maxToken": 5, "maxCost": 1}, "maxToken"),
    ],
)
async def test_a_cap_that_cannot_work_is_refused(duraton, cap, names):
    with pytest.raises(OptionsError, match=names):
        calls(1, cap=cap)


async def test_a_model_without_a_price_counts_its_tokens_and_is_told_of_once(duraton, caplog):
    async def handle(ctx):
        for number in range(3):
            await ctx.step.ai.wrap("ask", lambda: {"model": "new", "usage": OPENAI})
            await ctx.step.ai.wrap(f"known-{number}", lambda: answer(100))

    workflow = define_workflow("w", handle, cap={"maxCost": 1})
    async with duraton(workflow) as engine:
        await engine.set_prices(PRICES)
        run = await send(engine, "w")
        await engine.settle()
        shown = await engine.run(run)
        assert (shown.status, shown.spend.tokens) == ("completed", 3330)
        assert (shown.spend.cost, shown.spend.known_cost) == (None, 3 * 125 / 1e6)
        assert not shown.spend.usage_unknown
        told = [r.getMessage() for r in caplog.records if r.name == "duraton.prices"]
        assert len(told) == 1 and "'new'" in told[0] and "'test-1'" in told[0]


async def test_a_step_that_calls_two_models_costs_both(duraton):
    prices = {"version": "2", "models": {**PRICES["models"], "n": {"input": 10, "output": 20}}}

    async def loop():
        meter(answer(100))
        meter({"model": "n", "usage": {"prompt_tokens": 1, "completion_tokens": 1}})
        meter(answer(100))
        meter(Usage(model="own", cost=0.5))
        return {"usage": {"prompt_tokens": 999_999, "completion_tokens": 0}}

    async def handle(ctx):
        await ctx.step.ai.wrap("loop", loop)

    async with duraton(define_workflow("w", handle)) as engine:
        await engine.set_prices(prices)
        run = await send(engine, "w")
        await engine.settle()
        [step] = (await engine.run(run)).steps
        assert step.spend.cost == (2 * 125 + 10 + 20) / 1e6 + 0.5
        assert (step.spend.tokens, step.spend.model) == (202, "m, n, own")
