"""The Python examples of the documents that Duraton was built from, as they stand, in the SDK.

What those of flow control do with an engine stands in `test_seed_flow_control.py`.
"""

import pytest
from scripted_engine import ScriptedEngine
from seed_texts import BATCH, CONCURRENCY, NON_RETRIABLE, ON_FAILURE, RETRY, RETRY_AFTER

from duraton import App
from duraton.workflow import WorkflowDefinition


async def go(example, data, **names):
    from duraton import define_workflow

    space = dict(names)
    exec(compile(example, "example.py", "exec"), space)
    found = [each for each in space.values() if isinstance(each, WorkflowDefinition)]
    (workflow,) = found or [define_workflow("work", space["handle"])]
    engine = ScriptedEngine(App("docs", [workflow]))
    run = engine.start(workflow.name, data)
    await engine.settle()
    return run, engine, workflow


async def test_a_synced_account():
    run, _, workflow = await go(CONCURRENCY, {"accountId": "a1"}, sync_account=lambda a: f"did {a}")
    assert (run.status, run.output) == ("completed", "did a1")
    assert workflow.options.concurrency == {"limit": 5, "key": "accountId"}


async def test_indexed_documents():
    indexed = []
    run, _, _ = await go(BATCH, {"id": "d1"}, index=indexed.append)
    assert run.status == "completed" and indexed == [{"id": "d1"}]


async def test_a_triaged_ticket():
    async def triage(ticket):
        return ticket

    run, _, workflow = await go(RETRY, {"t": 1}, triage_ticket=triage)
    assert run.status == "completed" and run.steps[("triage", 0)].output == '{"t":1}'
    assert workflow.options.retry.max_attempts == 3


async def test_a_missing_key():
    run, engine, _ = await go(NON_RETRIABLE, {}, api_key="")
    assert (run.status, run.error.message) == ("failed", "missing API key")
    assert run.error.final and len(engine.executed) == 1


@pytest.mark.parametrize("status", [200, 429])
async def test_an_upstream(status):
    class Answer:
        status_code = status

        def json(self):
            return {"ok": True}

    class Requests:
        def get(self, _url):
            return Answer()

    run, _, _ = await go(RETRY_AFTER, {}, requests=Requests(), url="u")
    if status == 200:
        assert run.status == "completed"
    else:
        assert (run.error.message, run.error.retry_after_ms) == ("rate limited", 30_000)


async def test_a_payment():
    run, _, workflow = await go(ON_FAILURE, {"paymentId": "p"}, capture=str, void_hold=str)
    assert run.status == "completed" and workflow.options.on_failure
