"""Firings of a flow whose group may refuse its starts are held until the group has room (P27).

The group is counted at the project's slot, away from the home of most flows. Every test runs
as it stands, and with an engine that dies after each thing that happens.
"""

import pytest
from tests.cases.flow_tools import (
    CLOCK,
    buffer,
    given,
    in_use,
    scripted,
    statuses,
    window,
    working,
)

from duraton import (
    App,
    BatchConfig,
    ConcurrencyConfig,
    DebounceConfig,
    SingletonConfig,
    ThrottleConfig,
    TogetherConfig,
)
from duraton.testing import Engine
from duraton_schemas.slots import PROJECT_SLOT, home_slot, partition_of

REFUSES = TogetherConfig(max=1, group="g", then="refuse")
WAITS = TogetherConfig(max=1, group="g")
BATCH = BatchConfig(max_size=2, timeout_ms=5_000)


class Rig:
    """An engine whose process dies, if it is to, after each thing that a test does."""

    def __init__(self, engine, dies):
        self.engine = engine
        self._dies = dies

    async def __aenter__(self):
        await self.engine.__aenter__()
        return self

    async def __aexit__(self, *error):
        await self.engine.__aexit__(*error)

    async def _over(self, result):
        await self.engine.settle()
        if self._dies:
            await self.engine.crash()
            await self.engine.settle()
        return result

    async def send(self, name, *datas):
        answers = await self.engine.send_many([(name, data) for data in datas])
        return await self._over([answer for [answer] in answers])

    async def pass_time(self, duration):
        return await self._over(await self.engine.advance(duration))

    async def register(self, *workflows):
        return await self._over(await self.engine.register(App("test", workflows=workflows)))

    async def act(self, run, act):
        return await self._over(await self.engine.act(run, act))


@pytest.fixture(params=[1, 12], ids=["P1", "P12"])
def partitions(request):
    return request.param


@pytest.fixture(params=[False, True], ids=["lives", "dies"])
def rig_of(request, partitions):
    def make(*flows):
        engine = Engine(App("test", workflows=flows), partitions=partitions)
        CLOCK.engine = engine
        return Rig(engine, request.param)

    return make


def full(seconds=10, name="other", **more):
    """A flow that fills the group with one run."""
    return working(seconds, name=name, together=WAITS, **more)


def test_the_group_is_counted_elsewhere():
    # Otherwise these tests would say less than they seem to.
    places = [partition_of(home_slot("test", name), 12) for name in ("w", "other")]
    assert partition_of(PROJECT_SLOT, 12) not in places
    assert len(set(places)) == 2


async def test_a_buffer_is_held_while_the_group_is_full_and_fires_as_it_has_room(rig_of):
    async with rig_of(working(1, batch=BATCH, together=REFUSES), full()) as rig:
        engine = rig.engine
        await rig.send("other", {})
        await rig.send("w", {"n": 1}, {"n": 2})
        assert await engine.runs(workflow="w") == []
        assert (await buffer(engine))["buffered"] == 2
        newest, _ = await engine.events("w")
        [led_to] = newest.runs
        assert (led_to.outcome, led_to.run_id) == ("buffered", None)
        assert "held until fewer runs work than may" in led_to.why
        [scope] = (await engine.flow_detail("w", control="together")).scopes
        assert (scope.firings, scope.group, scope.then) == (1, "g", "refuse")
        assert [(each.kind, each.events) for each in scope.held] == [("batch", 2)]
        await rig.pass_time("20s")
        [(at, events)] = await given(engine)
        assert round(at) == 10
        assert events == [{"n": 1}, {"n": 2}]
        assert await buffer(engine) is None
        [led_to] = (await engine.event(newest.id)).runs
        assert (led_to.outcome, led_to.status) == ("run", "completed")
        assert await in_use(engine) == 0


async def test_held_buffers_start_one_by_one_and_refuse_nobody_else(rig_of):
    plain = working(1, name="plain", together=REFUSES)
    async with rig_of(working(3, batch=BATCH, together=REFUSES), full(), plain) as rig:
        engine = rig.engine
        await rig.send("other", {})
        for n in range(0, 6, 2):
            await rig.send("w", {"n": n}, {"n": n + 1})
        [refused] = await rig.send("plain", {})
        assert refused.refused == "T7103"
        await rig.pass_time("15s")
        [still] = await rig.send("plain", {})
        assert still.refused == "T7103", "a firing that went on is counted like any run"
        await rig.pass_time("1m")
        found = await given(engine)
        assert [events[0]["n"] for _, events in found] == [0, 2, 4]
        assert [round(at) for at, _ in found] == [10, 13, 16]
        [late] = await rig.send("plain", {})
        assert late.run_id is not None


async def test_a_later_window_of_the_key_replaces_the_one_that_is_held(rig_of):
    flow = working(1, debounce=DebounceConfig("1s", key="k"), together=REFUSES)
    async with rig_of(flow, full()) as rig:
        engine = rig.engine
        await rig.send("other", {})
        await rig.send("w", {"k": 1, "n": 1}, {"k": 2, "n": 2})
        await rig.pass_time("2s")
        assert (await window(engine))["pending"] == 2
        await rig.send("w", {"k": 1, "n": 3})
        await rig.pass_time("2s")
        assert (await window(engine))["pending"] == 2
        await rig.pass_time("1m")
        found = await given(engine)
        assert [events for _, events in found] == [[{"k": 2, "n": 2}], [{"k": 1, "n": 3}]]
        [_, _, first] = await engine.events("w")
        assert first.runs[0].outcome == "superseded"
        assert await window(engine) is None


async def test_a_firing_comes_to_its_place_by_the_time_at_which_it_fired(rig_of):
    # P49: one queue of the group, of runs that wait and of what is held.
    async with rig_of(working(2, batch=BATCH, together=REFUSES), full()) as rig:
        await rig.send("other", {})
        await rig.pass_time("1s")
        await rig.send("w", {"n": 1}, {"n": 2})
        await rig.pass_time("1s")
        await rig.send("other", {"s": 4})
        await rig.pass_time("1s")
        await rig.send("w", {"n": 3}, {"n": 4})
        await rig.pass_time("1m")
        order = [(name, round(at)) for name, _, at in rig.engine.started]
        assert order == [("other", 0), ("w", 10), ("other", 12), ("w", 16)]


async def test_other_keys_of_the_group_go_their_own_way(rig_of):
    keyed = {"key": "team"}
    flow = working(1, batch=BatchConfig(2, 5_000, key="team"), together=REFUSES, **keyed)
    async with rig_of(flow, full(**keyed)) as rig:
        await rig.send("other", {"team": "a"})
        await rig.send("w", *[{"team": team, "n": n} for team in "ab" for n in (1, 2)])
        await rig.pass_time("30s")
        found = await given(rig.engine)
        assert [(round(at), events[0]["team"]) for at, events in found] == [(0, "b"), (10, "a")]


async def test_a_held_firing_goes_on_as_the_run_in_the_way_is_cancelled(rig_of):
    async with rig_of(working(1, batch=BATCH, together=REFUSES), full(600)) as rig:
        [other] = await rig.send("other", {})
        await rig.send("w", {"n": 1}, {"n": 2})
        await rig.pass_time("5s")
        await rig.act(other.run_id, "cancel")
        await rig.pass_time("2s")
        [(at, _)] = await given(rig.engine)
        assert round(at) == 5


async def test_a_raised_max_lets_held_firings_go(rig_of):
    async with rig_of(working(5, batch=BATCH, together=REFUSES), full(600)) as rig:
        await rig.send("other", {})
        for n in range(3):
            await rig.send("w", {"n": n}, {"n": n})
        await rig.pass_time("5s")
        more = TogetherConfig(max=3, group="g", then="refuse")
        await rig.register(
            working(5, batch=BATCH, together=more),
            working(600, name="other", together=TogetherConfig(max=3, group="g")),
        )
        assert await in_use(rig.engine) == 3
        await rig.pass_time("30s")
        assert [round(at) for at, _ in await given(rig.engine)] == [5, 5, 10]


@pytest.mark.parametrize(
    ("together", "starts_at"),
    [
        (None, [5, 5]),
        (TogetherConfig(max=1, group="h", then="refuse"), [5, 8]),
        (TogetherConfig(max=1, then="refuse"), [5, 8]),
        (TogetherConfig(max=1, group="g"), [20, 23]),
    ],
    ids=["control-removed", "another-group", "no-group", "it-waits-now"],
)
async def test_a_redeploy_decides_anew_about_what_is_held(rig_of, together, starts_at):
    async with rig_of(working(3, batch=BATCH, together=REFUSES), full(20)) as rig:
        await rig.send("other", {})
        await rig.send("w", {"n": 1}, {"n": 1}, {"n": 2}, {"n": 2})
        await rig.pass_time("5s")
        assert (await buffer(rig.engine))["buffered"] == 4
        more = {} if together is None else {"together": together}
        await rig.register(working(3, batch=BATCH, **more), full(20))
        assert await buffer(rig.engine) is None or together is not None
        await rig.pass_time("1m")
        assert [round(at) for at, _ in await given(rig.engine)] == starts_at
        assert await buffer(rig.engine) is None


async def test_what_is_held_survives_that_its_batch_and_its_workflow_go_and_come_back(rig_of):
    flow, other = working(1, batch=BATCH, together=REFUSES), full(30)
    async with rig_of(flow, other) as rig:
        await rig.send("other", {})
        await rig.send("w", {"n": 1}, {"n": 2})
        await rig.register(working(1, together=REFUSES), other)
        assert (await buffer(rig.engine))["buffered"] == 2, "what fired is closed"
        await rig.register(other)
        await rig.pass_time("5s")
        await rig.register(flow, other)
        await rig.pass_time("1m")
        [(at, events)] = await given(rig.engine)
        assert events == [{"n": 1}, {"n": 2}]
        assert 5 <= round(at) <= 30
        assert await in_use(rig.engine) == 0


async def test_the_key_is_taken_again_before_the_group_has_room(rig_of):
    # The singleton holds it next, and then the group once more.
    single = working(
        4, batch=BATCH, together=REFUSES, singleton=SingletonConfig(key="k"), triggers=["w"]
    )
    async with rig_of(single, full()) as rig:
        await rig.send("w", {"n": 1}, {"n": 1})
        await rig.send("other", {})
        await rig.send("w", {"n": 2}, {"n": 2})
        await rig.pass_time("6s")
        assert (await buffer(rig.engine))["buffered"] == 2
        await rig.pass_time("1m")
        assert [round(at) for at, _ in await given(rig.engine)] == [0, 14]


async def test_the_ceiling_holds_no_firing(rig_of):
    # P28: by the group's count alone; under the ceiling its run waits as any other.
    flow = working(1, batch=BATCH, together=REFUSES)
    async with rig_of(flow, working(10, name="free")) as rig:
        await rig.engine.set_ceiling(1)
        await rig.send("free", {})
        await rig.send("w", {"n": 1}, {"n": 2})
        [run] = await rig.engine.runs(workflow="w")
        assert (run.status, run.waiting_for.kind) == ("queued", "project")
        await rig.pass_time("20s")
        assert [round(at) for at, _ in await given(rig.engine)] == [10]


async def test_both_gates_across_a_ceiling_that_comes_and_goes(rig_of):
    flow = working(2, batch=BATCH, together=REFUSES)
    async with rig_of(flow, full()) as rig:
        await rig.send("other", {})
        await rig.send("w", {"n": 1}, {"n": 1}, {"n": 2}, {"n": 2})
        await rig.engine.set_ceiling(1)
        await rig.pass_time("3s")
        assert (await buffer(rig.engine))["buffered"] == 4
        await rig.engine.set_ceiling(0)
        await rig.pass_time("3s")
        assert (await buffer(rig.engine))["buffered"] == 4
        await rig.pass_time("1m")
        assert [round(at) for at, _ in await given(rig.engine)] == [10, 12]
        assert await in_use(rig.engine) == 0


async def test_other_controls_hold_back_the_run_of_a_firing_that_was_let_go(rig_of):
    # P28: a start that throttle delays does not work, so it does not count for max.
    flow = working(
        1, batch=BATCH, together=REFUSES, throttle=ThrottleConfig(limit=1, per_ms=30_000)
    )
    async with rig_of(flow, full()) as rig:
        await rig.send("w", {"n": 0}, {"n": 0})
        await rig.pass_time("2s")
        await rig.send("other", {})
        await rig.send("w", {"n": 1}, {"n": 1}, {"n": 2}, {"n": 2})
        assert (await buffer(rig.engine))["buffered"] == 4
        await rig.pass_time("11s")
        assert await buffer(rig.engine) is None
        queued = await rig.engine.runs(status="queued")
        assert [run.workflow for run in queued] == ["w", "w"]
        await rig.pass_time("2m")
        assert [round(at) for at, _ in await given(rig.engine)] == [0, 30, 60]


async def test_its_own_limit_is_no_reason_to_give_the_place_away(rig_of):
    flow = working(2, batch=BATCH, together=REFUSES, concurrency=ConcurrencyConfig(limit=1))
    async with rig_of(flow, full(5)) as rig:
        for n in range(3):
            await rig.send("w", {"n": n}, {"n": n})
        await rig.pass_time("1ms")
        await rig.send("other", {})
        await rig.pass_time("1m")
        order = [(name, round(at)) for name, _, at in rig.engine.started]
        assert order == [("w", 0), ("w", 2), ("w", 4), ("other", 6)]


async def test_a_run_of_a_firing_that_sleeps_leaves_its_place_to_what_is_held(rig_of):
    flow = scripted(batch=BatchConfig(1, 5_000), together=REFUSES)
    async with rig_of(flow) as rig:
        do = [["work", 1], ["sleep", 10], ["work", 1]]
        await rig.send("w", {"do": do}, {"do": do}, {"do": do})
        await rig.pass_time("1m")
        assert [round(at) for _, _, at in rig.engine.started] == [0, 1, 2]
        runs = await rig.engine.runs(workflow="w")
        assert await statuses(rig.engine, *[run.id for run in runs]) == ["completed"] * 3
