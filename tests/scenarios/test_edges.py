"""Edges of runs: places at runners, versions, nested children, instants that coincide."""

import asyncio

import pytest
from scenario_tools import began, shown, start

from duraton import App, RetryConfig, define_workflow
from duraton.testing import Engine, Settings


@pytest.fixture(params=[("connect", 1), ("connect", 12), ("serve", 1), ("serve", 12)], ids=str)
def engines(request):
    transport, partitions = request.param

    def make(*apps, **more):
        return Engine(*apps, transport=transport, partitions=partitions, **more)

    return make


async def test_a_sleeping_run_gives_its_place_away(engines):
    async def handle(ctx):
        await ctx.step.run("work", engine.clock.sleep, 1)
        await ctx.step.sleep("nap", "10s")
        await ctx.step.run("again", engine.clock.sleep, 1)

    async with engines(define_workflow("w", handle), capacity=1) as engine:
        for _ in range(3):
            await start(engine)
        await engine.advance("1m")
        assert began(engine, "work") == [0, 1, 2]
        assert began(engine, "again") == [11, 12, 13]


async def test_queued_runs_keep_their_order(engines):
    async def handle(ctx):
        await ctx.step.run("work", engine.clock.sleep, 1)

    async with engines(define_workflow("w", handle), capacity=1) as engine:
        answers = await engine.send_many([("w", {"n": n}) for n in range(8)])
        await engine.advance("3s")
        await engine.crash()
        await engine.advance("10s")
        assert [run for _, run, _ in engine.started] == [a.run_id for [a] in answers]


async def test_a_waking_run_goes_before_newer_starts(engines):
    async def handle(ctx):
        if ctx.event.data.get("nap"):
            await ctx.step.sleep("nap", "5s")
        await ctx.step.run("work", engine.clock.sleep, 2)

    async with engines(define_workflow("w", handle), capacity=1) as engine:
        old = await start(engine, data={"nap": True})
        await engine.advance("4s")
        for _ in range(3):
            await start(engine)
        await engine.advance("1m")
        assert began(engine, "work", old) == [6]


async def test_a_workflow_that_was_removed_waits_for_a_runner(engines):
    async def handle(ctx):
        await ctx.step.sleep("nap", "10s")
        return "done"

    async def other(ctx):
        return "other"

    workflow = define_workflow("w", handle)
    async with engines(App("shop", [workflow])) as engine:
        run = await start(engine)
        await engine.advance("5s")
        await engine.register(App("shop", [define_workflow("other", other)]))
        await engine.advance("1h")
        found = await engine.run(run)
        assert (found.status, found.waiting_for.kind) == ("queued", "runner")
        assert await engine.send("w", {}) == []
        await engine.register(App("shop", [workflow, define_workflow("other", other)]))
        await engine.settle()
        assert await shown(engine, run) == [("completed", "done")]


async def test_policies_are_read_at_the_moment_of_the_decision(engines):
    async def handle(ctx):
        await ctx.step.run("work", lambda: 1 / 0)

    first = define_workflow("w", handle, retry=RetryConfig(2, initial_delay_ms=10_000))
    second = define_workflow("w", handle, retry=RetryConfig(4, initial_delay_ms=1_000))
    async with engines(first) as engine:
        await start(engine)
        await engine.advance("5s")
        await engine.register(second)
        await engine.advance("1m")
        assert began(engine, "work") == [0, 10, 11, 12]


async def test_children_of_children_of_other_apps(engines):
    async def handle(ctx):
        depth = ctx.event.data["depth"]
        if depth == 0:
            return 1
        app = "one" if depth % 2 else "two"
        both = await asyncio.gather(
            ctx.step.invoke("left", f"{app}/w", {"depth": depth - 1}),
            ctx.step.invoke("right", f"{app}/w", {"depth": depth - 1}),
        )
        return sum(both)

    def app(name):
        return App(name, [define_workflow("w", handle, triggers=[f"{name}.go"])])

    async with engines(app("one"), app("two")) as engine:
        run = await start(engine, "one.go", {"depth": 4})
        await engine.settle()
        assert await shown(engine, run) == [("completed", 16)]
        assert len(await engine.runs()) == 31


async def test_many_workflows_of_one_event(engines):
    async def handle(ctx):
        return await ctx.step.run("work", lambda: ctx.event.data["n"])

    workflows = [define_workflow(f"w{n}", handle, triggers=["go"]) for n in range(40)]
    async with engines(*workflows) as engine:
        answers = await engine.send("go", {"n": 1})
        await engine.settle()
        assert len({answer.run_id for answer in answers}) == 40
        assert {run.status for run in await engine.runs()} == {"completed"}


async def test_two_waits_of_one_run_for_one_event(engines):
    async def handle(ctx):
        one, two, three = await asyncio.gather(
            ctx.step.wait_for_event("one", "go"),
            ctx.step.wait_for_event("two", "go", match={"k": "x"}),
            ctx.step.wait_for_event("three", "go", match={"k": "y"}, timeout="5s"),
        )
        return [one.data["n"], two.data["n"], three]

    async with engines(define_workflow("w", handle)) as engine:
        run = await start(engine)
        await engine.settle()
        await engine.send("go", {"n": 1, "k": "x"})
        await engine.settle()
        assert await shown(engine, run) == [("waiting", None)]
        await engine.advance("5s")
        assert await shown(engine, run) == [("completed", [1, 1, None])]


async def test_an_event_at_the_instant_of_the_time_out_is_one_of_both(engines):
    async def handle(ctx):
        found = await ctx.step.wait_for_event("go", "go", timeout="5s")
        return None if found is None else found.data["n"]

    async with engines(define_workflow("w", handle)) as engine:
        run = await start(engine)
        await engine.advance("4999ms")
        sent = asyncio.ensure_future(engine.send("go", {"n": 1}))
        await engine.advance("1ms")
        await sent
        await engine.settle()
        [(status, output)] = await shown(engine, run)
        assert status == "completed"
        assert output in (None, 1)


async def test_sleeps_that_are_over_at_once(engines):
    async def handle(ctx):
        await ctx.step.sleep("zero", 0)
        await ctx.step.sleep_until("past", "2001-01-01T00:00:00Z")
        await ctx.step.wait_for_event("never", "never", timeout=0)
        return "done"

    async with engines(define_workflow("w", handle)) as engine:
        run = await start(engine)
        await engine.settle()
        assert await shown(engine, run) == [("completed", "done")]
        assert engine.clock.now() == 0


async def test_a_run_holds_no_more_than_it_may(engines):
    async def handle(ctx):
        for n in range(10):
            await ctx.step.run(f"s{n}", lambda: "x" * 1_000)

    settings = Settings(run_bytes_max=5_000)
    workflow = define_workflow("w", handle, retry=RetryConfig(3))
    async with engines(workflow, settings=settings) as engine:
        run = await start(engine)
        await engine.advance("1m")
        found = await engine.run(run)
        assert (found.status, found.error.code) == ("failed", "run-state-too-large")
        assert [len(began(engine, f"s{n}")) for n in range(6)] == [1, 1, 1, 1, 1, 0]


async def test_late_answers_of_a_cancelled_run_change_nothing(engines):
    async def handle(ctx):
        await ctx.step.run("stubborn", stubborn)
        await ctx.step.run("after", lambda: None)

    async def stubborn():
        for _ in range(10):
            try:
                await engine.clock.sleep(1)
            except asyncio.CancelledError:
                continue

    async with engines(define_workflow("w", handle)) as engine:
        run = await start(engine)
        await engine.advance("1s")
        await engine.act(run, "cancel")
        await engine.advance("1m")
        assert await shown(engine, run) == [("cancelled", None)]
        assert began(engine, "after") == []


async def test_a_failed_step_ends_its_siblings(engines):
    async def handle(ctx):
        await asyncio.gather(
            ctx.step.run("fails", lambda: 1 / 0),
            ctx.step.run("long", engine.clock.sleep, 60),
            ctx.step.sleep("nap", "10s"),
        )

    async with engines(define_workflow("w", handle)) as engine:
        run = await start(engine)
        await engine.advance("2m")
        found = await engine.run(run)
        assert found.status == "failed"
        assert "division" in found.error.message
        assert began(engine, "long") == [0]


async def test_steps_in_nested_groups_and_races(engines):
    async def handle(ctx):
        out = []

        async def worker(n):
            for k in range(3):
                out.append(await ctx.step.run(f"w{n}", lambda: n))
                if k == 1:
                    await ctx.step.sleep(f"nap{n}", f"{n}s")

        async with asyncio.TaskGroup() as group:
            for n in range(1, 5):
                group.create_task(worker(n))
        return out

    async with engines(define_workflow("w", handle, retry=RetryConfig(2))) as engine:
        run = await start(engine)
        await engine.advance("2s")
        await engine.crash(runner=True)
        await engine.advance("1m")
        [(status, output)] = await shown(engine, run)
        assert status == "completed"
        assert sorted(output) == sorted([1, 2, 3, 4] * 3)
        assert len(engine.executions) == 12


async def test_a_handler_that_fails_after_a_crash_keeps_counting(engines):
    async def handle(ctx):
        await ctx.step.run("a", lambda: None)
        raise ValueError(f"attempt {ctx.attempt}")

    workflow = define_workflow("w", handle, retry=RetryConfig(3, initial_delay_ms=10_000))
    async with engines(workflow) as engine:
        run = await start(engine)
        await engine.advance("5s")
        await engine.crash(down="20s", runner=True)
        assert (await engine.run(run)).waiting_for.kind == "backoff"
        await engine.advance("1m")
        found = await engine.run(run)
        assert (found.status, found.error.message) == ("failed", "attempt 3")
        assert began(engine, "a") == [0]
