"""How Kafka is used: every setting of ours, and the librdkafka configuration of each client."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from duraton_streams.logs.kafka.seldom import Seldom
from duraton_streams.logs.limits import TOPIC_MAX_BYTES

LOGGER = logging.getLogger("duraton.kafka")
"""Where librdkafka's own messages go, instead of standard error."""
LOGGER.addFilter(Seldom())

Pairs = list[tuple[str, str | bytes | None]]
"""Headers as the client takes them."""

_SILENT = 0
_RECONNECT_MS = 50
_RECONNECT_MAX_MS = 1_000


@dataclass(frozen=True)
class KafkaSettings:
    """How a cluster's log on Kafka is used.

    Attributes:
        client: Further librdkafka settings of every client, such as those of SASL and TLS.
        connect_s: Seconds until a broker that does not answer at the start is an error.
        commit_s: Seconds a commit may take, retries included; then it is in doubt.
        append_s: Seconds an append of inputs may take.
        read_s: Seconds a read waits for the broker, or for a transaction below its end
            that is still open.
        own_s: Seconds that becoming a partition's owner may take.
        transaction_timeout_ms: After this the broker aborts a transaction whose owner
            is gone; until then readers of committed records wait.
        fetch_wait_ms: How long the broker holds a fetch that finds nothing. Records end
            it at once; the end of a transaction's markers is seen only after it.
        tail_records: Records kept ready for each tail; a tail that is not taken from
            beyond that is not fetched for.
        tail_bytes: The same in bytes of values.
        prefetch_kib: KiB that a client fetches ahead.
        send_kib: KiB that may wait in a producer.
    """

    client: Mapping[str, Any] = field(default_factory=dict)
    connect_s: float = 5.0
    commit_s: float = 15.0
    append_s: float = 15.0
    read_s: float = 30.0
    own_s: float = 30.0
    transaction_timeout_ms: int = 10_000
    fetch_wait_ms: int = 200
    tail_records: int = 4_096
    tail_bytes: int = 8 << 20
    prefetch_kib: int = 32 << 10
    send_kib: int = 128 << 10


def _common(bootstrap: str, settings: KafkaSettings) -> dict[str, Any]:
    return {
        "bootstrap.servers": bootstrap,
        # A broker that was restarted is found again soon, not after ten seconds.
        "reconnect.backoff.ms": _RECONNECT_MS,
        "reconnect.backoff.max.ms": _RECONNECT_MAX_MS,
        "log.connection.close": False,
        **settings.client,
    }


def admin_config(bootstrap: str, settings: KafkaSettings) -> dict[str, Any]:
    """A client that asks and makes topics; nobody polls it, so it keeps its log to itself."""
    return {**_common(bootstrap, settings), "log_level": _SILENT}


def _producer(bootstrap: str, settings: KafkaSettings) -> dict[str, Any]:
    return {
        **_common(bootstrap, settings),
        "logger": LOGGER,
        "acks": "all",
        "enable.idempotence": True,
        # A batch is what has come meanwhile; nothing waits for an interval.
        "linger.ms": 0,
        "message.max.bytes": TOPIC_MAX_BYTES,
        "queue.buffering.max.kbytes": settings.send_kib,
        # The next transaction often meets the last one's markers still being written.
        "retry.backoff.ms": 1,
        "retry.backoff.max.ms": 10,
    }


def writer_config(bootstrap: str, settings: KafkaSettings, name: str) -> dict[str, Any]:
    """A partition's owner; whoever has its name last fences those before."""
    return {
        **_producer(bootstrap, settings),
        "transactional.id": name,
        "transaction.timeout.ms": settings.transaction_timeout_ms,
        "message.timeout.ms": settings.transaction_timeout_ms,
        # librdkafka wants it below the transaction's.
        "socket.timeout.ms": max(1_000, settings.transaction_timeout_ms * 6 // 10),
    }


def appender_config(bootstrap: str, settings: KafkaSettings) -> dict[str, Any]:
    """A producer of inputs, outside transactions."""
    return {
        **_producer(bootstrap, settings),
        "message.timeout.ms": max(1_000, int(settings.append_s * 1_000) * 9 // 10),
    }


def consumer_config(
    bootstrap: str, settings: KafkaSettings, group: str, *, committed: bool, fetch_wait_ms: int
) -> dict[str, Any]:
    """A consumer of partitions and offsets that we name; it joins no group.

    Group offsets are for people's lag tools only and are not committed yet; here, with
    `group`, is where that belongs.
    """
    return {
        **_common(bootstrap, settings),
        "group.id": group,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        # Records that retention removed are an error that we handle, never a silent jump.
        "auto.offset.reset": "error",
        "isolation.level": "read_committed" if committed else "read_uncommitted",
        # The one way to see that only transaction markers are left below the end.
        "enable.partition.eof": True,
        "fetch.wait.max.ms": fetch_wait_ms,
        "fetch.error.backoff.ms": 50,
        "fetch.queue.backoff.ms": 10,
        "message.max.bytes": TOPIC_MAX_BYTES,
        "fetch.message.max.bytes": TOPIC_MAX_BYTES,
        "queued.max.messages.kbytes": settings.prefetch_kib,
        "allow.auto.create.topics": False,
    }


def polled(config: dict[str, Any]) -> dict[str, Any]:
    """The configuration of a client that is polled: its log goes to `LOGGER`."""
    return {**config, "logger": LOGGER}


def silent(config: dict[str, Any]) -> dict[str, Any]:
    """The configuration of a client that nobody polls."""
    return {**config, "log_level": _SILENT}
