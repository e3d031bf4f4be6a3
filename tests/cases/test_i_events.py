"""Section I of the cases: idempotency, dedupeId, fan-out and waiters."""

import asyncio

import pytest
from case_tools import Flaky, one_step, runs_of, send, status
from flow_tools import scripted, send_at, send_each, starts, working

from duraton import (
    App,
    ConcurrencyConfig,
    IdempotencyConfig,
    RateLimitConfig,
    SingletonConfig,
    ThrottleConfig,
    TogetherConfig,
    define_workflow,
)
from duraton_api.errors import UnavailableError
from duraton_streams.errors import DoubtError


def waiter(name="r", event="e", **wait):
    async def handle(ctx):
        found = await ctx.step.wait_for_event("got", event, **wait)
        return None if found is None else found.data

    return define_workflow(name, handle)


BY_O = IdempotencyConfig(key="o", period_ms=60_000)


async def test_case_091_the_window_is_anchored_at_the_first_run(engine_of):
    async with engine_of(working(idempotency=BY_O)) as engine:
        answers = await send_at(engine, *((at, {"o": 1}) for at in (0, 40, 59.9, 60.1, 100)))
        assert [each.deduped for each in answers] == [False, True, True, False, True]
        assert [each.run_id is None for each in answers] == [False, True, True, False, True]
        assert starts(engine) == [0, 60.1]
        # Duplicates are recorded all the same.
        assert len(await engine.events(name="w")) == 5


async def test_case_092_an_expired_key_is_free_at_once(engine_of):
    # Whatever is swept and when, the time alone decides (P17).
    idempotency = {"key": "o", "periodMs": 1000}
    async with engine_of(working(extra={"idempotency": idempotency})) as engine:
        answers = await send_at(engine, *((at, {"o": 1}) for at in (0, 0.9, 1.1)))
        assert [each.deduped for each in answers] == [False, True, False]


async def test_case_092_the_window_ends_before_its_last_instant(engine_of):
    # [claim, claim + periodMs)
    async with engine_of(working(idempotency=BY_O)) as engine:
        answers = await send_at(engine, *((at, {"o": 1}) for at in (0, 59.999, 60)))
        assert [each.deduped for each in answers] == [False, True, False]


@pytest.mark.parametrize("act", ["fail", "cancel"])
async def test_case_093_a_first_run_that_came_to_nothing_still_uses_up_the_key(engine_of, act):
    async with engine_of(working(idempotency=IdempotencyConfig("o", "1h"))) as engine:
        data = {"o": 1, "s": 1, "fail": True} if act == "fail" else {"o": 1, "s": 100}
        [first] = await send_at(engine, (0, data))
        await engine.advance("1s")
        if act == "cancel":
            await engine.act(first.run_id, "cancel")
        [second] = await send_at(engine, (10, {"o": 1}))
        ended = "failed" if act == "fail" else "cancelled"
        assert await status(engine, first.run_id) == ended
        assert (second.deduped, second.run_id) == (True, None)


async def test_case_094_a_raced_insert(engine_of):
    # One process here; whichever accepts an event, it is decided at the workflow's home.
    async with engine_of(working(idempotency=BY_O)) as engine:
        answers = await asyncio.gather(*(engine.send("w", {"o": 1}) for _ in range(20)))
        runs = [answer.run_id for [answer] in answers if answer.run_id is not None]
        assert len(runs) == 1
        assert sum(answer.deduped for [answer] in answers) == 19
        await engine.settle()
        assert [run.id for run in await engine.runs()] == runs


@pytest.mark.parametrize("point", ["before_commit", "after_commit"])
@pytest.mark.parametrize("turns", [0, 1, 2, 3])
async def test_case_095_the_winner_rolls_back(engine_of, point, turns):
    # The second comes so many turns of the loop after the first, whose commit fails. Both
    # may stand in one transaction; then both callers get an error, and neither a dedupe.
    failed = []

    def faults(where, partition, records):
        if where == point and not failed and any(b'"one"' in (r.value or b"") for r in records):
            failed.append(where)
            raise DoubtError("it is not known whether it was written")

    async with engine_of(working(idempotency=BY_O), faults=faults) as engine:
        sending = [asyncio.ensure_future(engine.send("w", {"o": 1, "who": "one"}))]
        for _ in range(turns):
            await asyncio.sleep(0)
        sending.append(asyncio.ensure_future(engine.send("w", {"o": 1, "who": "two"})))
        await engine.settle()
        await engine.crash()
        assert failed == [point]
        outcomes = await asyncio.gather(*sending, return_exceptions=True)
        runs = [run.id for run in await engine.runs()]
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                assert isinstance(outcome, (ConnectionError, UnavailableError))
            else:
                [answer] = outcome
                assert len(runs) == 1, "who is answered has the run, or is deduped by it"
                assert answer.deduped or answer.run_id == runs[0]
        # Who got an error sends again; whatever happened before, there is one run.
        [again] = await engine.send("w", {"o": 1})
        await engine.settle()
        assert again.deduped == bool(runs)
        assert [run.status for run in await engine.runs()] == ["completed"]


async def test_case_097_unresolved_keys_dedupe_each_other(engine_of):
    async with engine_of(working(idempotency=IdempotencyConfig("orderId", "1h"))) as engine:
        answers = await send_at(engine, (0, {"id": 1}), (1, {"id": 2}))
        assert [each.deduped for each in answers] == [False, True]
        assert starts(engine) == [0]


async def test_case_097_two_that_resolve_start_two_runs(engine_of):
    # The seed's own check that a path resolves.
    async with engine_of(working(idempotency=IdempotencyConfig("orderId", "1h"))) as engine:
        answers = await send_each(engine, [{"orderId": 1}, {"orderId": 2}])
        assert [each.deduped for each in answers] == [False, False]


async def test_case_098_the_event_does_all_its_other_work(engine_of):
    w1 = working(name="w1", triggers=["e"], idempotency=BY_O)
    w2 = working(name="w2", triggers=["e"])
    async with engine_of(w1, w2, waiter()) as engine:
        first = {each.workflow: each for each in await engine.send("e", {"o": 1, "nth": 1})}
        assert first["w1"].run_id and first["w2"].run_id
        await engine.advance("1s")
        waits = await send(engine, "r")
        await engine.advance("1s")
        second = {each.workflow: each for each in await engine.send("e", {"o": 1, "nth": 2})}
        await engine.settle()
        assert (second["w1"].deduped, second["w1"].run_id) == (True, None)
        assert second["w2"].run_id not in (None, first["w2"].run_id)
        shown = await engine.run(waits)
        assert (shown.status, shown.output) == ("completed", {"o": 1, "nth": 2})
        newest, _ = await engine.events(name="e")
        led_to = {each.workflow: each.outcome for each in (await engine.event(newest.id)).runs}
        assert led_to == {"w1": "deduped", "w2": "run"}


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


async def test_case_102_what_refuses_or_drops_it_is_its_own_affair(engine_of):
    busy = {"do": [["work", 60]]}
    workflows = [
        scripted("refuses", triggers=["e"], together=TogetherConfig(max=1, then="refuse")),
        scripted("drops", triggers=["e"], rate_limit=RateLimitConfig(1, "1h")),
        scripted("skips", triggers=["e"], singleton=SingletonConfig()),
        scripted("runs", triggers=["e"]),
    ]
    async with engine_of(*workflows) as engine:
        first = await engine.send("e", busy)
        assert all(each.run_id for each in first) and len(first) == 4
        await engine.settle()
        second = {each.workflow: each for each in await engine.send("e", busy)}
        assert second["refuses"].refused == "T7103"
        assert second["drops"].dropped
        assert second["skips"].skipped
        assert second["runs"].run_id


async def test_case_102_keys_that_cannot_be_read_stop_nobody(engine_of):
    odd = {"k": {"deep": [1]}, "list": [{"k": 1}], "null": None}
    w1 = working(
        name="w1",
        triggers=["e"],
        concurrency=ConcurrencyConfig(1, key="k.deep"),
        throttle=ThrottleConfig(1, 1000, key="list.k"),
        rate_limit=RateLimitConfig(5, 1000, key="null.k"),
        singleton=SingletonConfig(key="k.deep.0"),
        idempotency=IdempotencyConfig("missing.at.all", 1000),
    )
    w2 = working(name="w2", triggers=["e"])
    async with engine_of(w1, w2) as engine:
        answers = await engine.send("e", odd)
        await engine.settle()
        assert {each.workflow for each in answers if each.run_id} == {"w1", "w2"}
        assert {run.status for run in await engine.runs()} == {"completed"}


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
