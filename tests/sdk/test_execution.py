import asyncio

from scripted_engine import ScriptedEngine

from duraton import App, NonRetriableError, RetryConfig, StepContext, define_workflow


def app_of(handler, **options):
    return App("shop", [define_workflow("work", handler, **options)])


async def test_three_steps_complete_with_their_stored_values():
    async def handle(ctx: StepContext):
        a = await ctx.step.run("a", lambda: (1, 2))

        async def double(x):
            return x * 2

        b = await ctx.step.run("b", double, a[1])
        c = await ctx.step.run("c", lambda: double(b))
        return {"a": a, "b": b, "c": c, "id": ctx.event.data["id"]}

    engine = ScriptedEngine(app_of(handle))
    run = engine.start("work", {"id": 7})
    await engine.settle()
    assert run.status == "completed"
    assert run.output == {"a": [1, 2], "b": 4, "c": 8, "id": 7}
    assert engine.steps_executed() == [("a", 1), ("b", 1), ("c", 1)]
    assert not engine.runner.executions


async def test_a_failed_step_pends_until_it_is_woken_and_never_raises():
    calls = []

    def flaky():
        calls.append(1)
        if len(calls) < 3:
            raise ValueError("not yet")
        return "done"

    async def handle(ctx: StepContext):
        try:
            return await ctx.step.run("a", flaky, retry=RetryConfig(max_attempts=3))
        except Exception:
            return "caught"

    engine = ScriptedEngine(app_of(handle))
    run = engine.start("work")
    for _ in range(2):
        await engine.settle()
        assert run.status == "waiting"
        engine.due(run, "a")
    await engine.settle()
    assert (run.status, run.output) == ("completed", "done")
    assert engine.steps_executed() == [("a", 1), ("a", 2), ("a", 3)]


async def test_a_final_failure_ends_the_run_and_stops_the_handler():
    ended = []

    def bad():
        raise ValueError("outer") from NonRetriableError("inner")

    async def handle(ctx: StepContext):
        try:
            await ctx.step.run("a", bad, retry=RetryConfig(max_attempts=5))
        finally:
            ended.append("finally")
            await ctx.step.run("cleanup", lambda: ended.append("cleanup"))

    engine = ScriptedEngine(app_of(handle))
    run = engine.start("work")
    await engine.settle()
    assert run.status == "failed"
    assert run.error is not None and run.error.final and run.error.message == "outer"
    assert ended == ["finally"]
    assert not engine.runner.executions


async def test_a_sleeping_run_suspends_and_goes_on_with_what_is_recorded():
    async def handle(ctx: StepContext):
        a = await ctx.step.run("a", lambda: 1)
        await ctx.step.sleep("nap", "1h")
        b = await ctx.step.run("b", lambda: 2)
        return a + b

    engine = ScriptedEngine(app_of(handle))
    run = engine.start("work")
    await engine.settle()
    assert run.status == "waiting" and not engine.runner.executions
    engine.wake(run, "nap")
    await engine.settle()
    assert (run.status, run.output) == ("completed", 3)
    assert engine.steps_executed() == [("a", 1), ("b", 1)]


async def test_a_live_handler_is_woken_while_a_sibling_executes():
    gate = asyncio.Event()

    async def slow():
        await gate.wait()
        return "slow"

    async def quick():
        return "after"

    async def handle(ctx: StepContext):
        async def napper():
            await ctx.step.sleep("nap", 1000)
            return await ctx.step.run("after", quick)

        return await asyncio.gather(ctx.step.run("slow", slow), napper())

    engine = ScriptedEngine(app_of(handle))
    run = engine.start("work")
    for _ in range(40):
        await asyncio.sleep(0)
    assert run.live
    engine.wake(run, "nap")
    for _ in range(200):
        await asyncio.sleep(0)
    assert run.steps[("after", 0)].number == 2
    gate.set()
    await engine.settle()
    assert run.output == ["slow", "after"]
    assert run.tokens == 1


async def test_changed_code_fails_for_good_and_names_the_step():
    step = "a"

    async def handle(ctx: StepContext):
        await ctx.step.run(step, lambda: 1)
        await ctx.step.sleep("nap", 1000)

    engine = ScriptedEngine(app_of(handle))
    run = engine.start("work")
    await engine.settle()
    step = "renamed"
    engine.wake(run, "nap")
    await engine.settle()
    assert run.status == "failed"
    assert run.error is not None and run.error.code == "nondeterministic" and run.error.final
    assert "'a'" in run.error.message and "'renamed'" in run.error.message


async def test_a_value_that_json_cannot_carry_fails_after_one_execution():
    async def handle(ctx: StepContext):
        await ctx.step.run("a", lambda: float("nan"), retry=RetryConfig(max_attempts=5))

    engine = ScriptedEngine(app_of(handle))
    run = engine.start("work")
    await engine.settle()
    assert run.status == "failed" and engine.steps_executed() == [("a", 1)]
    assert run.error is not None and run.error.code == "value-not-json"
