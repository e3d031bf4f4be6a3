"""Replays and retries from a step: on every log, over crashes, with each kind of step."""

import asyncio

import pytest
from scenario_tools import began, partition, shown, start

from duraton import App, CronConfig, RetryConfig, define_workflow
from duraton.testing import RefusedError, Settings
from duraton_api.view.view import View
from duraton_schemas.records.acts import CarriedStep
from duraton_schemas.records.commands import CarryRun, ReplayRun
from duraton_schemas.records.common import Caller

WHO = Caller(kind="key", id="test", root="key:test")


class Switch:
    """Step code that fails while it is on."""

    def __init__(self):
        self.broken = True

    async def __call__(self, value="done"):
        if self.broken:
            raise ValueError("broken")
        return value


def refused(code):
    return pytest.raises(RefusedError, check=lambda error: error.engine_code == code)


def kept(engine):
    """What is kept for acts and jobs: nothing, once they are over."""
    found = []
    for processor in engine.core.processors:
        found += [
            (table, key)
            for table, key, _ in processor.state.dump()
            if table in ("carries", "carried", "replays_wanted", "jobs", "job_parts")
        ]
    return found


async def same_anew(engine, *runs):
    """The live view and one made anew from the log agree."""
    fresh = View(":memory:", engine.core.log)
    fresh.catch_up()
    engine.core.view.drain()
    for run in runs:
        assert engine.core.view.reads.run(run) == fresh.reads.run(run)
    fresh.close()


async def test_on_every_log(cluster):
    work = Switch()

    async def handle(ctx):
        a = await ctx.step.run("a", lambda: ctx.event.data["n"])
        return [a, await ctx.step.run("b", work)]

    async with cluster(define_workflow("w", handle)) as engine:
        run = await start(engine, data={"n": 4})
        await engine.settle()
        work.broken = False
        whole = await engine.act(run, "replay")
        part = await engine.act(run, "retry-from-step", step="b")
        await engine.crash()
        await engine.settle()
        assert await shown(engine, whole.id, part.id) == [("completed", [4, "done"])] * 2
        assert len(began(engine, "a", whole.id)) == 1
        assert (began(engine, "a", part.id), len(began(engine, "b", part.id))) == ([], 1)
        assert [r.id for r in (await engine.run(run)).replays] == [whole.id, part.id]
        assert kept(engine) == []
        await same_anew(engine, run, whole.id, part.id)


@pytest.mark.parametrize("partitions", [1, 12])
@pytest.mark.parametrize("transport", ["connect", "serve"])
async def test_over_a_crash_in_the_middle(duraton, partitions, transport):
    work = Switch()

    async def handle(ctx):
        await ctx.step.run("a", lambda: 1)
        await ctx.step.run("b", work)
        await ctx.step.sleep("nap", "5s")
        return await ctx.step.run("c", lambda: 3)

    async with duraton(
        define_workflow("w", handle), partitions=partitions, transport=transport
    ) as engine:
        run = await start(engine)
        await engine.settle()
        work.broken = False
        new = await engine.act(run, "retry-from-step", step="b")
        await engine.advance("1s")
        await engine.crash(down="2s", runner=True)
        await engine.advance("10s")
        assert await shown(engine, new.id) == [("completed", 3)]
        assert [step for id, step, _, _ in engine.executions if id == new.id] == ["b", "c"]


# Whom it is allowed for --------------------------------------------------------------


async def test_runs_that_ended_however_are_replayed(duraton):
    async def handle(ctx):
        await ctx.step.run("a", lambda: 1)
        await ctx.step.sleep("nap", "1m")

    async with duraton(define_workflow("w", handle)) as engine:
        completed, cancelled = await start(engine), await start(engine)
        await engine.settle()
        await engine.act(cancelled, "cancel")
        await engine.advance("2m")
        for run in (completed, cancelled):
            new = await engine.act(run, "replay")
            again = await engine.act(run, "retry-from-step", step="nap")
            assert (new.status, again.status) == ("running", "running")
        await engine.advance("2m")
        assert {run.status for run in await engine.runs()} == {"completed", "cancelled"}
        assert len(await engine.runs(status="completed")) == 5


async def test_a_run_that_has_not_ended_is_refused_and_its_state_said(duraton):
    async def handle(ctx):
        await ctx.step.run("a", engine.clock.sleep, 1)
        await ctx.step.sleep("nap", "1h")

    async with duraton(define_workflow("w", handle), capacity=1) as engine:
        run = await start(engine)
        queued = await start(engine)
        await engine.settle()
        for each, status in ((run, "running"), (queued, "queued")):
            with refused("run-not-ended") as error:
                await engine.act(each, "replay")
            assert f"is {status}; cancel it first" in str(error.value)
        await engine.advance("2s")
        await engine.act(queued, "pause")
        for each, status in ((run, "waiting"), (queued, "paused")):
            with refused("run-not-ended") as error:
                await engine.act(each, "retry-from-step", step="a")
            assert f"is {status}; cancel it first" in str(error.value)
        assert len(await engine.runs()) == 2
        assert kept(engine) == []


async def test_the_engine_refuses_what_the_view_did_not_know_yet(duraton):
    """Who acts on an older view than the engine's is refused by the engine itself."""

    async def handle(ctx):
        await ctx.step.sleep("nap", "1h")

    async with duraton(define_workflow("w", handle)) as engine:
        run = await start(engine)
        await engine.settle()
        carry = CarryRun(id="c0", caller=WHO, run=run, request="r", part=0)
        act = ReplayRun(
            id="c1", caller=WHO, run=run, request="r", parts=1, app="test", workflow="w"
        )
        assert (await engine.host.ask(lambda core: core.command(carry))).ok
        reply = await engine.host.ask(lambda core: core.command(act))
        assert (reply.code, "is waiting" in reply.message) == ("run-not-ended", True)
        assert kept(engine) == []


async def test_unknown_runs_failure_handlers_and_gone_workflows(duraton):
    async def undo(ctx):
        await ctx.step.run("undo", lambda: None)

    async def handle(ctx):
        await ctx.step.run("work", Switch())

    workflow = define_workflow("w", handle, on_failure=undo)
    other = define_workflow("other", handle)
    async with duraton(App("test", workflows=[workflow, other])) as engine:
        run = await start(engine)
        gone = await start(engine, "other")
        await engine.settle()
        with refused("run-unknown"):
            await engine.act(run[:-1] + ("0" if run[-1] != "0" else "1"), "replay")
        handler = (await engine.run(run)).on_failure.id
        with refused("replay-of-handler") as error:
            await engine.act(handler, "replay")
        assert f"of the run {run}; replay that run" in str(error.value)
        await engine.register(App("test", workflows=[workflow]))
        with refused("workflow-unknown"):
            await engine.act(gone, "replay")
        assert kept(engine) == []

        # A replay that fails again has its own onFailure.
        new = await engine.act(run, "replay")
        await engine.settle()
        assert (await engine.run(new.id)).on_failure.status == "completed"


# Two presses ------------------------------------------------------------------------


@pytest.mark.parametrize("partitions", [1, 12])
async def test_two_presses_make_two_runs_unless_they_carry_a_dedupe_id(duraton, partitions):
    async def handle(ctx):
        await ctx.step.run("a", lambda: 1)

    async with duraton(define_workflow("w", handle), partitions=partitions) as engine:
        run, other = await start(engine), await start(engine)
        await engine.settle()
        assert (await engine.act(run, "replay")).id != (await engine.act(run, "replay")).id
        first = await engine.act(run, "replay", dedupe_id="press")
        await engine.settle()
        await engine.crash()
        again = await engine.act(run, "replay", dedupe_id="press")
        as_retry = await engine.act(run, "retry-from-step", step="a", dedupe_id="press")
        assert first.id == again.id == as_retry.id
        assert (await engine.act(other, "replay", dedupe_id="press")).id != first.id
        assert kept(engine) == []
        await engine.advance("25h")
        assert (await engine.act(run, "replay", dedupe_id="press")).id != first.id
        assert len((await engine.run(run)).replays) == 4


# What is carried ----------------------------------------------------------------------


async def test_each_kind_of_step_is_carried(duraton):
    work = Switch()
    heard, children = [], []

    async def child(ctx):
        children.append(ctx.run.id)
        return "child"

    async def hear(ctx):
        heard.append(ctx.run.id)

    async def handle(ctx):
        found = [await ctx.step.run("run", lambda: 1)]
        await ctx.step.sleep("nap", "1m")
        event = await ctx.step.wait_for_event("paid", "paid", timeout="1h")
        found.append(event.data)
        found.append(await ctx.step.wait_for_event("never", "never", timeout="1s"))
        found.append(await ctx.step.invoke("child", "child", {}))
        await ctx.step.send_event("tell", "heard", {})
        found.append(await ctx.step.ai.wrap("ask", lambda: {"usage": {"total_tokens": 10}}))
        return [*found, await ctx.step.run("work", work)]

    flows = [define_workflow(n, f) for n, f in (("w", handle), ("child", child), ("heard", hear))]
    async with duraton(*flows) as engine:
        run = await start(engine)
        await engine.advance("2m")
        await engine.send("paid", {"n": 1})
        await engine.advance("2m")
        old = await engine.run(run)
        assert (old.status, old.spend.tokens) == ("failed", 10)
        work.broken = False
        before = engine.clock.now()
        new = await engine.act(run, "retry-from-step", step="work")
        await engine.settle()
        [(status, output)] = await shown(engine, new.id)
        usage = {"usage": {"total_tokens": 10}}
        assert (status, output) == ("completed", [1, {"n": 1}, None, "child", usage, "done"])
        assert engine.clock.now() == before  # no sleep is slept again
        assert [step for id, step, _, _ in engine.executions if id == new.id] == ["work"]
        assert (len(children), len(heard)) == (1, 1)
        # What is carried was spent by the old run.
        assert (await engine.run(new.id)).spend.tokens == 0

        earlier = await engine.act(run, "retry-from-step", step="child")
        await engine.settle()
        assert (await shown(engine, earlier.id))[0][0] == "completed"
        assert (len(children), len(heard)) == (2, 2)
        assert (await engine.run(earlier.id)).spend.tokens == 10


async def test_what_depends_on_the_chosen_step_is_done_again(duraton):
    """Carried is what was called before the chosen step's result was known, nothing else."""

    async def branch(ctx, name, seconds):
        await ctx.step.run(f"{name}1", engine.clock.sleep, seconds)
        await ctx.step.run(f"{name}2", engine.clock.sleep, seconds)

    async def handle(ctx):
        await ctx.step.run("first", lambda: 0)
        await asyncio.gather(branch(ctx, "fast", 1), branch(ctx, "slow", 10))
        await ctx.step.run("last", lambda: 9)

    async with duraton(define_workflow("w", handle)) as engine:
        run = await start(engine)
        await engine.advance("1m")

        async def done_again(step):
            new = await engine.act(run, "retry-from-step", step=step)
            await engine.advance("1m")
            assert (await shown(engine, new.id)) == [("completed", None)]
            return [name for id, name, _, _ in engine.executions if id == new.id]

        # Results came in the order first, fast1, fast2, slow1, slow2, last.
        assert await done_again("first") == ["first", "fast1", "slow1", "fast2", "slow2", "last"]
        # slow1 was called before fast1 gave its result; fast2, slow2 and last were not.
        assert await done_again("fast1") == ["fast1", "slow2", "fast2", "last"]
        assert await done_again("fast2") == ["fast2", "slow2", "last"]
        assert await done_again("slow1") == ["slow1", "slow2", "last"]
        assert await done_again("slow2") == ["slow2", "last"]
        assert await done_again("last") == ["last"]


async def test_uses_of_one_name_are_told_apart(duraton):
    async def handle(ctx):
        return [await ctx.step.run("page", lambda n=n: n) for n in range(3)]

    async with duraton(define_workflow("w", handle)) as engine:
        run = await start(engine)
        await engine.settle()
        for chosen in ({"step": "page:1"}, {"step": "page", "n": 1}):
            new = await engine.act(run, "retry-from-step", **chosen)
            await engine.settle()
            assert await shown(engine, new.id) == [("completed", [0, 1, 2])]
            detail = await engine.run(new.id)
            assert detail.replay_step == "page:1"
            assert [s.carried for s in detail.steps] == [True, False, False]
        with refused("step-unknown") as error:
            await engine.act(run, "retry-from-step", step="page", n=3)
        assert "no step 'page:3'; it has called 'page', 'page:1', 'page:2'" in str(error.value)


async def test_a_literal_id_goes_before_the_form_in_which_uses_are_shown(duraton):
    async def handle(ctx):
        await ctx.step.run("a", lambda: 0)
        await ctx.step.run("a", lambda: 1)
        await ctx.step.run("a:1", lambda: 2)

    async with duraton(define_workflow("w", handle)) as engine:
        run = await start(engine)
        await engine.settle()
        new = await engine.act(run, "retry-from-step", step="a:1")
        await engine.settle()
        assert [s.carried for s in (await engine.run(new.id)).steps] == [True, True, False]


async def test_a_retry_is_retried_and_each_names_the_one_before(duraton):
    works = [Switch(), Switch()]

    async def handle(ctx):
        await ctx.step.run("a", lambda: 1)
        await ctx.step.run("b", works[0])
        await ctx.step.run("c", works[1])

    async with duraton(define_workflow("w", handle)) as engine:
        runs, links = [await start(engine)], []
        await engine.settle()
        for work, step in zip(works, "bc", strict=True):
            work.broken = False
            runs.append((await engine.act(runs[-1], "retry-from-step", step=step)).id)
            await engine.settle()
            links.append((await engine.run(runs[-1])).replay_of)
        assert links == runs[:2]
        assert [s for s, _ in await shown(engine, *runs)] == ["failed", "failed", "completed"]
        assert [step for _, step, _, _ in engine.executions] == ["a", "b", "b", "c", "c"]


@pytest.mark.parametrize("partitions", [1, 12])
async def test_a_run_that_holds_much_goes_in_parts(duraton, partitions):
    text = "x" * (3 << 20)
    work = Switch()

    async def handle(ctx):
        found = [await ctx.step.run(f"s{n}", lambda n=n: f"{n}{text}") for n in range(4)]
        await ctx.step.run("work", work)
        return [each[0] for each in found]

    async with duraton(define_workflow("w", handle), partitions=partitions) as engine:
        run = await start(engine)
        await engine.settle()
        work.broken = False
        new = await engine.act(run, "retry-from-step", step="work")
        await engine.crash()
        await engine.settle()
        assert await shown(engine, new.id) == [("completed", ["0", "1", "2", "3"])]
        assert kept(engine) == []


async def test_a_schedules_run_is_replayed_for_its_tick(duraton):
    seen, work = [], Switch()

    async def handle(ctx):
        seen.append(ctx.event.data["scheduledAt"])
        await ctx.step.run("work", work)

    async with duraton(define_workflow("w", handle, cron=CronConfig("0 * * * *"))) as engine:
        await engine.advance("90m")
        [run] = await engine.runs()
        work.broken = False
        new = await engine.act(run.id, "replay")
        await engine.settle()
        assert (await engine.run(new.id)).tick == (await engine.run(run.id)).tick
        assert seen == ["2026-01-01T01:00:00Z"] * 2


async def test_a_childs_replay_tells_no_parent(duraton):
    work = Switch()

    async def child(ctx):
        return await ctx.step.run("work", work)

    async def parent(ctx):
        return await ctx.step.invoke("child", "child", {"n": 1})

    flows = [define_workflow("parent", parent), define_workflow("child", child)]
    async with duraton(*flows) as engine:
        run = await start(engine, "parent")
        await engine.settle()
        failed = (await engine.run(run)).children[0].id
        work.broken = False
        new = await engine.act(failed, "replay")
        await engine.settle()
        detail = await engine.run(new.id)
        assert (detail.status, detail.parent, detail.triggers[0].data) == (
            "completed",
            None,
            {"n": 1},
        )
        assert [(await engine.run(run)).status, len((await engine.run(run)).children)] == [
            "failed",
            1,
        ]


# An edited input ------------------------------------------------------------------------


def charge(order, currency="EUR"):
    if order < 0:
        raise ValueError("no such order")
    return f"{order} {currency}"


async def test_a_step_is_given_other_arguments(duraton):
    async def handle(ctx):
        await ctx.step.run("a", lambda: 1)
        return await ctx.step.run("charge", charge, -1)

    async with duraton(define_workflow("w", handle)) as engine:
        run = await start(engine)
        await engine.settle()
        for given, output in (
            ([7], "7 EUR"),
            ([7, "USD"], "7 USD"),
            ({"order": 8, "currency": "CHF"}, "8 CHF"),
        ):
            new = await engine.act(run, "retry-from-step", step="charge", input=given)
            await engine.settle()
            assert await shown(engine, new.id) == [("completed", output)]


async def test_an_edited_input_lasts_over_attempts_and_crashes(duraton):
    seen = []

    async def fetch(page):
        seen.append(page)
        if len(seen) in (1, 2):
            raise ValueError("not yet")
        return page

    async def handle(ctx):
        return await ctx.step.run("fetch", fetch, 1, retry=RetryConfig(2, initial_delay_ms=1000))

    async with duraton(define_workflow("w", handle), partitions=12) as engine:
        run = await start(engine)
        await engine.advance("5s")
        seen[:] = ["x"]
        new = await engine.act(run, "retry-from-step", step="fetch", input=[2])
        await engine.settle()
        await engine.crash(runner=True)
        await engine.advance("5s")
        assert await shown(engine, new.id) == [("completed", 2)]
        assert seen == ["x", 2, 2]
        # It is that retry's alone: a replay of it begins with the step's own again.
        last = await engine.act(new.id, "replay")
        await engine.settle()
        assert await shown(engine, last.id) == [("completed", 1)]


async def test_data_that_is_sent_or_invoked_with_is_edited(duraton):
    got = []

    async def child(ctx):
        got.append(ctx.event.data)
        return ctx.event.data

    async def handle(ctx):
        first = await ctx.step.invoke("call", "child", {"n": 1})
        await ctx.step.send_event("tell", "told", {"n": 1})
        return first

    flows = [
        define_workflow("w", handle),
        define_workflow("child", child),
        define_workflow("told", child),
    ]
    async with duraton(*flows) as engine:
        run = await start(engine)
        await engine.settle()
        for step in ("call", "tell"):
            await engine.act(run, "retry-from-step", step=step, input={"n": 2})
            await engine.settle()
        assert got == [{"n": 1}, {"n": 1}, {"n": 2}, {"n": 1}, {"n": 2}]


async def test_inputs_that_a_step_cannot_take(duraton):
    async def handle(ctx):
        await ctx.step.run("closed", lambda: 1)
        await ctx.step.sleep("nap", "1s")
        await ctx.step.send_event("tell", "told", {})

    async with duraton(define_workflow("w", handle, retry=RetryConfig(3))) as engine:
        run = await start(engine)
        await engine.advance("5s")
        for step, given, says in (
            ("nap", [1], "'nap' is a sleep and takes no input"),
            ("closed", 7, "an array of positional arguments, or an object"),
            ("tell", [1], "its input is an object"),
        ):
            with refused("bad-parameter") as error:
                await engine.act(run, "retry-from-step", step=step, input=given)
            assert says in str(error.value)
        new = await engine.act(run, "retry-from-step", step="closed", input=[1])
        await engine.advance("1m")
        failed = await engine.run(new.id)
        assert (failed.status, failed.error.code) == ("failed", "step-input-refused")
        assert "too many positional arguments" in failed.error.message
        assert failed.steps[0].attempts == 1


# What is left behind -------------------------------------------------------------------


async def test_what_was_carried_without_an_act_is_swept(duraton):
    async def handle(ctx):
        await ctx.step.run("a", lambda: 1)

    async with duraton(define_workflow("w", handle), partitions=12) as engine:
        run = await start(engine)
        await engine.settle()
        step = CarriedStep(step="a", n=0, kind="run", attempt=1, seen=0, output="1")

        async def command(made):
            return await engine.host.ask(lambda core: core.command(made))

        for part in range(2):
            carry = CarryRun(
                id=f"c{part}", caller=WHO, run=run, request="r", part=part, steps=[step]
            )
            assert (await command(carry)).ok
        again = CarryRun(id="c2", caller=WHO, run=run, request="r", part=0)
        assert (await command(again)).code == "carry-incomplete"
        await engine.advance("9m")
        assert len(kept(engine)) == 3
        await engine.crash(down="2m")
        assert kept(engine) == []
        late = ReplayRun(
            id="c3", caller=WHO, run=run, request="r", parts=2, app="test", workflow="w"
        )
        assert (await command(late)).code == "carry-incomplete"
        assert len(await engine.runs()) == 1


async def test_what_is_carried_is_no_more_than_a_run_may_hold(duraton):
    async def handle(ctx):
        await ctx.step.run("a", lambda: 1)

    async with duraton(define_workflow("w", handle), settings=Settings(run_bytes_max=10)) as engine:
        run = await start(engine)
        step = CarriedStep(step="a", n=0, kind="run", attempt=1, seen=0, output='"12345678"')
        for part, code in ((0, None), (1, "run-state-too-large")):
            carry = CarryRun(
                id=f"c{part}", caller=WHO, run=run, request="r", part=part, steps=[step]
            )
            reply = await engine.host.ask(lambda core, carry=carry: core.command(carry))
            assert reply.code == code


async def test_a_replay_lives_where_the_old_run_did(duraton):
    async def handle(ctx):
        await ctx.step.run("a", lambda: 1)

    async with duraton(define_workflow("w", handle), partitions=12) as engine:
        run = await start(engine)
        await engine.settle()
        new = await engine.act(run, "replay")
        assert new.journal["partition"] == partition(engine, "w")
        await same_anew(engine, run, new.id)
