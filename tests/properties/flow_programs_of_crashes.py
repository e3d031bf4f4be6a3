"""Small programs that between them use every control, for the crash points."""

import asyncio

from programs import FAST, flaky

from duraton import define_workflow


async def work(ctx):
    await ctx.step.run("a", flaky(1, 0))
    await ctx.step.sleep("rest", "3s")
    return await ctx.step.run("b", flaky(2, 1), retry=FAST)


async def forever():
    await asyncio.Event().wait()


async def until_stopped(ctx):
    """Works for as long as nobody stops it, save for the last of them."""
    if not ctx.event.data.get("last"):
        await ctx.step.run("hang", forever)
    return await ctx.step.run("a", flaky(1, 1), retry=FAST)


async def gather(ctx):
    return await ctx.step.run("all", flaky(len(ctx.events), 0))


async def caller(ctx):
    return await ctx.step.invoke("call", "joining", {"k": 1})


async def asking(ctx):
    for n in range(3):
        usage = {"usage": {"prompt_tokens": 300, "completion_tokens": 100}, "model": "m"}
        await ctx.step.ai.wrap(f"ask{n}", flaky(usage, 0))
        await ctx.step.sleep(f"rest{n}", "4s")


TEAM = {"group": "team", "max": 1}
FLOWS = (
    define_workflow(
        "limited",
        work,
        concurrency={"limit": 1, "key": "k"},
        throttle={"limit": 1, "perMs": 2_000},
        priority={"shiftMs": 500},
    ),
    define_workflow("burst", gather, debounce={"periodMs": 4_000, "key": "k"}),
    define_workflow("held", work, debounce={"periodMs": 1_000, "key": "k"}, singleton={"key": "k"}),
    define_workflow("gathered", gather, batch={"maxSize": 2, "timeoutMs": 5_000}),
    define_workflow(
        "once",
        work,
        idempotency={"key": "o", "periodMs": 20_000},
        rate_limit={"limit": 2, "perMs": 30_000},
        singleton={"key": "k"},
    ),
    define_workflow("newest", until_stopped, singleton={"key": "k", "mode": "cancel"}),
    define_workflow("stopping", until_stopped, together={"max": 1, "then": "stop"}),
    define_workflow("joining", work, key="k", together={"then": "join"}),
    define_workflow("calling", caller),
    define_workflow("crew", work, key="k", together={**TEAM, "then": "wait"}),
    define_workflow("guests", work, key="k", together={**TEAM, "then": "refuse"}),
    define_workflow("bosses", until_stopped, key="k", together={**TEAM, "then": "stop"}),
    define_workflow(
        "spending",
        asking,
        budget={"maxTokens": 1_000, "windowMs": 30_000, "warnAtPct": 50},
        token_throttle={"tokens": 500, "perMs": 60_000},
    ),
)


async def run_limited(drive):
    for n in range(3):
        await drive.send("limited", {"n": n, "k": n % 2})
    await drive.advance("40s")


async def run_burst(drive):
    await drive.send("burst", {"n": 0, "k": 1})
    await drive.advance("2s")
    await drive.send("burst", {"n": 1, "k": 1})
    await drive.send("burst", {"n": 2, "k": 2})
    await drive.advance("10s")


async def run_held(drive):
    await drive.send("held", {"n": 0, "k": 1})
    await drive.advance("1500ms")
    await drive.send("held", {"n": 1, "k": 1})
    await drive.advance("1500ms")
    await drive.send("held", {"n": 2, "k": 1})
    await drive.advance("30s")


async def run_gathered(drive):
    for n in range(5):
        await drive.send("gathered", {"n": n})
    await drive.advance("10s")


async def run_once(drive):
    for n, (order, key) in enumerate([(1, 1), (1, 1), (2, 1), (3, 2), (4, 3)]):
        await drive.send("once", {"n": n, "o": order, "k": key})
    await drive.advance("70s")
    await drive.send("once", {"n": 9, "o": 1, "k": 1})
    await drive.advance("70s")


async def run_replaced(drive):
    for n in range(3):
        await drive.send("newest", {"n": n, "k": 1, "last": n == 2})
        await drive.send("stopping", {"n": n, "last": n == 2})
    await drive.advance("20s")


async def run_joined(drive):
    await drive.send("joining", {"n": 0, "k": 1})
    await drive.send("joining", {"n": 1, "k": 1})
    await drive.send("calling", {"n": 2})
    await drive.advance("20s")


async def run_group(drive):
    await drive.send("crew", {"n": 0, "k": 1})
    await drive.advance("1ms")  # if its runner has died, another has it by then: it is counted
    await drive.send("guests", {"n": 1, "k": 1})
    await drive.send("guests", {"n": 2, "k": 2})
    await drive.send("bosses", {"n": 3, "k": 3})
    await drive.advance("1ms")  # if its connection was lost, it hangs by then, and can be stopped
    await drive.send("bosses", {"n": 4, "k": 3, "last": True})
    await drive.advance("30s")


async def run_ceiling(drive):
    await drive.ceiling(1)
    for n in range(3):
        await drive.send("limited" if n == 1 else "crew", {"n": n, "k": n})
    await drive.advance("2s")
    await drive.ceiling(2)
    await drive.advance("20s")
    await drive.ceiling(0)
    await drive.advance("20s")


async def run_spending(drive):
    await drive.send("spending", {"n": 0})
    await drive.send("spending", {"n": 1})
    await drive.advance("5m")


FLOW_PROGRAMS = {
    "limited": (FLOWS, run_limited),
    "burst": (FLOWS, run_burst),
    "held": (FLOWS, run_held),
    "gathered": (FLOWS, run_gathered),
    "once": (FLOWS, run_once),
    "replaced": (FLOWS, run_replaced),
    "joined": (FLOWS, run_joined),
    "group": (FLOWS, run_group),
    "ceiling": (FLOWS, run_ceiling),
    "spending": (FLOWS, run_spending),
}
