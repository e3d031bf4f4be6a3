"""Section E of the cases: debounce."""

import asyncio
from itertools import count

import pytest
from case_tools import send
from flow_tools import (
    CLOCK,
    Stalled,
    advance_to,
    given,
    in_use,
    produce,
    seconds_of,
    send_at,
    starts,
    statuses,
    window,
    working,
)

from duraton import ConcurrencyConfig, DebounceConfig
from duraton.testing import Engine
from duraton_api.errors import AnswerUnknownError
from duraton_streams.errors import DoubtError

FIVE = DebounceConfig(5_000)


async def test_case_049_last_payload_after_quiet_for_each_key(engine_of):
    async with engine_of(working(debounce=DebounceConfig("5s", key="d"))) as engine:
        answers = await send_at(
            engine,
            (0, {"d": 1, "v": "v1"}),
            (2, {"d": 2, "v": "w1"}),
            (4, {"d": 1, "v": "v2"}),
        )
        assert [(each.buffered, each.run_id) for each in answers] == [(True, None)] * 3
        await engine.advance("1m")
        assert await given(engine) == [
            (7, [{"d": 2, "v": "w1"}]),
            (9, [{"d": 1, "v": "v2"}]),
        ]


async def test_case_050_engine_down_across_the_deadline(engine_of):
    async with engine_of(working(debounce=FIVE)) as engine:
        await send_at(engine, (0, {"v": 1}), (3, {"v": 2}))
        assert (await window(engine))["pending"] == 1
        await engine.advance("1s")
        await engine.crash(down="16s")
        await engine.advance("1h")
        assert await given(engine) == [(20, [{"v": 2}])]
        assert await window(engine) is None


async def settled_at(engine, sending):
    """When the window of an event may fire that was sent at 0, before the engine died until 1.

    A client that got no answer sends it again: either it was recorded, or this is the first.
    """
    try:
        await sending
    except (ConnectionError, AnswerUnknownError):
        await engine.send("w", {"v": 1}, dedupe_id="x")
        return (5, 6)
    return (5,)


@pytest.mark.parametrize("turns", range(16))
async def test_case_051_crash_while_the_first_event_is_handled(engine_of, turns):
    # The process dies so many turns of the loop after the request came.
    async with engine_of(working(debounce=FIVE)) as engine:
        sending = asyncio.ensure_future(engine.send("w", {"v": 1}, dedupe_id="x"))
        for _ in range(turns):
            await asyncio.sleep(0)
        await engine.crash(down="1s")
        due = await settled_at(engine, sending)
        await engine.advance("1h")
        [(at, events)] = await given(engine)
        assert events == [{"v": 1}]
        assert at in due
        assert await window(engine) is None


@pytest.mark.parametrize("turns", range(0, 16, 3))
async def test_case_051_without_a_retry_there_is_at_most_one(engine_of, turns):
    async with engine_of(working(debounce=FIVE)) as engine:
        sending = asyncio.ensure_future(engine.send("w", {"v": 1}))
        for _ in range(turns):
            await asyncio.sleep(0)
        await engine.crash(down="1s", runner=True)
        [outcome] = await asyncio.gather(sending, return_exceptions=True)
        await engine.advance("1h")
        if isinstance(outcome, ConnectionError):
            assert len(engine.started) <= 1
        else:
            assert starts(engine) == [5]
        assert await window(engine) is None


@pytest.mark.parametrize("point", ["before_commit", "after_commit"])
@pytest.mark.parametrize("nth", range(1, 6))
async def test_case_051_each_commit_in_doubt(engine_of, point, nth):
    # P46: what was answered is on the log. tests/properties/test_crash_points.py stops
    # at the points within a batch.
    commits = count(1)
    ready = []

    def faults(where, partition, records):
        if ready and where == point and next(commits) == nth:
            raise DoubtError("the process died here")

    async with engine_of(working(debounce=FIVE), faults=faults) as engine:
        ready.append(True)
        sending = asyncio.ensure_future(engine.send("w", {"v": 1}, dedupe_id="x"))
        await engine.settle()
        ready.clear()
        await engine.crash(down="1s", runner=True)
        due = await settled_at(engine, sending)
        await engine.advance("1h")
        [run] = await engine.runs()
        shown = await engine.run(run.id)
        assert (shown.status, shown.output) == ("completed", [{"v": 1}])
        assert seconds_of(engine, shown.started_at) in due


async def test_case_053_late_firing_does_not_merge_two_bursts(engine_of):
    # The engine is away from 4 to 8. What a producer wrote to the topic at 7 is recorded
    # at 8, after the deadline of the window that has not fired (P11), and is quiet at 13.
    async with engine_of(working(debounce=FIVE)) as engine:
        await send_at(engine, (0, {"v": "e1"}))
        await engine.advance("4s")
        away = asyncio.ensure_future(engine.crash(down="4s"))
        await engine.clock.sleep(3)
        produce(engine, {"name": "w", "data": {"v": "e2"}})
        await away
        await engine.advance("1m")
        assert await given(engine) == [(8, [{"v": "e1"}]), (13, [{"v": "e2"}])]


async def test_case_053_a_stalled_home_while_ingest_works():
    # The event is recorded at 7 by another partition than that which owns the window.
    async with Engine(working(debounce=FIVE), partitions=12) as engine:
        CLOCK.engine = engine
        await send_at(engine, (0, {"v": "e1"}))
        await engine.advance("4s")
        home = Stalled(engine, "w")
        await engine.advance("3s")
        produce(engine, {"name": "w", "data": {"v": "e2"}}, partition=home.other)
        await engine.advance("1s")
        assert starts(engine) == []
        home.end()
        await engine.advance("1m")
        assert await given(engine) == [(8, [{"v": "e1"}]), (12, [{"v": "e2"}])]


async def test_case_054_no_hidden_upper_bound_on_the_period(engine_of):
    async with engine_of(working(debounce=DebounceConfig("12h"))) as engine:
        hour = 3600
        await send_at(engine, (0, {"v": 1}), (11 * hour, {"v": 2}))
        await engine.advance("2d")
        assert await given(engine) == [(23 * hour, [{"v": 2}])]


async def test_case_055_never_ending_traffic_never_fires(engine_of):
    async with engine_of(working(debounce=FIVE)) as engine:
        for second in range(0, 3601, 4):
            await send_at(engine, (second, {"n": second}))
            if second % 400 == 0:
                row = await window(engine)
                assert row["pending"] == 1
                assert seconds_of(engine, row["nextFireAt"]) == second + 5
        await engine.advance("4999ms")
        assert engine.started == []
        await engine.advance("1h")
        assert await given(engine) == [(3605, [{"n": 3600}])]


async def test_case_056_events_out_of_timestamp_order(engine_of):
    # Arrival decides, not what the senders claim (P10).
    async with engine_of(working(debounce=FIVE)) as engine:
        produce(engine, {"name": "w", "ts": 10, "data": {"v": "B"}})
        await engine.advance("1s")
        produce(engine, {"name": "w", "ts": 5, "data": {"v": "A"}})
        await engine.advance("1m")
        assert await given(engine) == [(6, [{"v": "A"}])]


async def test_case_057_the_payload_is_replaced_not_merged(engine_of):
    async with engine_of(working(extra={"debounce": {"periodMs": 5_000}})) as engine:
        await send_at(engine, (0, {"a": 1, "b": 2}), (1, {"a": 3}))
        await engine.advance("1m")
        assert await given(engine) == [(6, [{"a": 3}])]
        [run] = await engine.runs()
        assert (await engine.run(run.id)).trigger.data == {"a": 3}


async def test_case_058_an_event_during_the_debounced_run_starts_a_new_window(engine_of):
    async with engine_of(working(debounce=FIVE)) as engine:
        e1, e2, e3 = {"v": "e1", "s": 20}, {"v": "e2"}, {"v": "e3"}
        await send_at(engine, (0, e1), (10, e2), (12, e3))
        await advance_to(engine, 13)
        assert [run.status for run in await engine.runs()] == ["running"]
        await engine.advance("1m")
        assert await given(engine) == [(5, [e1]), (17, [e3])]


async def test_case_059_one_hundred_simultaneous_events_one_run(engine_of):
    # One process here; whichever accepts an event, it is decided at the workflow's home.
    async with engine_of(working(debounce=DebounceConfig("5s", key="k"))) as engine:
        answers = await asyncio.gather(
            *(engine.send("w", {"k": 1, "n": n}) for n in range(100)),
        )
        assert all(answer.buffered and answer.run_id is None for [answer] in answers)
        await engine.advance("1m")
        recorded = [await engine.event(each.id) for each in await engine.events(name="w")]
        assert sorted(each.data["n"] for each in recorded) == list(range(100))
        assert len({each.place.partition for each in recorded}) == 1
        last = max(recorded, key=lambda each: each.place.offset)
        assert await given(engine) == [(5, [last.data])]


async def test_case_060_a_waiting_window_costs_no_slot(engine_of):
    many = working(1, debounce=DebounceConfig("60s", key="k"), concurrency=ConcurrencyConfig(5))
    async with engine_of(many, working(2, name="other")) as engine:
        await engine.send_many([("w", {"k": k}) for k in range(10_000)])
        assert await in_use(engine) == 0
        await engine.advance("1s")
        await send(engine, "other")
        await engine.settle()
        assert starts(engine, "other") == [1]
        assert await in_use(engine) == 1
        row = await window(engine)
        assert (row["pending"], seconds_of(engine, row["nextFireAt"])) == (10_000, 60)
        await advance_to(engine, 62.5)
        assert starts(engine) == [60] * 5 + [61] * 5 + [62] * 5
        assert await in_use(engine) == 5
        assert await window(engine) is None


async def test_case_061_a_failed_debounced_run_does_not_poison_its_key(engine_of):
    async with engine_of(working(debounce=FIVE)) as engine:
        await send_at(engine, (0, {"v": "e1", "fail": True}), (20, {"v": "e2"}))
        await engine.advance("1m")
        (_, first, at1), (_, second, at2) = engine.started
        assert (at1, at2) == (5, 25)
        assert await statuses(engine, first, second) == ["failed", "completed"]
        assert (await engine.run(second)).output == [{"v": "e2"}]


@pytest.mark.parametrize("more", [False, True])
async def test_case_062_redeploy_with_another_period_while_a_window_is_open(engine_of, more):
    async with engine_of(working(debounce=DebounceConfig("60s"))) as engine:
        await send_at(engine, (0, {"v": "e1"}))
        await engine.advance("10s")
        await engine.register(working(debounce=FIVE))
        if more:
            await send_at(engine, (20, {"v": "e2"}))
        await engine.advance("5m")
        wanted = (25, [{"v": "e2"}]) if more else (60, [{"v": "e1"}])
        assert await given(engine) == [wanted]
