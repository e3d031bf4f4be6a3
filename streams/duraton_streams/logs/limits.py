"""What every log refuses in the same way, before it writes anything."""

from collections.abc import Sequence

from duraton_schemas.slots import PARTITIONS_MAX
from duraton_streams.errors import LogMismatchError, RecordTooLargeError
from duraton_streams.logs.base import PARTITIONED, REGISTRY, NewRecord

TOPIC_MAX_BYTES = 8 << 20
"""The largest batch a topic takes (Kafka's max.message.bytes), in bytes."""
MAX_RECORD_BYTES = TOPIC_MAX_BYTES - (64 << 10)
"""The largest record in bytes: value, key and headers. What is left is for framing."""

_FLAT_CHECK_BYTES = MAX_RECORD_BYTES // 2


def check_sizes(records: Sequence[NewRecord]) -> None:
    """Refuse a batch with a record that is too large, before any of it is written.

    Raises:
        RecordTooLargeError: A record's value, key and headers are above `MAX_RECORD_BYTES`.
    """
    for record in records:
        # One len() a record in the common case; headers are only added up where it matters.
        if record.headers or len(record.value or b"") + len(record.key or b"") > _FLAT_CHECK_BYTES:
            size = record_bytes(record)
            if size > MAX_RECORD_BYTES:
                raise RecordTooLargeError(
                    f"a record for {record.topic}/{record.partition} has {size} bytes, "
                    f"the log takes {MAX_RECORD_BYTES}"
                )


def record_bytes(record: NewRecord) -> int:
    """A record's value, key and headers, in bytes."""
    headers = sum(len(name) + len(value) for name, value in record.headers)
    return len(record.value or b"") + len(record.key or b"") + headers


def check_partitions(partitions: int) -> None:
    """Refuse a number of partitions that no cluster has.

    Raises:
        LogMismatchError: It is below 1 or above the number of slots.
    """
    if not 1 <= partitions <= PARTITIONS_MAX:
        raise LogMismatchError(f"a log has 1 to {PARTITIONS_MAX} partitions, not {partitions}")


def places(partitions: int) -> list[tuple[str, int]]:
    """Every (topic, partition) of a cluster."""
    return [*((topic, n) for topic in PARTITIONED for n in range(partitions)), (REGISTRY, 0)]


def no_such_place(topic: str, partition: int) -> ValueError:
    """The error for a topic or partition that the cluster does not have."""
    return ValueError(f"the cluster has no {topic}/{partition}")
