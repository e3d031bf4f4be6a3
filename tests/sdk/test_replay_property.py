"""Random programs of nested gather, wait_for, task groups and races replay alike.

What a program calls next depends on the order in which its branches went on, so a
replay that gave two results in another order, or a second one too early, would call
other steps.
"""

import asyncio
import random

import pytest
import uvloop
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted_engine import ScriptedEngine

from duraton import App, StepContext, define_workflow

LOOPS = [asyncio.new_event_loop, uvloop.new_event_loop]


def programs():
    leaf = st.sampled_from(["run", "run", "sleep", "code"])
    return st.recursive(
        leaf,
        lambda inner: st.tuples(
            st.sampled_from(["seq", "gather", "group", "race", "wait_for", "left"]),
            st.lists(inner, min_size=1, max_size=3),
        ),
        max_leaves=9,
    )


class Program:
    """Interprets a program as a handler whose steps are named by what went before."""

    def __init__(self, tree):
        self.tree = tree

    async def __call__(self, ctx: StepContext):
        trace = []
        await self.go(ctx, self.tree, "r", trace)
        await ctx.step.run("last", self.code)
        return trace

    async def go(self, ctx, tree, path, trace):
        if tree == "run":
            trace.append(await ctx.step.run(f"{path}.{len(trace)}", self.code))
        elif tree == "code":
            trace.append(await ctx.step.run("same", self.code))
        elif tree == "sleep":
            await ctx.step.sleep(f"{path}.{len(trace)}", 1000)
            trace.append("slept")
        else:
            await self.nested(ctx, tree, path, trace)
        trace.append(path)

    async def nested(self, ctx, tree, path, trace):
        kind, inner = tree
        parts = [(ctx, each, f"{path}{n}", trace) for n, each in enumerate(inner)]
        if kind == "seq":
            for part in parts:
                await self.go(*part)
        elif kind == "gather":
            await asyncio.gather(*(self.go(*part) for part in parts))
        elif kind == "group":
            async with asyncio.TaskGroup() as group:
                for part in parts:
                    group.create_task(self.go(*part))
        elif kind == "wait_for":
            for part in parts:
                await asyncio.wait_for(self.go(*part), 1000)
        else:
            tasks = [asyncio.ensure_future(self.go(*part)) for part in parts]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            trace.append([n for n, task in enumerate(tasks) if task.done()])
            if kind == "race":
                for task in tasks:
                    task.cancel()

    async def code(self):
        return 1


async def live(engine, run, rng, crashes):
    """Commit what a program asks for in a random order, some of it at once."""
    for _ in range(2_000):
        await engine.settle()
        if run.status not in ("running", "waiting"):
            return
        if crashes and rng.random() < 0.25:
            crashes -= 1
            engine.restart_runner()
            engine.invoke(run)
            continue
        naps = [k for k, s in run.steps.items() if s.kind == "sleep" and not s.number]
        for _ in range(rng.choice([1, 1, 2, 3])):
            if engine.held and (not naps or rng.random() < 0.6):
                engine.held.insert(0, engine.held.pop(rng.randrange(len(engine.held))))
                engine.release()
            elif naps:
                step, n = naps.pop(rng.randrange(len(naps)))
                engine.wake(run, step, n=n)
    raise AssertionError(f"the program does not end: {run.status}")


async def replay(tree, seed, crashes):
    rng = random.Random(seed)
    app = App("shop", [define_workflow("work", Program(tree))])
    engine = ScriptedEngine(app, hold=lambda step: step.kind == "run")
    run = engine.start("work")
    await live(engine, run, rng, crashes)
    assert run.status == "completed", run.error
    output, results = run.output, run.results
    engine.restart_runner()
    engine.executed.clear()
    engine.sent.clear()
    run.output = None
    engine.invoke(run)
    await engine.settle()
    assert run.status == "completed", run.error
    assert run.output == output
    # A race's loser may be begun again; whatever had its result is not.
    assert run.results == results
    assert not [s for _, s, _ in engine.executed if s == "last"]
    engine.runner.close()


@pytest.mark.parametrize("new_loop", LOOPS)
@settings(max_examples=60, deadline=None)
@given(tree=programs(), seed=st.integers(0, 2**32), crashes=st.integers(0, 3))
def test_random_programs_replay_alike(new_loop, tree, seed, crashes):
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(replay(tree, seed, crashes))
