"""Bytes of records: Avro in Confluent's framing (DESIGN 2).

A record is a zero byte, its schema's id in four bytes, and its Avro form. It
was written under the schema of that id and is read into today's type.
"""

import struct
from io import BytesIO
from typing import Any, NamedTuple

import fastavro
import msgspec

from duraton_schemas.catalog import record_types, schema_versions
from duraton_schemas.errors import BadRecordError, UnknownSchemaError
from duraton_schemas.records.common import FactHeader, Record

MAGIC = 0
_FRAME = struct.Struct(">bI")
_HEADER_BYTES_MAX = 512


class _Reader(NamedTuple):
    kind: type[Record]
    written: Any
    wanted: Any


class Codec:
    """Encodes and decodes every record of the catalog."""

    def __init__(self) -> None:
        types = record_types()
        newest = {version.subject: version for version in schema_versions()}
        self._writers: dict[type[Record], tuple[bytes, Any]] = {}
        self._readers: dict[int, _Reader] = {}
        parsed = {v.id: fastavro.parse_schema(v.schema, {}) for v in schema_versions()}
        for subject, kind in types.items():
            version = newest[subject]
            frame = _FRAME.pack(MAGIC, version.id)
            self._writers[kind] = (frame, parsed[version.id])
        for version in schema_versions():
            last = newest[version.subject]
            wanted = None if last.id == version.id else parsed[last.id]
            self._readers[version.id] = _Reader(types[version.subject], parsed[version.id], wanted)
        self._header = _header_schema()

    def encode(self, record: Record) -> bytes:
        """The bytes of a record."""
        frame, schema = self._writers[type(record)]
        out = BytesIO()
        out.write(frame)
        plain = msgspec.to_builtins(record, builtin_types=(bytes,))
        fastavro.schemaless_writer(out, schema, plain)
        return out.getvalue()

    def decode(self, raw: bytes) -> Record:
        """The record of some bytes.

        Raises:
            BadRecordError: They are no framed Avro of that schema.
            UnknownSchemaError: The schema's id is not in this program's catalog.
        """
        reader = self._readers.get(schema_id(raw))
        if reader is None:
            raise UnknownSchemaError(f"schema id {schema_id(raw)} is not known here")
        stream = BytesIO(raw)
        stream.seek(_FRAME.size)
        try:
            plain = fastavro.schemaless_reader(stream, reader.written, reader.wanted)
            record: Record = msgspec.convert(plain, reader.kind, builtin_types=(bytes,))
        except Exception as error:  # fastavro raises what its bytes lead it to
            raise BadRecordError(f"the record cannot be read: {error}") from error
        return record

    def decode_header(self, raw: bytes) -> FactHeader:
        """The header of a fact of any type, also one that is not in the catalog.

        Raises:
            BadRecordError: They are no framed fact.
        """
        stream = BytesIO(raw[_FRAME.size : _FRAME.size + _HEADER_BYTES_MAX])
        schema_id(raw)
        try:
            plain = fastavro.schemaless_reader(stream, self._header, None)
            header: FactHeader = msgspec.convert(plain, FactHeader)
        except Exception as error:  # as above
            raise BadRecordError(f"the fact's header cannot be read: {error}") from error
        return header


def schema_id(raw: bytes) -> int:
    """The schema id in a record's framing.

    Raises:
        BadRecordError: The bytes have no such framing.
    """
    if len(raw) < _FRAME.size or raw[0] != MAGIC:
        raise BadRecordError("the bytes do not begin with Confluent framing")
    number: int = _FRAME.unpack_from(raw)[1]
    return number


def _header_schema() -> Any:
    fact = next(v.schema for v in schema_versions() if v.subject == "duraton.journal.OwnerAlive")
    header = next(field["type"] for field in fact["fields"] if field["name"] == "header")
    return fastavro.parse_schema(header, {})
