"""Errors of the logs, the stores and the partition processor.

StreamError
├── LogError
│   ├── FencedError            another owner took the partition: end, do not retry
│   ├── DoubtError             a commit whose outcome is unknown: rebuild from the journal
│   ├── OffsetGoneError        an offset that retention has removed
│   ├── LogUnreachableError    a broker that is not there
│   ├── LogInUseError          a data directory that another process owns
│   ├── TopicsMissingError     a broker without this cluster's topics
│   ├── LogMismatchError       a log of another cluster, or with other partitions
│   └── RecordTooLargeError    a record above what the log takes
├── StateError
│   ├── StoreInUseError        a store that another process holds
│   ├── StoreAheadError        a store that knows more than its log
│   └── StoreMismatchError     a store of another cluster, partition or form
├── PartitionError
│   ├── PartitionStoppedError  an inconsistency that only a person can resolve
│   ├── ReplayMismatchError    a state that is not what its journal gives
│   └── BarrierError           a record that this program must not misread
└── OverloadedError            new work is refused for now (429)

`code` is stable; `advice` says what to do; `retriable` whether trying again helps.
"""

from typing import ClassVar


class StreamError(Exception):
    """Root of this component's errors."""

    code: ClassVar[str] = "stream"
    retriable: ClassVar[bool] = False
    advice: ClassVar[str] = "See docs/reference/errors.md."


class LogError(StreamError):
    """Something about the log."""

    code = "log"


class FencedError(LogError):
    """Another owner took the partition; whoever holds this writer ends."""

    code = "log-fenced"
    advice = "Stop one of the two engines; this one ended, so that only one decides."


class DoubtError(LogError):
    """A commit may or may not have happened; only the journal knows."""

    code = "log-doubt"
    retriable = True
    advice = "Nothing: the partition is rebuilt from its journal and goes on."


class OffsetGoneError(LogError):
    """Records from an offset on are gone; `first` is the first that is there."""

    code = "log-offset-gone"
    advice = "Lengthen the topic's retention; what is lost is recorded as input.gap."

    def __init__(self, topic: str, partition: int, wanted: int, first: int) -> None:
        super().__init__(f"{topic}/{partition} begins at {first}, offset {wanted} is gone")
        self.topic, self.partition, self.wanted, self.first = topic, partition, wanted, first

    def __reduce__(self) -> tuple[type["OffsetGoneError"], tuple[str, int, int, int]]:
        return type(self), (self.topic, self.partition, self.wanted, self.first)


class LogUnreachableError(LogError):
    """The broker does not answer."""

    code = "log-unreachable"
    retriable = True
    advice = "Check the --kafka address and that the broker runs."


class LogInUseError(LogError):
    """Another process owns the data directory."""

    code = "log-in-use"
    advice = "Stop the other engine, or pass another --data directory."


class TopicsMissingError(LogError):
    """The broker has not all topics of the cluster."""

    code = "log-topics-missing"
    advice = "Make them with `duraton topics create`."


class LogMismatchError(LogError):
    """The log belongs to another cluster or was made with other partitions."""

    code = "log-mismatch"
    advice = "Use the data directory and the partitions that the cluster was made with."


class RecordTooLargeError(LogError):
    """A record is above what the log takes."""

    code = "record-too-large"
    advice = "Store large data elsewhere and pass a reference to it."


class StateError(StreamError):
    """Something about a state store."""

    code = "state"


class StoreInUseError(StateError):
    """Another process holds the store."""

    code = "store-in-use"
    retriable = True
    advice = "Stop the other engine; a store has one owner."


class StoreAheadError(StateError):
    """The store has applied more than the log holds: the log went backwards."""

    code = "store-ahead"
    advice = "Restore the log, or run `duraton log rebuild` to build the state from what is there."


class StoreMismatchError(StateError):
    """The store belongs to another cluster or partition, or has another form."""

    code = "store-mismatch"
    advice = "Run `duraton log rebuild` to build the state anew from the log."


class PartitionError(StreamError):
    """Something about a partition's processor."""

    code = "partition"


class PartitionStoppedError(PartitionError):
    """The partition stopped rather than go on inconsistently."""

    code = "partition-stopped"
    advice = "Run `duraton doctor`; it names the inconsistency."


class ReplayMismatchError(PartitionError):
    """The state of a partition is not what its journal gives."""

    code = "partition-replay-mismatch"
    advice = "This is a defect: report it with the message, then run `duraton log rebuild`."


class BarrierError(PartitionError):
    """A fact of an unknown type says that it must not be skipped."""

    code = "partition-barrier"
    advice = "Upgrade this program to the version that wrote the log."


class OverloadedError(StreamError):
    """Too much new work waits; `retry_after_s` says when to come again."""

    code = "overloaded"
    retriable = True
    advice = "Send again after the Retry-After time."

    def __init__(self, message: str, retry_after_s: int = 1) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s
