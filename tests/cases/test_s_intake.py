"""Section S of the cases: event intake from Kafka or any source that delivers at least once.

Here the events stand on the log itself. What needs a real broker is in tests/scenarios and
in the tests of the Kafka log, and so is 216's rebalance of a consumer group, which nothing
depends on here.
"""

import json

import pytest
from case_tools import Flaky, one_step, send, status
from flow_tools import advance_to, given, send_each, working

from duraton import BatchConfig, DebounceConfig, IdempotencyConfig, define_workflow
from duraton_engine.state import tables
from duraton_schemas.codec import Codec
from duraton_schemas.records.public import Event
from duraton_streams.errors import DoubtError, FencedError
from duraton_streams.logs.base import DEAD_LETTERS, EVENTS, NewRecord


def produce(engine, *values, partition=0):
    """Write records straight to `duraton.events`, as a producer of anybody's does."""
    records = [NewRecord(EVENTS, partition, value, None, (), 0) for value in values]
    return engine.core.log.append(records)


def event(n, dedupe_id=None):
    given = {"name": "w", "data": {"n": n}}
    if dedupe_id is not None:
        given["dedupeId"] = dedupe_id
    return json.dumps(given).encode()


async def inputs(engine):
    """The events that started runs, oldest first."""
    runs = list(reversed(await engine.runs()))
    return [(await engine.run(run.id)).trigger.data["n"] for run in runs]


async def test_case_213_redelivery_after_a_rebalance(duraton):
    async with duraton(one_step(Flaky(0))) as engine:
        produce(engine, *(event(n, f"orders/0/{n}") for n in range(3)))
        await engine.settle()
        await engine.crash()
        produce(engine, *(event(n, f"orders/0/{n}") for n in range(5)))
        await engine.settle()
        assert await inputs(engine) == [0, 1, 2, 3, 4]


async def test_case_215_commit_only_what_is_recorded(duraton):
    failures = []

    def faults(where, partition, records):
        if (
            where == "before_commit"
            and len(failures) < 3
            and any(b'"n":17' in (record.value or b"") for record in records)
        ):
            failures.append(where)
            raise DoubtError("not now")

    async with duraton(one_step(Flaky(0)), faults=faults) as engine:
        produce(engine, *(event(n) for n in range(20)))
        await engine.settle()
        assert len(failures) == 3
        assert await inputs(engine) == list(range(20))
        processor = engine.core.processors[0]
        assert processor.next_of(EVENTS) == engine.core.log.bounds(EVENTS, 0)[1]


async def test_case_216_slow_work_does_not_hold_up_the_intake(duraton):
    async def handle(ctx):
        await ctx.step.run("work", engine.clock.sleep, 900)

    async with duraton(define_workflow("w", handle)) as engine:
        for n in range(10):
            produce(engine, event(n))
            await engine.advance("10s")
            assert len(engine.started) == n + 1
        await engine.advance("15m")
        assert [run.status for run in await engine.runs()] == ["completed"] * 10
        assert len(engine.executions) == 10


async def test_case_217_a_zombie_owner(duraton):
    async with duraton(one_step(Flaky(0))) as engine:
        zombie = engine.core.processors[0]
        produce(engine, *(event(n) for n in range(50)))
        batch = zombie.prepare()  # 50 handled, not committed, when it froze
        engine.core.log.writer(0)  # another owner took its partition
        with pytest.raises(FencedError):
            zombie.commit(batch)  # it thaws
        await engine.crash()
        await engine.settle()
        assert await inputs(engine) == list(range(50))


async def test_case_218_a_poison_record(duraton):
    async with duraton(one_step(Flaky(0))) as engine:
        bad = [
            b"{not json",
            None,
            b'{"name":"w","data":[1]}',
            b'{"name":"","data":{}}',
            b'{"name":"w","data":{},"unknown":1}',
            b'{"name":"w","data":{"x":"' + b"x" * (2 << 20) + b'"}}',
            b"\x00\x00\x00\x00\x63nothing of ours",
        ]
        for n, value in enumerate(bad):
            produce(engine, event(n), value)
        produce(engine, event(len(bad)))
        await engine.settle()
        assert await inputs(engine) == list(range(len(bad) + 1))
        letters = engine.core.log.read(DEAD_LETTERS, 0, 0, 100)
        assert [letter.value for letter in letters] == bad
        places = []
        for letter in letters:
            headers = dict(letter.headers)
            assert headers["duraton_topic"] == EVENTS.encode()
            assert headers["duraton_partition"] == b"0"
            assert headers["duraton_code"]
            assert headers["duraton_reason"]
            places.append(int(headers["duraton_offset"]))
        assert places == [2 * n + 1 for n in range(len(bad))]
        run = await send(engine, "w", {"n": 99})
        await engine.settle()
        assert await status(engine, run) == "completed"


async def test_case_219_time_passes_without_records(engine_of):
    workflows = [
        working(name="batched", triggers=["w"], batch=BatchConfig(100, "5s")),
        working(name="debounced", triggers=["w"], debounce=DebounceConfig("5s")),
    ]
    async with engine_of(*workflows) as engine:
        produce(engine, event(1))
        await engine.advance("1h")
        assert await given(engine, "batched") == [(5, [{"n": 1}])]
        assert await given(engine, "debounced") == [(5, [{"n": 1}])]


async def test_case_219_also_for_a_sleeping_run(duraton):
    async def handle(ctx):
        await ctx.step.sleep("nap", "5s")
        await ctx.step.run("after", lambda: None)

    async with duraton(define_workflow("w", handle)) as engine:
        produce(engine, event(1))
        await engine.advance("1h")
        assert [at for _, step, _, at in engine.executions if step == "after"] == [5]


async def test_case_220_expiry_is_rebuilt_after_recovery(engine_of):
    workflow = working(idempotency=IdempotencyConfig("n", "60s"))
    async with engine_of(workflow) as engine:
        # What the workflow itself keeps is there after its first event.
        await send_each(engine, [{"n": "first"}])
        await engine.advance("1h")
        before, base = rows(engine), engine.clock.now()
        answers = await send_each(engine, [{"n": n} for n in range(1_000)])
        assert not any(answer.deduped for answer in answers)
        await engine.advance("30s")
        await engine.crash(runner=True)
        assert rows(engine) >= before + 1_000
        early = await send_each(engine, [{"n": n} for n in range(1_000)])
        assert all(answer.deduped for answer in early)
        await advance_to(engine, base + 59.999)
        last = await send_each(engine, [{"n": n} for n in range(0, 1_000, 100)])
        assert all(answer.deduped for answer in last)
        await advance_to(engine, base + 60)
        free = await send_each(engine, [{"n": n} for n in range(0, 1_000, 100)])
        assert not any(answer.deduped for answer in free)
        assert len(engine.started) == 1_011
        await engine.advance("1h")
        assert rows(engine) == before, "expired keys are swept"


def rows(engine):
    """How much state the engine keeps, in rows of all tables and partitions."""
    return sum(
        len(processor.state.scan(table, (), 100_000))
        for processor in engine.core.processors
        for table in tables.TABLES
    )


async def test_case_220_also_of_dedupe_ids(duraton):
    async with duraton(one_step(Flaky(0), triggers=["other"])) as engine:
        produce(engine, *(event(n, f"id-{n}") for n in range(1_000)))
        await engine.advance("12h")
        await engine.crash()
        assert claims(engine) == 1_000
        await engine.advance("11h")
        produce(engine, event(1, "id-1"))
        await engine.settle()
        assert len(await engine.events()) == 1_000
        repeat = await engine.event(f"{EVENTS}/0/1000")
        assert repeat.duplicate_of == f"{EVENTS}/0/1"
        await engine.advance("61m")
        assert claims(engine) == 0
        produce(engine, event(1, "id-1"))
        await engine.settle()
        assert claims(engine) == 1


def claims(engine):
    state = engine.core.processors[0].state
    return len(state.scan(tables.CLAIMS, (), 10_000))


async def test_records_of_every_form_start_runs(duraton):
    async with duraton(one_step(Flaky(0))) as engine:
        avro = Codec().encode(Event(id="e1", name="w", data='{"n":1}', ts=5))
        cloud = NewRecord(
            EVENTS,
            0,
            b'{"n":3}',
            None,
            (("ce_type", b"w"), ("ce_id", b"e3"), ("ce_source", b"shop"), ("ce_subject", b"s")),
            7,
        )
        produce(engine, avro, event(2))
        engine.core.log.append([cloud])
        await engine.settle()
        assert await inputs(engine) == [1, 2, 3]
