"""From a client's message to our record."""

from confluent_kafka import Message

from duraton_streams.logs.base import Headers, LogRecord


def to_record(message: Message, topic: str, partition: int, offset: int) -> LogRecord:
    """A consumed message as a record of our topic (which has no prefix)."""
    headers = message.headers()
    return LogRecord(
        topic,
        partition,
        offset,
        message.value(),
        message.key(),
        _headers(headers) if headers else (),
        message.timestamp()[1],
    )


def _headers(headers: object) -> Headers:
    # Outsiders may write headers without a value; those are empty here.
    pairs = headers.items() if isinstance(headers, dict) else headers
    return tuple((name, value or b"") for name, value in pairs)  # type: ignore[attr-defined]  # pairs
