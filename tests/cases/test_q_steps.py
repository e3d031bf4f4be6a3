"""Section Q of the cases: steps, their identity, parallelism and values. 195 means connect."""

import asyncio
import dataclasses
import time
from datetime import UTC, datetime

import pytest
from case_tools import Flaky, one_step, runs_of, send, status

from duraton import RetryConfig, define_workflow
from duraton_schemas.values import STEP_OUTPUT_BYTES_MAX


async def test_case_193_one_name_three_times_in_a_loop(duraton):
    async def handle(ctx):
        values = []
        for i in range(3):
            values.append(await ctx.step.run("sync", lambda i=i: i))
            await ctx.step.sleep("nap", "1s")
        return values

    async with duraton(define_workflow("w", handle)) as engine:
        run = await send(engine, "w")
        await engine.advance("10s")
        assert runs_of(engine, "sync") == [0, 1, 2]
        shown = await engine.run(run)
        assert shown.output == [0, 1, 2]
        assert [s.id for s in shown.steps if s.kind == "run"] == ["sync", "sync:1", "sync:2"]


async def test_case_195_a_slow_sibling_is_not_begun_twice(duraton):
    async def handle(ctx):
        async def a_then_b():
            await ctx.step.run("a", engine.clock.sleep, 0.3)
            await ctx.step.run("b", lambda: None)

        await asyncio.gather(a_then_b(), ctx.step.run("c", engine.clock.sleep, 3))

    async with duraton(define_workflow("w", handle)) as engine:
        run = await send(engine, "w")
        await engine.advance("10s")
        assert await status(engine, run) == "completed"
        assert [runs_of(engine, step) for step in "abc"] == [[0], [0.3], [0]]


async def test_case_196_the_winner_of_a_race_stays_the_winner(duraton):
    winners = []

    async def handle(ctx):
        a = asyncio.ensure_future(ctx.step.run("a", engine.clock.sleep, 2))
        b = asyncio.ensure_future(ctx.step.run("b", engine.clock.sleep, 1))
        done, _ = await asyncio.wait({a, b}, return_when=asyncio.FIRST_COMPLETED)
        winners.append("b" if b in done else "a")
        for n in range(5):
            await ctx.step.run(f"s{n}", lambda: None)
            await ctx.step.sleep(f"nap{n}", "5s")
        await a
        return winners[-1]

    async with duraton(define_workflow("w", handle)) as engine:
        run = await send(engine, "w")
        await engine.advance("7s")
        await engine.crash(runner=True)
        await engine.advance("1m")
        assert (await engine.run(run)).output == "b"
        assert len(winners) >= 5
        assert set(winners) == {"b"}
        assert runs_of(engine, "a") == runs_of(engine, "b") == [0]


async def test_case_197_code_between_steps_has_no_memory_steps_do(duraton):
    lines = []

    async def handle(ctx):
        for _ in range(3):
            lines.append("between")
            await ctx.step.run("count", lambda: None)
            await ctx.step.sleep("nap", "1s")

    async with duraton(define_workflow("w", handle)) as engine:
        run = await send(engine, "w")
        await engine.advance("10s")
        assert await status(engine, run) == "completed"
        assert runs_of(engine, "count") == [0, 1, 2]
        assert len(lines) > 3


class Plain:
    def __init__(self):
        self.name = "plain"
        self._hidden = 1


@dataclasses.dataclass
class Point:
    x: int
    y: int


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), "2026-01-02T03:04:05+00:00"),
        ({1: "one", "two": 2}, {"1": "one", "two": 2}),
        (Plain(), {"name": "plain"}),
        (Point(1, 2), {"x": 1, "y": 2}),
        ({"a": None}, {"a": None}),  # there is no undefined in Python
        ((1, 2), [1, 2]),
        ({3, 1, 2}, [1, 2, 3]),
        (None, None),
        (2**53, 2**53),
    ],
)
async def test_case_198_first_pass_and_replay_give_the_same_value(duraton, value, stored):
    seen = []

    async def handle(ctx):
        seen.append(await ctx.step.run("make", lambda: value))
        await ctx.step.sleep("nap", "1s")
        return seen[-1]

    async with duraton(define_workflow("w", handle)) as engine:
        run = await send(engine, "w")
        await engine.settle()
        assert seen == [stored]
        assert type(seen[0]) is type(stored)
        await engine.advance("1s")
        assert seen == [stored, stored]
        assert (await engine.run(run)).output == stored


def cycle():
    value = {}
    value["self"] = value
    return value


@pytest.mark.parametrize(
    "make",
    [
        lambda: float("nan"),
        lambda: float("inf"),
        lambda: 2**53 + 1,  # what a BigInt is in other languages
        lambda: b"bytes",
        cycle,
        lambda: "\ud800",
        lambda: {"deep": [float("-inf")]},
        object,
    ],
)
async def test_case_199_values_json_cannot_carry(duraton, make):
    async with duraton(one_step(make, retry=RetryConfig(5))) as engine:
        run = await send(engine, "w")
        await engine.advance("1h")
        assert runs_of(engine, "work") == [0]
        shown = await engine.run(run)
        assert shown.status == "failed"
        assert shown.error.code == "value-not-json"
        assert "work" in shown.error.message


async def test_case_199_what_a_handler_returns_is_held_to_the_same(duraton):
    async def handle(ctx):
        return {"n": float("nan")}

    async with duraton(define_workflow("w", handle, retry=RetryConfig(5))) as engine:
        run = await send(engine, "w")
        await engine.advance("1h")
        shown = await engine.run(run)
        assert (shown.status, shown.error.code) == ("failed", "value-not-json")


async def test_case_200_output_too_large(duraton):
    handled = []

    async def on_failure(ctx):
        handled.append(ctx.error.message)

    async def handle(ctx):
        await ctx.step.run("fits", lambda: "x" * (STEP_OUTPUT_BYTES_MAX - 2))
        await ctx.step.run("big", lambda: "x" * (STEP_OUTPUT_BYTES_MAX - 1))

    workflow = define_workflow("w", handle, retry=RetryConfig(5), on_failure=on_failure)
    async with duraton(workflow) as engine:
        run = await send(engine, "w")
        await engine.advance("1h")
        assert runs_of(engine, "big") == [0]
        shown = await engine.run(run)
        assert (shown.status, shown.error.code) == ("failed", "value-too-large")
        assert str(STEP_OUTPUT_BYTES_MAX) in shown.error.message
        assert len(handled) == 1
        assert len(shown.steps[0].output) == STEP_OUTPUT_BYTES_MAX - 2


async def test_case_201_two_thousand_steps(duraton):
    marks = []

    async def handle(ctx):
        for n in range(2_000):
            await ctx.step.run("step", nothing)
            if n % 500 == 499:
                marks.append(time.perf_counter())
        return "done"

    async def nothing():
        return None

    async with duraton(define_workflow("w", handle)) as engine:
        began = time.perf_counter()
        run = await send(engine, "w")
        await engine.settle()
        assert (await engine.run(run)).output == "done"
        assert len(engine.executions) == 2_000
        first, last = marks[0] - began, marks[3] - marks[2]
        # Measured: about the same; the bound is wide, since other tests may share the machine.
        assert last < 8 * first


async def test_case_201_two_thousand_steps_replayed(duraton):
    async def handle(ctx):
        for _ in range(2_000):
            await ctx.step.run("step", nothing)
        await ctx.step.sleep("nap", "1s")
        return "done"

    async def nothing():
        return None

    async with duraton(define_workflow("w", handle)) as engine:
        run = await send(engine, "w")
        await engine.settle()
        await engine.crash(runner=True)
        await engine.advance("1s")
        assert (await engine.run(run)).output == "done"
        assert len(engine.executions) == 2_000


async def test_case_201_a_step_more_than_allowed_fails_the_run(duraton):
    from duraton.testing import Settings

    async def handle(ctx):
        for _ in range(11):
            await ctx.step.run("step", Flaky(0))

    async with duraton(define_workflow("w", handle), settings=Settings(steps_max=10)) as engine:
        run = await send(engine, "w")
        await engine.settle()
        shown = await engine.run(run)
        assert (shown.status, shown.error.code) == ("failed", "steps-too-many")
