"""The verification of a whole cluster: `duraton log verify`, and the proof of the demo."""

from collections.abc import Callable
from dataclasses import dataclass

from duraton_engine.appliers import APPLIERS
from duraton_engine.state.tables import TABLES
from duraton_engine.verification.audit import Audit
from duraton_engine.verification.figures import Figures
from duraton_schemas.codec import Codec
from duraton_streams.logs.base import Log
from duraton_streams.partition.recovery import Progress
from duraton_streams.partition.verify import PROBLEMS_MAX, Problem, Report, verify
from duraton_streams.state.memory import MemoryStore
from duraton_streams.state.overlay import State
from duraton_streams.state.store import Store


@dataclass
class ClusterReport:
    """What a verification of a whole cluster found.

    Attributes:
        partitions: Each partition's report.
        figures: What the audit counted.
        problems: What is wrong between partitions, and all that is wrong in them.
        problem_count: How many problems there are; `problems` holds the first ones.
    """

    partitions: list[Report]
    figures: Figures
    problems: list[Problem]
    problem_count: int

    @property
    def ok(self) -> bool:
        """Whether there is no problem."""
        return not self.problem_count

    @property
    def facts(self) -> int:
        """How many facts there are."""
        return sum(report.facts for report in self.partitions)

    @property
    def exactly_once(self) -> bool:
        """Whether each matching workflow made exactly one run of each recorded event.

        True only where nothing is under way and no control answered otherwise.
        """
        return self.ok and not self.figures.offers_open


def verify_cluster(
    log: Log,
    codec: Codec | None = None,
    *,
    stored: Callable[[int], State | None] = lambda _: None,
    open_scratch: Callable[[], Store] = MemoryStore,
    progress: Callable[[int, int, int], None] | None = None,
) -> ClusterReport:
    """Verify every partition of a cluster, and what lies between them. It blocks.

    Args:
        log: The cluster's log; it is only read.
        codec: Decodes facts.
        stored: A partition's stored state, or None; see `verify`. The states are
            closed by who opened them.
        open_scratch: Makes an empty store for each rebuild.
        progress: Told the partition, the journal offset reached and the one to reach.

    Raises:
        StreamError: The log or a stored state cannot be read at all.
    """
    audit = Audit()
    reports: list[Report] = []
    problems: list[Problem] = []
    for number in range(log.partitions):
        report = verify(
            log,
            number,
            APPLIERS,
            TABLES,
            codec or Codec(),
            stored=stored(number),
            auditor=audit.partition(number),
            open_scratch=open_scratch,
            progress=_of(progress, number),
        )
        reports.append(report)
        problems.extend(report.problems)
    between = [Problem(code, "cluster", message) for code, message in audit.close()]
    count = sum(report.problem_count for report in reports) + len(between)
    return ClusterReport(reports, audit.figures, (problems + between)[:PROBLEMS_MAX], count)


def _of(progress: Callable[[int, int, int], None] | None, partition: int) -> Progress | None:
    if progress is None:
        return None
    tell = progress
    return lambda reached, end: tell(partition, reached, end)
