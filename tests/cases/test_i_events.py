"""Section I of the cases, as far as it needs no later control: dedupeId, fan-out, waiters.

91 to 97 are of idempotency, which comes later.
"""

import asyncio

import pytest
from case_tools import Flaky, one_step, runs_of, send, status

from duraton import App, define_workflow
from duraton.testing import Engine


def waiter(name="r", event="e", **wait):
    async def handle(ctx):
        found = await ctx.step.wait_for_event("got", event, **wait)
        return None if found is None else found.data

    return define_workflow(name, handle)


@pytest.fixture(params=[1, 12])
def engine_of(request):
    """Makes engines with one partition and with twelve."""

    def make(*apps, **more):
        return Engine(*apps, partitions=request.param, **more)

    return make


async def test_case_098_the_event_does_all_its_work(engine_of):
    # W1's idempotency comes later; the waiter, the other workflow and the list do not.
    async with engine_of(one_step(Flaky(0), name="w2", triggers=["e"]), waiter()) as engine:
        await engine.send("e", {"o": 1, "nth": 1})
        await engine.advance("1s")
        waits = await send(engine, "r")
        await engine.advance("1s")
        [answer] = await engine.send("e", {"o": 1, "nth": 2})
        await engine.settle()
        assert answer.workflow == "w2"
        shown = await engine.run(waits)
        assert (shown.status, shown.output) == ("completed", {"o": 1, "nth": 2})
        assert len(await engine.events(name="e")) == 2


async def test_case_099_dedupe_id_stops_everything_behind_it(engine_of):
    async with engine_of(one_step(Flaky(0), triggers=["e"]), waiter()) as engine:
        [first] = await engine.send("e", {"n": 1}, dedupe_id="x")
        assert first.run_id
        await engine.advance("500ms")
        waits = await send(engine, "r")
        await engine.advance("500ms")
        assert await engine.send("e", {"n": 2}, dedupe_id="x") == []
        await engine.advance("86398s")
        assert engine.clock.now() == 24 * 3600 - 1
        assert await engine.send("e", {"n": 3}, dedupe_id="x") == []
        await engine.settle()
        assert await status(engine, waits) == "waiting"
        assert len(engine.started) == 2
        assert len(await engine.events(name="e")) == 1
        await engine.advance("2s")
        [fourth] = await engine.send("e", {"n": 4}, dedupe_id="x")
        await engine.settle()
        assert fourth.run_id
        assert (await engine.run(waits)).output == {"n": 4}


async def test_case_100_the_same_dedupe_id_twice_inside_one_post(engine_of):
    async with engine_of(one_step(Flaky(0), triggers=["e"])) as engine:
        x = {"name": "e", "data": {"n": 1}, "dedupeId": "x"}
        y = {"name": "e", "data": {"n": 2}, "dedupeId": "y"}
        first, again, other = await engine.send_many([x, {**x, "data": {"n": 9}}, y])
        await engine.settle()
        assert [len(each) for each in (first, again, other)] == [1, 0, 1]
        datas = [run.trigger.event_id for run in await engine.runs()]
        assert len(set(datas)) == 2
        recorded = [await engine.event(each.id) for each in await engine.events(name="e")]
        assert sorted(each.data["n"] for each in recorded) == [1, 2]


async def test_case_100_later_events_of_the_post_keep_their_order(engine_of):
    async with engine_of(one_step(Flaky(0), triggers=["e"]), capacity=1) as engine:
        events = [{"name": "e", "data": {"n": n}} for n in range(6)]
        events[2]["dedupeId"] = "x"
        events[4]["dedupeId"] = "y"
        answers = await engine.send_many(events)
        await engine.settle()
        started = [run for _, run, _ in engine.started]
        assert started == [answer.run_id for [answer] in answers]


async def test_case_102_one_broken_workflow_does_not_stop_the_others(engine_of):
    apps = [
        App("one", [one_step(Flaky(0), name="w1", triggers=["e"])]),
        App("two", [one_step(Flaky(0), name="w2", triggers=["e"])]),
        App("three", [one_step(Flaky(0), name="w3", triggers=["e"])]),
    ]
    async with engine_of(*apps) as engine:
        del engine.host.runner.apps["one"]  # its runner is gone, its registration stays
        engine.host.connect()
        await engine.settle()
        answers = {answer.workflow: answer.run_id for answer in await engine.send("e", {})}
        await engine.settle()
        shown = {name: await engine.run(run) for name, run in answers.items()}
        assert {name: run.status for name, run in shown.items()} == {
            "w1": "queued",
            "w2": "completed",
            "w3": "completed",
        }
        assert shown["w1"].waiting_for.kind == "runner"


async def test_case_103_nobody_is_waiting_yet(engine_of):
    async with engine_of(waiter()) as engine:
        await engine.advance("1s")
        await engine.send("e", {"n": 1})
        await engine.advance("1ms")
        waits = await send(engine, "r")
        await engine.settle()
        assert await status(engine, waits) == "waiting"
        await engine.advance("3999ms")
        await engine.send("e", {"n": 2})
        await engine.settle()
        assert (await engine.run(waits)).output == {"n": 2}
        assert engine.clock.now() == 5


async def test_case_103_what_shows_as_waiting_gets_the_next_event(engine_of):
    # "Registered before, yet missed" must not be: whatever the instant, an event sent once
    # the run is shown to wait wakes it.
    async with engine_of(waiter(match={"k": 7})) as engine:
        waits = await send(engine, "r")
        turns = 0
        while (await engine.run(waits)).waiting_for is None:
            engine.host.turn()
            await asyncio.sleep(0)
            turns += 1
            assert turns < 10_000
        await engine.send_many([("e", {"k": 8}), ("e", {"k": "7", "n": 1}), ("e", {"k": 7})])
        await engine.settle()
        assert (await engine.run(waits)).output == {"k": "7", "n": 1}
        assert runs_of(engine, "got") == []
