"""The rules that one partition's facts about runs keep."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from duraton_engine.verification.figures import Figures
from duraton_schemas.records import acts
from duraton_schemas.records import journal as facts
from duraton_schemas.records.common import Fact

Wrong = tuple[str, str]
"""A problem's code and message."""

_Use = tuple[str, int]


class Ledger(Protocol):
    """What is kept for the whole cluster."""

    figures: Figures

    def recorded(self, fact: facts.EventRecorded, seq: int) -> None:
        """An event was recorded, and offered to its homes."""

    def created(self, run: str, made: facts.RunCreated, seq: int) -> None:
        """A run came into being."""


@dataclass
class OpenRun:
    """A run that has not ended."""

    main: bool
    started: bool = False
    executing: bool = False
    paused: bool = False
    results: int = 0
    done: set[_Use] = field(default_factory=set)
    failed: dict[_Use, int] = field(default_factory=dict)


class PartitionAudit:
    """An `Auditor` of one partition.

    Args:
        audit: The cluster's audit.
        partition: The partition.
        runs: Its runs that have not ended.
    """

    def __init__(self, audit: Ledger, partition: int, runs: dict[str, OpenRun]) -> None:
        self._audit = audit
        self._partition = partition
        self._runs = runs
        self._waits: set[tuple[str, str, int]] = set()
        self._carried: dict[str, set[_Use]] = {}

    def see(self, fact: Fact) -> Sequence[Wrong]:
        """Look at the next fact; what is wrong with it."""
        look = _LOOKS.get(type(fact))
        return look(self, fact) if look is not None else ()

    def _number(self, fact: Fact) -> int:
        assert fact.header is not None
        # One number for a place in the cluster: 16 bits of partition, 48 of seq.
        return self._partition << 48 | fact.header.seq

    def recorded(self, fact: facts.EventRecorded) -> Sequence[Wrong]:
        self._audit.recorded(fact, self._number(fact))
        return ()

    def dropped(self, fact: facts.EventDropped) -> Sequence[Wrong]:
        self._audit.figures.repeats += 1
        return ()

    def parked(self, fact: facts.CommandParked) -> Sequence[Wrong]:
        self._audit.figures.parked += 1
        return ()

    def _create(self, run: str, made: facts.RunCreated, fact: Fact) -> Sequence[Wrong]:
        twice = run in self._runs
        self._audit.created(run, made, self._number(fact))
        new = self._runs[run] = OpenRun(main=made.kind == "main")
        found = [("run-twice", f"{run} is created although it has not ended")] if twice else []
        if made.replay is not None:
            new.done = self._carried.pop(made.replay.request, set())
            new.results = made.replay.results
            if new.results != len(new.done):
                message = f"{run} begins with {new.results} results of {len(new.done)} carried"
                found.append(("run-carried", message))
        return found

    def carried(self, fact: acts.RunCarried) -> Sequence[Wrong]:
        uses = self._carried.setdefault(fact.request, set())
        uses.update((step.step, step.n) for step in fact.steps)
        return ()

    def carry_dropped(self, fact: acts.CarryDropped) -> Sequence[Wrong]:
        self._carried.pop(fact.request, None)
        return ()

    def queued(self, fact: facts.RunQueued) -> Sequence[Wrong]:
        return self._create(fact.run, fact.created, fact)

    def started(self, fact: facts.RunStarted) -> Sequence[Wrong]:
        found: list[Wrong] = []
        if fact.created is not None:
            found.extend(self._create(fact.run, fact.created, fact))
        run = self._runs.get(fact.run)
        if run is None:
            return _gone(fact.run, "starts")
        self._audit.figures.starts += 1
        if run.executing:
            found.append(("run-token", f"{fact.run} starts while it executes"))
        if run.paused:
            found.append(("run-paused", f"{fact.run} starts while it is paused"))
        if fact.first == run.started:
            found.append(("run-first", f"{fact.run}: its first start is flagged {fact.first}"))
        if fact.results != run.results:
            message = f"{fact.run} is invoked with {fact.results} results of {run.results}"
            found.append(("run-results", message))
        run.started = run.executing = True
        return found

    def rests(
        self, fact: "facts.RunSuspended | facts.RunAttemptFailed | facts.InvokeFailed"
    ) -> Sequence[Wrong]:
        run = self._runs.get(fact.run)
        if run is None:
            return _gone(fact.run, "rests")
        if not run.executing:
            return (("run-token", f"{fact.run} has no invocation that could end"),)
        run.executing = False
        return ()

    def ready(self, fact: facts.RunReady) -> Sequence[Wrong]:
        return () if fact.run in self._runs else _gone(fact.run, "is ready")

    def paused(self, fact: "facts.RunPaused | facts.RunQuarantined") -> Sequence[Wrong]:
        run = self._runs.get(fact.run)
        if run is None:
            return _gone(fact.run, "pauses")
        run.paused = True
        if isinstance(fact, facts.RunQuarantined):
            self._audit.figures.quarantined += 1
            run.executing = False
        return ()

    def resumed(self, fact: facts.RunResumed) -> Sequence[Wrong]:
        run = self._runs.get(fact.run)
        if run is None:
            return _gone(fact.run, "resumes")
        run.paused = False
        return ()

    def ended(self, fact: facts.RunEnded) -> Sequence[Wrong]:
        run = self._runs.pop(fact.run, None)
        if run is None:
            return _gone(fact.run, "ends")
        if run.main:
            ended = self._audit.figures.ended
            ended[fact.status] = ended.get(fact.status, 0) + 1
        if fact.failure is not None and fact.failure_run is not None:
            return self._create(fact.failure_run, fact.failure, fact)
        return ()

    def step(self, fact: "facts.StepCalled | facts.StepDue") -> Sequence[Wrong]:
        run = self._runs.get(fact.run)
        if run is None:
            return _gone(fact.run, f"has a step {fact.step!r}")
        if (fact.step, fact.n) in run.done:
            message = f"{fact.run}: step {fact.step!r}/{fact.n} goes on after its result"
            return (("step-twice", message),)
        return ()

    def step_completed(self, fact: facts.StepCompleted) -> Sequence[Wrong]:
        found = list(self._step_of(fact))
        run = self._runs.get(fact.run)
        if run is None:
            return found
        self._audit.figures.steps += 1
        if fact.number != run.results + 1:
            message = f"{fact.run}: result {fact.number} comes after {run.results}"
            found.append(("step-number", message))
        run.results = fact.number
        run.done.add((fact.step, fact.n))
        return found

    def _step_of(self, fact: "facts.StepCompleted | facts.StepFailed") -> Sequence[Wrong]:
        run = self._runs.get(fact.run)
        if run is None:
            return _gone(fact.run, f"has a step {fact.step!r}")
        use = (fact.step, fact.n)
        if use in run.done:
            message = f"{fact.run}: step {fact.step!r}/{fact.n} is recorded after its result"
            return (("step-twice", message),)
        if fact.attempt <= run.failed.get(use, 0):
            message = f"{fact.run}: attempt {fact.attempt} of {fact.step!r} is recorded twice"
            return (("step-attempt", message),)
        return ()

    def step_failed(self, fact: facts.StepFailed) -> Sequence[Wrong]:
        found = self._step_of(fact)
        run = self._runs.get(fact.run)
        if run is not None:
            self._audit.figures.failed_attempts += 1
            run.failed[fact.step, fact.n] = fact.attempt
        return found

    def discarded(self, fact: facts.StepDiscarded) -> Sequence[Wrong]:
        self._audit.figures.discarded += 1
        return ()

    def known(self, fact: "facts.WaitAcknowledged | facts.ChildKnown") -> Sequence[Wrong]:
        return () if fact.run in self._runs else _gone(fact.run, f"has a step {fact.step!r}")

    def stood(self, fact: facts.WaitStood) -> Sequence[Wrong]:
        wait = (fact.run, fact.step, fact.n)
        twice = wait in self._waits
        self._waits.add(wait)
        return (("wait-twice", f"{fact.run}: {fact.step!r} waits twice"),) if twice else ()

    def wait_gone(self, fact: facts.WaitGone) -> Sequence[Wrong]:
        wait = (fact.run, fact.step, fact.n)
        if wait not in self._waits:
            return (("wait-gone", f"{fact.run}: {fact.step!r} leaves where it does not wait"),)
        self._waits.discard(wait)
        return ()


def _gone(run: str, what: str) -> Sequence[Wrong]:
    return (("run-gone", f"{run} {what}, but it does not exist or has ended"),)


_LOOKS: dict[type[Fact], Callable[..., Sequence[Wrong]]] = {
    facts.EventRecorded: PartitionAudit.recorded,
    facts.EventDropped: PartitionAudit.dropped,
    facts.CommandParked: PartitionAudit.parked,
    facts.RunQueued: PartitionAudit.queued,
    facts.RunStarted: PartitionAudit.started,
    facts.RunSuspended: PartitionAudit.rests,
    facts.RunAttemptFailed: PartitionAudit.rests,
    facts.InvokeFailed: PartitionAudit.rests,
    facts.RunReady: PartitionAudit.ready,
    facts.RunPaused: PartitionAudit.paused,
    facts.RunQuarantined: PartitionAudit.paused,
    facts.RunResumed: PartitionAudit.resumed,
    facts.RunEnded: PartitionAudit.ended,
    facts.StepCalled: PartitionAudit.step,
    facts.StepDue: PartitionAudit.step,
    facts.StepCompleted: PartitionAudit.step_completed,
    facts.StepFailed: PartitionAudit.step_failed,
    facts.StepDiscarded: PartitionAudit.discarded,
    facts.WaitAcknowledged: PartitionAudit.known,
    facts.ChildKnown: PartitionAudit.known,
    facts.WaitStood: PartitionAudit.stood,
    facts.WaitGone: PartitionAudit.wait_gone,
    acts.RunCarried: PartitionAudit.carried,
    acts.CarryDropped: PartitionAudit.carry_dropped,
}
