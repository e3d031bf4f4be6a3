"""What the cases of flow control need: runs that take virtual time, and what became of them."""

import dataclasses
import json
from datetime import datetime

import msgspec

from duraton import NonRetriableError, define_workflow
from duraton_schemas.slots import home_slot, partition_of
from duraton_streams.logs.base import EVENTS, NewRecord

TICK = 0.002
"""Seconds: a start that another slot has to allow comes this late at the latest."""


class Clock:
    """The clock of the engine that a test made last.

    Workflows are defined before their engine is there, so their code asks for it here.
    """

    engine = None

    async def sleep(self, seconds):
        await self.engine.clock.sleep(seconds)


CLOCK = Clock()


# Code of runs ---------------------------------------------------------------------


async def pause(seconds):
    """Step code that takes so many seconds."""
    if seconds:
        await CLOCK.sleep(seconds)


class Load:
    """Step code that counts how many of it are executed at once, as it sees it itself."""

    def __init__(self):
        self.now = self.most = 0

    async def __call__(self, seconds):
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            await pause(seconds)
        finally:
            self.now -= 1


def working(seconds=0, name="w", step="work", code=pause, **options):
    """A workflow of one step that takes so long, or as long as its event's `s` says.

    With `fail` in the event the run fails after it. A run gives back the data of all of
    its events, as its handler saw them.
    """

    async def handle(ctx):
        data = ctx.event.data or {}
        await ctx.step.run(step, code, data.get("s", seconds))
        if data.get("fail"):
            raise NonRetriableError("the event says so")
        return [event.data for event in ctx.events]

    return define_workflow(name, handle, **options)


def scripted(name="w", **options):
    """A workflow whose event's `do` says what its run does.

    For example `[["work", 1], ["sleep", 10], ["ai", 400], ["wait", "go"], ["fail", 0]]`:
    work and sleep in seconds, a model's call in tokens. Steps are named by kind and
    place: `work-1`, `sleep-2`, `ai-3`.
    """

    async def handle(ctx):
        for place, (kind, what) in enumerate(ctx.event.data["do"], 1):
            step = f"{kind}-{place}"
            if kind == "work":
                await ctx.step.run(step, pause, what)
            elif kind == "sleep":
                await ctx.step.sleep(step, round(what * 1000))
            elif kind == "wait":
                await ctx.step.wait_for_event(step, what)
            elif kind == "ai":
                await ctx.step.ai.wrap(step, call_model, what)
            else:
                await ctx.step.run(step, fail, what)

    return define_workflow(name, handle, **options)


async def call_model(tokens):
    """A model's answer that used so many tokens."""
    return {"usage": {"prompt_tokens": tokens, "completion_tokens": 0}}


async def fail(message):
    raise ValueError(message)


# What is sent ---------------------------------------------------------------------


async def advance_to(engine, seconds):
    """Let time pass up to so many seconds since the start."""
    await engine.advance(round(seconds * 1000) - round(engine.clock.now() * 1000))


async def send_at(engine, *moments, name="w"):
    """Send an event at each `(seconds, data)`; the answers of the one workflow, in order."""
    answers = []
    for seconds, data in moments:
        await advance_to(engine, seconds)
        [answer] = await engine.send(name, data)
        answers.append(answer)
    return answers


async def send_each(engine, datas, name="w"):
    """Send events in one POST; the answers of the one workflow, in order."""
    answers = await engine.send_many([(name, data) for data in datas])
    return [answer for [answer] in answers]


def produce(engine, *events, partition=0):
    """Write events as JSON straight to `duraton.events`, as anybody's producer does."""
    records = [
        NewRecord(EVENTS, partition, json.dumps(event).encode(), None, (), 0) for event in events
    ]
    engine.core.log.append(records)


def unchecked(workflow, **options):
    """A workflow with options that this SDK would refuse, as another's might send them."""
    changed = msgspec.structs.replace(workflow.options, **options)
    return dataclasses.replace(workflow, options=changed)


# What became of it ----------------------------------------------------------------


def starts(engine, workflow="w"):
    """When runs of a workflow first started, in seconds."""
    return [at for name, _, at in engine.started if name == workflow]


async def began(engine, workflow="w", field="n"):
    """(seconds, a field of its event) of each first start."""
    found = [(run, at) for name, run, at in engine.started if name == workflow]
    return [(at, (await engine.run(run)).trigger.data[field]) for run, at in found]


async def given(engine, workflow="w"):
    """(seconds, the data of all its events) of each first start; the runs have completed."""
    found = [(run, at) for name, run, at in engine.started if name == workflow]
    return [(at, (await engine.run(run)).output) for run, at in found]


async def statuses(engine, *runs):
    return [(await engine.run(run)).status for run in runs]


async def in_use(engine):
    """How many runs execute, as flow-state shows it."""
    return (await engine.flow_state())["concurrency"]["inUse"]


async def window(engine, workflow="w"):
    """The workflow's row of debounce windows in flow-state, or None."""
    rows = (await engine.flow_state(workflow))["debounce"]
    assert len(rows) <= 1, "one row a workflow (P47)"
    return rows[0] if rows else None


async def buffer(engine, workflow="w"):
    """The workflow's row of batch buffers in flow-state, or None."""
    rows = (await engine.flow_state(workflow))["batch"]
    assert len(rows) <= 1, "one row a workflow (P47)"
    return rows[0] if rows else None


def seconds_of(engine, moment):
    """A moment as the API shows it, in seconds since the start."""
    assert moment.endswith("Z")
    at = datetime.fromisoformat(moment).timestamp()
    return round(at * 1000 - engine.clock.start_ms) / 1000


def assert_at(found, wanted):
    """Each time is not before the wanted one, and within a tick after it."""
    assert len(found) == len(wanted), f"{found} is not {wanted}"
    late = [round(at - due, 6) for at, due in zip(found, wanted, strict=True)]
    assert all(0 <= each <= TICK for each in late), f"{found} is not {wanted}"


# What is broken -------------------------------------------------------------------


class Stalled:
    """The home of a workflow does nothing for a while, as a process that gets no turn.

    Attributes:
        other: A partition that goes on.
    """

    def __init__(self, engine, workflow, app="test"):
        partitions = engine.core.log.partitions
        own = partition_of(home_slot(app, workflow), partitions)
        self.other = (own + 1) % partitions
        self._processor = engine.core.processors[own]
        self._processor.turn = lambda: False
        self._processor.next_due = lambda: None

    def end(self):
        del self._processor.turn, self._processor.next_due
