"""The catalog: ids that never change their meaning, types and schemas that agree."""

import json
import shutil
from collections import Counter
from io import BytesIO
from itertools import combinations

import fastavro
import pytest
from fastavro.utils import generate_many

from duraton_schemas import author, registry
from duraton_schemas.catalog import record_types, schema_versions
from duraton_schemas.codec import Codec, resolving_decoder
from duraton_schemas.compatibility import incompatibilities
from duraton_schemas.records.common import Fact
from duraton_schemas.records.messages import Message
from duraton_schemas.records.public import Event

TYPES = record_types()
VERSIONS = schema_versions()
TREE = author.Tree(author.FOLDER)


def test_types_and_schemas_agree(capsys):
    status = author.main(["--check"])
    assert status == 0, f"{capsys.readouterr().err}; run `make records`"


def test_every_schema_has_its_type_and_every_type_its_schema():
    assert {v.subject for v in VERSIONS} == set(TYPES)


def test_ids_are_unique_and_versions_count_from_one():
    assert all(v.id > 0 for v in VERSIONS)
    for subject in TYPES:
        numbers = [v.version for v in VERSIONS if v.subject == subject]
        assert numbers == list(range(1, len(numbers) + 1)), f"{subject}: by id, from 1, no gaps"


def test_one_file_a_version_and_no_file_without_an_id():
    named = Counter(entry["file"] for entry in TREE.ids.values())
    files = Counter(str(f.relative_to(author.FOLDER)) for f in author.FOLDER.rglob("*.avsc"))
    assert named == files


def test_a_released_schema_is_never_edited():
    released = [entry for entry in TREE.ids.values() if entry["released"]]
    edited = [
        entry["file"]
        for entry in released
        if author.file_hash(author.FOLDER / entry["file"]) != entry["sha256"]
    ]
    assert not edited, "restore them, and draft a version with `python -m duraton_schemas.author`"


@pytest.mark.parametrize("version", VERSIONS, ids=lambda v: f"{v.subject}.v{v.version}")
def test_the_header_or_envelope_comes_first(version):
    kind = TYPES[version.subject]
    first = version.schema["fields"][0]
    if issubclass(kind, Fact):
        assert (first["name"], first["type"]["name"]) == ("header", "FactHeader")
    elif issubclass(kind, Message):
        assert (first["name"], first["type"]["name"]) == ("envelope", "Envelope")


def test_the_fact_header_is_one_for_ever():
    headers = [
        json.dumps(v.schema["fields"][0]["type"]["fields"])
        for v in VERSIONS
        if issubclass(TYPES[v.subject], Fact)
    ]
    assert len(set(headers)) == 1


PAIRS = [
    (old, new)
    for old, new in combinations(sorted(VERSIONS, key=lambda v: v.version), 2)
    if old.subject == new.subject
]


def test_every_later_version_reads_every_earlier_one():
    for old, new in PAIRS:
        assert incompatibilities(old.schema, new.schema) == [], f"{new.subject} v{new.version}"
        decode = resolving_decoder(old.schema, new.schema, TYPES[new.subject])
        for plain in generate_many(fastavro.parse_schema(old.schema, {}), 20):
            assert decode(written(plain, old.schema), 0)


def written(plain, schema):
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema, {}), plain)
    return out.getvalue()


def schema(*fields):
    return {"type": "record", "name": "R", "fields": list(fields)}


LONG_A = {"name": "a", "type": "long"}
NESTED = {"type": "record", "name": "N", "fields": [LONG_A]}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (schema(LONG_A), schema(LONG_A)),
        (schema(LONG_A), schema(LONG_A, {"name": "b", "type": "long", "default": 0})),
        (schema(LONG_A, {"name": "b", "type": "long"}), schema(LONG_A)),
        (schema(LONG_A), schema({"name": "a", "type": ["null", "long"]})),
        (schema(LONG_A), schema({"name": "a", "type": "double"})),
        (
            schema({"name": "a", "type": NESTED}, {"name": "b", "type": "N"}),
            schema({"name": "b", "type": NESTED}, {"name": "a", "type": "N"}),
        ),
    ],
    ids=["same", "added-default", "removed", "optional", "promoted", "named"],
)
def test_changes_that_readers_bear(old, new):
    assert incompatibilities(old, new) == []
    for plain in generate_many(fastavro.parse_schema(old, {}), 5):
        stream = written(plain, old)
        parsed = fastavro.parse_schema(old, {}), fastavro.parse_schema(new, {})
        fastavro.schemaless_reader(BytesIO(stream), *parsed)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (schema(), schema(LONG_A), "R.a: a new field needs a default"),
        (schema(LONG_A), schema({"name": "a", "type": "string"}), "R.a: long became string"),
        (schema({"name": "a", "type": ["null", "long"]}), schema(LONG_A), "R.a: null became long"),
        (
            schema({"name": "a", "type": {"type": "array", "items": "long"}}),
            schema({"name": "a", "type": {"type": "array", "items": "string"}}),
            "R.a[]: long became string",
        ),
        (
            schema({"name": "a", "type": ["null", "long"]}),
            schema({"name": "a", "type": ["null", "string"]}),
            "R.a: long fits no branch of the newer union",
        ),
        (
            schema({"name": "n", "type": {**NESTED, "fields": []}}),
            schema({"name": "n", "type": NESTED}),
            "R.n.a: a new field needs a default",
        ),
    ],
)
def test_changes_that_would_lose_peoples_logs(old, new, says):
    assert incompatibilities(old, new) == [says]


# The author ---------------------------------------------------------------


def copy_tree(tmp_path):
    folder = tmp_path / "avro"
    shutil.copytree(author.FOLDER, folder)
    return folder


def test_a_released_type_that_changes_gets_a_new_version(tmp_path):
    folder = copy_tree(tmp_path)
    assert author.main(["--release"], folder) == 0
    tree = author.Tree(folder)
    old = tree.newest()["duraton.journal.CronArmed"]
    released = (folder / old["file"]).read_bytes()
    # As if the type had gained a field since: the released schema lacks `schedule`.
    kinds = {"duraton.journal.CronArmed": TYPES["duraton.journal.CronFired"]}
    problems = tree.draft(kinds, redraft=False)
    assert len(problems) == 1
    assert "CronFired.tick: a new field needs a default" in problems[0]
    kinds = {"duraton.journal.CronArmed": TYPES["duraton.journal.OwnerAlive"]}
    assert tree.draft(kinds, redraft=True) == []
    new = author.Tree(folder).newest()["duraton.journal.CronArmed"]
    assert (new["version"], new["released"]) == (old["version"] + 1, False)
    assert (folder / old["file"]).read_bytes() == released


def test_a_draft_is_rewritten_only_when_asked(tmp_path):
    tree = author.Tree(tmp_path)
    subject = "duraton.journal.CronArmed"
    assert tree.draft({subject: TYPES[subject]}, redraft=False) == []
    other = {subject: TYPES["duraton.journal.CronFired"]}
    assert "--redraft" in tree.draft(other, redraft=False)[0]
    assert tree.draft(other, redraft=True) == []
    assert tree.schema(tree.newest()[subject])["name"] == "CronFired"
    assert author.Tree(tmp_path).ids["1"]["version"] == 1
    assert tree.draft({}, redraft=True) == []
    assert (author.Tree(tmp_path).ids, list(tmp_path.rglob("*.avsc"))) == ({}, [])


# The Schema Registry's form -------------------------------------------------


def test_the_registry_serves_every_schema_in_confluents_form():
    assert registry.subjects() == sorted(TYPES)
    for version in VERSIONS:
        assert version.version in registry.versions(version.subject)
        answer = registry.schema_by_version(version.subject, version.version)
        assert answer == {
            "subject": version.subject,
            "id": version.id,
            "version": version.version,
            "schema": registry.schema_by_id(version.id)["schema"],
        }
        assert json.loads(answer["schema"]) == version.schema
    assert registry.schema_by_version("duraton.public.Event", "latest")["version"] >= 1


def test_the_registry_says_none_for_what_is_not_there():
    assert registry.schema_by_id(4_000_000) is None
    assert registry.versions("nothing") == []
    assert registry.schema_by_version("nothing", "latest") is None
    assert registry.schema_by_version("duraton.public.Event", 99) is None


def test_outsiders_read_our_bytes_with_the_served_schema_alone():
    raw = Codec().encode(Event(id="e1", name="order.created", data="{}", ts=5))
    answer = registry.schema_by_id(int.from_bytes(raw[1:5], "big"))
    parsed = fastavro.parse_schema(json.loads(answer["schema"]))
    plain = fastavro.schemaless_reader(BytesIO(raw[5:]), parsed)
    assert (plain["name"], plain["data"], plain["dedupeId"]) == ("order.created", "{}", None)
