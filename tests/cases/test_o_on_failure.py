"""Section O of the cases: onFailure."""

import pytest
from case_tools import ALWAYS, Flaky, attempts_of, one_step, runs_of, send, status
from flow_tools import assert_at, send_each, starts, working

from duraton import (
    BatchConfig,
    ConcurrencyConfig,
    IdempotencyConfig,
    RateLimitConfig,
    RetryConfig,
    SingletonConfig,
    TogetherConfig,
    define_workflow,
)
from duraton_streams.errors import DoubtError


async def test_case_175_once_after_failed_is_recorded(duraton):
    seen = []

    async def on_failure(ctx):
        async def look():
            shown = await engine.run(ctx.run.id)
            seen.append((shown.status, ctx.event.data, ctx.error.message, engine.clock.now()))

        await ctx.step.run("look", look)

    work = Flaky(ALWAYS)

    async def handle(ctx):
        assert ctx.error is None
        await ctx.step.run("work", work)

    workflow = define_workflow("w", handle, retry=RetryConfig(3), on_failure=on_failure)
    async with duraton(workflow) as engine:
        run = await send(engine, "w", {"payment": 7})
        await engine.advance("1h")
        assert seen == [("failed", {"payment": 7}, "failure 3", 2.0)]
        assert runs_of(engine, "onFailure/look", run) == [2]
        assert await status(engine, run) == "failed"
        [failed] = await engine.runs(status="failed")
        assert failed.error.message == "failure 3"


def crashes_at(point, moment):
    """A fault of the memory log: the commit that holds a run's end is in doubt, once."""
    done = []

    def faults(where, partition, records):
        ends = any(b"boom" in (r.value or b"") and r.topic == "duraton.outcomes" for r in records)
        if where == point and ends and len(done) < moment:
            done.append(where)
            raise DoubtError("the process died here")

    return faults


@pytest.mark.parametrize("point", ["before_commit", "after_commit"])
async def test_case_177_crash_between_failing_and_handling(duraton, point):
    # onFailure is created by the fact that marks the run failed, so the two moments of
    # the case are before and after one commit.
    async def work():
        raise ValueError("boom")

    async def on_failure(ctx):
        await ctx.step.run("undo", lambda: None)

    workflow = one_step(work, on_failure=on_failure)
    async with duraton(workflow, faults=crashes_at(point, 1)) as engine:
        run = await send(engine, "w")
        await engine.settle()
        await engine.crash()
        await engine.advance("1h")
        assert await status(engine, run) == "failed"
        assert len(runs_of(engine, "onFailure/undo", run)) == 1


async def test_case_177_crash_right_after_it_was_created(duraton):
    entered = []

    async def on_failure(ctx):
        entered.append(engine.clock.now())
        await ctx.step.run("undo", engine.clock.sleep, 10)

    async with duraton(one_step(Flaky(ALWAYS), on_failure=on_failure)) as engine:
        run = await send(engine, "w")
        await engine.advance("1s")
        await engine.crash(runner=True)
        await engine.advance("1h")
        assert entered == [0, 1]
        assert attempts_of(engine, "onFailure/undo") == [1, 1]
        shown = await engine.run(run)
        assert (shown.status, shown.on_failure.status) == ("failed", "completed")


async def test_case_179_its_own_failure_changes_nothing_else(duraton):
    async def on_failure(ctx):
        await ctx.step.run("undo", Flaky(ALWAYS))

    workflow = one_step(
        Flaky(ALWAYS, error=lambda n: ValueError("first")),
        retry=RetryConfig(3),
        on_failure=on_failure,
    )
    async with duraton(workflow) as engine:
        run = await send(engine, "w")
        await engine.advance("1h")
        assert runs_of(engine, "onFailure/undo") == [2, 3, 4]
        shown = await engine.run(run)
        assert (shown.status, shown.error.message) == ("failed", "first")
        assert shown.on_failure.status == "failed"
        assert len(await engine.runs(kind="onFailure")) == 1


async def test_case_180_it_neither_keeps_nor_needs_the_workflows_slot(engine_of):
    async def on_failure(ctx):
        await ctx.step.run("long", engine.clock.sleep, 60)

    workflow = working(1, concurrency=ConcurrencyConfig(1), on_failure=on_failure)
    async with engine_of(workflow) as engine:
        first = await send(engine, "w", {"fail": True})
        queued = await send(engine, "w")
        await engine.advance("1s")
        assert runs_of(engine, "onFailure/long", first) == [1]
        assert engine.started == [("w", first, 0), ("w", queued, 1)]
        await engine.advance("1s")
        assert await status(engine, queued) == "completed"
        # Both at once: a second failure is handled while the first handler still goes on.
        await send(engine, "w", {"fail": True})
        await engine.advance("1s")
        assert runs_of(engine, "onFailure/long") == [1, 3]


async def test_case_180_but_it_counts_for_the_ceiling(engine_of):
    # P39. The queued run has been ready since 0, onFailure since 1 (P14).
    async def on_failure(ctx):
        await ctx.step.run("long", engine.clock.sleep, 60)

    async with engine_of(working(1, on_failure=on_failure)) as engine:
        await engine.set_ceiling(1)
        await send_each(engine, [{"fail": True}, {}])
        await engine.advance("5m")
        assert_at(starts(engine), [0, 1])
        assert_at(runs_of(engine, "onFailure/long"), [2])


async def test_case_181_not_for_cancelled(duraton):
    called = []

    async def on_failure(ctx):
        called.append(ctx.run.id)

    async def handle(ctx):
        await ctx.step.run("work", engine.clock.sleep, 1)
        await ctx.step.sleep("nap", "1m")

    workflow = define_workflow("w", handle, on_failure=on_failure)
    async with duraton(workflow, capacity=1) as engine:
        executing = await send(engine, "w")
        queued = await send(engine, "w")
        await engine.settle()
        assert [await status(engine, run) for run in (executing, queued)] == ["running", "queued"]
        await engine.act(executing, "cancel")
        await engine.act(queued, "cancel")
        asleep = await send(engine, "w")
        await engine.advance("5s")
        assert await status(engine, asleep) == "waiting"
        await engine.act(asleep, "cancel")
        await engine.advance("1h")
        assert {run.status for run in await engine.runs()} == {"cancelled"}
        assert called == []


async def test_case_181_not_for_stopped_skipped_dropped_refused_or_deduped(engine_of):
    called = []

    async def on_failure(ctx):
        called.append(ctx.run.workflow)

    controls = {
        "stops": {"together": TogetherConfig(max=1, then="stop")},
        "refuses": {"together": TogetherConfig(max=1, then="refuse")},
        "skips": {"singleton": SingletonConfig()},
        "replaces": {"singleton": SingletonConfig(mode="cancel")},
        "drops": {"rate_limit": RateLimitConfig(1, "1h")},
        "dedupes": {"idempotency": IdempotencyConfig("k", "1h")},
    }
    workflows = [
        working(10, name=name, triggers=["e"], on_failure=on_failure, **options)
        for name, options in controls.items()
    ]
    async with engine_of(*workflows) as engine:
        first = {each.workflow: each for each in await engine.send("e", {"k": 1})}
        await engine.advance("1s")
        second = {each.workflow: each for each in await engine.send("e", {"k": 1})}
        await engine.advance("1h")
        assert second["refuses"].refused == "T7103"
        assert second["skips"].skipped
        assert second["drops"].dropped
        assert second["dedupes"].deduped
        ended = {name: await status(engine, each.run_id) for name, each in first.items()}
        assert ended == {
            name: "cancelled" if name in ("stops", "replaces") else "completed" for name in controls
        }
        for name in ("stops", "replaces"):
            assert await status(engine, second[name].run_id) == "completed"
        assert called == []


async def test_case_182_the_runner_died_so_who_compensates(duraton):
    def front(app):
        async def asgi(scope, receive, send):
            if engine.clock.now() < 30:
                raise ConnectionRefusedError("down")
            await app(scope, receive, send)

        return asgi

    async def on_failure(ctx):
        await ctx.step.run("undo", lambda: ctx.error.message)

    workflow = one_step(Flaky(0), on_failure=on_failure)
    async with duraton(workflow, transport="serve", front=front) as engine:
        run = await send(engine, "w")
        await engine.advance("29s")
        assert await status(engine, run) == "failed"
        assert engine.executions == []
        await engine.advance("1m")
        [at] = runs_of(engine, "onFailure/undo", run)
        assert 30 <= at <= 62  # tried again with growing delay
        assert (await engine.run(run)).on_failure.status == "completed"


async def test_case_183_it_has_the_events_of_the_run(duraton):
    # Typed events are of other SDKs. What it gets is what the run got.
    seen = []

    async def on_failure(ctx):
        seen.append((ctx.event.data, [event.data for event in ctx.events]))

    async with duraton(one_step(Flaky(ALWAYS), on_failure=on_failure)) as engine:
        await send(engine, "w", {"n": 1})
        await engine.settle()
        assert seen == [({"n": 1}, [{"n": 1}])]


async def test_case_183_also_those_of_a_batch(engine_of):
    seen = []

    async def on_failure(ctx):
        seen.append((ctx.event.data, [event.data for event in ctx.events]))

    workflow = working(batch=BatchConfig(3, "5s"), on_failure=on_failure)
    async with engine_of(workflow) as engine:
        events = [{"n": 1, "fail": True}, {"n": 2}, {"n": 3}]
        await send_each(engine, events)
        await engine.settle()
        assert seen == [(events[0], events)]
        [run] = await engine.runs()
        assert run.status == "failed"
