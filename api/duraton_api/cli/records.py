"""Records of the log as people and programs read them."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from duraton_api.cli.errors import CommandFailedError
from duraton_api.cli.options import KAFKA_FOLDER, usage
from duraton_api.node.defaults import LOG_FILE
from duraton_schemas.errors import SchemaError
from duraton_schemas.records.common import Fact
from duraton_streams.logs.base import DEAD_LETTERS, TOPICS, Log, LogRecord

if TYPE_CHECKING:
    from duraton_streams.logs.sqlite import SqliteLog

RAW_SHOWN_MAX = 200
"""Bytes of an unreadable record that are shown."""
_PREFIX = "duraton."


def open_log(data: Path, kafka: str | None, prefix: str) -> Log:
    """A cluster's log, to be read and never written.

    Raises:
        CommandFailedError: There is no log in the directory.
        LogError: It cannot be read.
    """
    if kafka is not None:
        from duraton_streams.logs.kafka import KafkaLog  # noqa: PLC0415 loads librdkafka

        return KafkaLog(kafka, prefix=prefix)
    return open_embedded(data)


def open_embedded(data: Path) -> "SqliteLog":
    """A directory's embedded log, to be read and never written.

    Raises:
        CommandFailedError: There is none.
        LogError: It cannot be read.
    """
    from duraton_streams.logs.sqlite import SqliteLog  # noqa: PLC0415 as above

    path = data / LOG_FILE
    if not path.is_file():
        advice = "Name the engine's directory with --data, or its brokers with --kafka."
        if (data / KAFKA_FOLDER).is_dir():
            advice = "Its engine has its log on Kafka: name the brokers with --kafka."
        raise CommandFailedError("data-missing", f"there is no log in {data}", advice)
    return SqliteLog.open_readonly(path)


def topic_of(text: str) -> str:
    """A topic's name from what a person writes: with or without its beginning.

    Raises:
        CommandFailedError: There is no such topic.
    """
    topic = text if text.startswith(_PREFIX) else _PREFIX + text
    if topic not in TOPICS:
        names = ", ".join(each.removeprefix(_PREFIX) for each in TOPICS)
        raise usage(f"there is no topic {text!r}", f"The topics are {names}.")
    return topic


def partitions_of(log: Log, topic: str, partition: int | None) -> range:
    """The partitions to read: one, or all of a topic.

    Raises:
        CommandFailedError: The topic has no such partition.
    """
    from duraton_streams.logs.base import REGISTRY  # noqa: PLC0415 beside its one use

    count = 1 if topic == REGISTRY else log.partitions
    if partition is None:
        return range(count)
    if partition >= count:
        raise usage(f"{topic} has the partitions 0 to {count - 1}")
    return range(partition, partition + 1)


class Reader:
    """Decodes records for showing; what cannot be read is shown as it is."""

    def __init__(self) -> None:
        from duraton_schemas.codec import Codec  # noqa: PLC0415 most commands decode nothing

        self._codec = Codec()

    def read(self, record: LogRecord) -> dict[str, Any]:
        """A record's place, key, headers, type and fields, as JSON values."""
        shown: dict[str, Any] = {
            "topic": record.topic,
            "partition": record.partition,
            "offset": record.offset,
            "at": _iso(record.timestamp_ms),
            "key": _text(record.key),
            "headers": {name: _text(value) for name, value in record.headers},
        }
        if record.value is None:
            return {**shown, "type": None, "record": None}
        try:
            if record.topic == DEAD_LETTERS:
                raise _unreadable(record)
            decoded = self._decode(record)
        except SchemaError as error:
            raw = record.value[:RAW_SHOWN_MAX]
            unread = {"bytes": len(record.value), "begins": _text(raw), "why": str(error)}
            return {**shown, "type": None, "unread": unread}
        fields = msgspec.to_builtins(decoded)
        if isinstance(decoded, Fact) and decoded.header is not None:
            shown["at"] = _iso(decoded.header.at)
        return {**shown, "type": type(decoded).__name__, "record": fields}

    def _decode(self, record: LogRecord) -> Any:
        from duraton_engine.decoding import decode_input  # noqa: PLC0415 only here
        from duraton_streams.logs.base import EVENTS  # noqa: PLC0415 beside its one use

        if record.topic == EVENTS:
            return decode_input(self._codec, record)
        return self._codec.decode(record.value or b"")


def one_line(shown: dict[str, Any], length: int) -> str:
    """A record in one line: place, time, type, and its fields as far as they fit."""
    topic = shown["topic"].removeprefix(_PREFIX)
    place = f"{topic}/{shown['partition']}/{shown['offset']}"
    kind = shown["type"] or ("tombstone" if "unread" not in shown else "unreadable")
    fields = shown.get("record") or shown.get("unread") or {}
    rest = {
        name: value
        for name, value in fields.items()
        if name not in ("header", "envelope") and value not in (None, [], "", False)
    }
    text = f"{place:<18} {shown['at'][:23]} {kind:<20} {json.dumps(rest, ensure_ascii=False)}"
    return text if len(text) <= length else text[: length - 1] + "…"


def _unreadable(record: LogRecord) -> SchemaError:
    reasons = [_text(value) or "" for name, value in record.headers if "reason" in name]
    return SchemaError(reasons[0] if reasons else "it is a dead letter")


def _text(raw: bytes | None) -> str | None:
    return None if raw is None else raw.decode("utf-8", "backslashreplace")


def _iso(ms: int) -> str:
    try:
        moment = datetime.fromtimestamp(ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return str(ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
