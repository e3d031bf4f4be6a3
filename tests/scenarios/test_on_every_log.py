"""The same scenarios on memory, SQLite and Kafka, with one partition and with twelve."""

import asyncio
import json

import pytest
from scenario_tools import began, partition, shown, start

from duraton import App, NonRetriableError, RetryConfig, define_workflow
from duraton_schemas.codec import Codec
from duraton_schemas.records.public import Event
from duraton_streams.logs.base import DEAD_LETTERS, EVENTS, NewRecord


async def test_steps_retry_sleep_and_parallel(cluster):
    calls = []

    async def flaky():
        calls.append(1)
        if len(calls) < 3:
            raise ValueError("not yet")
        return "third"

    async def handle(ctx):
        a = await ctx.step.run("a", lambda: {"n": ctx.event.data["n"]})
        b = await ctx.step.run("b", flaky)
        await ctx.step.sleep("nap", "10s")
        c = await asyncio.gather(*(ctx.step.run(f"c{n}", lambda n=n: n) for n in range(3)))
        await ctx.step.sleep_until("until", "2026-01-01T00:01:00Z")
        return [a, b, c]

    async with cluster(define_workflow("w", handle, retry=RetryConfig(3))) as engine:
        run = await start(engine, data={"n": 7})
        await engine.settle()
        assert (await engine.run(run)).waiting_for.kind == "backoff"
        await engine.advance("5s")
        assert (await engine.run(run)).waiting_for.kind == "sleep"
        await engine.advance("10m")
        assert await shown(engine, run) == [("completed", [{"n": 7}, "third", [0, 1, 2]])]
        assert (began(engine, "b"), began(engine, "c1")) == ([0, 1, 2], [12])
        ended = engine.facts(run)[-1].at - engine.clock.start_ms
        assert ended == 60_000


async def test_waits_for_events(cluster):
    async def handle(ctx):
        data = ctx.event.data
        match = {"order.id": data["id"]} if "id" in data else None
        event = await ctx.step.wait_for_event("paid", "order.paid", match=match, timeout="1h")
        return None if event is None else event.data["n"]

    async with cluster(define_workflow("w", handle)) as engine:
        seven, also, eight, any_ = [
            await start(engine, data=data) for data in ({"id": 7}, {"id": "7"}, {"id": 8}, {})
        ]
        await engine.settle()
        assert {run.status for run in await engine.runs()} == {"waiting"}
        await engine.send("order.paid", {"order": {"id": 9}, "n": 1})
        await engine.settle()
        assert await shown(engine, seven, also, eight, any_) == [
            ("waiting", None),
            ("waiting", None),
            ("waiting", None),
            ("completed", 1),
        ]
        await engine.send_many([("order.paid", {"order": {"id": 7}, "n": n}) for n in (2, 3)])
        await engine.settle()
        assert await shown(engine, seven, also) == [("completed", 2), ("completed", 2)]
        await engine.advance("3599s")
        assert await shown(engine, eight) == [("waiting", None)]
        await engine.advance("1s")
        assert await shown(engine, eight) == [("completed", None)]
        # Whoever came too late finds nobody there.
        await engine.send("order.paid", {"order": {"id": 8}, "n": 4})
        await engine.crash()
        assert await shown(engine, eight) == [("completed", None)]


async def test_children(cluster):
    async def parent(ctx):
        return await ctx.step.invoke("child", ctx.event.data["child"], {"n": 5})

    async def doubling(ctx):
        await ctx.step.sleep("nap", "10s")
        return ctx.event.data["n"] * 2

    async def failing(ctx):
        await ctx.step.run("work", lambda: 1 / 0)

    async def final(ctx):
        raise NonRetriableError("never")

    workflows = [
        define_workflow("parent", parent, retry=RetryConfig(2)),
        define_workflow("doubling", doubling),
        define_workflow("failing", failing),
        define_workflow("final", final),
    ]
    async with cluster(*workflows) as engine:
        names = ["doubling", "failing", "final", "unknown"]
        runs = {name: await start(engine, "parent", {"child": name}) for name in names}
        await engine.settle()
        waiting = (await engine.run(runs["doubling"])).waiting_for
        assert waiting.kind == "child"
        assert (await engine.run(waiting.run)).parent == runs["doubling"]
        await engine.advance("10s")
        assert await shown(engine, runs["doubling"]) == [("completed", 10)]
        await engine.advance("1m")
        for name in ("failing", "final", "unknown"):
            found = await engine.run(runs[name])
            assert found.status == "failed", name
        assert "division" in (await engine.run(runs["failing"])).error.message
        assert (await engine.run(runs["unknown"])).error.code == "workflow-unknown"
        # The step's policy governs how many children there are; a final error of a
        # child's says nothing about trying another.
        assert began(engine, "work") == [0, 1]
        children = await engine.runs(workflow="final")
        assert len(children) == 2


async def test_cancelling_parents_and_children(cluster):
    async def parent(ctx):
        return await ctx.step.invoke("child", "child", {})

    async def child(ctx):
        await ctx.step.run("before", lambda: None)
        await ctx.step.sleep("nap", "1h")

    workflows = [define_workflow("parent", parent), define_workflow("child", child)]
    async with cluster(*workflows) as engine:
        one, two = await start(engine, "parent"), await start(engine, "parent")
        await engine.settle()
        first, second = [(await engine.run(run)).waiting_for.run for run in (one, two)]
        await engine.act(one, "cancel")
        await engine.act(second, "cancel")
        await engine.settle()
        assert [(await engine.run(run)).status for run in (one, first, two, second)] == [
            "cancelled",
            "cancelled",
            "failed",
            "cancelled",
        ]
        assert (await engine.run(two)).error.code == "child-cancelled"
        await engine.advance("2h")
        assert len(engine.executions) == 2


async def test_send_event_fans_out_once(cluster):
    async def maker(ctx):
        sent = await ctx.step.send_event("tell", "order.made", {"id": ctx.event.data["id"]})
        await ctx.step.sleep("nap", "1s")
        return sent

    async def listener(ctx):
        return await ctx.step.run("heard", lambda: ctx.event.data["id"])

    async def waiter(ctx):
        event = await ctx.step.wait_for_event("wait", "order.made", match={"id": 3})
        return event.data

    workflows = [
        define_workflow("maker", maker),
        define_workflow("a", listener, triggers=["order.made"]),
        define_workflow("b", listener, triggers=["order.*"]),
        define_workflow("waiter", waiter),
    ]
    async with cluster(*workflows) as engine:
        waits = await start(engine, "waiter")
        await engine.settle()
        made = await start(engine, "maker", {"id": 3})
        await engine.settle()
        await engine.crash(runner=True)
        await engine.advance("1m")
        assert len(began(engine, "heard")) == 2
        assert await shown(engine, waits) == [("completed", {"id": 3})]
        output = (await engine.run(made)).output
        event = await engine.event(output["id"])
        assert {(run.workflow, run.outcome) for run in event.runs} == {("a", "run"), ("b", "run")}
        assert event.made_by == made
        assert event.caller.root == "key:test"


async def test_on_failure_and_dedupe_and_triggers(cluster):
    async def handle(ctx):
        await ctx.step.run("work", lambda: 1 / 0)

    async def on_failure(ctx):
        return await ctx.step.run("undo", lambda: ctx.error.message)

    async def other(ctx):
        return ctx.event.name

    workflows = [
        define_workflow("w", handle, on_failure=on_failure),
        define_workflow("listed", other, triggers=["x.a", "x.b"]),
        define_workflow("prefixed", other, triggers=["x.*"]),
    ]
    async with cluster(*workflows) as engine:
        run = await start(engine)
        answers = await engine.send_many(
            [
                {"name": "x.a", "dedupeId": "one"},
                {"name": "x.b", "dedupeId": "one"},
                {"name": "x.c", "dedupeId": "two"},
                {"name": "nobody"},
            ]
        )
        await engine.settle()
        assert [sorted(a.workflow for a in each) for each in answers] == [
            ["listed", "prefixed"],
            [],
            ["prefixed"],
            [],
        ]
        failed = await engine.run(run)
        assert (failed.status, failed.on_failure.status) == ("failed", "completed")
        assert len(began(engine, "onFailure/undo", run)) == 1
        ended = [await engine.run(each.id) for each in await engine.runs(status="completed")]
        assert sorted(each.output for each in ended) == ["x.a", "x.a", "x.c"]


async def test_cron_over_a_change_of_clocks(cluster):
    # On 29 March 2026 the clocks of Berlin went from 02:00 to 03:00.
    async def handle(ctx):
        return ctx.event.data["scheduledAt"]

    cron = {"expr": "30 2 * * *", "tz": "Europe/Berlin"}
    workflow = define_workflow("w", handle, cron=cron)
    async with cluster(workflow, start="2026-03-28T00:00:00Z") as engine:
        await engine.advance("4d")
        # 02:30 winter time; skipped, so once after it; 02:30 summer time.
        assert [at / 3600 for _, _, at in engine.started] == [1.5, 25, 48.5, 72.5]
        # Ticks missed while nothing ran fire once.
        await engine.crash(down="3d")
        assert [at / 3600 for _, _, at in engine.started[4:]] == [168]
        await engine.register(define_workflow("w", handle, cron="0 0 1 1 *"))
        await engine.advance("30d")
        assert len(engine.started) == 5


async def test_cron_in_the_repeated_hour_fires_once(cluster):
    async def handle(ctx):
        return None

    cron = {"expr": "30 2 * * *", "tz": "Europe/Berlin"}
    workflow = define_workflow("w", handle, cron=cron)
    async with cluster(workflow, start="2026-10-24T22:00:00Z") as engine:
        await engine.advance("1d")
        assert len(engine.started) == 1


async def test_crashes_between_any_two_steps(cluster):
    async def handle(ctx):
        out = []
        for n in range(4):
            out.append(await ctx.step.run(f"s{n}", lambda n=n: n))
            await ctx.step.sleep(f"nap{n}", "10s")
        return out

    async with cluster(define_workflow("w", handle)) as engine:
        run = await start(engine)
        for n in range(4):
            await engine.advance("5s")
            assert len(began(engine, f"s{n}")) == 1
            await engine.crash(down="2s", runner=n % 2 == 1)
            await engine.advance("3s")
        await engine.advance("10s")
        assert await shown(engine, run) == [("completed", [0, 1, 2, 3])]
        assert [began(engine, f"s{n}") for n in range(4)] == [[0], [10], [20], [30]]


async def test_crash_while_a_step_executes(cluster):
    async def handle(ctx):
        async def nap():
            await ctx.step.sleep("nap", "10s")
            await ctx.step.run("awake", lambda: None)

        await asyncio.gather(ctx.step.run("long", engine.clock.sleep, 60), nap())
        return "done"

    async with cluster(define_workflow("w", handle)) as engine:
        run = await start(engine)
        await engine.advance("5s")
        await engine.crash(down="28s")
        # What fell due meanwhile happens on return; the live step goes on.
        assert began(engine, "awake") == [33]
        await engine.advance("27s")
        assert await shown(engine, run) == [("completed", "done")]
        assert began(engine, "long") == [0]
        again = await start(engine)
        await engine.advance("5s")
        await engine.crash(runner=True)
        await engine.advance("2m")
        assert await shown(engine, again) == [("completed", "done")]
        assert len(began(engine, "long", again)) == 2


async def test_calls_in_flight_and_while_it_is_down(cluster):
    async def handle(ctx):
        return 1

    async with cluster(define_workflow("w", handle)) as engine:
        down = asyncio.ensure_future(engine.crash(down="10s"))
        await asyncio.sleep(0)
        with pytest.raises(ConnectionError):
            await engine.send("w", {})
        await down
        assert engine.clock.now() == 10
        run = await start(engine)
        await engine.settle()
        assert await shown(engine, run) == [("completed", 1)]


async def test_redeploy_while_runs_sleep_and_code_that_differs(cluster):
    def version(number):
        async def handle(ctx):
            if number == 1:
                await ctx.step.run("first", lambda: None)
            else:
                await ctx.step.run("renamed", lambda: None)
            await ctx.step.sleep("nap", "10s")
            return number

        async def stable(ctx):
            await ctx.step.sleep("nap", "10s")
            return number

        return App("shop", [define_workflow("w", handle), define_workflow("stable", stable)])

    async with cluster(version(1)) as engine:
        breaks, goes_on = await start(engine), await start(engine, "stable")
        await engine.advance("5s")
        await engine.register(version(2))
        await engine.advance("10s")
        assert await shown(engine, goes_on) == [("completed", 2)]
        failed = await engine.run(breaks)
        assert (failed.status, failed.error.code) == ("failed", "nondeterministic")
        assert "'first'" in failed.error.message
        assert "'renamed'" in failed.error.message


async def test_records_of_every_form_and_bad_ones_between_them(cluster):
    async def handle(ctx):
        return [ctx.event.data["n"], ctx.run.root]

    async with cluster(define_workflow("w", handle)) as engine:
        place = partition(engine, "w")
        log = engine.core.log

        def record(value, headers=()):
            return NewRecord(EVENTS, place, value, None, headers, 0)

        avro = Codec().encode(Event(id="e1", name="w", data='{"n":1}', ts=5))
        plain = json.dumps({"name": "w", "data": {"n": 2}, "dedupeId": "two"}).encode()
        cloud = (("ce_specversion", b"1.0"), ("ce_type", b"w"), ("ce_id", b"e3"))
        log.append(
            [
                record(avro),
                record(b"nonsense"),
                record(plain),
                record(plain),
                record(b'{"n":3}', (*cloud, ("ce_source", b"shop"))),
                record(None),
                record(b'{"name":"w","data":{"n":4}}'),
            ]
        )
        await engine.settle()
        outputs = [(await engine.run(run.id)).output for run in reversed(await engine.runs())]
        assert outputs == [[n, "system:event"] for n in (1, 2, 3, 4)]
        letters = log.read(DEAD_LETTERS, place, 0, 100)
        assert [letter.value for letter in letters] == [b"nonsense", None]
        await engine.crash()
        assert len(await engine.runs()) == 4


async def test_cancel_in_each_state(cluster):
    async def handle(ctx):
        kind = ctx.event.data["kind"]
        if kind == "executing":
            await ctx.step.run("work", engine.clock.sleep, 60)
        elif kind == "sleep":
            await ctx.step.sleep("nap", "10s")
        elif kind == "event":
            await ctx.step.wait_for_event("go", "go")
        elif kind == "backoff":
            await ctx.step.run("flaky", lambda: 1 / 0)
        await ctx.step.run("after", lambda: None)

    kinds = ["executing", "sleep", "event", "backoff", "paused"]
    workflow = define_workflow("w", handle, retry=RetryConfig(3, initial_delay_ms=10_000))
    async with cluster(workflow) as engine:
        runs = {
            kind: await start(engine, data={"kind": "sleep" if kind == "paused" else kind})
            for kind in kinds
        }
        await engine.advance("5s")
        await engine.act(runs["paused"], "pause")
        for run in runs.values():
            assert (await engine.act(run, "cancel")).status == "cancelled"
        await engine.send("go", {})
        await engine.advance("10m")
        assert {run.status for run in await engine.runs()} == {"cancelled"}
        assert began(engine, "after") == []
        assert len(engine.executions) == 2


async def test_pause_and_resume(cluster):
    async def handle(ctx):
        await ctx.step.run("work", engine.clock.sleep, 10)
        await ctx.step.sleep("nap", "10s")
        return await ctx.step.run("after", lambda: "done")

    async with cluster(define_workflow("w", handle)) as engine:
        executing, asleep = await start(engine), await start(engine)
        await engine.advance("5s")
        assert (await engine.act(executing, "pause")).status == "paused"
        await engine.advance("10s")
        assert (await engine.act(asleep, "pause")).status == "paused"
        await engine.crash(down="1m", runner=True)
        assert began(engine, "after") == []
        for run in (executing, asleep):
            await engine.act(run, "resume")
        await engine.settle()
        assert began(engine, "after") == [75]
        await engine.advance("10s")
        assert await shown(engine, executing, asleep) == [("completed", "done")] * 2
        assert (began(engine, "work"), began(engine, "after")) == ([0, 0], [75, 85])
