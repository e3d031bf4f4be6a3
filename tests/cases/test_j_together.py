"""Section J of the cases: together.

A `group` is counted at another slot than the workflow's own, so its starts are within a
tick. A joined start is a line of its event (`GET /events/{id}`).
"""

import asyncio

import pytest
from case_tools import ALWAYS, Flaky, runs_of, send, status
from flow_tools import (
    Load,
    advance_to,
    assert_at,
    began,
    fail,
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

from duraton import RetryConfig, TogetherConfig, define_workflow

JOIN = TogetherConfig(then="join")


@pytest.mark.parametrize(
    "options", [{"together": TogetherConfig()}, {"extra": {"together": {}}}], ids=["class", "wire"]
)
async def test_case_104_the_defaults(engine_of, options):
    load = Load()
    async with engine_of(working(10, code=load, key="k", **options)) as engine:
        await send_each(engine, [{"k": 1, "n": n} for n in range(12)])
        await engine.advance("1m")
        assert_at(starts(engine), [0] * 10 + [10] * 2)
        assert [n for _, n in await began(engine)] == list(range(12))
        assert load.most == 10


async def test_case_104_each_key_has_its_own_count(engine_of):
    async with engine_of(working(10, key="k", together=TogetherConfig(max=1))) as engine:
        await send_each(engine, [{"k": 1}, {"k": 2}, {"k": 1}])
        await engine.advance("1m")
        assert_at(starts(engine), [0, 0, 10])


async def test_case_105_who_waits_does_not_count(engine_of):
    async with engine_of(scripted(together=TogetherConfig(max=1, then="refuse"))) as engine:
        s1, s2, s3 = await send_at(
            engine,
            (0, {"do": [["work", 1], ["sleep", 99], ["work", 1]]}),
            (50, {"do": [["work", 10]]}),
            (55, {"do": [["work", 1]]}),
        )
        assert s1.run_id and s2.run_id
        assert (s3.refused, s3.run_id) == ("T7103", None)
        await engine.advance("5m")
        assert_at(starts(engine), [0, 50])
        assert await statuses(engine, s1.run_id, s2.run_id) == ["completed", "completed"]
        assert len(await engine.runs()) == 2


async def test_case_105_a_run_that_started_is_not_refused_when_it_wakes(engine_of):
    # It waits instead (P27).
    async with engine_of(scripted(together=TogetherConfig(max=1, then="refuse"))) as engine:
        s1, s2 = await send_at(
            engine,
            (0, {"do": [["work", 1], ["sleep", 10], ["work", 1]]}),
            (5, {"do": [["work", 20]]}),
        )
        await engine.advance("1m")
        assert_at(runs_of(engine, "work-3", s1.run_id), [25])
        assert await statuses(engine, s1.run_id, s2.run_id) == ["completed", "completed"]


async def test_case_106_a_group_is_one_count_across_flows_and_per_key(engine_of):
    group = TogetherConfig(group="perTeam", max=5)
    flows = [working(10, name=name, key="team", together=group) for name in ("f1", "f2")]
    async with engine_of(*flows) as engine:
        # A millisecond apart, so that "by start" says which is first.
        for name in ("f1", "f1", "f1", "f2", "f2", "f2", "f1", "f2"):
            await send(engine, name, {"team": "X"})
            await engine.advance("1ms")
        await send(engine, "f2", {"team": "Y"})
        await engine.advance("1m")
        found = [(name, at) for name, _, at in engine.started]
        assert [name for name, _ in found[:5]] == ["f1", "f1", "f1", "f2", "f2"]
        assert_at([at for _, at in found[:5]], [0, 0.001, 0.002, 0.003, 0.004])
        [(other, at), *rest] = found[5:]
        assert other == "f2"  # team Y goes its own way
        assert_at([at], [0.008])
        assert [name for name, _ in rest] == ["f2", "f1", "f2"]
        assert_at([at for _, at in rest], [10, 10.001, 10.002])


async def test_case_108_stop_the_old_ends_before_the_new_begins(engine_of):
    handled = []

    async def late():
        try:
            await engine.clock.sleep(6)
        except asyncio.CancelledError:
            await engine.clock.sleep(1)
        raise ValueError("thrown at 6")

    async def handle(ctx):
        if ctx.event.data["who"] == "s1":
            return await ctx.step.run("work", late)
        return await ctx.step.run("work", pause, 10)

    async def on_failure(ctx):
        handled.append(ctx.run.id)

    workflow = define_workflow(
        "w",
        handle,
        together=TogetherConfig(max=1, then="stop"),
        retry=RetryConfig(5),
        on_failure=on_failure,
    )
    async with engine_of(workflow) as engine:
        s1, s2 = await send_at(engine, (0, {"who": "s1"}), (5, {"who": "s2"}))
        await engine.settle()
        assert await statuses(engine, s1.run_id, s2.run_id) == ["cancelled", "running"]
        assert await in_use(engine) == 1
        await engine.advance("2m")
        stopped = await engine.run(s1.run_id)
        assert (stopped.status, stopped.output) == ("cancelled", None)
        assert_at([seconds_of(engine, stopped.ended_at)], [5])
        assert runs_of(engine, "work", s1.run_id) == [0]
        assert_at(runs_of(engine, "work", s2.run_id), [5])
        assert await status(engine, s2.run_id) == "completed"
        assert handled == []


async def test_case_109_stop_takes_the_one_that_has_worked_longest(engine_of):
    async with engine_of(scripted(together=TogetherConfig(max=2, then="stop"))) as engine:
        a, b, c = await send_at(
            engine,
            (0, {"do": [["work", 1], ["sleep", 99], ["work", 60]]}),
            (50, {"do": [["work", 600]]}),
            (110, {"do": [["work", 60]]}),
        )
        await engine.settle()
        runs = [each.run_id for each in (a, b, c)]
        assert await statuses(engine, *runs) == ["running", "cancelled", "running"]
        await engine.advance("5m")
        assert await statuses(engine, *runs) == ["completed", "cancelled", "completed"]


async def test_case_110_ten_starts_at_once_under_stop(engine_of):
    # One process here; whichever accepts a start, it is decided at the workflow's home.
    together = TogetherConfig(max=1, then="stop")
    async with engine_of(working(10, key="k", together=together)) as engine:
        answers = [
            answer
            for [answer] in await asyncio.gather(
                *(engine.send("w", {"k": 1, "n": n}) for n in range(10))
            )
        ]
        await engine.settle()
        assert len({answer.run_id for answer in answers}) == 10
        assert await in_use(engine) == 1
        await engine.advance("1m")
        found = [await engine.run(answer.run_id) for answer in answers]
        [survivor] = [run for run in found if run.status == "completed"]
        stopped = [run for run in found if run is not survivor]
        assert {run.status for run in stopped} == {"cancelled"}
        events = [await engine.event(each.id) for each in await engine.events(name="w")]
        last = max(events, key=lambda each: each.place.offset)
        assert survivor.trigger.event_id == last.id
        for run in found:
            ends = [f for f in engine.facts(run.id) if type(f).__name__ == "RunEnded"]
            assert len(ends) == 1, "each ended once"


async def test_case_111_a_start_while_the_old_run_backs_off(engine_of):
    # It does not work, so nothing is stopped, and it waits when it wants to go on (P25).
    work = Flaky(1)

    async def handle(ctx):
        if ctx.event.data["who"] == "A":
            await ctx.step.run("pre", pause, 1)
            return await ctx.step.run("work", work)
        return await ctx.step.run("long", pause, 50)

    workflow = define_workflow(
        "w",
        handle,
        together=TogetherConfig(max=1, then="stop"),
        retry=RetryConfig(2, initial_delay_ms=30_000),
    )
    async with engine_of(workflow) as engine:
        a, c = await send_at(engine, (0, {"who": "A"}), (10, {"who": "C"}))
        await advance_to(engine, 45)
        assert runs_of(engine, "work", a.run_id) == [1]
        await engine.advance("2m")
        assert_at(runs_of(engine, "work", a.run_id), [1, 60])
        assert_at(starts(engine), [0, 10])
        assert await statuses(engine, a.run_id, c.run_id) == ["completed", "completed"]


async def joined_lines(engine, name="w"):
    """(run, what it led to) of each recorded event of a name, oldest first."""
    lines = []
    for each in reversed(await engine.events(name=name)):
        [led_to] = (await engine.event(each.id)).runs
        lines.append((led_to.run_id, led_to.outcome))
    return lines


async def test_case_112_join_three_webhooks_one_run(engine_of):
    async with engine_of(working(10, key="order", together=JOIN)) as engine:
        answers = await send_at(engine, *((n, {"order": 7, "n": n}) for n in range(3)))
        run = answers[0].run_id
        assert [each.run_id for each in answers] == [run] * 3
        assert [each.joined for each in answers] == [False, True, True]
        await engine.advance("1m")
        assert [each.id for each in await engine.runs()] == [run]
        assert (await engine.run(run)).output == [{"order": 7, "n": 0}]
        assert await joined_lines(engine) == [(run, "run"), (run, "joined"), (run, "joined")]


async def test_case_112_another_caller_is_refused_and_told_nothing(engine_of):
    # The seed and P26: to any other caller the start is refused with T7103.
    async with engine_of(working(10, key="order", together=JOIN)) as engine:
        [first] = await engine.send("w", {"order": 7}, key="shop")
        [foreign] = await engine.send("w", {"order": 7}, key="stranger")
        [own] = await engine.send("w", {"order": 7}, key="shop")
        assert (foreign.refused, foreign.run_id, foreign.joined) == ("T7103", None, False)
        assert foreign.blocked_by is None
        assert (own.joined, own.run_id) == (True, first.run_id)
        assert (None, "refused") in await joined_lines(engine)


async def test_case_112_a_start_after_the_end_is_a_new_run(engine_of):
    async with engine_of(working(10, key="order", together=JOIN)) as engine:
        first, second = await send_at(engine, (0, {"order": 7}), (11, {"order": 7}))
        assert (second.joined, second.run_id == first.run_id) == (False, False)


@pytest.mark.parametrize(
    ("state", "shown"),
    [("queued", "queued"), ("asleep", "waiting"), ("backoff", "waiting"), ("paused", "paused")],
)
async def test_case_113_join_also_finds_runs_that_wait(engine_of, state, shown):
    async def handle(ctx):
        if state == "backoff":
            await ctx.step.run("work", Flaky(ALWAYS))
        elif state == "queued":
            await ctx.step.run("work", pause, 600)
        else:
            await ctx.step.sleep("nap", "10m")

    # Another flow of the group with the same key takes the one place.
    together = TogetherConfig(group="g", max=1, then="join")
    options = {"key": "k", "together": together}
    flow = define_workflow(
        "w", handle, retry=RetryConfig(2, initial_delay_ms=600_000, max_delay_ms=600_000), **options
    )
    async with engine_of(flow, working(600, name="other", **options)) as engine:
        if state == "queued":
            await send(engine, "other", {"k": 1})
            await engine.settle()
        run = await send(engine, "w", {"k": 1})
        await engine.advance("1s")
        if state == "paused":
            await engine.act(run, "pause")
        assert await status(engine, run) == shown
        [answer] = await engine.send("w", {"k": 1})
        assert (answer.joined, answer.run_id) == (True, run)
        assert len(await engine.runs(workflow="w")) == 1


async def test_case_115_one_hundred_joins_at_once_one_real_id(engine_of):
    # One process here; whichever accepts a start, it is decided at the workflow's home.
    async def start():
        [answer] = await engine.send("w", {"k": 1})
        return answer, await engine.run(answer.run_id)

    async with engine_of(working(10, key="k", together=JOIN)) as engine:
        found = await asyncio.gather(*(start() for _ in range(100)))
        assert len({answer.run_id for answer, _ in found}) == 1
        assert {shown.id for _, shown in found} == {answer.run_id for answer, _ in found}
        assert sum(answer.joined for answer, _ in found) == 99
        await engine.advance("1m")
        assert [run.status for run in await engine.runs()] == ["completed"]


@pytest.mark.parametrize("turns", range(0, 24, 2))
async def test_case_116_join_at_the_moment_of_ending(engine_of, turns):
    async def start_late():
        await engine.clock.sleep(10)
        for _ in range(turns):
            await asyncio.sleep(0)
        return await engine.send("w", {"k": 1, "n": 2})

    async with engine_of(working(10, key="k", together=JOIN)) as engine:
        first = await send(engine, "w", {"k": 1, "n": 1})
        _, [answer] = await asyncio.gather(engine.advance("10s"), start_late())
        await engine.advance("1m")
        assert answer.refused is None
        assert answer.joined == (answer.run_id == first)
        shown = await engine.run(answer.run_id)
        assert shown.status == "completed"
        assert shown.output == [{"k": 1, "n": 1 if answer.joined else 2}]


async def test_case_117_a_joined_call_gets_what_the_run_gives(engine_of):
    # Calls of models that start flows are the caller's own: nothing here offers them.
    async def failing(ctx):
        await ctx.step.run("work", pause, 10)
        await ctx.step.run("fail", fail, "F fails")

    async def calling(ctx):
        calls = (ctx.step.invoke(name, "f", {"k": 1}) for name in ("one", "two"))
        return await asyncio.gather(*calls)

    flow = define_workflow("f", failing, key="k", together=JOIN)
    async with engine_of(flow, define_workflow("p", calling)) as engine:
        callers = [await send(engine, "p"), await send(engine, "p")]
        await engine.advance("9s")
        for caller in callers:
            shown = await engine.run(caller)
            assert [step.status for step in shown.steps] == ["waiting", "waiting"]
        await engine.advance("1s")
        assert len(await engine.runs(workflow="f")) == 1
        for caller in callers:
            shown = await engine.run(caller)
            assert (shown.status, shown.error.message) == ("failed", "F fails")
            assert seconds_of(engine, shown.ended_at) == 10


async def test_case_117_also_its_output(engine_of):
    async def calling(ctx):
        calls = (ctx.step.invoke(name, "f", {"k": 1, "by": name}) for name in ("one", "two"))
        return await asyncio.gather(*calls)

    flow = working(10, name="f", key="k", together=JOIN)
    async with engine_of(flow, define_workflow("p", calling)) as engine:
        caller = await send(engine, "p")
        await engine.advance("10s")
        shown = await engine.run(caller)
        assert (shown.status, shown.output) == ("completed", [[{"k": 1, "by": "one"}]] * 2)
        assert len(await engine.runs(workflow="f")) == 1


async def test_case_117_also_where_the_workflow_says_join_no_longer(engine_of):
    # A registration that leaves `together` out takes its count away, not who waits (P20).
    async def calling(ctx):
        calls = (ctx.step.invoke(name, "f", {"k": 1, "by": name}) for name in ("one", "two"))
        return await asyncio.gather(*calls)

    caller_of = define_workflow("p", calling)
    flow = working(10, name="f", key="k", together=JOIN)
    async with engine_of(flow, caller_of) as engine:
        caller = await send(engine, "p")
        await engine.advance("5s")
        await engine.register([working(10, name="f"), caller_of])
        await engine.advance("1m")
        shown = await engine.run(caller)
        assert (shown.status, shown.output) == ("completed", [[{"k": 1, "by": "one"}]] * 2)


async def test_case_118_rows_count_separately_for_a_table_trigger(engine_of):
    # Where the flow states no key, an event's subject is the row (P52).
    async with engine_of(working(10, together=TogetherConfig(max=1))) as engine:
        for row in ("row-1", "row-1", "row-2", "row-1"):
            await engine.send("w", {"row": row}, subject=row)
        await engine.advance("1m")
        found = await began(engine, field="row")
        assert_at([at for at, row in found if row == "row-1"], [0, 10, 20])
        assert_at([at for at, row in found if row == "row-2"], [0])


@pytest.mark.parametrize("transport", ["connect", "serve"])
@pytest.mark.parametrize(("runner", "ends"), [(False, 60), (True, 63)])
async def test_case_119_a_restart_does_not_open_the_gate(engine_of, transport, runner, ends):
    load = Load()
    together = TogetherConfig(group="g", max=5)
    async with engine_of(working(60, code=load, together=together), transport=transport) as engine:
        runs = [each.run_id for each in await send_each(engine, [{}] * 10)]
        await engine.advance("1s")
        await engine.crash(down="2s", runner=runner)
        assert await statuses(engine, *runs) == ["running"] * 5 + ["queued"] * 5
        await engine.advance("10m")
        assert [run for _, run, _ in engine.started] == runs
        assert_at(starts(engine), [0] * 5 + [ends] * 5)
        assert load.most == 5
        assert await statuses(engine, *runs) == ["completed"] * 10
