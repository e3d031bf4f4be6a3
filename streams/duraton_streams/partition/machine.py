"""What a partition processor runs: a machine that decides, and appliers that fold.

`streams` knows nothing of workflows; the engine implements these protocols.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from duraton_schemas.records.common import Cause, Fact
from duraton_schemas.records.messages import Message
from duraton_streams.logs.base import LogRecord, NewRecord
from duraton_streams.state.table import StateReader, StateWriter

Applier = Callable[[StateWriter, Any], None]


class Input(msgspec.Struct, gc=False):
    """One thing to decide about.

    Attributes:
        cause: Where it came from; it is written into every fact that follows.
        value: A decoded `Command`, `Message`, `RegistryEntry` or `Event`; a `Key`
            (the target of a timer that is due, `cause.kind == "timer"`); or a
            call's object (`cause.kind == "call"`).
        record: The record that it came as, for inputs of the log.
    """

    cause: Cause
    value: Any
    record: LogRecord | None = None


class Transition(Protocol):
    """What a decision is given: the time, the state to read, and ways to say what follows."""

    @property
    def now(self) -> int:
        """The engine's time, milliseconds since 1970 UTC; the same for a whole batch."""

    @property
    def partition(self) -> int:
        """This partition's number."""

    @property
    def partitions(self) -> int:
        """How many partitions the cluster has."""

    @property
    def epoch(self) -> int:
        """The owner's epoch."""

    @property
    def cause(self) -> Cause:
        """What is being decided about."""

    @property
    def state(self) -> StateReader:
        """The state, with all that this transition has emitted so far."""

    @property
    def next_seq(self) -> int:
        """The seq that the next emitted fact will have."""

    @property
    def registry(self) -> int:
        """The registry version that this partition has applied."""

    def registry_moved(self, version: int) -> None:
        """Facts from here on are decided under this version of the registry."""

    def emit(self, slot: int, fact: Fact) -> None:
        """Add a fact and apply it at once."""

    def send(
        self, slot: int, message: Message, *, source: int, reply_to: int = -1, logged: bool = False
    ) -> None:
        """Tell another slot, in this transaction; order is kept for each pair of partitions.

        Args:
            slot: Who is told.
            message: What.
            source: The slot that tells.
            reply_to: The slot that an answer goes to.
            logged: By way of `duraton.messages` even within the partition, where there
                are several: its place there is what counts (DESIGN 4, waits).
        """

    def publish(self, record: NewRecord) -> None:
        """Write a public record (outcome, registry, dead letter) in this transaction."""

    def effect(self, effect: object) -> None:
        """Hand something on once the transaction is committed."""

    def undo(self, action: Callable[[], None]) -> None:
        """Do this if the transition is rolled back, for what is kept in memory only."""

    def call_at(self, at: int, call: object) -> None:
        """Offer a call later; it is forgotten if the process ends."""


class Machine(Protocol):
    """The engine, as a partition's processor sees it; one for each partition."""

    @property
    def appliers(self) -> Mapping[type[Fact], Applier]:
        """How each fact changes state: total over the facts (a test proves it)."""

    def started(self, state: StateReader) -> Sequence[object]:
        """State has been recovered: rebuild what is kept in memory.

        Returns:
            Calls to be decided about first.
        """

    def decode(self, record: LogRecord) -> object:
        """What an input record says: a `Command`, `Message`, `RegistryEntry` or `Event`.

        Raises:
            SchemaError: It says nothing that can be read; it becomes a dead letter.
        """

    def decide(self, tx: Transition, item: Input) -> None:
        """Decide about one input. What it raises undoes the transition."""

    def quarantine(self, tx: Transition, item: Input, error: Exception) -> bool:
        """After `decide` raised: record it in a transition of its own.

        Returns:
            Whether a run was quarantined; otherwise the input is parked.
        """

    def wants_registry(self, record: LogRecord) -> int:
        """The registry version that must be applied before an event or command is decided about."""


class Outlet(Protocol):
    """Where a processor hands on what is committed. It must not block or raise."""

    def committed(self, partition: int, facts: Sequence[tuple[int, Fact]]) -> None:
        """A batch's facts with their journal offsets, before its effects."""

    def effects(self, partition: int, effects: Sequence[object]) -> None:
        """A batch's effects, in order."""
