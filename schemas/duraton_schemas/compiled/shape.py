"""A record's schema and its Python type, read together into one tree."""

import types
import typing
from dataclasses import dataclass
from typing import Any

import msgspec

from duraton_schemas.errors import SchemaError

SCALARS = frozenset({"long", "string", "boolean", "bytes", "double"})


@dataclass(frozen=True, slots=True)
class Scalar:
    """One of Avro's own types, by its name there."""

    name: str


@dataclass(frozen=True, slots=True)
class Optional:
    """A value or null; null is the first branch."""

    inner: "Shape"


@dataclass(frozen=True, slots=True)
class Array:
    """A list."""

    items: "Shape"


@dataclass(frozen=True, slots=True)
class Nested:
    """A record.

    Attributes:
        kind: Its Python type.
        fields: Each field's Python name and shape, in the order of the bytes.
    """

    kind: type[msgspec.Struct]
    fields: tuple[tuple[str, "Shape"], ...]


Shape = Scalar | Optional | Array | Nested


def shape_of(kind: type[msgspec.Struct], schema: dict[str, Any]) -> Nested:
    """The shape of a record type under its newest schema.

    Raises:
        SchemaError: The type and the schema have parted, so that one of them
            has a field or a form that the other has not.
    """
    shape = _shape(kind, schema, {}, ())
    assert isinstance(shape, Nested), "a record's schema is a record"
    return shape


def _shape(
    hint: Any, schema: Any, named: dict[str, dict[str, Any]], above: tuple[Any, ...]
) -> Shape:
    if isinstance(schema, str) and schema in named:
        schema = named[schema]
    if isinstance(schema, str):
        if schema not in SCALARS:
            raise SchemaError(f"the schema's type {schema} has no compiled form")
        return Scalar(schema)
    if isinstance(schema, list):
        return _optional(hint, schema, named, above)
    if schema["type"] == "array":
        item = typing.get_args(hint)[0]
        return Array(_shape(item, schema["items"], named, above))
    if schema["type"] == "record":
        return _nested(hint, schema, named, above)
    raise SchemaError(f"the schema's type {schema['type']} has no compiled form")


def _optional(
    hint: Any, schema: list[Any], named: dict[str, dict[str, Any]], above: tuple[Any, ...]
) -> Optional:
    if len(schema) != 2 or schema[0] != "null":
        raise SchemaError("a union has a compiled form only as null and one other type")
    return Optional(_shape(_without_none(hint), schema[1], named, above))


def _without_none(hint: Any) -> Any:
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return next(arg for arg in typing.get_args(hint) if arg is not types.NoneType)
    return hint


def _nested(
    hint: Any,
    schema: dict[str, Any],
    named: dict[str, dict[str, Any]],
    above: tuple[Any, ...],
) -> Nested:
    # A header is optional in Python, since it is filled in on writing, but not in the bytes.
    kind = _without_none(hint)
    if kind in above:
        raise SchemaError(f"{kind.__name__} holds itself and has no compiled form")
    named[f"{schema.get('namespace', '')}.{schema['name']}".lstrip(".")] = schema
    declared = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    if set(declared) != {field["name"] for field in schema["fields"]}:
        raise SchemaError(
            f"{kind.__name__} and its newest schema have different fields; "
            "run python -m duraton_schemas.author"
        )
    fields = tuple(
        (
            declared[field["name"]].name,
            _shape(declared[field["name"]].type, field["type"], named, (*above, kind)),
        )
        for field in schema["fields"]
    )
    return Nested(kind, fields)
