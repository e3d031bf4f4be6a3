"""Every control on every log, with an engine that dies and comes back between the events."""

from duraton import define_workflow


async def brief(ctx):
    return await ctx.step.run("work", lambda: ctx.event.data.get("n"))


async def gathered(ctx):
    return await ctx.step.run("work", lambda: [event.data["n"] for event in ctx.events])


async def asking(ctx):
    usage = {"usage": {"prompt_tokens": 300, "completion_tokens": 100}, "model": "m"}
    await ctx.step.ai.wrap("ask", lambda: usage)
    await ctx.step.sleep("rest", "30s")
    return await ctx.step.run("end", lambda: "ended")


async def resting(ctx):
    await ctx.step.sleep("rest", "30s")
    return await ctx.step.run("work", lambda: ctx.event.data["n"])


FLOWS = (
    define_workflow("spaced", brief, throttle={"limit": 1, "perMs": 5_000}),
    define_workflow("few", brief, rate_limit={"limit": 2, "perMs": 60_000}),
    define_workflow("last", brief, debounce={"periodMs": 4_000, "key": "k"}),
    define_workflow("batch", gathered, batch={"maxSize": 2, "timeoutMs": 6_000}),
    define_workflow("once", brief, idempotency={"key": "o", "periodMs": 60_000}),
    define_workflow("single", resting, singleton={"key": "k"}),
    define_workflow("joined", resting, key="k", together={"then": "join"}),
    define_workflow("crew", brief, key="k", together={"group": "g", "max": 1}),
    define_workflow("spent", asking, budget={"maxTokens": 300, "windowMs": 60_000}),
)


async def outputs(engine, workflow):
    runs = [await engine.run(run.id) for run in await engine.runs(workflow=workflow)]
    return sorted((run.status, str(run.output)) for run in runs)


async def test_every_control_across_crashes(cluster):
    async with cluster(FLOWS) as engine:
        await engine.set_ceiling(5)
        said = []
        for n in range(3):
            data = {"n": n, "k": 1, "o": 1}
            answers = [(await engine.send(flow.name, data))[0] for flow in FLOWS]
            said.append({answer.workflow: answer for answer in answers})
            await engine.crash()
            await engine.advance("500ms")
        assert [each["few"].dropped for each in said] == [False, False, True]
        assert [each["once"].deduped for each in said] == [False, True, True]
        assert [each["single"].skipped for each in said] == [False, True, True]
        assert [each["joined"].joined for each in said] == [False, True, True]
        assert len({each["joined"].run_id for each in said}) == 1
        assert all(each["last"].buffered and each["batch"].buffered for each in said)
        await engine.advance("10s")
        await engine.crash()
        starts = sorted(at for flow, _, at in engine.started if flow == "spaced")
        assert [round(at) for at in starts] == [0, 5, 10]
        paused = await engine.runs(status="paused")
        assert {(run.workflow, run.paused_by.reason) for run in paused} == {("spent", "budget")}
        assert len(paused) == 3
        assert (await engine.flow_state())["concurrency"]["limit"] == 5
        await engine.advance("3m")
        await engine.advance("3m")
        done = "completed"
        assert await outputs(engine, "spaced") == [(done, "0"), (done, "1"), (done, "2")]
        assert await outputs(engine, "few") == [(done, "0"), (done, "1")]
        assert await outputs(engine, "last") == [(done, "2")]
        assert await outputs(engine, "batch") == [(done, "[0, 1]"), (done, "[2]")]
        assert await outputs(engine, "once") == [(done, "0")]
        assert await outputs(engine, "single") == [(done, "0")]
        assert await outputs(engine, "joined") == [(done, "0")]
        assert await outputs(engine, "crew") == [(done, "0"), (done, "1"), (done, "2")]
        assert await outputs(engine, "spent") == [(done, "ended")] * 3
