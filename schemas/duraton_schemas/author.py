"""Drafts Avro schemas from the record types: `python -m duraton_schemas.author`.

For whoever adds or changes a record (docs/internals/recipes.md). It writes the
schema of each type whose newest released form differs, as the next version with
the next free id; released files are never touched.
"""

import json
import types
import typing
from pathlib import Path
from typing import Any

import msgspec

from duraton_schemas.catalog import record_types
from duraton_schemas.records.common import Record

FOLDER = Path(__file__).parent / "avro"
_FIRST = ("header", "envelope")
"""Filled in by the processor, so optional in Python and never absent in bytes."""
_SCALARS = {int: "long", str: "string", bool: "boolean", bytes: "bytes", float: "double"}


def avro_schema(kind: type[Record], subject: str) -> dict[str, Any]:
    """The Avro schema that a record type has today."""
    namespace = subject.rpartition(".")[0]
    return _record(kind, namespace, set())


def _record(kind: type[msgspec.Struct], namespace: str, seen: set[str]) -> dict[str, Any]:
    seen.add(kind.__name__)
    fields = []
    # The header or envelope comes first, so that it can be read of any type.
    order = sorted(msgspec.structs.fields(kind), key=lambda f: f.name not in _FIRST)
    for field in order:
        entry: dict[str, Any] = {"name": field.encode_name}
        entry["type"] = _type(field.type, namespace, seen)
        if field.name in _FIRST:
            entry["type"] = entry["type"][1]
        default = _default(field)
        if default is not _NONE:
            entry["default"] = default
        fields.append(entry)
    doc = (kind.__doc__ or "").strip().splitlines()[0]
    return {
        "type": "record",
        "name": kind.__name__,
        "namespace": namespace,
        "doc": doc,
        "fields": fields,
    }


_NONE = object()


def _default(field: msgspec.structs.FieldInfo) -> Any:
    if field.name in _FIRST:
        return _NONE
    if field.default_factory is not msgspec.NODEFAULT:
        return []
    if field.default is msgspec.NODEFAULT:
        return _NONE
    return field.default


def _type(hint: Any, namespace: str, seen: set[str]) -> Any:
    if hint in _SCALARS:
        return _SCALARS[hint]
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        inner = next(arg for arg in args if arg is not types.NoneType)
        return ["null", _type(inner, namespace, seen)]
    if origin is list:
        return {"type": "array", "items": _type(args[0], namespace, seen)}
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        if hint.__name__ in seen:
            return f"{namespace}.{hint.__name__}"
        return _record(hint, namespace, seen)
    raise TypeError(f"{hint!r} has no Avro form here")


def main() -> None:
    """Draft what is missing."""
    ids_file = FOLDER / "ids.json"
    ids: dict[str, Any] = json.loads(ids_file.read_text()) if ids_file.exists() else {}
    newest = {entry["subject"]: entry for entry in ids.values()}
    for subject, kind in record_types().items():
        schema = avro_schema(kind, subject)
        last = newest.get(subject)
        if last and json.loads((FOLDER / last["file"]).read_text()) == schema:
            continue
        version = last["version"] + 1 if last else 1
        folder = subject.split(".")[1]
        name = f"{folder}/{_file_name(kind.__name__)}.v{version}.avsc"
        (FOLDER / folder).mkdir(parents=True, exist_ok=True)
        (FOLDER / name).write_text(json.dumps(schema, indent=2) + "\n")
        ids[str(len(ids) + 1)] = {"subject": subject, "version": version, "file": name}
    ids_file.write_text(json.dumps(ids, indent=2) + "\n")


def _file_name(name: str) -> str:
    return "".join("_" + c.lower() if c.isupper() else c for c in name).lstrip("_")


if __name__ == "__main__":
    main()
