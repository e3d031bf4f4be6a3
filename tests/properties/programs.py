"""Small programs that between them use every kind of step, for crash points and the like.

Each is a set of workflows and a script. Scripts use a `Drive`, whose sends and acts
are repeated until the engine has taken them, as a careful caller would do.
"""

import asyncio

from duraton import CronConfig, NonRetriableError, RetryConfig, define_workflow
from duraton.context import current_step

FAST = RetryConfig(max_attempts=3, backoff="fixed", initial_delay_ms=1_000)


class Fails:
    """Step code that fails in some of its attempts, by the attempt's number."""

    def __init__(self, *attempts, error=ValueError):
        self.attempts = attempts
        self.error = error

    def __call__(self, ctx, step, answer, attempt):
        if attempt in self.attempts:
            raise self.error(f"{step} fails in attempt {attempt}")
        return answer


def flaky(answer, failing, error=ValueError):
    """Code of a step that fails in its first attempts; which one it is, the caller counts."""
    from duraton.runtime.code import current_step_var

    async def code():
        attempt = current_step_var.get().attempt
        if attempt <= failing:
            raise error(f"attempt {attempt}")
        return answer

    return code


async def two_steps(ctx):
    a = await ctx.step.run("a", flaky(1, 0))
    b = await ctx.step.run("b", flaky(2, 0))
    return a + b


async def retried(ctx):
    a = await ctx.step.run("a", flaky(1, 2), retry=FAST)
    return a + await ctx.step.run("b", flaky(2, 1), retry=FAST)


async def failing(ctx):
    await ctx.step.run("a", flaky(1, 0))
    await ctx.step.run("b", flaky(2, 99), retry=FAST)


async def cleanup(ctx):
    await ctx.step.run("undo", flaky("undone", 1), retry=FAST)
    return ctx.error.message


async def final(ctx):
    await ctx.step.run("a", flaky(1, 99, NonRetriableError), retry=FAST)


async def throwing(ctx):
    a = await ctx.step.run("a", flaky(1, 0))
    if ctx.attempt < 3:
        raise RuntimeError(f"attempt {ctx.attempt}")
    return a


async def sleeper(ctx):
    await ctx.step.run("a", flaky(1, 0))
    await ctx.step.sleep("rest", "10s")
    await ctx.step.run("b", flaky(2, 0))
    await ctx.step.sleep("more", "0s")
    return "rested"


async def awaiting(ctx):
    n = ctx.event.data["n"]
    got = await ctx.step.wait_for_event("paid", "paid", match={"n": n}, timeout="60s")
    none = await ctx.step.wait_for_event("never", "never", timeout="5s")
    await ctx.step.run("b", flaky(2, 0))
    return [None if got is None else got.data, none]


async def parent(ctx):
    first = await ctx.step.invoke("first", "child", {"n": 1})
    try:
        second = await ctx.step.invoke("second", "unlucky", {"n": 2}, retry=FAST)
    except Exception:
        raise
    return [first, second]


async def child(ctx):
    n = await ctx.step.run("n", flaky(ctx.event.data["n"], 0))
    await ctx.step.sleep("rest", "2s")
    return n * 10


async def unlucky(ctx):
    await ctx.step.run("n", flaky(1, 99))


async def parallel(ctx):
    async def branch(n):
        got = await ctx.step.run(f"s{n}", flaky(n, n % 2), retry=FAST)
        await ctx.step.sleep(f"rest{n}", n * 1_000)
        return got + await ctx.step.run(f"t{n}", flaky(n, 0))

    return await asyncio.gather(*(branch(n) for n in range(3)))


async def racing(ctx):
    fast = asyncio.ensure_future(ctx.step.sleep("fast", "1s"))
    slow = asyncio.ensure_future(ctx.step.wait_for_event("slow", "paid", timeout="9s"))
    done, _ = await asyncio.wait({fast, slow}, return_when=asyncio.FIRST_COMPLETED)
    await ctx.step.run("after", flaky(1, 0))
    return len(done)


async def teller(ctx):
    await ctx.step.run("a", flaky(1, 0))
    await ctx.step.send_event("tell", "told", {"by": ctx.event.data["n"]})
    return "said"


async def told(ctx):
    return await ctx.step.run("hear", flaky(ctx.event.data["by"], 0))


async def ticking(ctx):
    return await ctx.step.run("tick", flaky("tock", 0))


async def capped(ctx):
    """Each call costs 400 tokens, the first one twice; the third is halted at 1,200."""

    def call(failing):
        def parse(_answer):
            if current_step().attempt <= failing:
                raise ValueError("no JSON")
            return "parsed"

        return {"usage": {"prompt_tokens": 300, "completion_tokens": 100}, "model": "m"}, parse

    for step, failing in (("a", 1), ("b", 0), ("c", 0)):
        answer, parse = call(failing)
        await ctx.step.ai.wrap(step, flaky(answer, 0), parse=parse, retry=FAST)


async def one(drive, name, count=1, time="120s"):
    for n in range(count):
        await drive.send(name, {"n": n})
    await drive.advance(time)


async def run_one(drive):
    await one(drive, "two_steps", 2, "1s")


async def run_retried(drive):
    await one(drive, "retried", 2, "20s")


async def run_failing(drive):
    await one(drive, "failing", 1, "20s")


async def run_final(drive):
    await one(drive, "final", 1, "5s")


async def run_throwing(drive):
    await one(drive, "throwing", 1, "30s")


async def run_sleeper(drive):
    await one(drive, "sleeper", 2, "15s")


async def run_awaiting(drive):
    await drive.send("awaiting", {"n": 1})
    await drive.send("awaiting", {"n": 2})
    await drive.advance("3s")
    await drive.send("paid", {"n": 1})
    await drive.advance("30s")
    await drive.send("paid", {"n": 1, "late": True})
    await drive.advance("60s")


async def run_parent(drive):
    await one(drive, "parent", 1, "60s")


async def run_parallel(drive):
    await one(drive, "parallel", 1, "30s")


async def run_racing(drive):
    await one(drive, "racing", 1, "30s")


async def run_teller(drive):
    await one(drive, "teller", 2, "5s")


async def run_capped(drive):
    await one(drive, "capped", 1, "10s")


async def run_dedupe(drive):
    for n in range(3):
        await drive.send("two_steps", {"n": n % 2}, dedupe=f"same{n % 2}")
    await drive.advance("5s")


async def run_cron(drive):
    await drive.advance("190s")


async def run_acts(drive):
    await drive.send("sleeper", {"n": 0})
    await drive.send("sleeper", {"n": 1})
    await drive.send("parent", {"n": 2})
    await drive.advance("1s")
    await drive.act("sleeper", 0, "pause")
    await drive.act("sleeper", 1, "cancel")
    await drive.act("parent", 2, "cancel")
    await drive.advance("20s")
    await drive.act("sleeper", 0, "resume")
    await drive.advance("5s")


async def run_many(drive):
    await drive.send_many([("two_steps", {"n": n}) for n in range(4)] + [("teller", {"n": 9})])
    await drive.advance("5s")


async def run_replays(drive):
    await drive.send("failing", {"n": 0})
    await drive.send("parallel", {"n": 1})
    await drive.advance("10s")
    await drive.replay("failing", 0, "whole")
    await drive.replay("failing", 0, "whole")
    await drive.advance("10s")
    await drive.replay("failing", 0, "second", step="b")
    await drive.replay("parallel", 1, "middle", step="s1")
    # What a caller carried who died before the act is swept after ten minutes.
    await drive.advance("11m")


async def run_bulk(drive):
    for n in range(3):
        await drive.send("final", {"n": n})
        await drive.send("failing", {"n": n})
    await drive.advance("10s")
    await drive.bulk("replay", status="failed")
    await drive.send("sleeper", {"n": 0})
    await drive.send("awaiting", {"n": 1})
    await drive.send("awaiting", {"n": 2})
    await drive.advance("10s")
    await drive.bulk("cancel", status="waiting")
    await drive.advance("11m")


WORKFLOWS = (
    define_workflow("two_steps", two_steps),
    define_workflow("retried", retried),
    define_workflow("failing", failing, on_failure=cleanup),
    define_workflow("final", final),
    define_workflow("throwing", throwing, retry=FAST),
    define_workflow("sleeper", sleeper),
    define_workflow("awaiting", awaiting),
    define_workflow("parent", parent),
    define_workflow("child", child),
    define_workflow("unlucky", unlucky),
    define_workflow("parallel", parallel),
    define_workflow("racing", racing),
    define_workflow("teller", teller),
    define_workflow("told", told),
    define_workflow("capped", capped, cap={"maxTokens": 1_200}),
)
TICKING = (define_workflow("ticking", ticking, cron=CronConfig("* * * * *", "UTC")),)

PROGRAMS = {
    "one": (WORKFLOWS, run_one),
    "retried": (WORKFLOWS, run_retried),
    "failing": (WORKFLOWS, run_failing),
    "final": (WORKFLOWS, run_final),
    "throwing": (WORKFLOWS, run_throwing),
    "sleeper": (WORKFLOWS, run_sleeper),
    "awaiting": (WORKFLOWS, run_awaiting),
    "parent": (WORKFLOWS, run_parent),
    "parallel": (WORKFLOWS, run_parallel),
    "racing": (WORKFLOWS, run_racing),
    "teller": (WORKFLOWS, run_teller),
    "capped": (WORKFLOWS, run_capped),
    "dedupe": (WORKFLOWS, run_dedupe),
    "cron": (TICKING, run_cron),
    "acts": (WORKFLOWS, run_acts),
    "many": (WORKFLOWS, run_many),
    "replays": (WORKFLOWS, run_replays),
    "bulk": (WORKFLOWS, run_bulk),
}
