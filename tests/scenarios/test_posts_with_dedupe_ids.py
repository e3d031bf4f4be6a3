"""A POST of many events with dedupe ids: asked for side by side, recorded in order (P18)."""

import asyncio

import pytest

from duraton import define_workflow
from duraton_schemas.records import journal as facts


async def nothing(ctx):
    return ctx.event.data["n"]


def order(n, dedupe_id=None):
    event = {"name": "w", "data": {"n": n}}
    return event if dedupe_id is None else {**event, "dedupeId": dedupe_id}


def journal_of(engine, kind):
    core = engine.core
    found = []
    for partition in range(core.log.partitions):
        end = core.log.bounds("duraton.journal", partition)[1]
        for record in core.log.read("duraton.journal", partition, 0, 100_000, end=end):
            fact = core.codec.decode(record.value)
            if isinstance(fact, kind):
                found.append(fact)
    return found


@pytest.mark.parametrize("partitions", [1, 12])
async def test_repeats_in_a_post_are_dropped_and_the_rest_keeps_its_order(duraton, partitions):
    async with duraton(define_workflow("w", nothing), partitions=partitions) as engine:
        await engine.send("w", {"n": 0}, dedupe_id="old")
        events = [
            order(1, "a"),
            order(2),
            order(3, "old"),
            order(4, "b"),
            order(5, "a"),
            order(6),
            order(7, "c"),
        ]
        answers = await engine.send_many(events)
        assert [len(each) for each in answers] == [1, 1, 0, 1, 0, 1, 1]
        await engine.settle()
        started = [(await engine.run(run)).output for _, run, _ in engine.started]
        assert started == [0, 1, 2, 4, 6, 7]
        recorded = [fact.event_id for fact in journal_of(engine, facts.EventRecorded)]
        assert len(recorded) == len(set(recorded)) == 6


async def test_all_dedupe_ids_of_a_post_are_asked_for_before_any_answer(duraton):
    async with duraton(define_workflow("w", nothing), partitions=12) as engine:
        await engine.send_many([order(n, f"id-{n}") for n in range(50)])
        held = journal_of(engine, facts.EventHeld)
        assert len(held) == 50
        assert all(fact.asked for fact in held)
        first = min(fact.header.seq for fact in journal_of(engine, facts.EventRecorded))
        assert max(fact.header.seq for fact in held) < first


@pytest.mark.parametrize("runner", [False, True])
async def test_a_crash_between_the_answers_loses_none_of_the_post(duraton, runner):
    events = [order(n, f"id-{n}") for n in range(20)]
    async with duraton(define_workflow("w", nothing), partitions=12) as engine:
        sending = asyncio.ensure_future(engine.send_many(events))
        await engine.crash(runner=runner)
        with pytest.raises(ConnectionError):
            await sending
        answers = await engine.send_many(events)
        assert all(len(each) <= 1 for each in answers)
        await engine.settle()
        outputs = [(await engine.run(run.id)).output for run in await engine.runs()]
        assert sorted(outputs) == list(range(20))
