"""Section P of the cases: failed runs, replay, retry-from-step.

What these cases say of concurrency, throttle, idempotency, rate limit, debounce, batch and
singleton needs those controls, which come later; here is what needs none of them.
"""

import asyncio

import pytest
from case_tools import ALWAYS, Flaky, attempts_of, one_step, runs_of, send, status

from duraton import RetryConfig, define_workflow
from duraton.testing import RefusedError


async def test_case_184_a_replay_is_a_new_run(duraton):
    asked = []

    async def ask(prompt):
        asked.append(prompt)
        return {"text": "yes", "usage": {"prompt_tokens": 400, "completion_tokens": 500}}

    charge = Flaky(3)

    async def handle(ctx):
        await ctx.step.ai.wrap("ask", ask, "hello")
        return await ctx.step.run("charge", charge)

    workflow = define_workflow("w", handle, retry=RetryConfig(3))
    async with duraton(workflow) as engine:
        first = await send(engine, "w", {"order": 7})
        await engine.advance("10s")
        old = await engine.run(first)
        assert (old.status, old.spend.tokens) == ("failed", 900)

        new = await engine.act(first, "replay")
        assert new.id != first and new.replay_of == first
        assert new.triggers == old.triggers and new.triggers[0].data == {"order": 7}
        await engine.settle()
        new = await engine.run(new.id)
        assert (new.status, new.output) == ("completed", "ok")
        assert [(step.id, step.attempts, step.carried) for step in new.steps] == [
            ("ask", 1, False),
            ("charge", 1, False),
        ]
        assert new.spend.tokens == 900 and len(asked) == 2

        after = await engine.run(first)
        assert (after.status, after.error.message) == ("failed", "failure 3")
        assert [(run.id, run.status) for run in after.replays] == [(new.id, "completed")]


async def test_case_186_the_step_budget_is_whole_again(duraton):
    async def handle(ctx):
        await ctx.step.run("a", lambda: 1)
        await ctx.step.run("work", Flaky(ALWAYS))

    workflow = define_workflow("w", handle, retry=RetryConfig(3))
    async with duraton(workflow) as engine:
        run = await send(engine, "w")
        await engine.advance("10s")
        assert attempts_of(engine, "work", run) == [1, 2, 3]
        for act, step in (("replay", {}), ("retry-from-step", {"step": "work"})):
            new = await engine.act(run, act, **step)
            await engine.advance("10s")
            assert attempts_of(engine, "work", new.id) == [1, 2, 3]
            assert await status(engine, new.id) == "failed"


async def test_case_186_the_transport_budget_is_whole_again(duraton):
    invokes = []

    def front(app):
        async def asgi(scope, receive, send):
            invokes.append(engine.clock.now())
            if down:
                raise ConnectionRefusedError("down")
            await app(scope, receive, send)

        return asgi

    async def handle(ctx):
        await ctx.step.run("a", lambda: 1)
        return await ctx.step.run("b", lambda: 2)

    down = True
    async with duraton(define_workflow("w", handle), transport="serve", front=front) as engine:
        run = await send(engine, "w")
        await engine.advance("8s")
        assert await status(engine, run) == "failed" and len(invokes) == 3
        new = await engine.act(run, "replay")
        await engine.advance("1s")
        assert await status(engine, new.id) == "waiting"  # two of its own three are used
        down = False
        await engine.advance("10s")
        assert await status(engine, new.id) == "completed"


async def test_case_188_replays_wait_for_room_at_the_runner(duraton):
    broken = True
    working = most = 0

    async def work():
        nonlocal working, most
        if broken:
            raise ValueError("down")
        working += 1
        most = max(most, working)
        await engine.clock.sleep(1)
        working -= 1

    async with duraton(one_step(work), capacity=5) as engine:
        runs = [await send(engine, "w", {"n": n}) for n in range(100)]
        await engine.settle()
        broken = False
        job = await engine.bulk("replay", status="failed", workflow="w")
        assert job.total == 100
        await engine.advance("60s")
        job = await engine.job(job.id)
        assert (job.status, job.done, job.refused) == ("completed", 100, 0)
        assert most == 5
        replays = {run.replay_of for run in await engine.runs(status="completed")}
        assert replays == set(runs)


async def test_case_189_a_replay_is_not_deduped_or_delayed_as_an_event(duraton):
    work = Flaky(1)

    async def code():
        await engine.clock.sleep(6)
        return await work()

    async with duraton(one_step(code)) as engine:
        first = await send(engine, "w", {"n": 1}, dedupe_id="d")
        await engine.advance("10s")
        assert await status(engine, first) == "failed"
        new = await engine.act(first, "replay")
        await engine.advance("10s")
        assert [(run, at) for _, run, at in engine.started] == [(first, 0), (new.id, 10)]
        assert (await engine.run(new.id)).triggers[0].data == {"n": 1}
        assert await engine.send("w", {"n": 1}, dedupe_id="d") == []


async def test_case_190_a_replay_has_the_same_events(duraton):
    seen = []

    async def handle(ctx):
        seen.append([(event.id, event.data, event.ts, event.subject) for event in ctx.events])
        await ctx.step.run("work", work)

    work = Flaky(1)
    async with duraton(define_workflow("w", handle)) as engine:
        run = await send(engine, "w", {"n": 1}, subject="row-1")
        await engine.advance("5s")
        await engine.act(run, "replay")
        await engine.settle()
        assert len(seen) == 2 and seen[0] == seen[1]
        assert seen[0][0][1] == {"n": 1} and seen[0][0][3] == "row-1"


async def test_case_192_a_step_that_is_not_there(duraton):
    async def handle(ctx):
        await ctx.step.run("a", lambda: 1)
        await ctx.step.run("b", Flaky(ALWAYS))
        await ctx.step.run("c", lambda: 3)

    async with duraton(define_workflow("w", handle)) as engine:
        run = await send(engine, "w")
        await engine.settle()
        for step in ("nope", "c"):
            with pytest.raises(RefusedError) as refused:
                await engine.act(run, "retry-from-step", step=step)
            assert refused.value.engine_code == "step-unknown"
            assert f"no step '{step}'; it has called 'a', 'b'" in str(refused.value)
        assert len(await engine.runs()) == 1

        first = await engine.act(run, "retry-from-step", step="a")
        whole = await engine.act(run, "replay")
        await engine.settle()
        for new in (first.id, whole.id):
            assert [len(runs_of(engine, step, new)) for step in "abc"] == [1, 1, 0]
            shown = await engine.run(new)
            assert [step.carried for step in shown.steps] == [False, False]


async def test_case_192_what_was_done_is_not_done_again(duraton):
    """Retry from the failed step: everything before it, and its siblings, are carried."""

    async def handle(ctx):
        a = await ctx.step.run("a", lambda: 1)
        b, c = await asyncio.gather(ctx.step.run("b", work), ctx.step.run("c", slow))
        return [a, b, c]

    async def work():
        await engine.clock.sleep(5)
        return await fails()

    async def slow():
        await engine.clock.sleep(1)
        return "c"

    fails = Flaky(1)
    async with duraton(define_workflow("w", handle)) as engine:
        run = await send(engine, "w")
        await engine.advance("10s")
        new = await engine.act(run, "retry-from-step", step="b")
        await engine.advance("10s")
        shown = await engine.run(new.id)
        assert (shown.status, shown.output) == ("completed", [1, "ok", "c"])
        assert [step for id, step, _, _ in engine.executions if id == new.id] == ["b"]
        assert (shown.replay_of, shown.replay_step) == (run, "b")
        assert [(s.id, s.carried) for s in shown.steps] == [("a", True), ("c", True), ("b", False)]
