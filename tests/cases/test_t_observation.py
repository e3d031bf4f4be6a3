"""Section T of the cases: state growth and observation."""

from case_tools import send, status
from flow_tools import advance_to, assert_at, seconds_of, send_at, send_each, starts, working

from duraton import (
    App,
    BatchConfig,
    ConcurrencyConfig,
    DebounceConfig,
    IdempotencyConfig,
    PriorityConfig,
    SingletonConfig,
    ThrottleConfig,
    define_workflow,
)

NOTHING = {"debounce": [], "batch": [], "concurrency": {"limit": 50, "inUse": 0}}


async def test_case_222_flow_state_tells_the_truth(engine_of):
    async def sleep(ctx):
        await ctx.step.sleep("nap", "30s")

    workflows = [
        working(name="documents", debounce=DebounceConfig(5_000, key="d")),
        working(name="index", batch=BatchConfig(100, "60s", key="k")),
        working(30, name="busy", concurrency=ConcurrencyConfig(12)),
        define_workflow("asleep", sleep),
    ]
    async with engine_of(*workflows) as engine:
        await engine.set_ceiling(50)
        await send_each(engine, [{}] * 32, name="busy")  # 12 execute, 20 queue
        asleep = await send_each(engine, [{}] * 38, name="asleep")
        await engine.settle()
        for each in asleep[30:]:
            await engine.act(each.run_id, "pause")
        await send_at(engine, (0, {"d": 1}), name="documents")  # due at 5
        await advance_to(engine, 1)
        await send_each(engine, [{"k": 1}] * 40, name="index")
        await send_at(engine, (2, {"d": 3}), name="documents")  # due at 7
        await send_at(engine, (3, {"k": 2}), (3, {"k": 2}), name="index")
        await send_at(engine, (4, {"d": 2}), name="documents")  # due at 9
        counted = [
            len(await engine.runs(status=s)) for s in ("running", "waiting", "paused", "queued")
        ]
        assert counted == [12, 30, 8, 20]
        state = await engine.flow_state()
        [pending], [buffered] = state["debounce"], state["batch"]
        assert state == {
            "debounce": [
                {
                    "app": "test",
                    "workflow": "documents",
                    "pending": 3,
                    "nextFireAt": pending["nextFireAt"],
                }
            ],
            "batch": [
                {
                    "app": "test",
                    "workflow": "index",
                    "buffered": 42,
                    "oldestAt": buffered["oldestAt"],
                }
            ],
            "concurrency": {"limit": 50, "inUse": 12},
        }
        assert seconds_of(engine, pending["nextFireAt"]) == 5
        assert seconds_of(engine, buffered["oldestAt"]) == 1
        # Asked about one workflow, the others are left out; the project's count is the same.
        whole = state["concurrency"]
        for workflow, debounce, batch in (
            ("documents", state["debounce"], []),
            ("index", [], state["batch"]),
            ("busy", [], []),
            ("nobody", [], []),
        ):
            assert await engine.flow_state(workflow) == {
                "debounce": debounce,
                "batch": batch,
                "concurrency": whole,
            }
        await advance_to(engine, 10)
        state = await engine.flow_state()
        assert state["debounce"] == []
        assert state["batch"] == [buffered]
        for each in asleep[30:]:
            await engine.act(each.run_id, "resume")
        await advance_to(engine, 62)
        [row] = (await engine.flow_state())["batch"]
        assert (row["buffered"], seconds_of(engine, row["oldestAt"])) == (2, 3)
        await advance_to(engine, 91)  # the last of all executes until 90
        assert await engine.flow_state() == NOTHING
        assert_at(starts(engine, "documents"), [5, 7, 9])
        assert_at(starts(engine, "index"), [61, 63])


async def test_case_222_workflows_of_one_name_in_two_apps_have_a_row_each(engine_of):
    debounce = DebounceConfig(5_000)
    apps = [App(name, [working(debounce=debounce)]) for name in ("docs", "shop")]
    async with engine_of(*apps) as engine:
        await engine.send("w", {})
        rows = (await engine.flow_state("w"))["debounce"]
        assert sorted((row["app"], row["workflow"], row["pending"]) for row in rows) == [
            ("docs", "w", 1),
            ("shop", "w", 1),
        ]


async def test_case_223_several_controls_on_an_idle_system_cost_little_time(engine_of):
    # Virtual time: nothing that waits for a tick or a poll may stand between two steps.
    async def handle(ctx):
        for n in range(4):
            await ctx.step.run(f"s{n}", engine.clock.sleep, 0.1)

    workflow = define_workflow(
        "w",
        handle,
        concurrency=ConcurrencyConfig(1, key="k"),
        throttle=ThrottleConfig(1, "1m", key="k"),
        singleton=SingletonConfig(key="k"),
        idempotency=IdempotencyConfig("k", "1h"),
        priority=PriorityConfig(1_000),
    )
    async with engine_of(workflow) as engine:
        await engine.set_ceiling(10)
        run = await send(engine, "w", {"k": 1})
        await engine.advance("1s")
        assert await status(engine, run) == "completed"
        ended = seconds_of(engine, (await engine.run(run)).ended_at)
        assert 0.4 <= ended <= 0.41
