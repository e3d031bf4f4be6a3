"""Bytes written under any schema version, now and long ago, still mean what they meant.

`make records` writes `golden.json` after a record was added or changed.
"""

import json
from pathlib import Path

import msgspec
import pytest

from duraton_schemas.catalog import record_types, schema_versions
from duraton_schemas.codec import Codec, schema_id

GOLDEN = json.loads((Path(__file__).parent / "golden.json").read_text())
CODEC = Codec()
TYPES = record_types()
NEWEST = {v.subject: v.id for v in sorted(schema_versions(), key=lambda v: v.version)}
HOW = "run `make records`, then read the difference in golden.json before you commit it"


def test_every_version_has_golden_bytes():
    known = {str(v.id): (v.subject, v.version) for v in schema_versions()}
    golden = {number: (entry["subject"], entry["version"]) for number, entry in GOLDEN.items()}
    assert golden == known, HOW


@pytest.mark.parametrize("number", GOLDEN)
def test_golden_bytes_are_read(number):
    entry = GOLDEN[number]
    kind = TYPES[entry["subject"]]
    for sample in entry["samples"]:
        raw = bytes.fromhex(sample["bytes"])
        assert schema_id(raw) == int(number), HOW
        # Fields that are newer than the version take their defaults, in both.
        assert CODEC.decode(raw) == msgspec.convert(sample["record"], kind), HOW


@pytest.mark.parametrize("number", [n for n in GOLDEN if int(n) in NEWEST.values()])
def test_todays_bytes_are_the_golden_ones(number):
    kind = TYPES[GOLDEN[number]["subject"]]
    for sample in GOLDEN[number]["samples"]:
        assert CODEC.encode(msgspec.convert(sample["record"], kind)).hex() == sample["bytes"], HOW
