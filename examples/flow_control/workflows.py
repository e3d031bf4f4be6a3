"""One workflow for each control. Work and models are played: they wait, and say what they used.

To look at one of them by hand:

    duraton dev examples/flow_control/workflows.py
    duraton send mail.wanted '{"to": "ada"}'
"""

import asyncio

from duraton import (
    App,
    BatchConfig,
    BudgetConfig,
    CapConfig,
    ConcurrencyConfig,
    DebounceConfig,
    IdempotencyConfig,
    PriorityConfig,
    RateLimitConfig,
    SingletonConfig,
    ThrottleConfig,
    TogetherConfig,
    TokenThrottleConfig,
    define_workflow,
)
from duraton.context import StepContext

TOKENS_A_CALL = 150
LOOKS = 6


async def work(seconds: float) -> str:
    await asyncio.sleep(seconds)
    return "done"


async def ask_model(question: str) -> dict:
    """An answer as a provider's API gives it, with what it used."""
    await asyncio.sleep(0.1)
    usage = {"prompt_tokens": TOKENS_A_CALL - 30, "completion_tokens": 30}
    return {"model": "gpt-4o-mini", "text": f"about {question}", "usage": usage}


async def brief(ctx: StepContext) -> object:
    return await ctx.step.run("work", work, 0.1)


async def steady(ctx: StepContext) -> object:
    return await ctx.step.run("work", work, 0.6)


async def as_long_as_asked(ctx: StepContext) -> object:
    return await ctx.step.run("work", work, ctx.event.data["seconds"])


async def save_document(ctx: StepContext) -> object:
    return await ctx.step.run("save", lambda: ctx.event.data["version"])


async def index_pages(ctx: StepContext) -> object:
    pages = [event.data["page"] for event in ctx.events or []]
    return await ctx.step.run("index", lambda: pages)


async def answer_question(ctx: StepContext) -> object:
    answer = await ctx.step.ai.wrap("answer", ask_model, ctx.event.data["question"])
    return answer["text"]


async def write_story(ctx: StepContext) -> object:
    chapters = []
    for number in range(1, 11):
        chapter = await ctx.step.ai.wrap("chapter", ask_model, f"chapter {number}")
        chapters.append(chapter["text"])
    return chapters


async def watch_topic(ctx: StepContext) -> object:
    for look in range(1, LOOKS + 1):
        await ctx.step.ai.wrap("look", ask_model, ctx.event.data["topic"])
        if look < LOOKS:
            await ctx.step.sleep("rest", "3s")
    return "watched"


app = App(
    "flow-control",
    workflows=[
        define_workflow(
            "invoice.wanted", steady, concurrency=ConcurrencyConfig(limit=3, key="customer")
        ),
        define_workflow("mail.wanted", brief, throttle=ThrottleConfig(limit=5, per_ms="2s")),
        define_workflow(
            "hook.called", brief, rate_limit=RateLimitConfig(limit=5, per_ms="1m", key="ip")
        ),
        define_workflow(
            "document.edited",
            save_document,
            debounce=DebounceConfig(period_ms="800ms", key="document"),
        ),
        define_workflow(
            "page.changed",
            index_pages,
            batch=BatchConfig(max_size=5, timeout_ms="1500ms", key="site"),
        ),
        define_workflow("newsletter.wanted", steady),
        define_workflow("alarm.raised", steady, priority=PriorityConfig(shift_ms="1m")),
        define_workflow("report.wanted", steady, singleton=SingletonConfig(key="account")),
        define_workflow(
            "order.placed", brief, idempotency=IdempotencyConfig(key="order", period_ms="24h")
        ),
        # `together`: what becomes of a start while as many runs work as `max` allows.
        define_workflow(
            "parcel.packed", steady, key="team", together=TogetherConfig(max=2, group="team")
        ),
        define_workflow(
            "parcel.labelled", steady, key="team", together=TogetherConfig(max=2, group="team")
        ),
        define_workflow(
            "export.wanted", steady, key="account", together=TogetherConfig(max=2, then="refuse")
        ),
        define_workflow(
            "branch.pushed",
            as_long_as_asked,
            key="branch",
            together=TogetherConfig(max=1, then="stop"),
        ),
        define_workflow("order.shipped", steady, key="order", together=TogetherConfig(then="join")),
        # What AI steps use: a rate of tokens for all runs of a user, a cap for each run.
        define_workflow(
            "question.asked",
            answer_question,
            token_throttle=TokenThrottleConfig(tokens=200, per_ms="1s", key="user"),
            concurrency=ConcurrencyConfig(limit=1, key="user"),
        ),
        define_workflow("story.wanted", write_story, cap=CapConfig(max_tokens=400)),
        # A budget is for all runs of a workflow; it is looked at every 10 seconds.
        define_workflow(
            "topic.followed", watch_topic, budget=BudgetConfig(max_tokens=600, window_ms="8s")
        ),
    ],
)
