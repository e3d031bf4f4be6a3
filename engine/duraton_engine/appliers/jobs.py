"""Appliers of jobs, at the project slot: their ids, their batches, their end."""

from duraton_engine.state import acts
from duraton_schemas.records import acts as facts
from duraton_streams.state.table import StateWriter


def job_runs_added(state: StateWriter, fact: facts.JobRunsAdded) -> None:
    """Ids wait for the job to begin."""
    slot = fact.slot
    key = (slot, fact.job)
    job = state.get(acts.JOBS, key)
    if job is None:
        job = acts.JobState(parts=0, runs=0, due=fact.due)
        state.put(acts.JOBS, key, job)
        state.set_timer(fact.due, (slot, "job", fact.job))
    edited = state.edit(acts.JOBS, key)
    edited.parts += 1
    edited.runs += len(fact.runs)
    state.put(acts.JOB_PARTS, (slot, fact.job, fact.part), acts.JobPart(fact.runs))


def job_started(state: StateWriter, fact: facts.JobStarted) -> None:
    """The job goes through its ids."""
    slot = fact.slot
    key = (slot, fact.job)
    if state.get(acts.JOBS, key) is None:
        state.put(acts.JOBS, key, acts.JobState(parts=0, runs=0, due=None))
    job = state.edit(acts.JOBS, key)
    if job.due is not None:
        state.clear_timer(job.due, (slot, "job", fact.job))
        job.due = None
    job.act, job.caller, job.reason = fact.act, fact.caller, fact.reason


def job_batch_sent(state: StateWriter, fact: facts.JobBatchSent) -> None:
    """The cursor moves behind the batch; a part that is through is forgotten."""
    slot = fact.slot
    job = state.edit(acts.JOBS, (slot, fact.job))
    job.waits_for += fact.count
    job.first = fact.first + fact.count
    part = state.get(acts.JOB_PARTS, (slot, fact.job, fact.part))
    if part is None or job.first >= len(part.runs):
        state.delete(acts.JOB_PARTS, (slot, fact.job, fact.part))
        job.part, job.first = fact.part + 1, 0


def job_run_reported(state: StateWriter, fact: facts.JobRunReported) -> None:
    """One run of the batch is done with."""
    job = state.edit(acts.JOBS, (fact.slot, fact.job))
    job.waits_for -= 1


def job_stop_asked(state: StateWriter, fact: facts.JobStopAsked) -> None:
    """No further batch begins."""
    state.edit(acts.JOBS, (fact.slot, fact.job)).stopping = True


def job_ended(state: StateWriter, fact: facts.JobEnded) -> None:
    """The job leaves the state; the view keeps what became of it."""
    _forget(state, fact.slot, fact.job)


def job_dropped(state: StateWriter, fact: facts.JobDropped) -> None:
    """The ids of a job that was not begun are gone."""
    _forget(state, fact.slot, fact.job)


def _forget(state: StateWriter, slot: int, job_id: str) -> None:
    job = state.get(acts.JOBS, (slot, job_id))
    if job is None:
        return
    if job.due is not None:
        state.clear_timer(job.due, (slot, "job", job_id))
    for part in range(job.part, job.parts):
        state.delete(acts.JOB_PARTS, (slot, job_id, part))
    state.delete(acts.JOBS, (slot, job_id))
