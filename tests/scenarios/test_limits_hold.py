"""What each limit promises, held where somebody tries to get past it."""

import pytest
from tests.cases.flow_tools import (
    CLOCK,
    Load,
    in_use,
    scripted,
    send_each,
    starts,
    statuses,
    working,
)

from duraton import (
    App,
    BatchConfig,
    BudgetConfig,
    ConcurrencyConfig,
    DebounceConfig,
    RateLimitConfig,
    SingletonConfig,
    ThrottleConfig,
    TogetherConfig,
    TokenThrottleConfig,
    define_workflow,
)
from duraton.testing import Engine, Settings
from duraton_engine.calls import Answered
from duraton_schemas.errors import OptionsError
from duraton_schemas.ids import run_slot
from duraton_schemas.slots import partition_of
from duraton_schemas.wire.frames import FrameUsage, Step


@pytest.fixture(params=[1, 12], ids=["P1", "P12"])
def engine_of(request):
    def make(*apps, **more):
        CLOCK.engine = Engine(*apps, partitions=request.param, **more)
        return CLOCK.engine

    return make


# A start that stops another, under the project's ceiling --------------------------


async def test_a_run_that_is_stopped_gives_its_place_under_the_ceiling_on(engine_of):
    load = Load()
    stopping = working(10, code=load, together=TogetherConfig(max=1, then="stop"))
    async with engine_of(stopping, working(1, name="other")) as engine:
        await engine.set_ceiling(3)
        for _ in range(6):
            await engine.send("w", {})
            await engine.advance("1s")
        assert load.most == 1
        await engine.advance("30s")
        assert await in_use(engine) == 0
        await send_each(engine, [{}] * 3, name="other")
        assert await in_use(engine) == 3


async def test_a_start_stops_a_run_where_the_ceiling_is_full_of_it(engine_of):
    # P25: the place passes on with all its gates, so no place has to be free.
    async with engine_of(working(10, together=TogetherConfig(max=1, then="stop"))) as engine:
        await engine.set_ceiling(1)
        [first] = await engine.send("w", {})
        await engine.advance("1s")
        [second] = await engine.send("w", {})
        await engine.settle()
        assert await statuses(engine, first.run_id, second.run_id) == ["cancelled", "running"]


async def test_a_stopping_start_that_was_granted_a_place_leaves_none_behind(engine_of):
    # The second waits for the ceiling before the first runs; then the first is in its way.
    stopping = working(10, together=TogetherConfig(max=1, then="stop"))
    async with engine_of(stopping, working(5, name="other")) as engine:
        await engine.set_ceiling(2)
        await send_each(engine, [{}, {}], name="other")
        await send_each(engine, [{}, {}, {}])
        await engine.advance("1m")
        assert await in_use(engine) == 0
        await send_each(engine, [{}] * 3, name="other")
        assert await in_use(engine) == 2


# Places in a group ----------------------------------------------------------------


async def test_a_run_that_started_by_another_runs_place_gets_its_own_later(engine_of):
    # The second starts by the place that the first, now paused, had asked for. When it
    # goes on after its sleep, its own first ask is still open, and answered only then.
    group = {"together": TogetherConfig(max=1, group="g")}
    async with engine_of(scripted(**group), working(10, name="v", **group)) as engine:
        await engine.send("v", {})
        do = [["work", 1], ["sleep", 5], ["work", 1]]
        [first] = await engine.send("w", {"do": do})
        await engine.send("v", {})
        [second] = await engine.send("w", {"do": do})
        await engine.act(first.run_id, "pause")
        await engine.advance("1m")
        assert await statuses(engine, second.run_id) == ["completed"]
        await engine.act(first.run_id, "resume")
        await engine.advance("1m")
        assert await statuses(engine, first.run_id) == ["completed"]


@pytest.mark.parametrize("most", [1, 2, 500])
async def test_what_executes_is_reported_in_parts_where_it_is_much(engine_of, most):
    # A ceiling that comes changes the keys; every partition tells what it has by each of them.
    group = {"key": "k", "together": TogetherConfig(max=1, group="g")}
    flows = [working(10, name=name, **group) for name in "wv"]
    async with engine_of(*flows, settings=Settings(holdings_max=most)) as engine:
        await send_each(engine, [{"k": k} for k in range(5)])
        await send_each(engine, [{"k": k} for k in range(3, 8)], name="v")
        assert await in_use(engine) == 8
        await engine.set_ceiling(8)
        await engine.crash()
        await send_each(engine, [{"k": k} for k in range(8, 10)])
        await engine.settle()
        assert await in_use(engine) == 8
        await engine.advance("10s")
        assert await in_use(engine) == 4
        await engine.advance("1m")
        assert await in_use(engine) == 0
        await engine.set_ceiling(3)
        await send_each(engine, [{"k": k} for k in range(5)])
        assert await in_use(engine) == 3


async def test_flow_state_says_where_a_group_holds_back(engine_of):
    # Without a ceiling it is the group's count alone, key by key; with one it may be either.
    flow = working(5, key="k", together=TogetherConfig(max=1, group="g"))
    async with engine_of(flow, working(5, name="v")) as engine:
        answers = await send_each(engine, [{"k": k} for k in "abbb"])
        await engine.settle()
        assert (await engine.flow_detail("w", control="project")).scopes == []
        a, b = (await engine.flow_detail("w", control="together")).scopes
        assert [(each.key, each.value, each.in_use, each.waiting) for each in (a, b)] == [
            ("k", "a", 1, None),
            ("k", "b", 1, 2),
        ]
        assert [each.id for each in b.line] == [answer.run_id for answer in answers[2:]]
        assert (b.group, b.max) == ("g", 1)
        assert b.why == "1 of its runs work, of the whole group 1 may"
        waiting = (await engine.run(answers[3].run_id)).waiting_for
        assert (waiting.kind, waiting.value) == ("together", "b")
        # A run that comes while both hold it, a crash, and the ceiling's end.
        await engine.set_ceiling(2)
        await engine.crash()
        [scope] = (await engine.flow_detail("w", control="project")).scopes
        assert (scope.waiting, scope.group) == (2, "g")
        assert scope.why == "as many runs of the project execute as may, or of the group g"
        assert [each.waiting for each in await together(engine)] == [None, None]
        await engine.set_ceiling(0)
        assert (await engine.flow_detail("w", control="project")).scopes == []
        assert [each.waiting for each in await together(engine)] == [None, 2]
        # A flow that leaves the group is let go.
        await engine.register(App("test", workflows=[working(5, key="k")]))
        assert [each.waiting for each in await together(engine)] == []
        await engine.advance("1m")
        assert await in_use(engine) == 0


async def together(engine):
    return (await engine.flow_detail("w", control="together")).scopes


# Workflows that are taken away and come back --------------------------------------

ONE_AT_A_TIME = {
    "concurrency": {"concurrency": ConcurrencyConfig(limit=1)},
    "together": {"together": TogetherConfig(max=1)},
    "group": {"together": TogetherConfig(max=1, group="g")},
    "throttle": {"throttle": ThrottleConfig(limit=1, per_ms=5_000)},
}


@pytest.mark.parametrize("transport", ["connect", "serve"])
@pytest.mark.parametrize("control", ONE_AT_A_TIME)
async def test_limits_hold_while_a_workflow_is_taken_away_and_comes_back(
    engine_of, control, transport
):
    # An older runner may offer it still, a newer one already, while it is not registered.
    load, other = Load(), working(name="other")
    both = App("a", [working(4, code=load, **ONE_AT_A_TIME[control]), other])
    async with engine_of(both, transport=transport) as engine:
        await send_each(engine, [{}] * 6)
        await engine.register(App("a", [other]))
        await engine.advance("1s")
        assert len(starts(engine)) == 1
        await engine.register(both)
        await engine.advance("2m")
        assert load.most == 1
        assert [run.status for run in await engine.runs()] == ["completed"] * 6


@pytest.mark.parametrize(
    "gathers",
    [
        {"debounce": DebounceConfig(period_ms=1_000, key="k")},
        {"batch": BatchConfig(max_size=1, timeout_ms=1_000, key="k")},
    ],
    ids=["debounce", "batch"],
)
async def test_a_singleton_holds_while_its_workflow_is_taken_away_and_comes_back(
    engine_of, gathers
):
    other = working(name="other")
    both = App("a", [working(100, singleton=SingletonConfig(key="k"), **gathers), other])
    async with engine_of(both) as engine:
        for _ in range(2):
            await engine.send("w", {"k": 1})
            await engine.advance("2s")
        await engine.register(App("a", [other]))
        await engine.register(both)
        await engine.advance("2s")
        assert [run.status for run in await engine.runs()] == ["running"]
        await engine.advance("5m")
        assert [run.status for run in await engine.runs()] == ["completed"] * 2


# Limits that a redeploy makes tighter ---------------------------------------------


async def test_the_last_start_counts_by_a_longer_period(engine_of):
    # P5, P20: an hour since the last start has to pass, whatever was registered then.
    def throttled(ms):
        return working(throttle=ThrottleConfig(limit=1, per_ms=ms, key="k"))

    async with engine_of(throttled(1_000)) as engine:
        await engine.send("w", {"k": 1})
        await engine.register(throttled(3_600_000))
        await engine.advance("130s")
        await engine.send("w", {"k": 1})
        await engine.settle()
        assert starts(engine) == [0]


async def test_admissions_count_by_a_longer_period(engine_of):
    # P20: admissions already logged still count.
    def limited(ms):
        return working(rate_limit=RateLimitConfig(limit=1, per_ms=ms))

    async with engine_of(limited(1_000)) as engine:
        await engine.send("w", {})
        await engine.register(limited(3_600_000))
        await engine.advance("130s")
        [answer] = await engine.send("w", {})
        assert answer.dropped


# Names ----------------------------------------------------------------------------


async def test_a_group_that_could_be_taken_for_another_and_its_key_is_refused():
    with pytest.raises(OptionsError, match="no zero character"):
        working(together=TogetherConfig(max=1, group="a\0b"))


# AI tokens of runs that are cut off ----------------------------------------------


async def test_tokens_of_an_answer_that_crossed_a_cancel_are_debited(engine_of):
    # DESIGN 8: a stale result is discarded, its spend still counted. Once it was told of the
    # end a runner sends nothing more; but an answer may have been on its way.
    async def handle(ctx):
        await ctx.step.ai.wrap("call", engine.clock.sleep, 60)

    throttle = TokenThrottleConfig(tokens=10, per_ms=1_000)
    budget = BudgetConfig(max_tokens=500, window_ms="1h")
    flow = define_workflow("w", handle, token_throttle=throttle, budget=budget)
    async with engine_of(flow) as engine:
        [run] = await engine.send("w", {})
        await engine.advance("1s")
        started = engine.facts(run.run_id)[-1]
        await engine.act(run.run_id, "cancel")
        partition = partition_of(run_slot(run.run_id), engine.core.log.partitions)
        answer = Step(
            run=run.run_id,
            token=f"{partition}.{started.token_epoch}.{started.token_number}",
            step="call",
            kind="ai",
            output="null",
            usage=[FrameUsage(tokens=1_000)],
        )
        engine.core.processors[partition].offer(Answered(started.boot, answer))
        await engine.settle()
        [again] = await engine.send("w", {})
        await engine.advance("20s")
        assert len(starts(engine)) == 1
        assert (await engine.run(again.run_id)).paused_by.reason == "budget"


# The order of asks for places ------------------------------------------------------


async def test_workflows_that_begin_to_ask_together_do_so_in_the_order_of_their_runs():
    # P14: a workflow's later runs do not come before another's earlier one because its first
    # run came before it.
    def project(limit):
        few = ConcurrencyConfig(limit=limit)
        flows = [working(60, name=name, concurrency=few) for name in ("one", "other")]
        return App("shop", workflows=flows)

    CLOCK.engine = Engine(project(1))
    async with CLOCK.engine as engine:
        await engine.set_ceiling(4)
        for name in ("one", "other", "one", "other", "one", "one"):
            await engine.send(name, {})
            await engine.advance("1s")
        assert (starts(engine, "one"), starts(engine, "other")) == ([0], [1])
        await engine.register(project(3))
        await engine.settle()
        assert (starts(engine, "one"), starts(engine, "other")) == ([0, 6], [1, 6])


# The budget ------------------------------------------------------------------------


async def test_the_budget_releases_at_the_first_tick_whose_window_has_room(engine_of):
    # What was spent at 0:09.5 is over sixty seconds old at 1:10, which is a tick.
    flow = scripted(budget=BudgetConfig(max_tokens=100, window_ms="60s"))
    async with engine_of(flow) as engine:
        do = [["sleep", 9.5], ["ai", 200], ["sleep", 5], ["work", 0]]
        [run] = await engine.send("w", {"do": do})
        await engine.advance("69s")
        assert (await engine.run(run.run_id)).paused_by.reason == "budget"
        await engine.advance("1s")
        assert (await engine.run(run.run_id)).status == "completed"


@pytest.mark.parametrize("left", [[["work", 0]], []], ids=["a step is left", "none is"])
async def test_an_exempt_run_that_spends_again_does_not_go_on(engine_of, left):
    # P31: exempt until it commits new AI spend while over the budget; P30: then only exempt
    # runs go on at a checkpoint.
    flow = scripted(budget=BudgetConfig(max_tokens=100, window_ms="60s"))
    async with engine_of(flow) as engine:
        do = [["ai", 200], ["sleep", 15], ["ai", 200], *left]
        [run] = await engine.send("w", {"do": do})
        await engine.advance("20s")
        assert (await engine.run(run.run_id)).paused_by.reason == "budget"
        await engine.act(run.run_id, "resume")
        await engine.settle()
        shown = await engine.run(run.run_id)
        assert (shown.spend.tokens, shown.status) == (400, "paused")
        assert all(step != "work-4" for _, step, _, _ in engine.executions)
        await engine.advance("100s")
        assert (await engine.run(run.run_id)).status == "completed"


# What was gathered, and a redeploy ---------------------------------------------------


async def test_held_firings_are_held_by_the_keys_of_the_newest_registration(engine_of):
    # P20: the second one's scope is free, though the first one's still is not.
    def version(key):
        single, batch = SingletonConfig(key=key), BatchConfig(max_size=1, timeout_ms="1m")
        return working(10, singleton=single, batch=batch)

    async with engine_of(version("none")) as engine:
        for data in ({"n": 1}, {"n": 2}, {"n": 3, "a": 1}, {"n": 4, "a": 1}):
            await engine.send("w", data)
            await engine.advance("1s")
        assert starts(engine) == [0]
        await engine.register(version("a"))
        await engine.advance("1s")
        assert starts(engine) == [0, 4]
        await engine.advance("1m")
        assert starts(engine) == [0, 4, 10, 14]


async def test_starts_that_wait_for_a_group_stop_a_run_once_their_flow_says_so(engine_of):
    # P20: what is to become of a start is read from the newest registration.
    def version(then):
        return working(60, together=TogetherConfig(max=1, group="g", then=then))

    async with engine_of(version("wait")) as engine:
        first, second = [(await engine.send("w", {}))[0].run_id for _ in range(2)]
        await engine.advance("1s")
        assert await statuses(engine, first, second) == ["running", "queued"]
        await engine.register(version("stop"))
        await engine.settle()
        assert await statuses(engine, first, second) == ["cancelled", "running"]


# Order ------------------------------------------------------------------------------


async def test_a_throttled_run_keeps_its_place_when_the_throttle_has_forgotten_its_last_start(
    engine_of,
):
    # P14: it was ready once the throttle let it go. What a throttle counted is kept until it
    # no longer holds anybody back; the run may still be waiting for something else then.
    flow = scripted(
        concurrency=ConcurrencyConfig(limit=1),
        throttle=ThrottleConfig(limit=1, per_ms="2s", key="k"),
    )
    async with engine_of(flow) as engine:
        await engine.send("w", {"k": 1, "do": [["work", 100]]})
        await engine.advance("1s")
        later = {"do": [["sleep", 5], ["work", 10]]}
        [throttled] = await engine.send("w", {"k": 1, **later})
        await engine.advance("500ms")
        [ready] = await engine.send("w", {"k": 2, **later})
        await engine.advance("500ms")
        await engine.send("w", {"k": 3, "do": [["work", 60]]})
        await engine.advance("168s")
        # The first two slept while the third executed; the one that was ready first goes on.
        assert await statuses(engine, ready.run_id, throttled.run_id) == ["completed", "running"]
