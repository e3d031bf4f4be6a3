"""Which record types there are, and which schema ids they have had.

Ids are ours and fixed in the tree (`avro/ids.json`): an id, once released,
means the same schema for ever.
"""

import json
import types
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from duraton_schemas.records import acts, commands, journal, messages, public
from duraton_schemas.records.common import Fact, Record

FOLDERS: Mapping[str, tuple[types.ModuleType, ...]] = {
    "public": (public,),
    "journal": (journal, acts),
    "commands": (commands,),
    "messages": (messages,),
}


class SchemaVersion(NamedTuple):
    """A released schema.

    Attributes:
        id: Its id in Confluent framing.
        subject: The record's full Avro name.
        version: From 1, in order of release.
        schema: The Avro schema.
    """

    id: int
    subject: str
    version: int
    schema: dict[str, Any]


def record_types() -> dict[str, type[Record]]:
    """Every record that is written, by its subject."""
    found: dict[str, type[Record]] = {}
    for folder, modules in FOLDERS.items():
        for module in modules:
            for kind in vars(module).values():
                if _is_written(kind, folder) and kind.__module__.startswith(module.__name__):
                    found[f"duraton.{folder}.{kind.__name__}"] = kind
    return found


def _is_written(kind: object, folder: str) -> bool:
    if not isinstance(kind, type) or not issubclass(kind, Record):
        return False
    if folder == "public":
        return True
    roots: tuple[type[Record], ...] = (Fact, commands.Command, messages.Message)
    return issubclass(kind, roots) and kind not in roots


@cache
def schema_versions() -> tuple[SchemaVersion, ...]:
    """Every released schema, by id."""
    folder = files("duraton_schemas") / "avro"
    ids: dict[str, Any] = json.loads((folder / "ids.json").read_text())
    released = []
    for number, entry in ids.items():
        schema = json.loads((folder / entry["file"]).read_text())
        version = SchemaVersion(int(number), entry["subject"], entry["version"], schema)
        released.append(version)
    return tuple(sorted(released))
