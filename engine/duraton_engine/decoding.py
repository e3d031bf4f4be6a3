"""What an input record says, in any of the forms that people may write.

`duraton.events` takes our Avro, a JSON object as `POST /events` has it, and
CloudEvents in binary mode (attributes in `ce_` headers, JSON data as the value).
"""

from typing import Any

import msgspec

from duraton_schemas.codec import MAGIC, Codec
from duraton_schemas.errors import BadRecordError, ValueFormError
from duraton_schemas.options import NAME_LENGTH_MAX
from duraton_schemas.records.common import Record
from duraton_schemas.records.public import Event
from duraton_schemas.values import EVENT_BYTES_MAX, RECORD_BYTES_MAX, check_depth, dump, text_bytes
from duraton_streams.logs.base import EVENTS, LogRecord

POST_HEADER = "duraton_post"
"""The POST that an event came with and its number there, as `id/n`."""
REGISTRY_HEADER = "duraton_registry"
"""The registry version that must be applied before the record is decided about."""

_FIELDS = frozenset(("id", "name", "data", "ts", "dedupeId", "subject"))
_CLOUD_EVENT = "ce_"
_VERSION_DIGITS_MAX = 18
ID_LENGTH_MAX = 500
"""Characters of an event's id, dedupe id and subject."""
TS_MAX = 253_402_300_799_999
"""The last millisecond of the year 9999, which is the last that dates can be shown of."""


def header(record: LogRecord, name: str) -> str | None:
    """A header's text, or None where it is not there or no text."""
    for key, value in record.headers:
        if key == name:
            try:
                return value.decode()
            except UnicodeDecodeError:
                return None
    return None


def wanted_registry(record: LogRecord) -> int:
    """The registry version stamped on a record, or 0."""
    if not record.headers:
        return 0
    text = header(record, REGISTRY_HEADER)
    if text is None or not text.isdecimal() or len(text) > _VERSION_DIGITS_MAX:
        return 0
    return int(text)


def decode_input(codec: Codec, record: LogRecord) -> Record:
    """The command, message, registry entry or event of a record.

    Raises:
        SchemaError: It says nothing that can be read.
    """
    raw = record.value
    if raw is None:
        raise BadRecordError("the record has no value")
    if len(raw) > RECORD_BYTES_MAX:
        raise BadRecordError(f"the record is {len(raw)} bytes, the limit is {RECORD_BYTES_MAX}")
    if record.topic != EVENTS:
        return codec.decode(raw)
    if raw[:1] == bytes((MAGIC,)):
        event = codec.decode(raw)
        if not isinstance(event, Event):
            raise BadRecordError(f"a {type(event).__name__} is no event")
    else:
        event = _json_event(record, raw)
    _check(event)
    return event


def _check(event: Event) -> None:
    if not event.name or len(event.name) > NAME_LENGTH_MAX:
        raise BadRecordError(f"an event's name has 1 to {NAME_LENGTH_MAX} characters")
    if not event.id:
        raise BadRecordError("an event's id is not empty")
    for field, text in (
        ("id", event.id),
        ("dedupeId", event.dedupe_id),
        ("subject", event.subject),
    ):
        if text is not None and len(text) > ID_LENGTH_MAX:
            raise BadRecordError(f"an event's {field} has at most {ID_LENGTH_MAX} characters")
    if not 0 <= event.ts <= TS_MAX:
        raise BadRecordError(f"an event's ts is from 0 to {TS_MAX}, not {event.ts}")
    if text_bytes(event.data) > EVENT_BYTES_MAX:
        raise BadRecordError(f"an event's data has at most {EVENT_BYTES_MAX} bytes")
    data = _json(event.data, "an event's data is JSON")
    if data is not None and not isinstance(data, dict):
        raise BadRecordError("an event's data is a JSON object")


def _json(text: str | bytes, what: str) -> Any:
    """The value of a JSON text that is nested no deeper than values may be."""
    try:
        value = msgspec.json.decode(text)
        check_depth(value, text)
    except (msgspec.DecodeError, ValueFormError) as error:
        raise BadRecordError(f"{what}: {error}") from error
    except RecursionError as error:
        raise BadRecordError(f"{what}: it is nested too deeply") from error
    return value


def _json_event(record: LogRecord, raw: bytes) -> Event:
    value = _json(raw, "the record is neither Avro nor JSON")
    kind = header(record, f"{_CLOUD_EVENT}type")
    given: dict[str, Any]
    if kind is not None:
        given = {"name": kind, "data": value}
        for field, attribute in (("id", "id"), ("subject", "subject"), ("dedupeId", "dedupeid")):
            text = header(record, f"{_CLOUD_EVENT}{attribute}")
            if text is not None:
                given[field] = text
    elif isinstance(value, dict):
        given = value
    else:
        raise BadRecordError("an event in JSON is an object with name and data")
    unknown = sorted(set(given) - _FIELDS)
    if unknown:
        raise BadRecordError(f"an event has no field {unknown[0]!r}")
    for field in ("id", "name", "dedupeId", "subject"):
        if given.get(field) is not None and not isinstance(given[field], str):
            raise BadRecordError(f"an event's {field} is text")
    ts = given.get("ts", record.timestamp_ms)
    if isinstance(ts, bool) or not isinstance(ts, int):
        raise BadRecordError("an event's ts is whole milliseconds since 1970 UTC")
    return Event(
        id=given.get("id") or f"{record.topic}/{record.partition}/{record.offset}",
        name=given.get("name") or "",
        data=dump(given.get("data", {}), limit=EVENT_BYTES_MAX),
        ts=ts,
        dedupe_id=given.get("dedupeId"),
        subject=given.get("subject"),
    )
