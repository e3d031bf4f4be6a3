"""Whether records written under one schema can be read under another.

Avro's rules for schema resolution, for the forms that our schemas use. A
released schema is only ever followed by one that can read it (DESIGN 2).
"""

from collections.abc import Mapping
from typing import Any

_PROMOTIONS = frozenset({("long", "double"), ("string", "bytes"), ("bytes", "string")})

Names = Mapping[str, Mapping[str, Any]]


def incompatibilities(written: dict[str, Any], wanted: dict[str, Any]) -> list[str]:
    """Why records of one schema cannot be read under another.

    Args:
        written: The older schema.
        wanted: The newer one.

    Returns:
        One sentence a place, with its path; empty where they can be read.
    """
    return _compare(written, wanted, _names(written), _names(wanted), wanted["name"])


def _names(schema: Any) -> dict[str, Mapping[str, Any]]:
    """Every record named inside a schema, by its full name."""
    if isinstance(schema, list):
        return {name: record for part in schema for name, record in _names(part).items()}
    if not isinstance(schema, dict):
        return {}
    if schema["type"] == "array":
        return _names(schema["items"])
    if schema["type"] != "record":
        return {}
    found: dict[str, Mapping[str, Any]] = {
        f"{schema.get('namespace', '')}.{schema['name']}".lstrip("."): schema
    }
    for field in schema["fields"]:
        found |= _names(field["type"])
    return found


def _compare(
    written: Any, wanted: Any, names_written: Names, names_wanted: Names, path: str
) -> list[str]:
    written, wanted = _resolve(written, names_written), _resolve(wanted, names_wanted)
    names = names_written, names_wanted
    if isinstance(written, list):
        return [problem for branch in written for problem in _compare(branch, wanted, *names, path)]
    if isinstance(wanted, list):
        tried = [_compare(written, branch, *names, path) for branch in wanted]
        if any(not problems for problems in tried):
            return []
        return [f"{path}: {_form(written)} fits no branch of the newer union"]
    if _form(written) != _form(wanted):
        if (_form(written), _form(wanted)) in _PROMOTIONS:
            return []
        return [f"{path}: {_form(written)} became {_form(wanted)}"]
    if _form(written) == "array":
        return _compare(written["items"], wanted["items"], *names, f"{path}[]")
    if _form(written) == "record":
        return _compare_records(written, wanted, *names, path)
    return []


def _compare_records(
    written: Mapping[str, Any],
    wanted: Mapping[str, Any],
    names_written: Names,
    names_wanted: Names,
    path: str,
) -> list[str]:
    before = {field["name"]: field for field in written["fields"]}
    problems = []
    for field in wanted["fields"]:
        place = f"{path}.{field['name']}"
        if field["name"] in before:
            old = before[field["name"]]["type"]
            problems += _compare(old, field["type"], names_written, names_wanted, place)
        elif "default" not in field:
            problems.append(f"{place}: a new field needs a default")
    return problems


def _resolve(schema: Any, names: Names) -> Any:
    return names.get(schema, schema) if isinstance(schema, str) else schema


def _form(schema: Any) -> str:
    return str(schema["type"]) if isinstance(schema, Mapping) else str(schema)
