"""Bytes of records: Avro in Confluent's framing (DESIGN 2).

A record is a zero byte, its schema's id in four bytes, and its Avro form. It
was written under the schema of that id and is read into today's type. The
newest version of each schema has functions compiled for it; older ones go by
way of fastavro's schema resolution.
"""

import struct
from collections.abc import Callable
from functools import cache
from io import BytesIO
from typing import Any

import fastavro
import msgspec

from duraton_schemas.catalog import SchemaVersion, record_types, schema_versions
from duraton_schemas.compiled import (
    DecodeFunction,
    EncodeFunction,
    compile_decoder,
    compile_encoder,
)
from duraton_schemas.compiled.shape import shape_of
from duraton_schemas.errors import BadRecordError, SchemaError, UnknownSchemaError
from duraton_schemas.records.common import FactHeader, Record

MAGIC = 0
_FRAME = struct.Struct(">bI")
_FRAME_SIZE = _FRAME.size


class Codec:
    """Encodes and decodes every record of the catalog."""

    def __init__(self) -> None:
        self._encoders = _ENCODERS
        self._decoders = _DECODERS

    def encode(self, record: Record) -> bytes:
        """The bytes of a record.

        Raises:
            BadRecordError: A field holds what its type does not allow: a header
                that is missing, a number beyond 64 bits, text with half a surrogate.
            UnknownSchemaError: The type is not in the catalog.
        """
        try:
            return self._encoders[type(record)](record)
        except SchemaError:
            raise
        except Exception as error:  # what a wrong value leads the compiled code to
            raise BadRecordError(
                f"the {type(record).__name__} cannot be written: {error}"
            ) from error

    def decode(self, raw: bytes) -> Record:
        """The record of some bytes.

        Raises:
            BadRecordError: They are no framed Avro of that schema, or more than it.
            UnknownSchemaError: The schema's id is not in this program's catalog.
        """
        try:
            record, end = self._decoders[raw[:_FRAME_SIZE]](raw, _FRAME_SIZE)
        except SchemaError:
            raise
        except Exception as error:  # what wrong bytes lead the compiled code to
            raise BadRecordError(f"the record cannot be read: {error}") from error
        if end != len(raw):
            raise BadRecordError("the record does not end where its bytes do")
        return record

    def decode_header(self, raw: bytes) -> FactHeader:
        """The header of a fact of any type, also one that is not in the catalog.

        Raises:
            BadRecordError: They are no framed fact.
        """
        schema_id(raw)
        try:
            header, end = _header_decoder()(raw, _FRAME_SIZE)
        except SchemaError:
            raise
        except Exception as error:  # as above
            raise BadRecordError(f"the fact's header cannot be read: {error}") from error
        if end > len(raw):
            raise BadRecordError("the fact's header is cut short")
        assert isinstance(header, FactHeader), "that decoder makes headers"
        return header


def schema_id(raw: bytes) -> int:
    """The schema id in a record's framing.

    Raises:
        BadRecordError: The bytes have no such framing.
    """
    if len(raw) < _FRAME_SIZE or raw[0] != MAGIC:
        raise BadRecordError("the bytes do not begin with Confluent framing")
    number: int = _FRAME.unpack_from(raw)[1]
    return number


class _Encoders(dict[type[Record], EncodeFunction]):
    """Made at first use, since a program writes few of the types."""

    def __missing__(self, kind: type[Record]) -> EncodeFunction:
        version = _newest_by_type().get(kind)
        if version is None:
            raise UnknownSchemaError(f"{kind.__name__} is no record of the catalog")
        frame = _FRAME.pack(MAGIC, version.id)
        encode = compile_encoder(shape_of(kind, version.schema), frame)
        self[kind] = encode
        return encode


class _Decoders(dict[bytes, DecodeFunction]):
    """By the framing that a record begins with; made at first use."""

    def __missing__(self, frame: bytes) -> DecodeFunction:
        number = schema_id(frame)
        written = next((v for v in schema_versions() if v.id == number), None)
        if written is None:
            raise UnknownSchemaError(f"schema id {number} is not known here")
        kind = record_types()[written.subject]
        newest = _newest_by_type()[kind]
        if newest.id == number:
            decode = compile_decoder(shape_of(kind, written.schema))
        else:
            decode = resolving_decoder(written.schema, newest.schema, kind)
        self[frame] = decode
        return decode


_ENCODERS = _Encoders()
_DECODERS = _Decoders()
"""Shared by all codecs of the process, like the schemas they are made from."""


@cache
def _newest_by_type() -> dict[type[Record], SchemaVersion]:
    types = record_types()
    newest = {v.subject: v for v in sorted(schema_versions(), key=lambda v: v.version)}
    return {types[subject]: version for subject, version in newest.items() if subject in types}


def resolving_decoder(
    written: dict[str, Any], wanted: dict[str, Any], kind: type[Record]
) -> DecodeFunction:
    """A decoder of records written under another schema than today's.

    Args:
        written: The schema that they were written under.
        wanted: Today's schema.
        kind: Today's type.

    Returns:
        A function as `compile_decoder` gives, some times slower.
    """
    parsed_written = fastavro.parse_schema(written, {})
    parsed_wanted = fastavro.parse_schema(wanted, {})
    convert: Callable[..., Record] = msgspec.convert

    def decode(raw: bytes, place: int) -> tuple[Record, int]:
        stream = BytesIO(raw)
        stream.seek(place)
        plain = fastavro.schemaless_reader(stream, parsed_written, parsed_wanted)
        return convert(plain, kind, builtin_types=(bytes,)), stream.tell()

    return decode


@cache
def _header_decoder() -> DecodeFunction:
    fact = next(v.schema for v in schema_versions() if v.subject == "duraton.journal.OwnerAlive")
    header = next(field["type"] for field in fact["fields"] if field["name"] == "header")
    return compile_decoder(shape_of(FactHeader, header))
