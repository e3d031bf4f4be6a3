"""Section R of the cases: timers, clocks, pause.

206 and 207 are of the clock, which the engine is only given: tests/streams/test_clock.py
proves what it answers when clocks disagree or jump.
"""

import os
import time
from datetime import datetime

import pytest
from case_tools import ALWAYS, Flaky, attempts_of, one_step, runs_of, send, status
from flow_tools import send_at, send_each, working

from duraton import RetryAfterError, RetryConfig, ThrottleConfig, define_workflow
from duraton_api.errors import AnswerUnknownError
from duraton_streams.errors import DoubtError


def napping(duration="10s", **options):
    async def handle(ctx):
        await ctx.step.sleep("nap", ctx.event.data.get("nap", duration))
        return await ctx.step.run("after", lambda: "awake")

    return define_workflow("w", handle, **options)


@pytest.mark.parametrize("runner", [False, True])
async def test_case_203_due_while_the_engine_was_away(duraton, runner):
    async with duraton(napping()) as engine:
        runs = [await send(engine, "w", {"nap": f"{n}0s"}) for n in (1, 2, 3)]
        await engine.advance("5s")
        await engine.crash(down="20s", runner=runner)
        assert engine.clock.now() == 25
        after = [(run, at) for run, step, _, at in engine.executions if step == "after"]
        assert after == [(runs[0], 25), (runs[1], 25)]
        await engine.advance("5s")
        assert runs_of(engine, "after", runs[2]) == [30]
        assert [await status(engine, run) for run in runs] == ["completed"] * 3


@pytest.mark.parametrize("point", ["before_commit", "after_commit"])
@pytest.mark.parametrize("nth", range(1, 8))
async def test_case_204_recorded_but_not_armed(duraton, point, nth):
    # Each commit that leads to the sleep is in doubt once; then the process dies.
    commits = []

    def faults(where, partition, records):
        if where == point and ready and engine.host.alive:
            commits.append(where)
            if len(commits) == nth:
                raise DoubtError("the process died here")

    ready = []
    async with duraton(napping(), faults=faults) as engine:
        ready.append(True)
        try:
            run = await send(engine, "w")
        except AnswerUnknownError:
            await engine.settle()
            found = await engine.runs()
            run = found[0].id if found else await send(engine, "w")
        await engine.settle()
        await engine.crash(down="15s", runner=True)
        await engine.advance("10s")
        assert await status(engine, run) == "completed"
        assert len(await engine.runs()) == 1
        assert len(runs_of(engine, "after")) == 1


async def test_case_205_a_delayed_start_happens_once(engine_of):
    # Three processes in the case; here one that dies three times on the way.
    async with engine_of(working(throttle=ThrottleConfig(1, "12h"))) as engine:
        first, delayed = await send_each(engine, [{}, {}])
        for _ in range(3):
            await engine.advance("3h")
            await engine.crash(down="10m", runner=True)
        await engine.advance("1d")
        twelve_hours = 12 * 3600
        assert engine.started == [("w", first.run_id, 0), ("w", delayed.run_id, twelve_hours)]
        assert runs_of(engine, "work") == [0, twelve_hours]


@pytest.fixture
def berlin():
    """The local clock of a place where clocks are changed; it must not matter."""
    old = os.environ.get("TZ")
    os.environ["TZ"] = "Europe/Berlin"
    time.tzset()
    yield
    if old is None:
        del os.environ["TZ"]
    else:
        os.environ["TZ"] = old
    time.tzset()


async def test_case_208_daylight_saving(duraton, berlin):
    # The night of 29 March 2026 has 23 hours there.
    moment = "2026-03-29T10:00:00+00:00"

    def error(n):
        return RetryAfterError("later", datetime.fromisoformat(moment))

    work = Flaky(1, error=error)

    async def handle(ctx):
        await ctx.step.run("work", work)
        await ctx.step.sleep("nap", "24h")
        await ctx.step.run("after", lambda: None)

    workflow = define_workflow("w", handle, retry=RetryConfig(2))
    async with duraton(workflow, start="2026-03-28T10:00:00Z") as engine:
        await send(engine, "w", dedupe_id="once")
        await engine.advance("86399s")
        assert await engine.send("w", {}, dedupe_id="once") == []
        await engine.advance("2s")
        [again] = await engine.send("w", {}, dedupe_id="once")
        assert again.run_id
        await engine.act(again.run_id, "cancel")
        await engine.advance("3d")
        assert runs_of(engine, "work")[:2] == [0, 86_400]
        assert runs_of(engine, "after") == [172_800]


@pytest.mark.parametrize("start", ["2026-03-28T10:00:00Z", "2026-10-24T10:00:00Z"])
async def test_case_208_a_day_of_idempotency_has_24_hours(engine_of, berlin, start):
    day = 86_400_000
    workflow = working(extra={"idempotency": {"key": "o", "periodMs": day}})
    async with engine_of(workflow, start=start) as engine:
        answers = await send_at(engine, *((at, {"o": 1}) for at in (0, 86_399.999, 86_400)))
        assert [each.deduped for each in answers] == [False, True, False]


@pytest.mark.parametrize(("resumed", "woken"), [(8, 10), (60, 60)])
async def test_case_209_paused_over_the_due_time(duraton, resumed, woken):
    async with duraton(napping()) as engine:
        run = await send(engine, "w")
        await engine.advance("5s")
        paused = await engine.act(run, "pause")
        assert (paused.status, paused.paused_by.reason) == ("paused", "manual")
        await engine.advance(f"{resumed - 5}s")
        assert runs_of(engine, "after") == []
        resumed_run = await engine.act(run, "resume")
        assert resumed_run.paused_by is None
        await engine.advance("1h")
        assert runs_of(engine, "after") == [woken]
        shown = await engine.run(run)
        assert shown.status == "completed"
        assert [step.id for step in shown.steps] == ["nap", "after"]


async def test_case_210_paused_during_backoff(duraton):
    retry = RetryConfig(2, initial_delay_ms=10_000)
    async with duraton(one_step(Flaky(ALWAYS), retry=retry)) as engine:
        run = await send(engine, "w")
        cancelled = await send(engine, "w")
        await engine.advance("5s")
        await engine.act(run, "pause")
        await engine.act(cancelled, "cancel")
        await engine.advance("55s")
        assert len(engine.executions) == 2
        await engine.act(run, "resume")
        await engine.advance("1h")
        assert runs_of(engine, "work", run) == [0, 60]
        assert attempts_of(engine, "work", run) == [1, 2]
        assert attempts_of(engine, "work", cancelled) == [1]
        assert [await status(engine, each) for each in (run, cancelled)] == ["failed", "cancelled"]


async def test_case_211_an_event_for_a_paused_run(duraton):
    async def handle(ctx):
        event = await ctx.step.wait_for_event("go", "go")
        return await ctx.step.run("after", lambda: event.data["n"])

    async with duraton(define_workflow("w", handle)) as engine:
        run = await send(engine, "w")
        await engine.advance("5s")
        await engine.act(run, "pause")
        await engine.advance("5s")
        await engine.send("go", {"n": 1})
        await engine.send("go", {"n": 2})
        await engine.advance("50s")
        assert await status(engine, run) == "paused"
        await engine.act(run, "resume")
        await engine.settle()
        assert runs_of(engine, "after") == [60]
        assert (await engine.run(run)).output == 1


async def test_case_211_unless_its_time_out_passed_first(duraton):
    async def handle(ctx):
        event = await ctx.step.wait_for_event("go", "go", timeout="10s")
        return "late" if event is None else event.data["n"]

    async with duraton(define_workflow("w", handle)) as engine:
        run = await send(engine, "w")
        await engine.advance("5s")
        await engine.act(run, "pause")
        await engine.advance("15s")
        await engine.send("go", {"n": 1})
        await engine.act(run, "resume")
        await engine.settle()
        assert (await engine.run(run)).output == "late"


async def test_case_212_a_sleeping_run_survives_a_new_version(duraton):
    async def first(ctx):
        made = await ctx.step.run("make", lambda: "old")
        await ctx.step.sleep("nap", "60s")
        return await ctx.step.run("finish", lambda: [made, "old code"])

    async def second(ctx):
        made = await ctx.step.run("make", lambda: "new")
        await ctx.step.sleep("nap", "60s")
        extra = await ctx.step.run("extra", lambda: "extra")
        return await ctx.step.run("finish", lambda: [made, extra, "new code"])

    async with duraton(define_workflow("w", first)) as engine:
        run = await send(engine, "w")
        await engine.advance("30s")
        await engine.register(define_workflow("w", second))
        await engine.advance("1m")
        assert (await engine.run(run)).output == ["old", "extra", "new code"]
        assert runs_of(engine, "make") == [0]
        assert runs_of(engine, "finish") == [60]
