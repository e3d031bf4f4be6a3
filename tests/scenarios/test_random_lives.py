"""Random programs under random crashes, broken connections and pauses come to their right end.

Each seed makes workflows of nested sequences and parallel parts, of steps that fail a few
times, sleeps, children, waits and events, and a life for the engine under them. In the end
every run has completed with the output that its program must have, each step is recorded
once, and where only the engine died no step was executed twice.
"""

import asyncio
import random
from collections import Counter

import pytest

from duraton import RetryConfig, define_workflow
from duraton.testing import Engine, RefusedError

SEEDS = 30


class Programs:
    """Makes random programs, executes them, and knows what they must give."""

    def __init__(self, chance):
        self.chance = chance
        self.number = 0
        self.failed = Counter()
        self.engine = None

    def make(self, depth):
        chance = self.chance
        self.number += 1
        name = f"n{self.number}"
        draw = chance.random()
        if depth and draw < 0.3:
            return ["seq", [self.make(depth - 1) for _ in range(chance.randint(1, 4))]]
        if depth and draw < 0.5:
            return ["par", [self.make(depth - 1) for _ in range(chance.randint(1, 3))]]
        if depth and draw < 0.58:
            return ["child", name, self.make(depth - 1)]
        if draw < 0.75:
            return ["run", name, chance.choice([0, 0, 1, 2]), chance.choice([0, 0, 1, 3])]
        if draw < 0.83:
            return ["sleep", name, chance.choice([0, 1, 5])]
        if draw < 0.92:
            return ["wait", name, chance.randint(0, 2), chance.choice([1, 4, 20])]
        return ["send", name, chance.randint(0, 2)]

    async def handle(self, ctx):
        return await self.walk(ctx, ctx.event.data["program"])

    async def walk(self, ctx, program):
        kind, first, *rest = program
        if kind == "seq":
            return [await self.walk(ctx, part) for part in first]
        if kind == "par":
            return await asyncio.gather(*(self.walk(ctx, part) for part in first))
        if kind == "run":
            return await ctx.step.run(first, self.code, (ctx.run.id, first), *rest)
        if kind == "sleep":
            await ctx.step.sleep(first, rest[0] * 1000)
        elif kind == "child":
            return await ctx.step.invoke(first, "w", {"program": rest[0]})
        elif kind == "wait":
            match, seconds = {"k": rest[0]}, rest[1]
            await ctx.step.wait_for_event(first, "go", match=match, timeout=seconds * 1000)
        else:
            await ctx.step.send_event(first, "go", {"k": rest[0]})
        return first

    async def code(self, key, failures, seconds):
        self.failed[key] += 1
        if seconds:
            await self.engine.clock.sleep(seconds)
        if self.failed[key] <= failures:
            raise ValueError("not yet")
        return key[1]

    def result(self, program):
        kind, first, *rest = program
        if kind in ("seq", "par"):
            return [self.result(part) for part in first]
        return self.result(rest[0]) if kind == "child" else first


async def live(engine, chance, programs, runs):
    """Some random things happen; whether the runner's process lived through it."""
    lived = True
    for _ in range(chance.randint(3, 14)):
        draw = chance.random()
        if draw < 0.4:
            program = programs.make(3)
            [answer] = await engine.send("w", {"program": program})
            runs[answer.run_id] = program
        elif draw < 0.5:
            await engine.crash(down=chance.choice([None, "1s", "7s"]))
        elif draw < 0.56:
            lived = False
            await engine.crash(runner=True, down=chance.choice([None, "2s"]))
        elif draw < 0.62 and engine.host.runner is not None:
            engine.host.connect()
        elif draw < 0.72 and runs:
            try:
                await engine.act(chance.choice(list(runs)), chance.choice(["pause", "resume"]))
            except RefusedError:
                continue
        elif draw < 0.78:
            for _ in range(chance.randint(1, 30)):
                engine.host.turn()
                await asyncio.sleep(0)
        else:
            await engine.advance(chance.choice([0, 1, 300, 1000, 2500]))
    return lived


@pytest.mark.parametrize("seed", range(SEEDS))
async def test_random_programs_come_to_their_end(seed):
    chance = random.Random(seed)
    programs = Programs(chance)
    transport = chance.choice(["connect", "serve"])
    parts = {
        "transport": transport,
        "partitions": chance.choice([1, 3, 12]),
        "log": chance.choice(["memory", "memory", "sqlite"]),
        "capacity": chance.choice([1, 2, 1000]),
    }
    retry = RetryConfig(6, initial_delay_ms=500)
    async with Engine(define_workflow("w", programs.handle, retry=retry), **parts) as engine:
        programs.engine = engine
        runs = {}
        lived = await live(engine, chance, programs, runs)
        await engine.advance("5m")
        for run in await engine.runs(status="paused"):
            await engine.act(run.id, "resume")
        await engine.advance("1h")
        for run, program in runs.items():
            shown = await engine.run(run)
            assert (shown.status, shown.output) == ("completed", programs.result(program))
        for run in await engine.runs():
            facts = [f for f in engine.facts(run.id) if type(f).__name__ == "StepCompleted"]
            assert len({(fact.step, fact.n) for fact in facts}) == len(facts)
            assert run.status == "completed"
        if lived and transport == "connect":
            again = Counter((run, step, attempt) for run, step, attempt, _ in engine.executions)
            assert [each for each, count in again.items() if count > 1] == []
