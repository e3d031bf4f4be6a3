"""Replay equality: a second state that knows a partition only by its committed bytes (DESIGN 11).

What an owner decides and what replaying its journal gives must be the same state.
A shadow applies each committed batch from its encoded facts and compares every row
that either of the two touched, timers included; at each start it compares all rows.
It costs about as much as the decisions themselves, so it is for tests and debugging.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from duraton_schemas.codec import Codec
from duraton_schemas.records.common import Fact
from duraton_streams.errors import ReplayMismatchError
from duraton_streams.logs.base import JOURNAL, Log, LogRecord
from duraton_streams.partition.differences import Difference, describe, differences
from duraton_streams.partition.machine import Applier
from duraton_streams.partition.recovery import Standing, apply_record, replay
from duraton_streams.state.memory import MemoryStore
from duraton_streams.state.overlay import State
from duraton_streams.state.table import Key, Table

REPLAY_BATCH = 2_000
"""Journal records that a shadow reads at once."""


class Shadow:
    """Follows one partition and compares; a `PartitionProcessor` has it as `shadow`.

    It may be kept while its partition is closed and opened again.

    Args:
        log: The cluster's log.
        partition: The partition.
        appliers: How facts change state.
        tables: The state's tables.
        codec: Decodes facts.
    """

    def __init__(
        self,
        log: Log,
        partition: int,
        appliers: Mapping[type[Fact], Applier],
        tables: Iterable[Table[Any]],
        codec: Codec,
    ) -> None:
        self.state = State(MemoryStore(), tables)
        self.standing = Standing(cluster=log.cluster, partition=partition)
        self._log = log
        self._appliers = appliers
        self._codec = codec

    def opened(self, live: State, standing: Standing) -> None:
        """A partition was recovered: follow the journal to where it stands, compare all rows.

        Raises:
            ReplayMismatchError: Something differs.
        """
        replay(
            self._log,
            self.state,
            self.standing,
            self._appliers,
            self._codec,
            end=standing.journal,
            batch=REPLAY_BATCH,
        )
        live.watch = set()
        self.compare_all(live, standing)

    def committed(
        self, facts: Sequence[bytes], offset: int, live: State, standing: Standing
    ) -> None:
        """A batch was committed: apply its facts, compare what either side touched.

        Args:
            facts: The facts as they were written.
            offset: The last one's journal offset.
            live: The owner's state.
            standing: Where the owner stands now.

        Raises:
            ReplayMismatchError: Something differs.
        """
        partition = self.standing.partition
        for raw in facts:
            record = LogRecord(JOURNAL, partition, offset, raw, None, (), 0)
            apply_record(record, self.state, self.standing, self._appliers, self._codec)
        self.standing.journal = offset + 1
        self._compare_standing(standing)
        assert live.watch is not None, "the shadow was told that the partition opened"
        for table, key in self.state.changed() | live.watch:
            self._compare(live, table, key)
        live.watch.clear()
        self.state.flush({})

    def compare_all(self, live: State, standing: Standing) -> None:
        """Compare every row, those included that the owner keeps decoded.

        Raises:
            ReplayMismatchError: Something differs.
        """
        self._compare_standing(standing)
        for found in differences(live, self.state):
            raise ReplayMismatchError(self._text(found))
        for table, key in live.kept():
            self._compare(live, table, key)

    def _compare(self, live: State, table: Table[Any], key: Key) -> None:
        left, right = live.get(table, key), self.state.get(table, key)
        encode = table.encoder.encode
        if left is None and right is None:
            return
        if left is None or right is None or encode(left) != encode(right):
            raise ReplayMismatchError(self._text(Difference(table.name, key, left, right)))

    def _compare_standing(self, standing: Standing) -> None:
        own = self.standing
        inputs = {name: standing.inputs.get(name) for name in own.inputs}
        # An owner also notes where inputs begin that nothing was read of.
        if msgspec.structs.replace(standing, inputs=inputs) != own:
            raise ReplayMismatchError(
                f"partition {standing.partition} stands at {standing}, "
                f"its journal says {self.standing}"
            )

    def _text(self, found: Difference) -> str:
        place = f"{JOURNAL}/{self.standing.partition}/{self.standing.journal - 1}"
        return describe(found, f"after {place}", "decided", "replayed")
