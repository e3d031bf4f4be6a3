"""What an audit counts."""

from dataclasses import dataclass, field


@dataclass
class Figures:
    """What an audit counted, over all partitions.

    Attributes:
        events: Events recorded; repeats of a dedupe id are not among them.
        repeats: Events dropped as repeats of a dedupe id.
        offers: Pairs of a recorded event and a workflow that it matched.
        offers_met: Those that led to a run.
        offers_open: Those that led to none: under way still, or answered otherwise.
        runs: Runs created, onFailure executions not among them.
        failure_runs: onFailure executions created.
        ended: Runs that ended, by status; onFailure executions not among them.
        unended: Runs that have not ended, onFailure executions among them.
        starts: How often a run was given to a runner.
        steps: Steps that completed.
        failed_attempts: Attempts of steps that failed.
        discarded: Answers of runners that did not count.
        quarantined: How often a run was set apart, its decision having raised.
        parked: Inputs that were set apart, their decision having raised.
    """

    events: int = 0
    repeats: int = 0
    offers: int = 0
    offers_met: int = 0
    offers_open: int = 0
    runs: int = 0
    failure_runs: int = 0
    ended: dict[str, int] = field(default_factory=dict)
    unended: int = 0
    starts: int = 0
    steps: int = 0
    failed_attempts: int = 0
    discarded: int = 0
    quarantined: int = 0
    parked: int = 0
