"""Pause, resume, cancel in each state; a decision that raises; waits that are one too many."""

import asyncio

import pytest

from duraton import RetryConfig, define_workflow
from duraton.testing import RefusedError, Settings
from duraton_engine.calls import Answered
from duraton_engine.machine import EngineMachine
from duraton_schemas.wire.frames import Step


def began(engine, step):
    return [at for _, name, _, at in engine.executions if name == step]


async def start(engine, name="w", data=None):
    [answer] = await engine.send(name, data or {})
    return answer.run_id


@pytest.mark.parametrize("transport", ["connect", "serve"])
async def test_what_executes_finishes_and_nothing_new_begins(duraton, transport):
    async def handle(ctx):
        a = await ctx.step.run("a", engine.clock.sleep, 10)
        b = await ctx.step.run("b", lambda: "b")
        return [a, b]

    async with duraton(define_workflow("w", handle), transport=transport) as engine:
        run = await start(engine)
        await engine.advance("5s")
        assert (await engine.act(run, "pause")).status == "paused"
        await engine.advance("55s")
        shown = await engine.run(run)
        assert shown.status == "paused"
        assert [(step.id, step.status) for step in shown.steps] == [("a", "completed")]
        assert began(engine, "b") == []
        await engine.act(run, "resume")
        await engine.settle()
        assert began(engine, "a") == [0]
        assert began(engine, "b") == [60]
        assert (await engine.run(run)).output == [None, "b"]
        # No invoke was lost by it.
        assert not [f for f in engine.facts(run) if type(f).__name__ == "InvokeFailed"]


async def test_a_pause_between_a_call_and_its_beginning_keeps_it_from_beginning(duraton):
    ids = []

    async def handle(ctx):
        await ctx.step.run("a", stop_me)
        await ctx.step.run("b", lambda: None)

    async def stop_me():
        # The pause is recorded while a is still executing, so b must not begin.
        ids.append(asyncio.ensure_future(engine.act(run, "pause")))
        await engine.clock.sleep(1)

    async with duraton(define_workflow("w", handle)) as engine:
        run = await start(engine)
        await engine.advance("10s")
        await ids[0]
        assert (await engine.run(run)).status == "paused"
        assert began(engine, "b") == []
        await engine.act(run, "resume")
        await engine.settle()
        assert (await engine.run(run)).status == "completed"
        assert (began(engine, "a"), began(engine, "b")) == ([0], [10])


async def test_paused_with_parallel_steps(duraton):
    async def handle(ctx):
        async def branch(name, seconds):
            await ctx.step.run(name, engine.clock.sleep, seconds)
            await ctx.step.run(name + "2", lambda: None)

        async def asleep():
            await ctx.step.sleep("nap", "4s")
            await ctx.step.run("awake", lambda: None)

        await asyncio.gather(branch("x", 2), branch("y", 6), asleep())

    async with duraton(define_workflow("w", handle)) as engine:
        run = await start(engine)
        await engine.advance("1s")
        await engine.act(run, "pause")
        await engine.advance("1m")
        assert {name for _, name, _, _ in engine.executions} == {"x", "y"}
        shown = await engine.run(run)
        assert {s.id: s.status for s in shown.steps} == {
            "x": "completed",
            "y": "completed",
            "nap": "completed",
        }
        await engine.act(run, "resume")
        await engine.settle()
        assert (await engine.run(run)).status == "completed"
        assert sorted(name for _, name, _, _ in engine.executions) == [
            "awake",
            "x",
            "x2",
            "y",
            "y2",
        ]


async def test_resumed_before_what_executes_has_ended(duraton):
    async def handle(ctx):
        await ctx.step.run("a", engine.clock.sleep, 10)
        await ctx.step.run("b", lambda: None)

    async with duraton(define_workflow("w", handle)) as engine:
        run = await start(engine)
        await engine.advance("2s")
        await engine.act(run, "pause")
        await engine.advance("2s")
        await engine.act(run, "resume")
        await engine.advance("6s")
        assert (await engine.run(run)).status == "completed"
        assert (began(engine, "a"), began(engine, "b")) == ([0], [10])


async def test_paused_while_the_runner_was_away(duraton):
    async def handle(ctx):
        await ctx.step.run("a", engine.clock.sleep, 10)
        await ctx.step.run("b", lambda: None)

    async with duraton(define_workflow("w", handle)) as engine:
        run = await start(engine)
        await engine.advance("2s")
        engine.host.disconnect()
        await engine.act(run, "pause")
        engine.host.connect()
        await engine.advance("1m")
        assert began(engine, "b") == []
        await engine.act(run, "resume")
        await engine.settle()
        assert (await engine.run(run)).status == "completed"
        assert began(engine, "a") == [0]


@pytest.mark.parametrize("crash", ["none", "engine", "both"])
async def test_paused_in_each_state(duraton, crash):
    async def handle(ctx):
        kind = ctx.event.data["kind"]
        if kind == "sleep":
            await ctx.step.sleep("nap", "10s")
        elif kind == "event":
            await ctx.step.wait_for_event("go", "go", timeout="10s")
        elif kind == "child":
            await ctx.step.invoke("child", "child")
        elif kind == "backoff":
            await ctx.step.run("flaky", flaky)
        elif kind == "throw" and ctx.attempt == 1:
            raise ValueError("between")
        return await ctx.step.run(kind, lambda: kind)

    async def flaky():
        if len(began(engine, "flaky")) == 1:
            raise ValueError("again")

    async def child(ctx):
        await ctx.step.sleep("nap", "10s")
        return 1

    retry = RetryConfig(2, initial_delay_ms=10_000)
    workflows = [define_workflow("w", handle, retry=retry), define_workflow("child", child)]
    kinds = ["sleep", "event", "child", "backoff", "throw"]
    async with duraton(*workflows) as engine:
        runs = {kind: await start(engine, data={"kind": kind}) for kind in kinds}
        await engine.advance("5s")
        for run in runs.values():
            assert (await engine.run(run)).status == "waiting"
            assert (await engine.act(run, "pause")).status == "paused"
            assert (await engine.act(run, "pause")).paused_by.reasons == ["manual"]
        if crash != "none":
            await engine.crash(runner=crash == "both")
        await engine.advance("55s")
        assert not [name for _, name, _, _ in engine.executions if name in kinds]
        for kind, run in runs.items():
            assert (await engine.run(run)).status == "paused", kind
            await engine.act(run, "resume")
        await engine.settle()
        for kind, run in runs.items():
            assert (await engine.run(run)).output == kind
            assert began(engine, kind) == [60]


async def test_a_queued_run_is_paused_and_others_pass_it(duraton):
    async def handle(ctx):
        await ctx.step.run("work", engine.clock.sleep, 10)

    async with duraton(define_workflow("w", handle), capacity=1) as engine:
        first, second, third = [await start(engine) for _ in range(3)]
        await engine.act(second, "pause")
        await engine.advance("10s")
        assert [run for _, run, _ in engine.started] == [first, third]
        await engine.act(second, "resume")
        await engine.advance("20s")
        assert [run for _, run, _ in engine.started] == [first, third, second]
        assert (await engine.run(second)).status == "completed"


async def test_resume_and_cancel_of_what_is_not_there_are_refused(duraton):
    async def handle(ctx):
        await ctx.step.sleep("nap", "10s")

    async with duraton(define_workflow("w", handle)) as engine:
        run = await start(engine)
        await engine.settle()
        with pytest.raises(RefusedError) as refused:
            await engine.act(run, "resume")
        assert refused.value.engine_code == "run-not-paused"
        await engine.advance("10s")
        for act in ("pause", "resume", "cancel"):
            with pytest.raises(RefusedError) as refused:
                await engine.act(run, act)
            assert refused.value.engine_code == "run-not-active"


class BugError(Exception):
    """What a decision raises in these tests."""


def raising_once(monkeypatch, matches, times=1):
    """Let the engine's decision about some input raise."""
    decide = EngineMachine.decide
    raised = []

    def broken(self, tx, item):
        decide(self, tx, item)
        if len(raised) < times and matches(item.value):
            raised.append(item.value)
            raise BugError("a bug in the engine")

    monkeypatch.setattr(EngineMachine, "decide", broken)
    return raised


def is_step(step):
    return lambda value: (
        isinstance(value, Answered) and isinstance(value.frame, Step) and value.frame.step == step
    )


async def test_a_decision_that_raises_sets_its_run_apart_and_resume_tries_again(
    duraton, monkeypatch
):
    async def handle(ctx):
        a = await ctx.step.run("a", lambda: 1)
        return a + await ctx.step.run("b", lambda: 2)

    raised = raising_once(monkeypatch, is_step("b"))
    async with duraton(define_workflow("w", handle)) as engine:
        run = await start(engine)
        await engine.settle()
        other = await start(engine)
        await engine.settle()
        assert len(raised) == 1
        shown = await engine.run(run)
        assert (shown.status, shown.paused_by.reason) == ("paused", "quarantine")
        assert "a bug in the engine" in shown.paused_by.error.message
        assert (await engine.run(other)).output == 3
        await engine.crash()
        await engine.advance("1h")
        assert (await engine.run(run)).status == "paused"
        await engine.act(run, "resume")
        await engine.settle()
        shown = await engine.run(run)
        assert (shown.status, shown.output, shown.paused_by) == ("completed", 3, None)
        assert len(began(engine, "a")) == 2
        assert len(began(engine, "b")) == 3  # the first answer was lost with its decision


async def test_a_timer_whose_decision_raises_rests_until_resumed(duraton, monkeypatch):
    def matches(value):
        return isinstance(value, tuple) and value[1] == "step"

    async def handle(ctx):
        await ctx.step.sleep("nap", "10s")
        return "awake"

    raised = raising_once(monkeypatch, matches, times=2)
    async with duraton(define_workflow("w", handle)) as engine:
        run = await start(engine)
        await engine.advance("1m")
        assert len(raised) == 1
        assert (await engine.run(run)).paused_by.reason == "quarantine"
        await engine.act(run, "resume")  # tries again, and the bug is still there
        await engine.settle()
        assert len(raised) == 2
        assert (await engine.run(run)).paused_by.reason == "quarantine"
        await engine.crash()
        await engine.act(run, "resume")
        await engine.settle()
        assert (await engine.run(run)).output == "awake"


async def test_a_quarantined_run_may_be_cancelled(duraton, monkeypatch):
    async def handle(ctx):
        await ctx.step.run("a", lambda: 1)

    raising_once(monkeypatch, is_step("a"))
    async with duraton(define_workflow("w", handle)) as engine:
        run = await start(engine)
        await engine.settle()
        assert (await engine.act(run, "cancel")).status == "cancelled"
        assert engine.host.runner.executions == {}


async def test_a_quarantined_on_failure_may_be_resumed(duraton, monkeypatch):
    async def handle(ctx):
        raise ValueError("no")

    async def on_failure(ctx):
        await ctx.step.run("undo", lambda: None)

    raising_once(monkeypatch, is_step("undo"))
    async with duraton(define_workflow("w", handle, on_failure=on_failure)) as engine:
        run = await start(engine)
        await engine.settle()
        shown = await engine.run(run)
        assert (shown.status, shown.on_failure.status) == ("failed", "paused")
        await engine.act(shown.on_failure.id, "resume")
        await engine.settle()
        assert (await engine.run(run)).on_failure.status == "completed"


async def test_a_cron_tick_whose_decision_raises_is_parked(duraton, monkeypatch):
    def matches(value):
        return isinstance(value, tuple) and value[1] == "cron"

    async def handle(ctx):
        return "ticked"

    raised = raising_once(monkeypatch, matches)
    workflow = define_workflow("w", handle, cron="* * * * *")
    async with duraton(workflow) as engine:
        await engine.advance("10m")
        assert len(raised) == 1
        assert await engine.runs() == []
        await engine.register(define_workflow("w", handle, cron="*/2 * * * *"))
        await engine.advance("2m")
        assert len(await engine.runs()) == 1


async def test_an_input_without_a_run_is_parked_and_the_partition_goes_on(duraton, monkeypatch):
    async def handle(ctx):
        return 1

    raised = raising_once(monkeypatch, lambda value: type(value).__name__ == "Event")
    async with duraton(define_workflow("w", handle)) as engine:
        sent = asyncio.ensure_future(engine.send("w", {}))
        await engine.settle()
        assert len(raised) == 1
        sent.cancel()
        run = await start(engine)
        await engine.settle()
        assert (await engine.run(run)).status == "completed"


async def test_a_shape_that_is_one_too_many_fails_the_wait(duraton):
    async def handle(ctx):
        await ctx.step.wait_for_event("got", ctx.event.data["name"], timeout="10s")
        return "came to its end"

    settings = Settings(shapes_max=2)
    for partitions in (1, 12):
        workflow = define_workflow("w", handle, retry=RetryConfig(3))
        async with duraton(workflow, settings=settings, partitions=partitions) as engine:
            runs = [await start(engine, data={"name": name}) for name in ("a", "b", "c", "a")]
            await engine.advance("1m")
            shown = [await engine.run(run) for run in runs]
            assert [run.status for run in shown] == [
                "completed",
                "completed",
                "failed",
                "completed",
            ]
            assert shown[2].error.code == "shapes-too-many"
            await engine.crash()
            run = await start(engine, data={"name": "d"})
            await engine.settle()
            assert (await engine.run(run)).error.code == "shapes-too-many"
