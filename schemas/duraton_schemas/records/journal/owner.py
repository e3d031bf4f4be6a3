"""Facts about a partition itself: its owner, what it has read, what could not be decided."""

from duraton_schemas.records.common import Cause, ErrorInfo, Fact, Record


class InputPosition(Record, kw_only=True):
    """How far one input partition has been read: `next` is the offset to read next."""

    topic: str
    partition: int
    next: int


class OwnerTook(Fact, kw_only=True):
    """A new owner of the partition begins; its epoch is in the header.

    Attributes:
        cluster: The cluster's id.
        partitions: How many partitions the cluster has.
        node: The owner's name.
        version: The program's version.
    """

    cluster: str
    partitions: int
    node: str
    version: str


class OwnerAlive(Fact, kw_only=True):
    """The owner proves after a long commit that it is not fenced."""


class Positions(Fact, kw_only=True):
    """What a batch has read; the last fact of every transaction.

    Attributes:
        inputs: Only the inputs that moved.
        clock: The engine's time at the batch, milliseconds since 1970 UTC.
    """

    inputs: list[InputPosition] = []
    clock: int


class InputGap(Fact, kw_only=True):
    """Records of an input are gone (retention); the input goes on behind them."""

    topic: str
    partition: int
    lost_from: int
    lost_to: int


class CommandParked(Fact, kw_only=True):
    """An input whose decision raised and that names no run; its bytes are kept here.

    Attributes:
        source: Where it came from.
        payload: Its bytes.
        error: What was raised.
    """

    source: Cause
    payload: bytes
    error: ErrorInfo
