"""Deciding about one input after another: savepoints, follow-ups, what raised is set apart."""

import msgspec

from duraton_schemas.codec import Codec
from duraton_schemas.records.common import Cause, ErrorInfo, Fact
from duraton_schemas.records.journal import CommandParked
from duraton_streams.errors import PartitionStoppedError
from duraton_streams.partition.machine import Input, Machine
from duraton_streams.partition.settings import ProcessorSettings
from duraton_streams.partition.transition import Batch, Counters, OpenTransition, first_slot
from duraton_streams.state.overlay import State

PARKED_BYTES_MAX = 1_000_000
"""Bytes of a parked input that its fact keeps."""


class Decider:
    """Runs the machine over the inputs of a batch.

    Args:
        machine: Decides.
        state: The partition's state.
        codec: Encodes facts and messages.
        partition: The partition.
        partitions: How many there are.
        settings: Bounds of a batch.

    Attributes:
        counters: The owner's epoch, seq and registry version.
    """

    def __init__(
        self,
        machine: Machine,
        state: State,
        codec: Codec,
        partition: int,
        partitions: int,
        settings: ProcessorSettings,
    ) -> None:
        self.state = state
        self.counters = Counters()
        self._machine = machine
        self._transition = OpenTransition(
            state, codec, self.counters, machine.appliers, partition, partitions
        )
        self._settings = settings
        self._slot = first_slot(partition, partitions)

    @property
    def registry(self) -> int:
        """The registry version that this partition has applied."""
        return self.counters.registry

    def open(self, batch: Batch, cause: Cause) -> OpenTransition:
        """Begin a transition; the one before must be closed or rolled back."""
        tx = self._transition
        tx.begin(batch, cause)
        return tx

    def note(self, batch: Batch, cause: Cause, fact: Fact) -> None:
        """Add one fact about the partition itself."""
        tx = self.open(batch, cause)
        tx.emit(self._slot, fact)
        tx.close()

    def decide(self, batch: Batch, item: Input) -> None:
        """Decide about an input and the messages within the partition that follow from it."""
        self._decide_one(batch, item)
        if not batch.local:
            return
        handled = 0
        while batch.local:
            message = batch.local.pop(0)
            handled += 1
            if handled > self._settings.local_max:
                raise PartitionStoppedError("messages within a partition do not come to an end")
            self._decide_one(batch, Input(item.cause, message))

    def _decide_one(self, batch: Batch, item: Input) -> None:
        tx = self.open(batch, item.cause)
        try:
            self._machine.decide(tx, item)
            tx.close()
        except PartitionStoppedError:
            raise
        except Exception as error:  # noqa: BLE001 - a decision that raises is a bug, kept apart
            tx.rollback()
            self._set_apart(batch, item, error)

    def _set_apart(self, batch: Batch, item: Input, error: Exception) -> None:
        """Quarantine the run whose decision raised, or park the input with its bytes."""
        tx = self.open(batch, item.cause)
        try:
            if self._machine.quarantine(tx, item, error):
                tx.close()
                return
        except Exception as again:  # noqa: BLE001 - as above; then it is parked
            again.add_note(f"raised while setting apart what raised {error!r}")
            error = again
            tx.rollback()
            tx = self.open(batch, item.cause)
        raw = item.record.value if item.record is not None else b""
        if isinstance(item.value, tuple):  # a timer's target, by which it is taken back
            raw = msgspec.msgpack.encode(item.value)
        payload = (raw or b"")[:PARKED_BYTES_MAX]
        info = ErrorInfo(message=str(error), name=type(error).__name__, code="parked")
        tx.emit(self._slot, CommandParked(source=item.cause, payload=payload, error=info))
        tx.close()
