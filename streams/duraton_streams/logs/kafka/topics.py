"""A cluster's topics on Kafka: made, looked at, and what identifies them."""

import time
from dataclasses import dataclass

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from duraton_streams.errors import LogMismatchError, LogUnreachableError, TopicsMissingError
from duraton_streams.logs.base import JOURNAL, PARTITIONED, REGISTRY, TOPICS
from duraton_streams.logs.kafka.errors import ask_error, reason
from duraton_streams.logs.kafka.settings import KafkaSettings, admin_config
from duraton_streams.logs.limits import TOPIC_MAX_BYTES, check_partitions

CLOCK = "duraton.clock"
"""One partition whose records the broker stamps: the cluster's reference time."""

CREATE_S = 30.0
"""Seconds for making topics; a broker that has just started is slow at it."""

_LOOK_S = 0.05
_NO_UUID = "AAAAAAAAAAAAAAAAAAAAAA"  # a broker without topic ids says zero
_FOR_EVER = str((1 << 63) - 1)
_CLOCK_RETENTION_MS = str(3_600_000)


@dataclass(frozen=True)
class ClusterTopics:
    """What the topics say: the cluster's id, and how many partitions it has."""

    cluster: str
    partitions: int


def create(
    bootstrap: str,
    partitions: int,
    replication: int,
    prefix: str,
    settings: KafkaSettings,
) -> list[str]:
    """Make the topics that are missing; the names of those that were made."""
    check_partitions(partitions)
    admin = connect(bootstrap, settings)
    existing = _existing(admin, bootstrap, prefix, settings)
    if existing:
        _check(existing, prefix, partitions, allow_missing=True)
    missing = [
        _new_topic(name, partitions, replication, prefix)
        for name in (*TOPICS, CLOCK)
        if name not in existing
    ]
    if not missing:
        return []
    made = []
    for name, future in admin.create_topics(missing, operation_timeout=CREATE_S).items():
        try:
            future.result(CREATE_S)
            made.append(name)
        except KafkaException as failure:
            # Two that make them at once are welcome to share the work.
            if reason(failure).code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise LogMismatchError(
                    f"Kafka does not make the topic {name}: {reason(failure).str()}"
                ) from failure
    _await_leaders(admin, bootstrap, [topic.topic for topic in missing], settings)
    return made


def look(
    bootstrap: str, partitions: int | None, prefix: str, settings: KafkaSettings
) -> ClusterTopics:
    """Look at a cluster's topics.

    Raises:
        LogUnreachableError: No broker answers.
        TopicsMissingError: Topics are missing.
        LogMismatchError: They disagree with each other or with `partitions`.
    """
    admin = connect(bootstrap, settings)
    existing = _existing(admin, bootstrap, prefix, settings)
    found = _check(existing, prefix, partitions, allow_missing=False)
    name = prefix + JOURNAL
    try:
        future = admin.describe_topics(TopicCollection([name]), request_timeout=settings.connect_s)[
            name
        ]
        identity = str(future.result().topic_id)
        if identity == _NO_UUID:
            identity = f"{admin.list_topics(timeout=settings.connect_s).cluster_id}.{prefix}"
    except KafkaException as failure:
        raise ask_error(failure, bootstrap, "asking for the journal's id") from failure
    # The journal's own id: topics made anew under the same names are another cluster.
    return ClusterTopics(identity, found)


def brokers(bootstrap: str, settings: KafkaSettings) -> int:
    """How many brokers the cluster has."""
    admin = connect(bootstrap, settings)
    try:
        return len(admin.list_topics(timeout=settings.connect_s).brokers)
    except KafkaException as failure:
        raise ask_error(failure, bootstrap, "counting brokers") from failure


def connect(bootstrap: str, settings: KafkaSettings) -> AdminClient:
    """A client for questions about topics."""
    try:
        return AdminClient(admin_config(bootstrap, settings))
    except KafkaException as failure:
        raise ask_error(failure, bootstrap, "connecting") from failure


def _existing(
    admin: AdminClient, bootstrap: str, prefix: str, settings: KafkaSettings
) -> dict[str, int]:
    """Our topics that are there, without the prefix, and their partitions."""
    try:
        metadata = admin.list_topics(timeout=settings.connect_s)
    except KafkaException as failure:
        raise ask_error(failure, bootstrap, "asking for topics") from failure
    return {
        name: len(metadata.topics[prefix + name].partitions)
        for name in (*TOPICS, CLOCK)
        if prefix + name in metadata.topics
    }


def _check(
    existing: dict[str, int], prefix: str, wanted: int | None, *, allow_missing: bool
) -> int:
    missing = [prefix + name for name in (*TOPICS, CLOCK) if name not in existing]
    if missing and not allow_missing:
        raise TopicsMissingError(f"Kafka has no topic {', '.join(missing)}")
    counts = {name: existing[name] for name in PARTITIONED if name in existing}
    found = counts.get(JOURNAL, wanted or 1)
    if wanted is not None and found != wanted:
        raise LogMismatchError(f"the topics were made with {found} partitions, not {wanted}")
    for name, count in counts.items():
        if count != found:
            raise LogMismatchError(
                f"topic {prefix}{name} has {count} partitions and {prefix}{JOURNAL} has {found}"
            )
    for name in (REGISTRY, CLOCK):
        if existing.get(name, 1) != 1:
            raise LogMismatchError(f"topic {prefix}{name} has {existing[name]} partitions, not 1")
    return found


def _new_topic(name: str, partitions: int, replication: int, prefix: str) -> NewTopic:
    config = {
        "max.message.bytes": str(TOPIC_MAX_BYTES),
        "cleanup.policy": "compact" if name == REGISTRY else "delete",
        # Two copies are written before an acknowledgement, where there are brokers for it.
        "min.insync.replicas": "2" if replication > 2 else "1",
    }
    if name == CLOCK:
        config |= {
            "message.timestamp.type": "LogAppendTime",
            "retention.ms": _CLOCK_RETENTION_MS,
        }
    else:
        # Everything is kept until somebody sets a retention, and our clock is our own.
        config |= {
            "message.timestamp.type": "CreateTime",
            "message.timestamp.after.max.ms": _FOR_EVER,
            "retention.ms": "-1",
        }
    count = partitions if name in PARTITIONED else 1
    return NewTopic(prefix + name, count, replication, config=config)


def _await_leaders(
    admin: AdminClient, bootstrap: str, names: list[str], settings: KafkaSettings
) -> None:
    """Return once brokers know every partition's leader; they hear of new topics late."""
    deadline = time.monotonic() + CREATE_S
    while True:
        try:
            topics = admin.list_topics(timeout=settings.connect_s).topics
        except KafkaException as failure:
            raise ask_error(failure, bootstrap, "asking for topics") from failure
        known = [topics[name].partitions.values() for name in names if name in topics]
        if len(known) == len(names) and all(p.leader >= 0 for each in known for p in each):
            return
        if time.monotonic() > deadline:
            raise LogUnreachableError(f"Kafka at {bootstrap} made topics but does not lead them")
        time.sleep(_LOOK_S)
