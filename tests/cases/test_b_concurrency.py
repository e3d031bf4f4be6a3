"""Section B of the cases: concurrency and the project ceiling."""

import asyncio

import pytest
from case_tools import attempts_of, runs_of, send, status
from flow_tools import (
    Load,
    advance_to,
    assert_at,
    began,
    in_use,
    pause,
    scripted,
    seconds_of,
    send_at,
    send_each,
    starts,
    statuses,
    working,
)

from duraton import ConcurrencyConfig, RetryConfig, define_workflow

ONE = ConcurrencyConfig(1)
SLEEPER = {"do": [["work", 0.1], ["sleep", 10], ["work", 0.1]]}


async def test_case_010_a_sleeping_run_gives_its_slot_away(engine_of):
    async with engine_of(scripted(concurrency=ONE)) as engine:
        a, b = await send_each(engine, [SLEEPER, SLEEPER])
        await engine.advance("5s")
        assert await in_use(engine) == 0
        await engine.advance("1m")
        # Each takes 0.1 s, so no two of them are executed at once.
        assert engine.executions == [
            (a.run_id, "work-1", 1, 0),
            (b.run_id, "work-1", 1, 0.1),
            (a.run_id, "work-3", 1, 10.1),
            (b.run_id, "work-3", 1, 10.2),
        ]
        assert await statuses(engine, a.run_id, b.run_id) == ["completed", "completed"]


async def test_case_012_the_backoff_between_step_attempts_holds_no_slot(engine_of):
    failures = []

    async def flaky():
        await pause(0.1)
        if not failures:
            failures.append("once")
            raise ValueError("no")

    async def handle(ctx):
        if ctx.event.data["who"] == "A":
            await ctx.step.run("work", flaky)
        else:
            await ctx.step.run("work", pause, 1)

    retry = RetryConfig(2, initial_delay_ms=10_000)
    async with engine_of(define_workflow("w", handle, concurrency=ONE, retry=retry)) as engine:
        a, b = await send_each(engine, [{"who": "A"}, {"who": "B"}])
        used = []
        for milliseconds in (50, 550, 500, 5_000, 3_990):  # 0.05, 0.6, 1.1, 6.1, 10.09
            await engine.advance(milliseconds)
            used.append(await in_use(engine))
        assert used == [1, 1, 0, 0, 0]
        await engine.advance("1m")
        assert runs_of(engine, "work", b.run_id) == [0.1]
        assert runs_of(engine, "work", a.run_id) == [0, 10.1]
        assert attempts_of(engine, "work", a.run_id) == [1, 2]
        assert await statuses(engine, a.run_id, b.run_id) == ["completed", "completed"]


async def test_case_013_cancelling_an_executing_run_frees_exactly_one_slot(engine_of):
    async with engine_of(working(60, concurrency=ConcurrencyConfig(2))) as engine:
        a, b, c, d, e = [each.run_id for each in await send_each(engine, [{}] * 5)]
        await engine.advance("1s")
        await engine.act(a, "cancel")
        await engine.settle()
        wanted = ["cancelled", "running", "running", "queued", "queued"]
        assert await statuses(engine, a, b, c, d, e) == wanted
        for second in (1, 30, 59):
            await advance_to(engine, second)
            assert await in_use(engine) == 2
        assert await statuses(engine, d, e) == ["queued", "queued"]
        await engine.advance("3m")
        assert [(run, at) for _, run, at in engine.started] == [
            (a, 0),
            (b, 0),
            (c, 1),
            (d, 60),
            (e, 61),
        ]


async def test_case_015_a_run_that_never_reached_the_runner_keeps_no_slot(engine_of):
    async with engine_of(working(1, concurrency=ONE)) as engine:
        # The process dies with A's claim committed and before any frame has left it.
        engine.host.pipe.send = lambda _message: None
        a, b = await send(engine, "w"), await send(engine, "w")
        await engine.settle()
        assert await statuses(engine, a, b) == ["running", "queued"]
        assert engine.executions == []
        await engine.crash(down="5s")
        await engine.advance("1m")
        assert engine.executions == [(a, "work", 1, 5), (b, "work", 1, 6)]
        assert await statuses(engine, a, b) == ["completed", "completed"]


@pytest.mark.parametrize("transport", ["connect", "serve"])
@pytest.mark.parametrize(("runner", "ends"), [(False, 30), (True, 33)])
async def test_case_016_recovery_respects_the_limit_and_the_order(
    engine_of, transport, runner, ends
):
    # A runner that lived on goes on with A and B; otherwise they are executed again from
    # 3 on, in the slots that they hold.
    load = Load()
    workflow = working(30, code=load, concurrency=ConcurrencyConfig(2))
    async with engine_of(workflow, transport=transport) as engine:
        runs = [each.run_id for each in await send_each(engine, [{}] * 4)]
        await engine.advance("1s")
        await engine.crash(down="2s", runner=runner)
        assert await statuses(engine, *runs) == ["running", "running", "queued", "queued"]
        assert await in_use(engine) == 2
        await engine.advance("5m")
        assert [(run, at) for _, run, at in engine.started] == [
            (runs[0], 0),
            (runs[1], 0),
            (runs[2], ends),
            (runs[3], ends),
        ]
        assert load.most == 2
        assert await statuses(engine, *runs) == ["completed"] * 4


async def test_case_017_a_second_recovery_finds_nothing_to_do(engine_of):
    # That two processes which start together do not both own a partition is of the log:
    # tests/streams/test_log_contract.py fences the older one.
    async with engine_of(scripted(concurrency=ONE)) as engine:
        a = await send(engine, "w", {"do": [["work", 1], ["work", 5]]})
        await engine.advance("2s")
        await engine.crash(runner=True)
        await engine.crash()
        await engine.crash()
        await engine.advance("1m")
        assert runs_of(engine, "work-1", a) == [0]
        assert runs_of(engine, "work-2", a) == [1, 2]
        assert await status(engine, a) == "completed"


@pytest.mark.parametrize("runner", [False, True])
async def test_case_018_a_recovered_run_advances_past_completed_steps(engine_of, runner):
    async def s2(who):
        if who == "A":
            # The engine records what s2 gives and dies before it can say so.
            engine.host.pipe.send = lambda _message: None
        return who

    async def handle(ctx):
        await ctx.step.run("s1", pause, 0)
        await ctx.step.run("s2", s2, ctx.event.data["who"])
        await ctx.step.run("s3", pause, 1)

    async with engine_of(define_workflow("w", handle, concurrency=ONE)) as engine:
        a = await send(engine, "w", {"who": "A"})
        b = await send(engine, "w", {"who": "B"})
        await engine.settle()
        assert [step.status for step in (await engine.run(a)).steps] == ["completed", "completed"]
        assert runs_of(engine, "s3") == []
        await engine.crash(down="3s", runner=runner)
        await engine.advance("1m")
        assert [(step, at) for run, step, _, at in engine.executions if run == a] == [
            ("s1", 0),
            ("s2", 0),
            ("s3", 3),
        ]
        assert starts(engine) == [0, 4]
        assert await statuses(engine, a, b) == ["completed", "completed"]


async def test_case_019_a_terminal_report_delivered_twice_releases_one_slot(engine_of):
    async with engine_of(working(10, concurrency=ONE)) as engine:
        a, b, c = [each.run_id for each in await send_each(engine, [{"s": 1}, {}, {}])]
        await engine.settle()
        pipe = engine.host.pipe
        deliver = pipe.upstream
        pipe.upstream = lambda frames: [deliver(frames) for _ in range(2)]
        await engine.advance("1s")
        assert await statuses(engine, a, b, c) == ["completed", "running", "queued"]
        assert await in_use(engine) == 1
        await engine.advance("1m")
        assert starts(engine) == [0, 1, 11]
        assert len(engine.executions) == 3


async def test_case_020_a_parent_that_waits_for_a_child_of_its_own_workflow(engine_of):
    async def handle(ctx):
        if ctx.event.data.get("depth") == 1:
            return await ctx.step.run("work", pause, 1)
        return await ctx.step.invoke("child", "w", {"depth": 1})

    async with engine_of(define_workflow("w", handle, concurrency=ONE)) as engine:
        parent = await send(engine, "w")
        await engine.advance("500ms")
        assert (await engine.run(parent)).waiting_for.kind == "child"
        assert await in_use(engine) == 1
        await engine.advance("1m")
        assert starts(engine) == [0, 0]
        assert [run.status for run in await engine.runs()] == ["completed", "completed"]


async def test_case_021_same_millisecond_arrivals_keep_arrival_order(engine_of):
    async with engine_of(working(0.01, concurrency=ONE)) as engine:
        answers = await send_each(engine, [{"n": n} for n in range(20)])
        await engine.advance("1m")
        assert [run for _, run, _ in engine.started] == [each.run_id for each in answers]
        assert starts(engine) == [n / 100 for n in range(20)]


async def test_case_022_being_looked_at_again_sends_nobody_to_the_back(engine_of):
    workflow = working(10, concurrency=ONE)
    async with engine_of(workflow) as engine:
        await send_at(engine, (0, {"n": "A"}), (1, {"n": "B"}), (2, {"n": "C"}))
        for _ in range(50):
            await engine.register(workflow)  # a redeploy looks at all who wait
            await engine.advance("100ms")
        await send_at(engine, (9.999, {"n": "D"}))
        await engine.advance("1m")
        assert await began(engine) == [(0, "A"), (10, "B"), (20, "C"), (30, "D")]


async def test_case_023_one_keys_backlog_does_not_hold_up_another(engine_of):
    keyed = working(1, concurrency=ConcurrencyConfig(1, key="k"))
    async with engine_of(keyed, working(name="w2")) as engine:
        await send_each(engine, [{"k": 1}] * 1_000)
        await engine.advance("5s")
        other = await send(engine, "w", {"k": 2})
        await send(engine, "w2")
        await engine.settle()
        assert [at for _, run, at in engine.started if run == other] == [5]
        assert starts(engine, "w2") == [5]
        assert starts(engine) == [0, 1, 2, 3, 4, 5, 5]


async def test_case_024_the_tighter_of_limit_and_ceiling_applies(engine_of):
    w1 = working(10, name="w1")
    w2 = working(10, name="w2", concurrency=ONE)
    async with engine_of(w1, w2) as engine:
        await engine.set_ceiling(2)
        # Two homes may be in two partitions, which nobody orders within one instant: a place
        # is granted to the first ask that comes. So the second pair is sent once the first is in.
        await engine.send_many([("w2", {}), ("w2", {})])
        await engine.settle()
        await engine.send_many([("w1", {}), ("w1", {})])
        await engine.advance("5s")
        assert (await engine.flow_state())["concurrency"] == {"limit": 2, "inUse": 2}
        assert_at(starts(engine, "w1"), [0])
        assert_at(starts(engine, "w2"), [0])
        await engine.advance("1m")
        assert_at(starts(engine, "w1"), [0, 10])
        assert_at(starts(engine, "w2"), [0, 10])


async def test_case_024_the_ceiling_may_be_the_tighter_one(engine_of):
    load = Load()
    workflow = working(1, code=load, concurrency=ConcurrencyConfig(5))
    async with engine_of(workflow) as engine:
        await engine.set_ceiling(3)
        await send_each(engine, [{}] * 9)
        await engine.advance("1m")
        assert_at(starts(engine), [0, 0, 0, 1, 1, 1, 2, 2, 2])
        assert load.most == 3


async def test_case_025_a_ceiling_of_0_means_unlimited(engine_of):
    async with engine_of(working(1)) as engine:
        await engine.set_ceiling(0)
        await send_each(engine, [{}] * 200)
        await engine.settle()
        assert_at(starts(engine), [0] * 200)
        assert (await engine.flow_state())["concurrency"] == {"limit": 0, "inUse": 200}


async def test_case_025_also_after_it_was_not(engine_of):
    async with engine_of(working(10)) as engine:
        await engine.set_ceiling(1)
        await send_each(engine, [{}] * 20)
        await engine.advance("5s")
        assert_at(starts(engine), [0])
        await engine.set_ceiling(0)
        await engine.settle()
        assert_at(starts(engine), [0] + [5] * 19)


async def test_case_026_redeploy_with_a_lower_limit(engine_of):
    async with engine_of(working(100, concurrency=ConcurrencyConfig(5))) as engine:
        five = await send_each(engine, [{"s": s} for s in (10, 20, 30, 40, 50)])
        w1, w2, w3 = [each.run_id for each in await send_each(engine, [{}] * 3)]
        await engine.advance("5s")
        await engine.register(working(100, concurrency=ConcurrencyConfig(2)))
        used = []
        for _ in range(4):  # at 15, 25, 35, 45
            await engine.advance("10s")
            used.append(await in_use(engine))
        # From 40 on one of the five is left, and w1 beside it.
        assert used == [4, 3, 2, 2]
        assert [(run, at) for _, run, at in engine.started[5:]] == [(w1, 40)]
        await engine.advance("40s")
        assert [(run, at) for _, run, at in engine.started[5:]] == [(w1, 40), (w2, 50)]
        assert await statuses(engine, *(each.run_id for each in five)) == ["completed"] * 5
        assert await status(engine, w3) == "queued"


async def test_case_027_redeploy_that_removes_the_limit(engine_of):
    async with engine_of(working(60, concurrency=ONE)) as engine:
        await send_each(engine, [{}] * 11)
        await engine.advance("5s")
        assert starts(engine) == [0]
        await engine.register(working(60))
        await engine.settle()
        assert starts(engine) == [0] + [5] * 10


async def test_case_028_queued_runs_follow_the_new_key(engine_of):
    async with engine_of(working(60, concurrency=ConcurrencyConfig(1, key="a"))) as engine:
        await send_each(engine, [{"a": 1, "b": b} for b in (9, 1, 2, 3)])
        await engine.advance("5s")
        assert starts(engine) == [0]
        await engine.register(working(60, concurrency=ConcurrencyConfig(1, key="b")))
        await engine.settle()
        assert starts(engine) == [0, 5, 5, 5]


async def test_case_029_a_cancelled_run_whose_code_does_not_stop(engine_of):
    async def stubborn():
        try:
            await engine.clock.sleep(600)
        except asyncio.CancelledError:
            await engine.clock.sleep(600 - engine.clock.now())
        ended.append(engine.clock.now())
        return "an answer"

    ended = []

    async def handle(ctx):
        return await ctx.step.run("work", stubborn if ctx.event.data.get("hang") else pause_1)

    async def pause_1():
        await pause(1)

    async with engine_of(define_workflow("w", handle, concurrency=ONE)) as engine:
        a = await send(engine, "w", {"hang": True})
        b = await send(engine, "w")
        await engine.advance("1s")
        await engine.act(a, "cancel")
        await engine.settle()
        assert starts(engine) == [0, 1]
        await engine.advance("20m")
        assert ended == [600]
        shown = await engine.run(a)
        assert (shown.status, shown.output) == ("cancelled", None)
        assert seconds_of(engine, shown.ended_at) == 1
        assert await status(engine, b) == "completed"


async def test_case_030_started_at_is_the_moment_of_execution(engine_of):
    async with engine_of(working(20, concurrency=ONE)) as engine:
        answers = await send_each(engine, [{}] * 3)
        await engine.advance("2m")
        shown = [await engine.run(each.run_id) for each in answers]
        assert [seconds_of(engine, run.created_at) for run in shown] == [0, 0, 0]
        assert [seconds_of(engine, run.started_at) for run in shown] == [0, 20, 40]
        listed = {run.id: seconds_of(engine, run.started_at) for run in await engine.runs()}
        assert [listed[run.id] for run in shown] == [0, 20, 40]


async def test_case_031_exact_with_many_clients(engine_of):
    # One process here; several are in the tests on a real broker. A limit is counted at
    # one place (DESIGN 4), so what differs there is who owns that place.
    load = Load()
    answers = []

    async def client(number):
        for nth in range(10):
            await engine.clock.sleep(0.1 if nth else number / 200)
            answers.extend(await engine.send("w", {"s": (20 + (number * 7 + nth * 13) % 61) / 1e3}))

    async with engine_of(working(code=load, concurrency=ConcurrencyConfig(5))) as engine:
        await asyncio.gather(engine.advance("1m"), *(client(number) for number in range(20)))
        assert len({answer.run_id for answer in answers}) == 200
        assert {run.status for run in await engine.runs()} == {"completed"}
        assert len(engine.started) == len(engine.executions) == 200
        assert load.most == 5
