"""Whatever a handler does in parallel: retried from any of its steps, it ends as it did."""

import asyncio
import os

from crash_points import shown
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from model import definitions
from scenarios import NAMES, workflow_sets

from duraton.testing import Engine
from duraton_api.verification import verify_cluster

EXAMPLES = int(os.environ.get("DURATON_TEST_EXAMPLES", "20"))
STEPS_MAX = 6
"""Steps of one run that it is retried from."""


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(workflow_sets(), st.sampled_from((1, 12)), st.sampled_from(("connect", "serve")), st.data())
def test_a_retry_ends_as_the_run_did(workflows, partitions, transport, data):
    asyncio.run(retry_all(workflows, partitions, transport, data))


async def retry_all(workflows, partitions, transport, data):
    async with Engine(
        *definitions(workflows, lambda: engine.clock), partitions=partitions, transport=transport
    ) as engine:
        runs = [(await engine.send(name, {}))[0].run_id for name in NAMES]
        await engine.advance("10m")
        for run in runs:
            old = await engine.run(run)
            names = [step.id for step in old.steps]
            assert old.status in ("completed", "failed")
            for step in data.draw(st.permutations(names))[:STEPS_MAX]:
                await retry(engine, old, step, crash=data.draw(st.booleans()))
        report = verify_cluster(engine.core.log)
        assert report.ok, report.problems
        everything = await engine.runs(kind=None)
        await shown(engine, {run.id: run.id for run in everything})


async def retry(engine, old, step, *, crash):
    new = await engine.act(old.id, "retry-from-step", step=step)
    if crash:
        await engine.crash()
    await engine.advance("10m")
    new = await engine.run(new.id)
    assert (new.status, new.replay_step) == (old.status, step)
    if new.status == "completed":
        # Of branches that fail side by side the first ends the run, and which one that is
        # depends on how long those take that are carried here.
        assert new.output == old.output, (step, [s.id for s in new.steps if s.carried])
    carried = {each.id for each in new.steps if each.carried}
    assert step not in carried
    again = {name for run, name, _, _ in engine.executions if run == new.id}
    assert not again & carried
    chosen = next(each for each in old.steps if each.id == step)
    for each in old.steps:
        if each.status == "completed" and each.id != step:
            before = not chosen.number or each.seen < chosen.number
            assert (each.id in carried) == before
