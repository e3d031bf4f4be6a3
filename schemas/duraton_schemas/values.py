"""Values: the JSON text in which data and outputs are stored, and their limits.

What a handler sees is always what `load(dump(value))` gives, also the first
time (P43), so a first pass and a replay cannot differ.
"""

import dataclasses
import datetime
import decimal
import enum
import inspect
import math
import uuid
from collections.abc import Iterable, Mapping

import msgspec

from duraton_schemas.errors import ValueFormError, ValueSizeError

SAFE_INTEGER_MAX = 2**53
DEPTH_MAX = 200

EVENT_BYTES_MAX = 1 << 20
"""An event's data (P58)."""
STEP_OUTPUT_BYTES_MAX = 4 << 20
"""One step's output (P58)."""
RUN_STATE_BYTES_MAX = 32 << 20
"""Everything one run holds: trigger and outputs (P58)."""
BATCH_BYTES_MAX = 6 << 20
"""Data of the events of one batch run (P58)."""
RECORD_BYTES_MAX = 7 << 20
"""One record of the log (DESIGN 2); topics allow 8 MiB."""

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder()


def dump(value: object, *, limit: int = STEP_OUTPUT_BYTES_MAX) -> str:
    """The stored JSON text of a value.

    Args:
        value: Any Python value. Dataclasses, msgspec structs, objects with
            `model_dump`, dates, sets, tuples and enums have a defined form;
            other objects are stored as their public attributes.
        limit: Bytes allowed for the stored form.

    Raises:
        ValueFormError: It has no exact JSON form: NaN, infinities, bytes,
            cycles, whole numbers beyond 2^53.
        ValueSizeError: Its stored form is above the limit.
    """
    try:
        text = _encoder.encode(_plain(value, 0)).decode()
    except UnicodeEncodeError as error:
        raise ValueFormError("the text holds half a surrogate pair and has no UTF-8") from error
    size = text_bytes(text)
    if size > limit:
        raise ValueSizeError(f"the value is {size} bytes, the limit is {limit}")
    return text


def text_bytes(text: str) -> int:
    """How many bytes a text is in UTF-8, which is what limits count."""
    return len(text) if text.isascii() else len(text.encode())


def load(text: str) -> object:
    """The value that a stored JSON text gives."""
    return _decoder.decode(text)


def check_depth(value: object, text: str | bytes) -> None:
    """Refuse a value that is nested deeper than `dump` allows.

    Args:
        value: A value that JSON gave.
        text: The JSON that gave it; without enough brackets in it nothing is walked.

    Raises:
        ValueFormError: It is nested more than `DEPTH_MAX` deep.
    """
    opened = (
        text.count("{") + text.count("[")
        if isinstance(text, str)
        else text.count(b"{") + text.count(b"[")
    )
    if opened <= DEPTH_MAX:
        return
    level = [value]
    for _ in range(DEPTH_MAX + 1):
        level = [inner for outer in level for inner in _inside(outer)]
        if not level:
            return
    raise ValueFormError(f"the value is nested more than {DEPTH_MAX} deep")


def _inside(value: object) -> Iterable[object]:
    """What a value of JSON holds, one level down."""
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _plain(value: object, depth: int) -> object:
    if depth > DEPTH_MAX:
        raise ValueFormError("the value is nested too deeply, or holds itself")
    if isinstance(value, enum.Enum):
        return _plain(value.value, depth + 1)
    if value is None or value is True or value is False:
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        if abs(value) > SAFE_INTEGER_MAX:
            raise ValueFormError(f"the whole number {value} is beyond 2^53; store it as text")
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueFormError(f"{value} has no JSON form")
        return float(value)
    if isinstance(value, Mapping):
        return {_name(key): _plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item, depth + 1) for item in value]
    return _plain_object(value, depth)


def _name(key: object) -> str:
    if isinstance(key, str):
        return str.__str__(key)
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, int):
        return str(key)
    raise ValueFormError(f"{key!r} cannot be a field's name in JSON")


def _plain_object(value: object, depth: int) -> object:
    if isinstance(value, (bytes, bytearray, memoryview)):
        raise ValueFormError("bytes have no JSON form; encode them as text")
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        return value / datetime.timedelta(milliseconds=1)
    if isinstance(value, (uuid.UUID, decimal.Decimal)):
        return str(value)
    if isinstance(value, (set, frozenset)):
        items = [_plain(item, depth + 1) for item in value]
        return sorted(items, key=_encoder.encode)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        return {f.name: _plain(getattr(value, f.name), depth + 1) for f in fields}
    if isinstance(value, msgspec.Struct):
        names = value.__struct_fields__
        return {name: _plain(getattr(value, name), depth + 1) for name in names}
    model_dump = getattr(value, "model_dump", None)
    if callable(model_dump):
        return _plain(model_dump(mode="json"), depth + 1)
    attributes = getattr(value, "__dict__", None)
    if attributes is None or isinstance(value, type) or callable(value):
        hint = "; is an `await` missing?" if inspect.isawaitable(value) else ""
        raise ValueFormError(f"a value of type {type(value).__name__} has no JSON form{hint}")
    public = {name: item for name, item in attributes.items() if not name.startswith("_")}
    return {name: _plain(item, depth + 1) for name, item in public.items()}
