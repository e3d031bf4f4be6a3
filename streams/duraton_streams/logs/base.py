"""What a log is, whichever one holds it: memory, SQLite or Kafka.

A log is a set of partitioned topics of immutable records. Inputs (events,
commands) are appended by anyone; everything else is written by a partition's
one owner, in transactions that also say how far its inputs were read.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

EVENTS = "duraton.events"
COMMANDS = "duraton.commands"
MESSAGES = "duraton.messages"
JOURNAL = "duraton.journal"
OUTCOMES = "duraton.outcomes"
REGISTRY = "duraton.registry"
DEAD_LETTERS = "duraton.dead-letters"

PARTITIONED = (EVENTS, COMMANDS, MESSAGES, JOURNAL, OUTCOMES, DEAD_LETTERS)
"""Topics with one partition for each of the cluster's."""
TOPICS = (*PARTITIONED, REGISTRY)
"""All topics; the registry has one partition."""

Headers = tuple[tuple[str, bytes], ...]


class NewRecord(NamedTuple):
    """A record to be written.

    Attributes:
        topic: Its topic.
        partition: Its partition there.
        value: Its bytes, or None for a tombstone.
        key: Its key's bytes, or None.
        headers: Names and bytes, in order.
        timestamp_ms: Milliseconds since 1970 UTC; 0 stands for the time of writing.
    """

    topic: str
    partition: int
    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    timestamp_ms: int = 0


class LogRecord(NamedTuple):
    """A record that stands on the log; `offset` grows but may leave gaps (markers)."""

    topic: str
    partition: int
    offset: int
    value: bytes | None
    key: bytes | None
    headers: Headers
    timestamp_ms: int


class Tail(Protocol):
    """Follows one partition of one topic; committed records only, in order."""

    @property
    def position(self) -> int:
        """The offset below which all that is committed was taken; at first where it began.

        Once all was taken it passes the markers that transactions leave, so that it
        reaches the end that `bounds` tells.
        """

    def take(self, limit: int, bytes_limit: int = 8 << 20) -> list[LogRecord]:
        """What is there, without waiting; at most `limit` records.

        Args:
            limit: The most records.
            bytes_limit: About the most bytes of values; at least one record is given.

        Raises:
            OffsetGoneError: The records at the position are gone.
        """

    def pass_over(self, offset: int) -> None:
        """What is below an offset is known to whoever follows, and need not be given.

        A log from which it is on its way already may give it all the same.
        """

    def close(self) -> None:
        """Follow no longer; `wake` is not called afterwards."""


class Writer(Protocol):
    """A partition's one owner: whoever made it last, until it is fenced."""

    @property
    def partition(self) -> int:
        """The partition it owns."""

    def commit(self, records: Sequence[NewRecord]) -> list[int]:
        """Write all records in one transaction, durably, and return their offsets.

        After `FencedError` and `DoubtError` the writer is of no more use: its next
        commits raise too. It blocks. Records of inputs (events, commands) of the own
        partition may be among them where the log is `embedded`.

        Raises:
            FencedError: Another owner took the partition; nothing was written.
            DoubtError: It is not known whether they were written.
            RecordTooLargeError: Nothing was written.
        """

    def close(self) -> None:
        """Give the partition up."""


class Log(Protocol):
    """A cluster's log."""

    @property
    def partitions(self) -> int:
        """How many partitions the cluster has, for ever."""

    @property
    def cluster(self) -> str:
        """The cluster's id, for ever."""

    @property
    def embedded(self) -> bool:
        """Whether this process alone holds the log, so that owners may write inputs."""

    def now_ms(self) -> int | None:
        """The log's reference time (the broker's), or None where the wall clock is it.

        It blocks for a round trip.

        Raises:
            LogUnreachableError: The broker does not answer.
        """

    def writer(self, partition: int) -> Writer:
        """Become a partition's owner; whoever owned it is fenced from here on.

        It blocks, and returns only once nothing of the last owner is open.
        """

    def append(self, records: Sequence[NewRecord]) -> list[int]:
        """Write inputs, durably, without a transaction; return their offsets. It blocks."""

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        """The first offset that is there, and the next to be written (the end).

        The end is that of all records, open transactions included (high watermark).
        """

    def read(
        self, topic: str, partition: int, offset: int, limit: int, end: int | None = None
    ) -> list[LogRecord]:
        """Committed records from an offset on, for recovery, views and tools. It blocks.

        It gives fewer than `limit` where that is quicker, or where they are large.

        Args:
            topic: The topic.
            partition: The partition.
            offset: Where to begin.
            limit: The most records.
            end: Read only below it; an empty answer means that all below it was read.
                Without it, what readers see now is given, and nothing is waited for;
                on Kafka a commit is seen a moment after it returned.

        Raises:
            OffsetGoneError: The records at `offset` are gone.
            LogUnreachableError: The broker does not answer, or a transaction below
                `end` stays open.
        """

    def tail(self, topic: str, partition: int, offset: int, wake: Callable[[], None]) -> Tail:
        """Follow a partition from an offset on.

        Take once after making it, and at each wake until nothing is given: what is
        left when a `take` reaches its limit wakes nobody again.

        Args:
            topic: The topic.
            partition: The partition.
            offset: Where to begin.
            wake: Called from any thread when something may be there to take.
        """

    def close(self) -> None:
        """Release everything; writers and tails are closed with it."""
