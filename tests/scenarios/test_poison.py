"""Inputs that outsiders can write and nobody can use: each is set apart, the next is served."""

import json

import pytest
from scenario_tools import shown, start

from duraton import App, define_workflow
from duraton.testing import Engine
from duraton_api.node.core import SYSTEM
from duraton_schemas.codec import Codec
from duraton_schemas.records.commands import RegisterApp
from duraton_schemas.records.journal import Positions
from duraton_schemas.records.public import Event
from duraton_streams.errors import RecordTooLargeError
from duraton_streams.logs.base import DEAD_LETTERS, EVENTS, JOURNAL, NewRecord
from duraton_streams.logs.limits import MAX_RECORD_BYTES
from duraton_streams.partition.settings import ProcessorSettings

MIB = 1 << 20


def event(**fields):
    given = {"id": "e", "name": "w", "data": "{}", "ts": 1} | fields
    return Codec().encode(Event(**given))


def nested(depth):
    return '{"a":' * depth + "1" + "}" * depth


RECORDS = {
    "json-nested": b'{"name":"w","data":' + nested(50_000).encode() + b"}",
    "json-nested-a-little": b'{"name":"w","data":' + nested(500).encode() + b"}",
    "avro-nested": event(data=nested(50_000)),
    "avro-nested-a-little": event(data=nested(500)),
    "ts-beyond": b'{"name":"w","ts":9223372036854775808}',
    "ts-negative": json.dumps({"name": "w", "ts": -(2**62)}).encode(),
    "long-id": event(id="i" * (5 * MIB)),
    "long-id-json": json.dumps({"name": "w", "id": "i" * (5 * MIB)}).encode(),
    "long-dedupe-id": event(dedupe_id="d" * (3 * MIB)),
    "long-subject": event(subject="s" * (6 * MIB)),
    "largest": b"x" * (MAX_RECORD_BYTES - 1),
    "unknown-field": json.dumps({"name": "w", "f" * (7 * MIB): 1}).encode(),
    "too-many-bytes": event(subject="s" * (7 * MIB + 10)),
}

HEADERS = {
    "registry-of-many-digits": ("duraton_registry", b"9" * 5_000),
    "registry-of-63-bits": ("duraton_registry", b"9223372036854775808"),
    "registry-negative": ("duraton_registry", b"-1"),
    "post-odd": ("duraton_post", b"//\xff"),
    "post-long": ("duraton_post", b"p/1" * MIB),
    "ce-odd": ("ce_type", b"\xff"),
    "ce-long": ("ce_id", b"i" * (5 * MIB)),
}


def written():
    for name, value in RECORDS.items():
        yield pytest.param(value, (), id=name)
    for name, header in HEADERS.items():
        yield pytest.param(event(), (header,), id=name)
        yield pytest.param(b'{"name":"w"}', (("ce_type", b"w"), header), id=f"ce-{name}")


@pytest.mark.parametrize("partitions", [1, 12])
@pytest.mark.parametrize(("value", "headers"), list(written()))
async def test_what_anybody_writes_to_the_topic_stops_nobody(value, headers, partitions):
    async def handle(ctx):
        return await ctx.step.run("a", lambda: 1)

    flow = define_workflow("w", handle)
    async with Engine(App("shop", [flow]), partitions=partitions) as engine:
        await engine.settle()
        engine.core.log.append([NewRecord(EVENTS, 0, value, b"k", headers)])
        await engine.settle()
        run = await start(engine)
        await engine.settle()
        assert await shown(engine, run) == [("completed", 1)]
        await engine.crash()
        run = await start(engine)
        await engine.settle()
        assert await shown(engine, run) == [("completed", 1)]


async def test_a_record_too_large_to_set_apart_whole_is_set_apart_cut():
    async def handle(ctx):
        return 1

    async with Engine(App("shop", [define_workflow("w", handle)])) as engine:
        value = b"x" * MAX_RECORD_BYTES
        engine.core.log.append([NewRecord(EVENTS, 0, value)])
        await engine.settle()
        [letter] = engine.core.log.read(DEAD_LETTERS, 0, 0, 10)
        headers = dict(letter.headers)
        assert headers["duraton_bytes"] == str(MAX_RECORD_BYTES).encode()
        assert headers["duraton_offset"] == b"0"
        assert value.startswith(letter.value) and len(letter.value) > 7 * MIB


async def test_a_command_that_no_record_holds_is_refused_and_stops_nobody():
    async def handle(ctx):
        return 1

    async with Engine(App("shop", [define_workflow("w", handle)])) as engine:
        core = engine.core
        command = RegisterApp(id="c", caller=SYSTEM, app="big", body="x" * (9 * MIB))
        with pytest.raises(RecordTooLargeError):
            await core.command(command)
        run = await start(engine)
        await engine.settle()
        assert await shown(engine, run) == [("completed", 1)]


async def test_one_transaction_holds_no_more_bytes_than_it_may():
    async def handle(ctx):
        return 1

    async with Engine(App("shop", [define_workflow("w", handle)])) as engine:
        await engine.settle()
        log, size = engine.core.log, MIB - 100
        end = log.bounds(JOURNAL, 0)[1]
        data = '{"a":"' + "x" * (size - 8) + '"}'
        log.append(
            [NewRecord(EVENTS, 0, event(id=f"e{n}", name="other", data=data)) for n in range(60)]
        )
        await engine.settle()
        batches, held = [], 0
        for record in log.read(JOURNAL, 0, end, 1_000):
            held += len(record.value)
            if isinstance(Codec().decode(record.value), Positions):
                batches.append(held)
                held = 0
        assert len(batches) >= 4
        assert max(batches) <= ProcessorSettings().bytes_max + 2 * MIB
