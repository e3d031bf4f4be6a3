"""What librdkafka's errors mean to us."""

from confluent_kafka import KafkaError, KafkaException

from duraton_streams.errors import DoubtError, FencedError, LogError, LogUnreachableError

_FENCED = frozenset(
    {
        KafkaError._FENCED,  # noqa: SLF001 - librdkafka's name for it
        KafkaError.PRODUCER_FENCED,
        KafkaError.INVALID_PRODUCER_EPOCH,
    }
)
_TOO_LARGE = frozenset({KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE})
_MOVING = frozenset(
    {
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
    }
)
_WRONG_SETTINGS = frozenset(
    {
        KafkaError._INVALID_ARG,  # noqa: SLF001 - librdkafka's name for it
        KafkaError._CONFLICT,  # noqa: SLF001 - as above
        KafkaError._NOT_IMPLEMENTED,  # noqa: SLF001 - as above
    }
)


CLIENT_FAILURES = (KafkaException, SystemError)
"""What the client's calls raise.

A fatal error is raised out of whatever call hears of it. If a callback runs in that
same call, Python reports a SystemError whose cause is the fatal error.
"""


def reason(failure: BaseException) -> KafkaError:
    """The client's error inside an exception or what caused it."""
    at: BaseException | None = failure
    while at is not None:
        if isinstance(at, KafkaException) and at.args and isinstance(at.args[0], KafkaError):
            return at.args[0]
        at = at.__cause__ or at.__context__
    return KafkaError(KafkaError.UNKNOWN, str(failure))


def is_fenced(error: KafkaError) -> bool:
    """Whether another owner took the transactional id.

    A broker also answers so when it aborted the transaction of an owner that slept
    longer than the transaction's timeout; the two cannot be told apart.
    """
    return error.code() in _FENCED


def is_too_large(error: KafkaError) -> bool:
    """Whether a record is above what the client or the topic takes."""
    return error.code() in _TOO_LARGE


def is_moving(error: KafkaError) -> bool:
    """Whether a partition is new, or on its way to another broker: ask again soon."""
    return error.code() in _MOVING


def commit_error(error: KafkaError, doing: str) -> LogError:
    """What a failed part of a commit is to its caller."""
    if is_fenced(error):
        return FencedError(f"another owner took the partition ({doing}: {error.str()})")
    return DoubtError(f"{doing}: {error.str()} ({error.name()})")


def ask_error(failure: KafkaException, bootstrap: str, doing: str) -> LogError:
    """What a failed question is to its caller."""
    error = reason(failure)
    if error.code() in _WRONG_SETTINGS:
        return LogError(f"Kafka's client refuses its settings: {error.str()}")
    return LogUnreachableError(
        f"Kafka at {bootstrap} does not answer ({doing}: {error.str() or error.name()})"
    )
