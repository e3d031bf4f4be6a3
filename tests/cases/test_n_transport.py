"""Section N of the cases: transport, crashes, zombies, poison. 165 to 173 mean serve."""

import asyncio

import pytest
from case_tools import ALWAYS, Flaky, attempts_of, one_step, runs_of, send, status

from duraton import App, RetryConfig, define_workflow
from duraton.testing import Settings


class Proxy:
    """Stands before a served app: each request is passed on or refused, as the test says.

    `decide(number)` gives None to pass it on, an HTTP status, or an exception to raise
    before (refused) or after (answer lost) the app has answered.
    """

    def __init__(self, decide):
        self.decide = decide
        self.times = []
        self.time = None

    def __call__(self, app):
        async def asgi(scope, receive, send):
            self.times.append(self.time.now())
            verdict = self.decide(len(self.times))
            if verdict is None:
                await app(scope, receive, send)
            elif isinstance(verdict, int):
                await send({"type": "http.response.start", "status": verdict, "headers": []})
                await send({"type": "http.response.body", "body": b"the proxy says no"})
            elif verdict == "lost":
                await app(scope, receive, swallow)
                raise ConnectionResetError("cut before the response")
            elif verdict == "hang":
                await asyncio.Event().wait()
            else:
                raise verdict

        return asgi


async def swallow(message):
    """Takes an answer that will not arrive."""


def refused():
    return ConnectionRefusedError("connection refused")


def served(duraton, workflow, decide, **more):
    proxy = Proxy(decide)
    engine = duraton(workflow, transport="serve", front=proxy, **more)
    proxy.time = engine.clock
    return engine, proxy


async def test_case_165_the_runner_is_away(duraton):
    engine, proxy = served(duraton, one_step(Flaky(0), retry=RetryConfig(5)), lambda n: refused())
    async with engine:
        run = await send(engine, "w")
        await engine.advance("10m")
        assert proxy.times == [0, 1, 2]
        assert engine.executions == []
        shown = await engine.run(run)
        assert (shown.status, shown.error.code) == ("failed", "runner-unreachable")
        assert "connection refused" in shown.error.message
        assert engine.facts(run)[-1].at - engine.clock.start_ms == 2000


async def test_case_166_a_blip_does_not_use_a_steps_attempt(duraton):
    engine, proxy = served(duraton, one_step(Flaky(0)), lambda n: refused() if n < 3 else None)
    async with engine:
        run = await send(engine, "w")
        await engine.advance("2s")
        assert await status(engine, run) == "completed"
        assert runs_of(engine, "work") == [2]
        assert attempts_of(engine, "work") == [1]
        assert proxy.times[:3] == [0, 1, 2]


async def test_case_167_the_transport_budget_is_per_invoke(duraton):
    async def handle(ctx):
        for n in range(5):
            await ctx.step.run(f"s{n}", lambda: None)

    workflow = define_workflow("w", handle)
    engine, _ = served(duraton, workflow, lambda n: None if n % 3 == 0 else refused())
    async with engine:
        run = await send(engine, "w")
        await engine.advance("1m")
        assert await status(engine, run) == "completed"
        assert [runs_of(engine, f"s{n}") for n in range(5)] == [[2 + 2 * n] for n in range(5)]


async def test_case_169_the_answer_is_lost_after_the_work_was_done(duraton):
    engine, _ = served(duraton, one_step(Flaky(0)), lambda n: "lost" if n == 1 else None)
    async with engine:
        run = await send(engine, "w")
        await engine.advance("1m")
        shown = await engine.run(run)
        assert shown.status == "completed"
        # At least once; a served process that still has the result need not do it again.
        assert 1 <= len(runs_of(engine, "work")) <= 2
        assert set(attempts_of(engine, "work")) == {1}
        [step] = shown.steps
        assert (step.status, step.attempts) == ("completed", 1)
        completed = [f for f in engine.facts(run) if type(f).__name__ == "StepCompleted"]
        assert len(completed) == 1


async def test_case_169_also_where_the_process_forgot_it(duraton):
    engine, _ = served(duraton, one_step(Flaky(0)), lambda n: "lost" if n == 1 else None)
    async with engine:
        run = await send(engine, "w")
        await engine.settle()
        await engine.crash(runner=True)
        await engine.advance("1m")
        shown = await engine.run(run)
        assert shown.status == "completed"
        assert attempts_of(engine, "work") == [1, 1]
        assert [step.attempts for step in shown.steps] == [1]


async def test_case_171_finished_is_finished(duraton):
    # The sweep of ours is a runner that is lost, or a hello that no longer lists the run.
    handled = []

    async def on_failure(ctx):
        handled.append(ctx.run.id)

    async def handle(ctx):
        return await ctx.step.run("work", engine.clock.sleep, ctx.event.data["s"])

    settings = Settings(silence_ms=1_000)
    workflow = define_workflow("w", handle, on_failure=on_failure)
    async with duraton(workflow, settings=settings) as engine:
        answers = await engine.send_many([("w", {"s": n / 1000}) for n in range(900, 1_100)])
        await engine.settle()
        engine.host.disconnect()
        await engine.advance("999ms")
        engine.host.connect()
        await engine.advance("1s")
        for [answer] in answers:
            assert await status(engine, answer.run_id) == "completed"
        assert len(engine.executions) == 200
        assert handled == []
        await engine.crash(runner=True)
        await engine.advance("1h")
        assert {run.status for run in await engine.runs()} == {"completed"}
        assert len(engine.executions) == 200


@pytest.mark.parametrize("transport", ["connect", "serve"])
async def test_case_172_a_long_step_is_not_declared_dead(duraton, transport):
    async def handle(ctx):
        return await ctx.step.run("long", engine.clock.sleep, 600)

    async with duraton(define_workflow("w", handle), transport=transport) as engine:
        run = await send(engine, "w")
        await engine.advance("5m")
        assert await status(engine, run) == "running"
        await engine.crash(down="5s")  # the log is away for 5 s
        await engine.advance("5m")
        assert await status(engine, run) == "completed"
        assert runs_of(engine, "long") == [0]


async def test_case_173_user_errors_and_server_errors_are_told_apart(duraton):
    workflow = one_step(Flaky(ALWAYS), retry=RetryConfig(4))
    engine, proxy = served(duraton, workflow, lambda n: None)
    async with engine:  # a
        run = await send(engine, "w")
        await engine.advance("1m")
        assert attempts_of(engine, "work") == [1, 2, 3, 4]
        assert (await engine.run(run)).error.message == "failure 4"

    engine, proxy = served(duraton, workflow, lambda n: 502)
    async with engine:  # b
        run = await send(engine, "w")
        await engine.advance("1m")
        assert proxy.times == [0, 1, 2]
        assert engine.executions == []
        assert "502" in (await engine.run(run)).error.message


async def test_case_173_an_unknown_workflow_is_named(duraton):
    app = App("shop", [one_step(Flaky(0))])
    other = App("shop", [one_step(Flaky(0), name="another")])
    engine, proxy = served(duraton, app, lambda n: None)
    async with engine:  # c
        engine.host.served.add(other)
        run = await send(engine, "w")
        await engine.advance("1m")
        assert proxy.times == [0, 1, 2]
        shown = await engine.run(run)
        assert shown.status == "failed"
        assert "404" in shown.error.message
        assert "shop/w" in shown.error.message


async def test_case_174_a_hung_front_does_not_block_the_queue(duraton):
    engine, _ = served(duraton, one_step(Flaky(0)), lambda n: "hang" if n <= 2 else None)
    async with engine:
        await engine.set_ceiling(2)
        hung = [await send(engine, "w"), await send(engine, "w")]
        healthy = await engine.send_many([("w", {"n": n}) for n in range(10)])
        await engine.settle()
        assert engine.executions == []
        await engine.advance("16s")
        for [answer] in healthy:
            assert await status(engine, answer.run_id) == "completed"
        assert {at for _, _, _, at in engine.executions if at < 16} == {15}
        await engine.advance("1s")
        assert [await status(engine, run) for run in hung] == ["completed", "completed"]


async def test_case_174_also_where_the_runner_has_two_places(duraton):
    engine, _ = served(
        duraton, one_step(Flaky(0)), lambda n: "hang" if n <= 2 else None, capacity=2
    )
    async with engine:
        hung = [await send(engine, "w"), await send(engine, "w")]
        healthy = await engine.send_many([("w", {"n": n}) for n in range(10)])
        await engine.advance("16s")
        for [answer] in healthy:
            assert await status(engine, answer.run_id) == "completed"
        await engine.advance("1s")
        assert [await status(engine, run) for run in hung] == ["completed", "completed"]
