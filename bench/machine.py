"""What the machine gives today, so that figures of different days can be held together.

Each figure is a bare loop over the very library that the engine uses, with nothing of
ours in between: what a commit costs at least.
"""

import sqlite3
import statistics
import time
import uuid
from pathlib import Path

ROUNDS = 300
WARM_ROUNDS_MAX = 30
WARM_BETTER = 0.98
WARM_PATIENCE = 4
RECORDS = 10
VALUE = b"x" * 200


def python_ns() -> float:
    """One turn of a small loop, in nanoseconds: the best of five."""
    best = float("inf")
    for _ in range(5):
        began = time.perf_counter()
        total = 0
        for number in range(1_000_000):
            total += number
        best = min(best, time.perf_counter() - began)
    return best * 1_000


def sqlite_commit_ms(folder: Path) -> float:
    """The median of a synced SQLite transaction of ten records, in milliseconds."""
    database = sqlite3.connect(folder / "raw.sqlite", isolation_level=None)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = FULL")
    database.execute("CREATE TABLE records (at INTEGER PRIMARY KEY, value BLOB)")
    times = []
    for number in range(ROUNDS):
        began = time.perf_counter()
        database.execute("BEGIN IMMEDIATE")
        rows = [(number * RECORDS + each, VALUE) for each in range(RECORDS)]
        database.executemany("INSERT INTO records VALUES (?, ?)", rows)
        database.execute("COMMIT")
        times.append(time.perf_counter() - began)
    database.close()
    return statistics.median(times) * 1_000


def warm_kafka_ms(bootstrap: str) -> float:
    """Warm a broker until its bare transaction gets no quicker; the median of the last round.

    One that was just started runs its code interpreted, and takes four times as long
    for the first thousands of transactions.
    """
    best, found, since = float("inf"), 0.0, 0
    for _ in range(WARM_ROUNDS_MAX):
        found = kafka_commit_ms(bootstrap)
        since = 0 if found < best * WARM_BETTER else since + 1
        best = min(best, found)
        if since == WARM_PATIENCE:
            break
    return found


def kafka_commit_ms(bootstrap: str) -> float:
    """The median of a Kafka transaction of ten records on one partition, in milliseconds."""
    from confluent_kafka import Producer  # noqa: PLC0415 - only where there is a broker
    from confluent_kafka.admin import AdminClient, NewTopic  # noqa: PLC0415 - as above

    topic = f"bench-{uuid.uuid4().hex[:8]}"
    settings = {"bootstrap.servers": bootstrap}
    admin = AdminClient(settings)
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
    producer = Producer(
        {**settings, "transactional.id": topic, "linger.ms": 0, "retry.backoff.ms": 1}
    )
    producer.init_transactions(30)
    times = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        producer.begin_transaction()
        for _ in range(RECORDS):
            producer.produce(topic, VALUE)
        producer.commit_transaction(30)
        times.append(time.perf_counter() - began)
    return statistics.median(times) * 1_000
