"""The workflows of a flow program as user code."""

from collections import defaultdict

from duraton import App, NonRetriableError, RetryConfig, define_workflow
from duraton.ai import Usage, meter
from duraton.context import current_step

FAILURE_MS = 50
"""What an onFailure handler takes."""


def apps_of(flows, clock):
    """The apps that a runner serves; `clock` gives the engine's clock."""
    by_app = defaultdict(list)
    for flow in flows:
        by_app[flow.app].append(definition(flow, clock))
    return [App(name, workflows=made) for name, made in by_app.items()]


def definition(flow, clock):
    options = {"extra": dict(flow.controls), "triggers": flow.triggers}
    if flow.attempts > 1:
        options["retry"] = RetryConfig(
            max_attempts=flow.attempts, initial_delay_ms=flow.backoff, max_delay_ms=flow.backoff
        )
    if flow.handles:
        options["on_failure"] = failure(flow, clock)
    return define_workflow(flow.name, handler(flow, clock), **options)


def handler(flow, clock):
    async def handle(ctx):
        for place, op in enumerate(ctx.event.data["do"]):
            await carry_out(ctx, flow, clock, f"s{place}", op)
        return [event.data["n"] for event in ctx.events or [ctx.event]]

    return handle


def failure(flow, clock):
    async def handle(ctx):
        await ctx.step.run("mourn", clock().sleep, flow.span(FAILURE_MS) / 1000)

    return handle


async def carry_out(ctx, flow, clock, step, op):
    match op:
        case ["work" | "final", ms, *rest]:
            await ctx.step.run(step, work, clock, flow.span(ms), *rest)
        case ["ai", ms, tokens, cents, failures]:
            call = (clock, flow.span(ms), tokens, cents, failures)
            await ctx.step.ai.wrap(step, ask, *call, usage=usage)
        case ["sleep", ms]:
            await ctx.step.sleep(step, flow.span(ms))
        case ["wait", number, ms]:
            await ctx.step.wait_for_event(
                step, "signal", match={"n": number}, timeout=flow.span(ms)
            )
        case ["call", target, data]:
            if flow.calls(target):
                await ctx.step.invoke(step, target, data)
        case ["send", name, data]:
            await ctx.step.send_event(step, name, data)
        case _:
            raise AssertionError(op)


async def ask(clock, ms, tokens, cents, failures):
    """A model's call; where it fails it is paid for all the same."""
    attempt = current_step().attempt
    await clock().sleep(ms / 1000)
    answer = {"tokens": tokens, "cents": cents}
    if attempt <= failures:
        meter(usage(answer))
        raise ValueError(f"failed in attempt {attempt}")
    return answer


def usage(answer):
    return Usage(prompt_tokens=answer["tokens"], cost=answer["cents"] / 100)


async def work(clock, ms, failures=None):
    """Without a number of failures it fails for good."""
    attempt = current_step().attempt
    await clock().sleep(ms / 1000)
    if failures is None:
        raise NonRetriableError("failed for good")
    if attempt <= failures:
        raise ValueError(f"failed in attempt {attempt}")
