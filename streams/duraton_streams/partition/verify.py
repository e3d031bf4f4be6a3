"""Verify and rebuild a partition's state from its journal (DESIGN 6, 11; `duraton log verify`).

`verify` reads the whole journal once: it applies every fact to an empty state, holds
the journal to its rules, and compares all rows with those of a stored state at the
journal position where that state stands. What the rules of workflows are it is told
by an `Auditor`, since this package knows nothing of them.

It writes to nothing but its own scratch store, and takes no ownership, so it may read
the log of a running engine. A running engine's RocksDB directory cannot be opened a
second time: give `stored` only where the engine is stopped (or a copy of its
directory, which is the state at some earlier batch, and is compared there). Without
`stored` the rebuild itself and the rules are what is verified.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Protocol

from duraton_schemas.codec import Codec
from duraton_schemas.errors import SchemaError
from duraton_schemas.records.common import Fact
from duraton_schemas.records.journal import Positions
from duraton_streams.errors import StreamError
from duraton_streams.logs.base import JOURNAL, Log, LogRecord
from duraton_streams.partition.differences import describe, differences
from duraton_streams.partition.machine import Applier
from duraton_streams.partition.recovery import (
    TRANSACTION_ENDS,
    Progress,
    Standing,
    apply_record,
    read_standing,
    replay,
    standing_meta,
)
from duraton_streams.state.memory import MemoryStore
from duraton_streams.state.overlay import State
from duraton_streams.state.store import Store
from duraton_streams.state.table import Table

READ_RECORDS = 2_000
"""Journal records read at once."""
PROBLEMS_MAX = 100
"""Problems that a report keeps; the others are only counted."""


@dataclass(frozen=True)
class Problem:
    """Something that must not be.

    Attributes:
        code: What kind of thing, stable: `journal`, `seq`, `epoch`, `transition`,
            `transaction`, `position`, `state`, `standing`, or an auditor's own.
        place: Where, as `topic/partition/offset`, or the partition.
        message: What is wrong, in words.
    """

    code: str
    place: str
    message: str


@dataclass
class Report:
    """What a verification found in one partition.

    Attributes:
        partition: The partition.
        journal_end: The journal offset up to which was read.
        facts: How many facts there are.
        transactions: How many transactions wrote them.
        kinds: How many facts of each type, by the type's name.
        epoch: The last owner's epoch, which is how many owners there were.
        compared_at: The journal position at which the stored state was compared, or None.
        facts_after: How many facts came after that; 0 where the stored state had them all.
        rows: Rows of the rebuilt state where it was compared, otherwise at the end.
        problems: The first problems, in order.
        problem_count: How many there are.
    """

    partition: int
    journal_end: int = 0
    facts: int = 0
    transactions: int = 0
    kinds: dict[str, int] = field(default_factory=dict)
    epoch: int = 0
    compared_at: int | None = None
    facts_after: int = 0
    rows: int = 0
    problems: list[Problem] = field(default_factory=list)
    problem_count: int = 0

    @property
    def ok(self) -> bool:
        """Whether there is no problem."""
        return not self.problem_count

    def add(self, code: str, place: str, message: str) -> None:
        """Note a problem; above `PROBLEMS_MAX` it is only counted."""
        self.problem_count += 1
        if len(self.problems) < PROBLEMS_MAX:
            self.problems.append(Problem(code, place, message))


class Auditor(Protocol):
    """Knows the rules of what facts say; sees all facts of a partition in order."""

    def see(self, fact: Fact) -> Sequence[tuple[str, str]]:
        """Look at the next fact.

        Returns:
            What is wrong with it, each a code and a message.
        """


def verify(
    log: Log,
    partition: int,
    appliers: Mapping[type[Fact], Applier],
    tables: Iterable[Table[Any]],
    codec: Codec,
    *,
    stored: State | None = None,
    auditor: Auditor | None = None,
    open_scratch: Callable[[], Store] = MemoryStore,
    progress: Progress | None = None,
) -> Report:
    """Rebuild a partition from its journal and compare. It blocks; it writes nothing.

    1. read the journal's end, which bounds the work
    2. apply fact after fact to an empty state, holding the journal to its rules
    3. where the stored state stands, compare all rows and the standing
    4. go on to the end

    Memory holds one page of the journal and what the scratch store keeps: give a
    RocksDB store in a temporary directory where the state is large.

    Args:
        log: The cluster's log; the journal must be whole (no retention).
        partition: The partition.
        appliers: How facts change state.
        tables: The state's tables.
        codec: Decodes facts.
        stored: The partition's state as an engine left it, over a store that nobody
            writes to meanwhile; None to compare with nothing.
        auditor: The rules of what facts say, or None.
        open_scratch: Makes an empty store for the rebuild; it is destroyed at the end.
        progress: Told the journal offset reached and the one to reach.

    Raises:
        StreamError: The log or the stored state cannot be read at all.
    """
    report = Report(partition)
    target: Standing | None = None
    if stored is not None:
        target = read_standing(stored, log, partition)
    # 1
    end = report.journal_end = log.bounds(JOURNAL, partition)[1]
    if target is not None and target.journal > end:
        place = f"{JOURNAL}/{partition}/{end}"
        report.add("standing", place, f"the state is at {target.journal}, beyond the journal's end")
        target = None
    store = open_scratch()
    scratch = State(store, tables)
    try:
        walk = _Walk(log, scratch, report, appliers, codec, auditor)
        # 2
        if target is not None and stored is not None:
            walk.go(target.journal, end, progress)
            # 3
            report.compared_at = target.journal
            _compare(report, scratch, walk.standing, stored, target)
        compared = report.facts
        # 4
        walk.go(end, end, progress)
        walk.finish()
        if report.compared_at is None:
            report.rows = sum(1 for _ in scratch.dump())
        else:
            report.facts_after = report.facts - compared
    finally:
        scratch.drop()
        store.destroy()
    return report


class _Walk:
    """One way through a journal."""

    def __init__(
        self,
        log: Log,
        scratch: State,
        report: Report,
        appliers: Mapping[type[Fact], Applier],
        codec: Codec,
        auditor: Auditor | None,
    ) -> None:
        self.standing = Standing(cluster=log.cluster, partition=report.partition)
        self._log = log
        self._scratch = scratch
        self._report = report
        self._appliers = appliers
        self._codec = codec
        self._auditor = auditor
        self._inputs: dict[str, int] = {}
        self._transition_open = False
        self._transaction_open = False
        self._unkept = 0
        self._broken = False

    def go(self, to: int, end: int, progress: Progress | None) -> None:
        """Walk up to an offset."""
        partition = self._report.partition
        while self.standing.journal < to and not self._broken:
            records = self._log.read(JOURNAL, partition, self.standing.journal, READ_RECORDS, to)
            if not records:
                break
            if not all(map(self._see, records)):
                self._broken = True
                return
            if progress is not None:
                progress(self.standing.journal, end)
        if not self._broken:
            self.standing.journal = max(self.standing.journal, to)

    def finish(self) -> None:
        """The journal's end was reached."""
        report = self._report
        report.epoch = self.standing.epoch
        if self._transaction_open and not self._broken:
            place = f"{JOURNAL}/{report.partition}/{report.journal_end}"
            report.add("transaction", place, "the journal ends within a transaction")

    def _see(self, record: LogRecord) -> bool:
        """Look at the next record; False where nothing after it could be trusted."""
        report, standing = self._report, self.standing
        place = f"{JOURNAL}/{record.partition}/{record.offset}"
        try:
            fact = apply_record(record, self._scratch, standing, self._appliers, self._codec)
        except (StreamError, SchemaError) as error:
            report.add("journal", place, f"{error}; what follows was not read")
            return False
        except Exception as error:  # noqa: BLE001 - an applier that raises is what is looked for
            report.add("journal", place, f"it cannot be applied: {error!r}; the rest was not read")
            return False
        report.facts += 1
        self._unkept += 1
        if fact is None:
            report.kinds["(unknown)"] = report.kinds.get("(unknown)", 0) + 1
            return True
        kind = type(fact).__name__
        report.kinds[kind] = report.kinds.get(kind, 0) + 1
        self._hold(fact, place)
        if self._auditor is not None:
            for code, message in self._auditor.see(fact):
                report.add(code, place, message)
        return True

    def _hold(self, fact: Fact, place: str) -> None:
        """Hold a fact to the rules of transitions, transactions and positions."""
        report = self._report
        assert fact.header is not None
        ends = isinstance(fact, TRANSACTION_ENDS)
        if ends and self._transition_open:
            report.add("transition", place, "a transition was not closed by its `last` flag")
        if ends and not fact.header.last:
            report.add("transition", place, f"a {type(fact).__name__} is not flagged `last`")
        if not isinstance(fact, Positions) and ends and self._transaction_open:
            report.add("transaction", place, f"a {type(fact).__name__} within a transaction")
        self._transition_open = not fact.header.last
        self._transaction_open = not ends
        if not ends:
            return
        report.transactions += 1
        if isinstance(fact, Positions):
            for moved in fact.inputs:
                name = f"{moved.topic}/{moved.partition}"
                before = self._inputs.get(name, 0)
                if moved.next < before:
                    message = f"{name} went back from {before} to {moved.next}"
                    report.add("position", place, message)
                self._inputs[name] = moved.next
        if self._unkept >= READ_RECORDS:
            self._scratch.flush(standing_meta(self.standing))
            self._unkept = 0


def _compare(
    report: Report, scratch: State, rebuilt: Standing, stored: State, target: Standing
) -> None:
    place = f"{JOURNAL}/{report.partition}/{target.journal}"
    for name in ("seq", "epoch", "clock", "registry"):
        there, here = getattr(target, name), getattr(rebuilt, name)
        if there != here:
            report.add("standing", place, f"{name}: stored {there}, rebuilt {here}")
    for name, offset in rebuilt.inputs.items():
        if target.inputs.get(name) != offset:
            message = f"input {name}: stored {target.inputs.get(name)}, rebuilt {offset}"
            report.add("standing", place, message)
    found = differences(stored, scratch)
    for difference in islice(found, PROBLEMS_MAX):
        report.add("state", place, describe(difference, f"at {place}", "stored", "rebuilt"))
    if next(found, None) is not None:
        report.add("state", place, "there are more rows that differ")
    report.rows = sum(1 for _ in scratch.dump())


def rebuild(
    log: Log,
    partition: int,
    appliers: Mapping[type[Fact], Applier],
    tables: Iterable[Table[Any]],
    codec: Codec,
    open_store: Callable[[], Store],
    *,
    batch: int = READ_RECORDS,
    progress: Progress | None = None,
) -> Standing:
    """Drop a partition's stored state and build it anew from the journal. It blocks.

    The engine must be stopped: its store is removed. Killed half-way, the next start
    or the next rebuild goes on from where the store stands.

    1. remove what is stored
    2. apply the whole journal to an empty store

    Args:
        log: The cluster's log; the journal must be whole (no retention).
        partition: The partition.
        appliers: How facts change state.
        tables: The state's tables.
        codec: Decodes facts.
        open_store: Opens the partition's store, made anew where it is not there.
        batch: Journal records read at once.
        progress: Told the journal offset reached and the one to reach.

    Returns:
        Where the rebuilt state stands.

    Raises:
        StoreInUseError: A running engine holds the store.
        StreamError: As `replay` says.
    """
    # 1
    open_store().destroy()
    # 2
    state = State(open_store(), tables)
    try:
        standing = Standing(cluster=log.cluster, partition=partition)
        end = log.bounds(JOURNAL, partition)[1]
        replay(log, state, standing, appliers, codec, end=end, batch=batch, progress=progress)
        return standing
    finally:
        state.close()
