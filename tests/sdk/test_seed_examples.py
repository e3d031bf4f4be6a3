"""The Python examples of the documents that Duraton was built from, as they stand."""

import pytest
from scripted_engine import ScriptedEngine

from duraton import App
from duraton.workflow import WorkflowDefinition

CONCURRENCY = """
from duraton import ConcurrencyConfig, define_workflow
from duraton.context import StepContext


async def handle(ctx: StepContext) -> object:
    account_id = ctx.event.data["accountId"]
    return await ctx.step.run("sync", lambda: sync_account(account_id))


sync_account_wf = define_workflow(
    "sync.account",
    handle,
    concurrency=ConcurrencyConfig(limit=5, key="accountId"),
)
"""

BATCH = """
from duraton import define_workflow
from duraton.context import StepContext


async def index_documents(ctx: StepContext) -> object:
    for e in ctx.events or []:
        await ctx.step.run(e.data["id"], lambda: index(e.data))
    return None


index_documents_wf = define_workflow(
    "index.documents",
    index_documents,
    extra={"batch": {"maxSize": 100, "timeoutMs": 5000, "key": "index"}},
)
"""

RETRY = """
from duraton import RetryConfig, define_workflow
from duraton.context import StepContext


async def handle_ticket(ctx: StepContext) -> object:
    await ctx.step.run("triage", lambda: triage_ticket(ctx.event.data))


ticket_created = define_workflow(
    "ticket.created",
    handle_ticket,
    retry=RetryConfig(max_attempts=3),
)
"""

NON_RETRIABLE = """
from duraton import NonRetriableError


def validate():
    if not api_key:
        raise NonRetriableError("missing API key")


async def handle(ctx):
    await ctx.step.run("validate", validate)
"""

RETRY_AFTER = """
from duraton import RetryAfterError


def call_upstream():
    res = requests.get(url)
    if res.status_code == 429:
        raise RetryAfterError("rate limited", "30s")
    return res.json()


async def handle(ctx):
    await ctx.step.run("call-upstream", call_upstream)
"""

ON_FAILURE = """
from duraton import RetryConfig, define_workflow
from duraton.context import StepContext


async def capture_payment(ctx: StepContext) -> object:
    await ctx.step.run("capture", lambda: capture(ctx.event.data["paymentId"]))


async def on_capture_failure(ctx: StepContext) -> None:
    await ctx.step.run("void-hold", lambda: void_hold(ctx.event.data["paymentId"]))


capture_payment_wf = define_workflow(
    "payment.capture",
    capture_payment,
    retry=RetryConfig(max_attempts=3),
    on_failure=on_capture_failure,
)
"""


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
