"""The workflow of the kill programs: three steps, each of which says in a file that it ran.

The file stands in KILL_LEDGER. Every line is one write to a file opened for appending, so
the lines of workers that follow each other stand in the order in which things happened,
and a killed process loses none of them. A line is one of

    x RUN STEP ATTEMPT MARK     the code of a step begins; MARK is of this execution alone
    a RUN STEP MARK             the handler was given the step's result, so it was acknowledged
    e RUN N                     the handler ends; N is the number in its event

A step gives back its MARK. So the journal says which execution was recorded.
"""

import asyncio
import itertools
import os
import secrets
import time

from duraton import App, RetryConfig, define_workflow
from duraton.context import StepContext, current_step

FLAKY_EVERY = 10
"""The second step of each tenth run fails at its first attempt."""
WORK_S_MAX = 0.2
"""The most that a step takes on the event loop, so that kills meet many half-way."""
THREAD_S = 0.005
"""What a step takes in a worker thread, of which there are few."""
SLEEPY_EVERY = 4
"""Each fourth run sleeps as well, and is the engine's to wake."""
SLEEP = "200ms"

_ledger = os.open(os.environ["KILL_LEDGER"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
_boot = secrets.token_hex(4)
_numbers = itertools.count()


def note(*fields: object) -> None:
    os.write(_ledger, (" ".join(map(str, fields)) + "\n").encode())


def begin() -> tuple[str, int]:
    info = current_step()
    mark = f"{_boot}.{next(_numbers)}"
    note("x", info.run, info.step, info.attempt, mark)
    return mark, info.attempt


def work_s(n: int, step: int) -> float:
    return (n * 7 + step * 13) % 20 / 20 * WORK_S_MAX


async def first(n: int) -> str:
    mark, _ = begin()
    await asyncio.sleep(work_s(n, 1))
    return mark


def second(n: int) -> str:
    mark, attempt = begin()
    time.sleep(THREAD_S)
    if n % FLAKY_EVERY == 0 and attempt == 1:
        raise RuntimeError(mark)
    return mark


async def third(n: int) -> str:
    mark, _ = begin()
    await asyncio.sleep(work_s(n, 3))
    return mark


async def handle(ctx: StepContext) -> object:
    n = ctx.event.data["n"]
    for step in (first, second, third):
        mark = await ctx.step.run(step.__name__, step, n)
        note("a", ctx.run.id, step.__name__, mark)
        if step is first and n % SLEEPY_EVERY == 0:
            await ctx.step.sleep("rest", SLEEP)
    note("e", ctx.run.id, n)
    return n


app = App(
    "kill",
    workflows=[
        define_workflow("kill.work", handle, retry=RetryConfig(max_attempts=3, initial_delay_ms=50))
    ],
)
