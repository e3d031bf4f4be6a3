"""Section P of the cases, where replays meet the controls; the others are in test_p_replay.py.

A replay skips what is decided about an event and obeys what is decided about a run (P40).
"""

from itertools import pairwise

import pytest
from case_tools import send, status
from flow_tools import (
    Load,
    advance_to,
    assert_at,
    buffer,
    given,
    in_use,
    send_at,
    send_each,
    starts,
    statuses,
    working,
)

from duraton import (
    BatchConfig,
    ConcurrencyConfig,
    DebounceConfig,
    IdempotencyConfig,
    RateLimitConfig,
    SingletonConfig,
    ThrottleConfig,
    define_workflow,
)
from duraton.testing import RefusedError


@pytest.mark.parametrize(("seconds", "most"), [(0.25, 3), (1, 5)])
async def test_case_188_replays_respect_capacity(engine_of, seconds, most):
    # 100 runs fail before there are controls, the youngest first; then the code is mended.
    # With steps of 1 s the five slots are the tighter bound, with 0.25 s it is the throttle.
    async with engine_of(working()) as engine:
        datas = [{"fail": True, "s": (100 - n) / 1000} for n in range(100)]
        failed = await send_each(engine, datas)
        await engine.advance("1s")
        await engine.set_ceiling(8)
        assert len(await engine.runs(status="failed")) == 100
        load = Load()
        await engine.register(mended_workflow(load, seconds))
        await engine.advance("59s")
        await engine.bulk("replay", status="failed", workflow="w")
        await engine.advance("10m")
        replays = [(run, at) for _, run, at in engine.started[100:]]
        assert len(replays) == len({run for run, _ in replays}) == 100
        assert load.most == most
        gaps = [round(b - a, 3) for (_, a), (_, b) in pairwise(replays)]
        assert min(gaps) >= 0.1
        if seconds < 0.5:
            assert_at([at for _, at in replays], [60 + n / 10 for n in range(100)])
        else:
            # Five start 0.1 s apart, the sixth when the first has ended.
            ten = [whole + n / 10 for whole in (60, 61) for n in range(5)]
            assert_at([at for _, at in replays[:10]], ten)
        # In order of failure (P57).
        origins = [(await engine.run(run)).replay_of for run, _ in replays]
        assert origins == [each.run_id for each in reversed(failed)]
        assert {run.status for run in await engine.runs()} == {"failed", "completed"}


def mended_workflow(load, seconds):
    """The same workflow with its controls, and code that no longer fails."""

    async def handle(ctx):
        await ctx.step.run("work", load, seconds)

    return define_workflow(
        "w", handle, concurrency=ConcurrencyConfig(5), throttle=ThrottleConfig(10, 1_000)
    )


async def test_case_189_a_replay_is_not_deduped_dropped_or_delayed_as_an_event(engine_of):
    workflow = working(
        idempotency=IdempotencyConfig("k", "24h"),
        rate_limit=RateLimitConfig(1, "1h"),
        debounce=DebounceConfig("5s"),
    )
    async with engine_of(workflow) as engine:
        data = {"k": 1, "n": "payload", "s": 1, "fail": True}
        await send_at(engine, (0, data))
        await advance_to(engine, 10)
        [first] = await engine.runs()
        assert (first.status, starts(engine)) == ("failed", [5])
        replay = await engine.act(first.id, "replay")
        await engine.settle()
        assert engine.started == [("w", first.id, 5), ("w", replay.id, 10)]
        assert (await engine.run(replay.id)).trigger.data == data
        # It neither needs nor renews the key: the first run's window holds as it was.
        [later] = await send_at(engine, (20, {"k": 1}))
        assert (later.deduped, later.run_id) == (True, None)
        await engine.advance("1h")
        assert len(engine.started) == 2
        [after] = await send_at(engine, (24 * 3600, {"k": 1}))
        assert (after.deduped, after.buffered) == (False, True)


async def test_case_189_a_replay_takes_no_place_in_the_rate(engine_of):
    async with engine_of(working(rate_limit=RateLimitConfig(2, "1h"))) as engine:
        first = await send(engine, "w", {"fail": True})
        await engine.advance("1s")
        for _ in range(3):
            assert (await engine.act(first, "replay")).id != first
        answers = await send_each(engine, [{}, {}])
        assert [each.dropped for each in answers] == [False, True]


async def test_case_190_a_batch_runs_replay_has_the_same_events(engine_of):
    failing = working(batch=BatchConfig(3, "1m"), step="first")
    async with engine_of(failing) as engine:
        e1, e2, e3 = ({"n": n, "fail": n == 1} for n in (1, 2, 3))
        await send_each(engine, [e1, e2, e3, {"n": 4}])
        await engine.settle()
        [first] = await engine.runs()
        assert first.status == "failed"
        await engine.register(events_seen())
        await engine.advance("1s")
        open_buffer = await buffer(engine)
        replay = await engine.act(first.id, "replay")
        await engine.settle()
        shown = await engine.run(replay.id)
        assert (shown.status, shown.output) == ("completed", [e1, e2, e3])
        assert await buffer(engine) == open_buffer
        assert open_buffer["buffered"] == 1
        await engine.advance("1h")
        assert [at for at, _ in (await given(engine))[1:]] == [1, 60]
        assert (await given(engine))[2] == (60, [{"n": 4}])


def events_seen():
    """The batch workflow with code that no longer fails; it gives back its events."""

    async def handle(ctx):
        return [event.data for event in ctx.events]

    return define_workflow("w", handle, batch=BatchConfig(3, "1m"))


async def test_case_191_a_singleton_key_in_use(engine_of):
    async with engine_of(working(60, singleton=SingletonConfig(key="a"))) as engine:
        r1, r2 = await send_at(engine, (0, {"a": 1, "s": 1, "fail": True}), (2, {"a": 1}))
        await engine.settle()
        assert await statuses(engine, r1.run_id, r2.run_id) == ["failed", "running"]
        with pytest.raises(RefusedError, match=r2.run_id):
            await engine.act(r1.run_id, "replay")
        assert len(await engine.runs()) == 2
        await engine.advance("2m")
        # Once the key is free, it can be replayed.
        replay = await engine.act(r1.run_id, "replay")
        await engine.settle()
        assert await status(engine, replay.id) == "running"
        assert await in_use(engine) == 1
