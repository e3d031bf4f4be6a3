"""Examples of the documents that Duraton was built from, character for character.

Where a document shows a fragment of Python, what a program needs around it is added.
"""

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

LINES = """
concurrency: { limit: 5, key: "accountId" }
throttle: { limit: 100, perMs: 60_000, key: "customer" }
rateLimit: { limit: 1000, perMs: 60_000, key: "ip" }
debounce: { periodMs: 5_000, key: "documentId" }
batch: { maxSize: 100, timeoutMs: 5_000, key: "index" },
priority: { shiftMs: 60_000 }
singleton: { key: "accountId", mode: "skip" }
idempotency: { key: "orderId", periodMs: 86_400_000 } // at most one run per orderId per 24h
cap: { maxCost: 0.25, maxTokens: 40_000 } // at most $0.25 or 40k tokens per run
budget: { maxTokens: 6_000, windowMs: 3_600_000, warnAtPct: 80 } // 6k tokens per hour
tokenThrottle: { tokens: 1_000, perMs: 60_000, key: "userId" } // 1k tokens/min per user
"""
"""The controls, each as its section states it."""

TOGETHER_JOIN = "together: { then: 'join' },"
TOGETHER_GROUP = "{ group: 'perTeam', max: 5 }"

CEILING_CURL = 'curl "$DURATON_URL/flow-state" | jq .concurrency'
CEILING_ANSWER = '{ "limit": 50, "inUse": 12 }'

FLOW_STATE_CURL = 'curl "$DURATON_URL/flow-state?workflow=index.documents"'
FLOW_STATE_ANSWER = """
{
  "debounce": [{ "app": "docs", "workflow": "index.documents", "pending": 3, "nextFireAt": "2026-07-01T10:00:05Z" }],
  "batch": [{ "app": "docs", "workflow": "index.documents", "buffered": 42, "oldestAt": "2026-07-01T10:00:01Z" }],
  "concurrency": { "limit": 50, "inUse": 12 }
}
"""

FAILED_CURL = 'curl "$DURATON_URL/runs?status=failed" -H "Authorization: Bearer $DURATON_API_KEY"'
