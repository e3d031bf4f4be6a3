"""Acts on many runs: accepted whole, gone through in batches, followed, stopped, not done twice."""

import pytest
from scenario_tools import start

from duraton import App, define_workflow
from duraton.testing import RefusedError, Settings
from duraton_schemas.records import acts, commands
from duraton_schemas.records.common import Caller

WHO = Caller(kind="key", id="test", root="key:test")
FLOWS = ("red", "green", "blue")


class Shop:
    """Three workflows, of several partitions where there are several, whose step can be broken."""

    def __init__(self):
        self.broken = True
        self.calls = []
        self.flows = [define_workflow(name, self.handle) for name in FLOWS]

    async def handle(self, ctx):
        async def work():
            self.calls.append((ctx.run.workflow, ctx.event.data["n"]))
            if self.broken:
                raise ValueError("broken")

        await ctx.step.run("work", work)

    async def fail(self, engine, count):
        """So many runs of each workflow fail, a second apart; their ids in that order."""
        runs = []
        for n in range(count):
            runs += [await start(engine, name, {"n": n}) for name in FLOWS]
            await engine.advance("1s")
        self.broken = False
        self.calls.clear()
        return runs


def refused(code):
    return pytest.raises(RefusedError, check=lambda error: error.engine_code == code)


def kept(engine):
    """What is kept for acts and jobs: nothing, once they are over."""
    names = ("carries", "carried", "replays_wanted", "jobs", "job_parts")
    return [
        (table, key)
        for processor in engine.core.processors
        for table, key, _ in processor.state.dump()
        if table in names
    ]


def tally(job):
    return (job.status, job.total, job.done, job.refused)


async def test_on_every_log(cluster):
    shop = Shop()
    async with cluster(*shop.flows, settings=Settings(job_batch=2)) as engine:
        runs = await shop.fail(engine, 2)
        job = await engine.bulk("replay", status="failed")
        assert tally(job) == ("running", 6, 0, 0)
        await engine.crash()
        await engine.settle()
        assert tally(await engine.job(job.id)) == ("completed", 6, 6, 0)
        made = await engine.runs(status="completed")
        assert sorted(run.replay_of for run in made) == sorted(runs)
        assert {run.job for run in made} == {job.id}
        assert sorted(shop.calls) == sorted((name, n) for name in FLOWS for n in range(2))
        assert kept(engine) == []


@pytest.mark.parametrize("partitions", [1, 12])
@pytest.mark.parametrize("transport", ["connect", "serve"])
async def test_a_crash_at_each_moment_of_a_job(duraton, partitions, transport):
    """However far it has come: each run is replayed once, and the job comes to its end."""
    for moment in range(12):
        shop = Shop()
        async with duraton(
            *shop.flows,
            partitions=partitions,
            transport=transport,
            settings=Settings(job_batch=2),
        ) as engine:
            runs = await shop.fail(engine, 2)
            job = await engine.bulk("replay", status="failed")
            for _ in range(moment):
                engine.host.turn()
            await engine.crash(runner=moment % 2 == 1)
            await engine.advance("5s")
            assert tally(await engine.job(job.id)) == ("completed", 6, 6, 0), moment
            made = await engine.runs(status="completed")
            assert sorted(run.replay_of for run in made) == sorted(runs), moment
            assert kept(engine) == []


async def test_it_goes_in_the_order_of_failure(duraton):
    shop = Shop()
    async with duraton(*shop.flows, settings=Settings(job_batch=4)) as engine:
        await shop.fail(engine, 10)
        await engine.bulk("replay", workflow="red")
        await engine.settle()
        assert shop.calls == [("red", n) for n in range(10)]


async def test_its_runs_are_fixed_when_it_is_accepted(duraton):
    shop = Shop()
    async with duraton(*shop.flows, settings=Settings(job_batch=1)) as engine:
        await shop.fail(engine, 1)
        shop.broken = True  # so what it replays fails again, and would match again
        job = await engine.bulk("replay", status="failed")
        await engine.settle()
        assert tally(await engine.job(job.id)) == ("completed", 3, 3, 0)
        assert len(await engine.runs(status="failed")) == 6


async def test_a_dry_run_counts_and_shows_the_first(duraton):
    shop = Shop()
    async with duraton(*shop.flows) as engine:
        runs = await shop.fail(engine, 5)
        found = await engine.bulk("replay", status="failed", dry_run=True)
        assert (found.total, [run.id for run in found.sample]) == (15, runs[:10])
        some = await engine.bulk("replay", workflow="red", until=3_000, dry_run=True)
        assert some.total == 0
        assert await engine.jobs() == [] and len(await engine.runs()) == 15


async def test_filters_choose_as_in_the_list(duraton):
    shop = Shop()
    async with duraton(App("shop", workflows=shop.flows)) as engine:
        runs = await shop.fail(engine, 3)
        await engine.act(runs[0], "replay")
        await engine.settle()
        for given, count in (
            ({"app": "shop"}, 9),
            ({"app": "else"}, 0),
            ({"workflow": "green", "status": "failed"}, 3),
            ({"status": "failed,completed"}, 10),
            ({"since": "2026-01-01T00:00:01Z"}, 6),
            ({"since": "2026-01-01T00:00:01Z", "until": "2026-01-01T00:00:02Z"}, 3),
            ({"q": runs[4]}, 1),
        ):
            assert (await engine.bulk("replay", dry_run=True, **given)).total == count, given


async def test_filters_that_cannot_be_meant_are_refused(duraton):
    async with duraton(*Shop().flows) as engine:
        for act, given, says in (
            ("replay", {}, "name at least one of status, workflow"),
            ("cancel", {}, "name at least one of status, workflow"),
            ("replay", {"status": "running"}, "cannot be said of runs to replay"),
            ("cancel", {"status": "failed"}, "one of queued, running, waiting, paused"),
            ("replay", {"since": "noon"}, "since: 'noon' is neither"),
        ):
            with refused("bad-parameter") as error:
                await engine.bulk(act, **given)
            assert says in str(error.value)
        assert await engine.jobs() == []


@pytest.mark.parametrize("partitions", [1, 12])
async def test_cancel_whatever_has_not_ended(duraton, partitions):
    async def handle(ctx):
        await ctx.step.run("work", engine.clock.sleep, 1)
        await ctx.step.sleep("nap", "1h")

    flows = [define_workflow(name, handle) for name in FLOWS]
    async with duraton(
        *flows, partitions=partitions, capacity=3, settings=Settings(job_batch=2)
    ) as engine:
        for n in range(2):
            for name in FLOWS:
                await start(engine, name, {"n": n})
            await engine.advance("2s")
        for name in FLOWS:
            for n in range(2, 4):
                await start(engine, name, {"n": n})
        await engine.settle()
        before = await engine.runs()
        assert {run.status for run in before} == {"queued", "running", "waiting"}
        job = await engine.bulk("cancel", app="test", reason="the shop is closed")
        await engine.settle()
        assert tally(await engine.job(job.id)) == ("completed", 12, 12, 0)
        after = await engine.runs()
        assert {(run.status, run.error.message) for run in after} == {
            ("cancelled", "the shop is closed")
        }
        await engine.advance("2h")
        assert kept(engine) == []


async def test_what_cannot_be_acted_on_is_counted_and_said(duraton):
    shop = Shop()
    app = App("test", workflows=shop.flows)
    async with duraton(app, settings=Settings(job_batch=2)) as engine:
        runs = await shop.fail(engine, 2)
        await engine.register(App("test", workflows=shop.flows[:2]))
        job = await engine.bulk("replay", status="failed")
        await engine.settle()
        job = await engine.job(job.id)
        assert tally(job) == ("completed", 6, 4, 2)
        assert [(each.run, each.code) for each in job.refusals] == [
            (runs[2], "workflow-unknown"),
            (runs[5], "workflow-unknown"),
        ]
        assert kept(engine) == []


async def test_a_run_that_ended_meanwhile_is_not_cancelled(duraton):
    async def handle(ctx):
        await ctx.step.sleep("nap", "1h")

    async with duraton(define_workflow("w", handle)) as engine:
        run = await start(engine)
        await engine.settle()
        # Its ids stand when it begins, and the run may end before its turn.
        await engine.host.ask(
            lambda core: core.command(
                commands.AddJobRuns(id="a", caller=WHO, job="j", part=0, runs=[run])
            )
        )
        await engine.act(run, "cancel")
        begin = commands.StartJob(
            id="b", caller=WHO, job="j", act="cancel", filter="{}", parts=1, total=1
        )
        await engine.host.ask(lambda core: core.command(begin))
        await engine.settle()
        job = await engine.job("j")
        assert (tally(job), job.refusals[0].code) == (("completed", 1, 0, 1), "run-not-active")


async def test_an_empty_job_is_over_at_once(duraton):
    async with duraton(*Shop().flows) as engine:
        job = await engine.bulk("replay", status="failed")
        await engine.settle()
        assert tally(await engine.job(job.id)) == ("completed", 0, 0, 0)
        assert kept(engine) == []


class HeldBack:
    """Keeps a job's next batches from beginning, so that a test stands between two."""

    def __init__(self, engine, batches):
        self.left = batches
        for processor in engine.core.processors:
            decide = processor._machine.decide
            processor._machine.decide = lambda tx, item, decide=decide: self.decide(
                decide, tx, item
            )

    def decide(self, decide, tx, item):
        if type(item.value).__name__ == "JobGoesOn":
            if not self.left:
                tx.call_at(tx.now + 1_000, item.value)
                return
            self.left -= 1
        decide(tx, item)


@pytest.mark.parametrize("partitions", [1, 12])
async def test_it_is_stopped_between_two_batches(duraton, partitions):
    shop = Shop()
    async with duraton(
        *shop.flows, partitions=partitions, settings=Settings(job_batch=2)
    ) as engine:
        await shop.fail(engine, 3)
        held = HeldBack(engine, 2)
        job = await engine.bulk("replay", status="failed")
        await engine.settle()
        assert tally(await engine.job(job.id)) == ("running", 9, 4, 0)
        stopped = await engine.stop_job(job.id)
        assert (stopped.status, stopped.stopped_by["id"]) == ("stopping", "test")
        held.left = 100
        await engine.advance("5s")
        assert tally(await engine.job(job.id)) == ("stopped", 9, 4, 0)
        assert len(await engine.runs(status="completed")) == 4
        assert kept(engine) == []
        with refused("job-not-running"):
            await engine.stop_job(job.id)
        with refused("job-not-running"):
            await engine.stop_job("job_nothing")


async def test_it_goes_on_after_a_crash_between_two_batches(duraton):
    shop = Shop()
    async with duraton(*shop.flows, settings=Settings(job_batch=2)) as engine:
        await shop.fail(engine, 3)
        HeldBack(engine, 2)
        job = await engine.bulk("replay", status="failed")
        await engine.settle()
        assert tally(await engine.job(job.id)) == ("running", 9, 4, 0)
        await engine.crash(down="1h")
        assert tally(await engine.job(job.id)) == ("completed", 9, 9, 0)
        assert sorted(shop.calls) == sorted((name, n) for name in FLOWS for n in range(3))


async def test_several_jobs_go_side_by_side_up_to_a_number(duraton):
    shop = Shop()
    async with duraton(*shop.flows, settings=Settings(job_batch=1, jobs_max=2)) as engine:
        await shop.fail(engine, 3)
        held = HeldBack(engine, 0)
        made = [await engine.bulk("replay", workflow=name) for name in FLOWS[:2]]
        with refused("jobs-too-many"):
            await engine.bulk("replay", workflow=FLOWS[2])
        held.left = 100
        await engine.advance("10s")
        assert [tally(job) for job in await engine.jobs()] == [("completed", 3, 3, 0)] * 2
        assert [job.id for job in await engine.jobs()] == [job.id for job in reversed(made)]
        await engine.bulk("replay", workflow=FLOWS[2])


async def test_ids_of_a_job_that_was_never_begun_are_swept(duraton):
    shop = Shop()
    async with duraton(*shop.flows, partitions=12) as engine:
        runs = await shop.fail(engine, 1)

        async def command(made):
            return await engine.host.ask(lambda core: core.command(made))

        for part in range(2):
            added = commands.AddJobRuns(id=f"a{part}", caller=WHO, job="j", part=part, runs=runs)
            assert (await command(added)).ok
        again = commands.AddJobRuns(id="a2", caller=WHO, job="j", part=0, runs=runs)
        assert (await command(again)).code == "job-incomplete"
        begin = commands.StartJob(
            id="s", caller=WHO, job="j", act="replay", filter="{}", parts=1, total=3
        )
        assert (await command(begin)).code == "job-incomplete"
        await engine.advance("9m")
        assert len(kept(engine)) == 3
        await engine.crash(down="2m")
        assert kept(engine) == [] and await engine.jobs() == []


async def test_a_defect_about_one_run_does_not_hold_up_the_job(duraton, monkeypatch):
    shop = Shop()
    async with duraton(*shop.flows, partitions=12, settings=Settings(job_batch=2)) as engine:
        runs = await shop.fail(engine, 2)
        from duraton_engine.commands import replay_run

        make = replay_run._make

        def defective(tx, engine, slot, command, carried):
            if command.run == runs[3]:
                raise RuntimeError("a defect")
            make(tx, engine, slot, command, carried)

        monkeypatch.setattr(replay_run, "_make", defective)
        job = await engine.bulk("replay", status="failed")
        await engine.settle()
        job = await engine.job(job.id)
        assert tally(job) == ("completed", 6, 5, 1)
        assert (job.refusals[0].run, "a defect" in job.refusals[0].message) == (runs[3], True)
        await engine.advance("11m")
        assert kept(engine) == []


async def test_a_defect_about_a_run_to_cancel_sets_only_that_run_apart(duraton, monkeypatch):
    async def handle(ctx):
        await ctx.step.sleep("nap", "1h")

    async with duraton(define_workflow("w", handle), partitions=12) as engine:
        runs = [await start(engine) for _ in range(3)]
        await engine.settle()
        from duraton_engine.commands import run_job

        end_run = run_job.end_run

        def defective(tx, context, slot, run, status, **more):
            if run.id == runs[1]:
                raise RuntimeError("a defect")
            end_run(tx, context, slot, run, status, **more)

        monkeypatch.setattr(run_job, "end_run", defective)
        job = await engine.bulk("cancel", workflow="w")
        await engine.settle()
        job = await engine.job(job.id)
        assert (tally(job), job.refusals[0].run) == (("completed", 3, 2, 1), runs[1])
        assert [(await engine.run(run)).status for run in runs] == [
            "cancelled",
            "paused",
            "cancelled",
        ]


async def test_commands_that_make_no_job_are_set_aside(duraton):
    """Whoever writes to the topic may write anything; no job comes of it."""
    async with duraton(*Shop().flows) as engine:
        for number, made in enumerate(
            (
                commands.AddJobRuns(id="a", caller=WHO, job="j", part=0, runs=[]),
                commands.AddJobRuns(id="b", caller=WHO, job="j", part=0, runs=["nonsense"]),
                commands.StartJob(
                    id="c", caller=WHO, job="j", act="bless", filter="{}", parts=0, total=0
                ),
            ),
            1,
        ):
            reply = await engine.host.ask(lambda core, made=made: core.command(made))
            assert reply.code == "engine"
            parked = engine.core.view
            parked.drain()
            assert parked.sql("SELECT count(*) FROM parked").rows == [[number]]
        assert kept(engine) == [] and await engine.jobs() == []


async def test_a_view_that_cannot_answer_is_waited_for(duraton, monkeypatch):
    from duraton_api.acts import acts as acting
    from duraton_api.errors import ViewFailedError

    shop = Shop()
    async with duraton(*shop.flows) as engine:
        await shop.fail(engine, 1)
        whole, failures = acting.read_whole, [1, 2, 3]

        def failing(*args, **more):
            if failures:
                failures.pop()
                raise ViewFailedError("the disk is full")
            return whole(*args, **more)

        monkeypatch.setattr(acting, "read_whole", failing)
        job = await engine.bulk("replay", status="failed")
        await engine.advance("2s")
        assert tally(await engine.job(job.id)) == ("running", 3, 0, 0)
        await engine.advance("2s")
        assert tally(await engine.job(job.id)) == ("completed", 3, 3, 0)


async def test_thousands_of_runs_are_chosen_and_gone_through(duraton, monkeypatch):
    from duraton_api.acts import acts as acting

    monkeypatch.setattr(acting, "IDS_MAX", 64)
    shop = Shop()
    async with duraton(*shop.flows, partitions=12, settings=Settings(job_batch=50)) as engine:
        await engine.send_many([(FLOWS[n % 3], {"n": n}) for n in range(300)])
        await engine.settle()
        shop.broken = False
        shop.calls.clear()
        job = await engine.bulk("replay", status="failed")
        await engine.settle()
        assert tally(await engine.job(job.id)) == ("completed", 300, 300, 0)
        assert sorted(n for _, n in shop.calls) == list(range(300))
        facts = [
            fact
            for record in engine.core.log.read("duraton.journal", 0, 0, 100_000)
            if isinstance(fact := engine.core.codec.decode(record.value), acts.JobBatchSent)
        ]
        # Batches end with their part of the ids: 64 are 50 and 14.
        assert [fact.count for fact in facts] == [50, 14] * 4 + [44]
