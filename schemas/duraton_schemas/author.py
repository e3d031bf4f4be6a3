"""Drafts Avro schemas from the record types: `python -m duraton_schemas.author`.

For whoever adds or changes a record (docs/internals/recipes.md):

- without a flag it drafts the next version of each type that has changed since
  its released schema, and the first of each new type;
- `--redraft` also rewrites drafts, that is versions not yet released;
- `--release` marks every draft as released: from then on its file is fixed;
- `--check` writes nothing and fails where something would be drafted.
"""

import argparse
import json
import sys
import types
import typing
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

from duraton_schemas.catalog import record_types
from duraton_schemas.compatibility import incompatibilities
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


class Tree:
    """The schemas of a folder and its `ids.json`.

    Attributes:
        folder: Where they are.
        ids: Each id's entry: subject, version, file, and whether it is released,
            then with the SHA-256 of its file.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        ids_file = folder / "ids.json"
        self.ids: dict[str, dict[str, Any]] = (
            json.loads(ids_file.read_text()) if ids_file.exists() else {}
        )

    def newest(self) -> dict[str, dict[str, Any]]:
        """The entry of each subject's newest version."""
        in_order = sorted(self.ids.values(), key=lambda entry: int(entry["version"]))
        return {entry["subject"]: entry for entry in in_order}

    def schema(self, entry: dict[str, Any]) -> dict[str, Any]:
        """The schema of an entry."""
        schema: dict[str, Any] = json.loads((self.folder / entry["file"]).read_text())
        return schema

    def differing(self, kinds: dict[str, type[Record]]) -> dict[str, dict[str, Any]]:
        """Today's schema of each type that differs from its newest version, or has none."""
        newest = self.newest()
        today = {subject: avro_schema(kind, subject) for subject, kind in kinds.items()}
        return {
            subject: schema
            for subject, schema in today.items()
            if subject not in newest or self.schema(newest[subject]) != schema
        }

    def draft(self, kinds: dict[str, type[Record]], *, redraft: bool) -> list[str]:
        """Write what is missing.

        Args:
            kinds: The record types, by subject.
            redraft: Whether unreleased versions may be rewritten and dropped.

        Returns:
            Problems, one sentence each; what they name is not written.
        """
        problems, newest = [], self.newest()
        for subject, schema in self.differing(kinds).items():
            last = newest.get(subject)
            if last is not None and not last["released"]:
                if redraft:
                    self._write(last["file"], schema)
                else:
                    problems.append(f"{subject} is a draft that differs: --redraft rewrites it")
                continue
            wrong = incompatibilities(self.schema(last), schema) if last else []
            if wrong:
                problems += [f"{subject} could not read what is released: {why}" for why in wrong]
                continue
            version = last["version"] + 1 if last else 1
            name = f"{subject.split('.')[1]}/{_file_name(schema['name'])}.v{version}.avsc"
            self._write(name, schema)
            number = str(max(map(int, self.ids), default=0) + 1)
            self.ids[number] = {
                "subject": subject,
                "version": version,
                "file": name,
                "released": False,
            }
        if redraft:
            self._drop_drafts_of_gone_types(kinds)
        self._save()
        return problems

    def release(self) -> None:
        """Mark every draft as released, with the hash by which a test holds it."""
        for entry in self.ids.values():
            if not entry["released"]:
                entry["released"] = True
                entry["sha256"] = file_hash(self.folder / entry["file"])
        self._save()

    def _drop_drafts_of_gone_types(self, kinds: dict[str, type[Record]]) -> None:
        for number, entry in list(self.ids.items()):
            if entry["subject"] not in kinds and not entry["released"]:
                (self.folder / entry["file"]).unlink(missing_ok=True)
                del self.ids[number]

    def _write(self, name: str, schema: dict[str, Any]) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(schema, indent=2) + "\n")

    def _save(self) -> None:
        (self.folder / "ids.json").write_text(json.dumps(self.ids, indent=2) + "\n")


def file_hash(path: Path) -> str:
    """The SHA-256 of a schema's file, in hexadecimal."""
    return sha256(path.read_bytes()).hexdigest()


def _file_name(name: str) -> str:
    return "".join("_" + c.lower() if c.isupper() else c for c in name).lstrip("_")


def main(arguments: list[str] | None = None, folder: Path = FOLDER) -> int:
    """The command; gives its exit status."""
    parser = argparse.ArgumentParser(prog="python -m duraton_schemas.author")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--redraft", action="store_true", help="also rewrite unreleased versions")
    which.add_argument("--release", action="store_true", help="mark all drafts as released")
    which.add_argument("--check", action="store_true", help="fail where a schema is missing")
    options = parser.parse_args(arguments)
    tree, kinds = Tree(folder), record_types()
    if options.check:
        problems = [f"{subject} has no schema of its form" for subject in tree.differing(kinds)]
    elif options.release:
        problems = [f"{subject} is not drafted yet" for subject in tree.differing(kinds)]
        if not problems:
            tree.release()
    else:
        problems = tree.draft(kinds, redraft=options.redraft)
    for problem in problems:
        sys.stderr.write(problem + "\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
