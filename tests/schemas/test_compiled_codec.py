"""The compiled codec writes fastavro's bytes, reads them back, and refuses all others."""

import struct
from io import BytesIO

import fastavro
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from record_strategies import LONGS, records

from duraton_schemas.catalog import record_types, schema_versions
from duraton_schemas.codec import Codec, resolving_decoder, schema_id
from duraton_schemas.compiled import compile_decoder, compile_encoder
from duraton_schemas.compiled.shape import shape_of
from duraton_schemas.compiled.varint import read_long, write_long
from duraton_schemas.errors import BadRecordError, SchemaError, UnknownSchemaError
from duraton_schemas.records.common import Cause, Fact, FactHeader, Record
from duraton_schemas.records.journal import OwnerAlive, Positions, RunStarted, StepCompleted

CODEC = Codec()
TYPES = record_types()
NEWEST = {v.subject: v for v in sorted(schema_versions(), key=lambda v: v.version)}
SUBJECTS = sorted(TYPES)
QUICK = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
HEADER = FactHeader(
    slot=3, seq=9, epoch=1, at=1_700_000_000_000, cause=Cause(kind="call"), registry=2
)


def reference(record: Record, schema: dict) -> bytes:
    out = BytesIO()
    plain = msgspec.to_builtins(record, builtin_types=(bytes,))
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema, {}), plain)
    return out.getvalue()


@pytest.mark.parametrize("subject", SUBJECTS)
def test_bytes_are_those_of_fastavro_and_read_back_equal(subject):
    version = NEWEST[subject]

    @QUICK
    @given(records(TYPES[subject]))
    def check(record):
        raw = CODEC.encode(record)
        assert raw == struct.pack(">bI", 0, version.id) + reference(record, version.schema)
        assert CODEC.decode(raw) == record
        if isinstance(record, Fact):
            assert CODEC.decode_header(raw) == record.header

    check()


@pytest.mark.parametrize("subject", SUBJECTS)
def test_every_cut_of_a_record_is_refused(subject):
    @settings(QUICK, max_examples=5)
    @given(records(TYPES[subject]))
    def check(record):
        raw = CODEC.encode(record)
        for end in range(5, min(len(raw), 300)):
            with pytest.raises(BadRecordError):
                CODEC.decode(raw[:end])
        with pytest.raises(BadRecordError):
            CODEC.decode(raw + b"\0")

    check()


@settings(QUICK, max_examples=300)
@given(st.sampled_from(SUBJECTS), st.binary(max_size=80))
def test_any_bytes_are_a_record_or_a_bad_record(subject, body):
    raw = struct.pack(">bI", 0, NEWEST[subject].id) + body
    try:
        record = CODEC.decode(raw)
    except BadRecordError:
        return
    assert isinstance(record, TYPES[subject])
    assert CODEC.decode(CODEC.encode(record)) == record


@settings(QUICK, max_examples=200)
@given(records(StepCompleted), st.data())
def test_a_changed_byte_is_a_record_or_a_bad_record(record, data):
    raw = bytearray(CODEC.encode(record))
    place = data.draw(st.integers(5, len(raw) - 1))
    raw[place] = data.draw(st.integers(0, 255))
    try:
        CODEC.decode(bytes(raw))
        CODEC.decode_header(bytes(raw))
    except BadRecordError:
        pass


@settings(QUICK, max_examples=300)
@given(LONGS, st.binary(max_size=3))
def test_a_whole_number_reads_back_and_leaves_what_follows(number, rest):
    raw = write_long(number)
    assert len(raw) <= 10
    assert read_long(raw + rest, 0) == (number, len(raw))


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 2**80])
def test_a_number_beyond_64_bits_is_refused_on_writing(number):
    with pytest.raises(BadRecordError, match="64 bits"):
        CODEC.encode(Positions(header=HEADER, clock=number))


@pytest.mark.parametrize("raw", [b"\xff" * 10 + b"\x01", b"\xff" * 9 + b"\x02", b"\x80" * 40])
def test_a_number_beyond_64_bits_is_refused_on_reading(raw):
    with pytest.raises(BadRecordError, match="64 bits"):
        read_long(raw, 0)


def test_arrays_in_several_blocks_are_read():
    # Other writers split arrays into blocks and put a block's size before it.
    whole = CODEC.encode(Positions(header=HEADER, clock=7))
    head = whole[: -len(b"\0" + write_long(7))]
    item = write_long(1) + b"t" + write_long(2) + write_long(3)
    sized = write_long(-1) + write_long(len(item)) + item
    record = CODEC.decode(head + write_long(1) + item + sized + b"\0" + write_long(7))
    assert isinstance(record, Positions)
    assert [(i.topic, i.partition, i.next) for i in record.inputs] == [("t", 2, 3)] * 2


def test_an_array_that_claims_more_than_there_is_costs_nothing():
    whole = CODEC.encode(Positions(header=HEADER, clock=7))
    head = whole[: -len(b"\0" + write_long(7))]
    with pytest.raises(BadRecordError):
        CODEC.decode(head + write_long(2**62) + b"\0" * 10)


@pytest.mark.parametrize(
    "record",
    [
        StepCompleted(run="r", step="s", n=0, kind="run", attempt=1, number=1, seen=0, output="1"),
        Positions(header=HEADER, clock="soon"),
        Positions(header=HEADER, clock=None),
        Positions(header=HEADER, clock=1.5),
        Positions(header=HEADER, clock=1, inputs=[None]),
        RunStarted(
            header=HEADER,
            run="\ud800",
            token_epoch=1,
            token_number=1,
            runner="",
            boot="",
            transport="",
        ),
    ],
    ids=["no-header", "text", "none", "float", "none-in-list", "half-a-surrogate"],
)
def test_a_record_with_a_wrong_value_is_refused_with_its_type_named(record):
    with pytest.raises(BadRecordError, match=type(record).__name__):
        CODEC.encode(record)


@pytest.mark.parametrize("raw", [b"", b"\0\0\0", b"\1\0\0\0\1", b"{}", b'{"name": "x"}'])
def test_bytes_without_framing_are_refused(raw):
    with pytest.raises(BadRecordError, match="framing"):
        CODEC.decode(raw)
    with pytest.raises(BadRecordError, match="framing"):
        schema_id(raw)
    with pytest.raises(BadRecordError):
        CODEC.decode_header(raw)


def test_an_unknown_schema_is_told_apart_from_bad_bytes():
    raw = CODEC.encode(OwnerAlive(header=HEADER))
    unknown = struct.pack(">bI", 0, 4_000_000) + raw[5:]
    with pytest.raises(UnknownSchemaError, match="4000000"):
        CODEC.decode(unknown)
    assert CODEC.decode_header(unknown) == HEADER, "the header is read of any type"


def test_a_type_outside_the_catalog_is_refused():
    with pytest.raises(UnknownSchemaError, match="Cause"):
        CODEC.encode(Cause(kind="call"))


class Old(Record, kw_only=True):
    a: int


class New(Record, kw_only=True):
    """Every form that a field can have."""

    a: int
    b: float = 1.5
    c: bytes | None = None
    d: list[str] = []
    e: list[list[int]] = []
    f: bool | None = None
    g: float | None = None
    h: list[Old | None] = []


NEW_FIELDS = [
    {"name": "a", "type": "long"},
    {"name": "b", "type": "double", "default": 1.5},
    {"name": "c", "type": ["null", "bytes"], "default": None},
    {"name": "d", "type": {"type": "array", "items": "string"}, "default": []},
    {
        "name": "e",
        "type": {"type": "array", "items": {"type": "array", "items": "long"}},
        "default": [],
    },
    {"name": "f", "type": ["null", "boolean"], "default": None},
    {"name": "g", "type": ["null", "double"], "default": None},
    {
        "name": "h",
        "type": {
            "type": "array",
            "items": [
                "null",
                {"type": "record", "name": "Old", "fields": [{"name": "a", "type": "long"}]},
            ],
        },
        "default": [],
    },
]
NEW_SCHEMA = {"type": "record", "name": "New", "fields": NEW_FIELDS}


@settings(QUICK, max_examples=200)
@given(records(New))
def test_forms_that_no_record_uses_yet(record):
    shape = shape_of(New, NEW_SCHEMA)
    raw = compile_encoder(shape, b"")(record)
    assert raw == reference(record, NEW_SCHEMA)
    assert compile_decoder(shape)(raw, 0) == (record, len(raw))


def test_a_record_of_an_older_schema_is_read_into_todays_type():
    old = {"type": "record", "name": "New", "fields": NEW_FIELDS[:1]}
    decode = resolving_decoder(old, NEW_SCHEMA, New)
    assert decode(b"\0" + write_long(7), 1) == (New(a=7), 2)


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ({"type": "record", "name": "Old", "fields": []}, "different fields"),
        ({"type": "record", "name": "Old", "fields": [{"name": "a", "type": "int"}]}, "int"),
        (
            {"type": "record", "name": "Old", "fields": [{"name": "a", "type": ["long", "null"]}]},
            "union",
        ),
        (
            {
                "type": "record",
                "name": "Old",
                "fields": [{"name": "a", "type": {"type": "map", "values": "long"}}],
            },
            "map",
        ),
    ],
)
def test_a_type_that_parted_from_its_schema_is_refused(schema, says):
    with pytest.raises(SchemaError, match=says):
        shape_of(Old, schema)
