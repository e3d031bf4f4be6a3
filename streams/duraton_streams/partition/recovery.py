"""The one way of recovery, walked at every start (DESIGN 7)."""

from collections.abc import Callable, Mapping

import msgspec

from duraton_schemas.codec import Codec
from duraton_schemas.errors import UnknownSchemaError
from duraton_schemas.records.common import Fact
from duraton_schemas.records.journal import OwnerAlive, OwnerTook, Positions, RegistrationApplied
from duraton_streams.errors import (
    BarrierError,
    LogMismatchError,
    PartitionStoppedError,
    StoreAheadError,
)
from duraton_streams.logs.base import JOURNAL, Log, LogRecord
from duraton_streams.partition.machine import Applier
from duraton_streams.state.overlay import State

FORM = 1
"""The form of the stored state; another one is rebuilt from the journal."""

_TELLING = frozenset((Positions, RegistrationApplied, OwnerTook))
"""Facts that say more than their header about where a partition stands."""
TRANSACTION_ENDS = (Positions, OwnerTook, OwnerAlive)
"""Facts that end a transaction; the last two are transactions of their own."""

Progress = Callable[[int, int], None]
"""Told the journal offset reached and the one to reach."""


class Standing(msgspec.Struct):
    """Where a partition's state stands; kept in the store in the same batch as the state.

    Attributes:
        cluster: The cluster's id.
        partition: The partition.
        form: The form of the stored state.
        journal: The journal offset to apply next.
        seq: The last fact's number.
        epoch: The last owner's epoch.
        clock: The newest time seen, milliseconds since 1970 UTC.
        registry: The registry version applied.
        inputs: The next offset of each input, by `topic/partition`.
    """

    cluster: str
    partition: int
    form: int = FORM
    journal: int = 0
    seq: int = 0
    epoch: int = 0
    clock: int = 0
    registry: int = 0
    inputs: dict[str, int] = {}

    def next_of(self, topic: str, partition: int) -> int:
        """The next offset of an input."""
        return self.inputs.get(f"{topic}/{partition}", 0)


def read_standing(state: State, log: Log, partition: int) -> Standing:
    """The stored standing, or that of an empty state.

    Raises:
        LogMismatchError: The store belongs to another cluster or partition.
    """
    raw = state.meta("standing")
    if raw is None:
        return Standing(cluster=log.cluster, partition=partition)
    standing = msgspec.msgpack.decode(raw, type=Standing)
    if (standing.cluster, standing.partition) != (log.cluster, partition):
        raise LogMismatchError(
            f"the state is of cluster {standing.cluster}, partition {standing.partition}; "
            f"the log is of cluster {log.cluster}, partition {partition}"
        )
    return standing


def replay(
    log: Log,
    state: State,
    standing: Standing,
    appliers: Mapping[type[Fact], Applier],
    codec: Codec,
    *,
    end: int,
    batch: int,
    progress: Progress | None = None,
) -> None:
    """Apply the journal from where the state stands up to an offset.

    Nothing is emitted and nobody is called. The store is written between transactions
    only: what a transaction keeps at hand is not stored.

    Raises:
        StoreAheadError: The state knows more than the log.
        BarrierError: A fact of an unknown type forbids going on.
        PartitionStoppedError: The journal is inconsistent.
    """
    if standing.journal > end:
        raise StoreAheadError(
            f"partition {standing.partition}: the state is at {standing.journal}, "
            f"the journal ends at {end}"
        )
    unkept = 0
    while standing.journal < end:
        records = log.read(JOURNAL, standing.partition, standing.journal, batch, end=end)
        if not records:
            break
        for record in records:
            fact = apply_record(record, state, standing, appliers, codec)
            unkept += 1
            if unkept >= batch and isinstance(fact, TRANSACTION_ENDS):
                state.flush(standing_meta(standing))
                unkept = 0
        if progress is not None:
            progress(standing.journal, end)
    # What is left are markers, which take offsets too.
    standing.journal = end
    state.flush(standing_meta(standing))


def apply_record(
    record: LogRecord,
    state: State,
    standing: Standing,
    appliers: Mapping[type[Fact], Applier],
    codec: Codec,
) -> Fact | None:
    """Apply one journal record to the state; None where its type may be skipped.

    Raises:
        BarrierError: Its type is unknown and must not be skipped.
        PartitionStoppedError: Its seq or epoch does not follow.
    """
    assert record.value is not None, "journal records have values"
    try:
        fact = codec.decode(record.value)
    except UnknownSchemaError as error:
        unknown = codec.decode_header(record.value)
        if unknown.barrier:
            raise BarrierError(
                f"{JOURNAL}/{record.partition}/{record.offset}: {error}; it may not be skipped"
            ) from error
        standing.journal, standing.seq = record.offset + 1, unknown.seq
        return None
    assert isinstance(fact, Fact)
    header = fact.header
    assert header is not None
    if header.seq != standing.seq + 1 or header.epoch < standing.epoch:
        raise PartitionStoppedError(
            f"{JOURNAL}/{record.partition}/{record.offset} has seq {header.seq} and epoch "
            f"{header.epoch}; seq {standing.seq + 1} was to come, "
            f"in epoch {standing.epoch} or later"
        )
    appliers[type(fact)](state, fact)
    note_fact(standing, fact)
    standing.journal = record.offset + 1
    return fact


def note_fact(standing: Standing, fact: Fact) -> None:
    """Take over what a fact says about where the partition stands."""
    header = fact.header
    assert header is not None
    standing.seq, standing.epoch = header.seq, header.epoch
    if header.at > standing.clock:  # noqa: PLR1730 - for every fact: cheaper than a call
        standing.clock = header.at
    if type(fact) not in _TELLING:
        return
    if isinstance(fact, Positions):
        standing.clock = max(standing.clock, fact.clock)
        for moved in fact.inputs:
            standing.inputs[f"{moved.topic}/{moved.partition}"] = moved.next
    elif isinstance(fact, RegistrationApplied):
        standing.registry = fact.version
    elif isinstance(fact, OwnerTook) and fact.cluster != standing.cluster:
        raise PartitionStoppedError(
            f"the journal is of cluster {fact.cluster}, the log of {standing.cluster}"
        )


def standing_meta(standing: Standing) -> dict[str, bytes]:
    """The rows that keep a standing in the store."""
    return {"standing": msgspec.msgpack.encode(standing)}
