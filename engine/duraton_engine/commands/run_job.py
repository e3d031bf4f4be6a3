"""Jobs: an act on many runs, at the project slot (P57).

The ids are fixed when the job begins. They are gone through in order, so many at once;
each run's own slot carries the act out, once, and reports. When all of a batch have
reported, the next one begins.
"""

from duraton_engine.calls import CarryAwaited, JobGoesOn
from duraton_engine.commands.end_run import CANCELLED, cancelled_by_person, end_run
from duraton_engine.commands.replay_run import refuse, want_replay
from duraton_engine.context import EngineContext
from duraton_engine.effects import CarryWanted, Reply
from duraton_engine.errors import (
    JOB_INCOMPLETE,
    JOB_NOT_RUNNING,
    JOBS_TOO_MANY,
    RUN_NOT_ACTIVE,
)
from duraton_engine.state import acts, tables
from duraton_schemas.errors import BadRecordError
from duraton_schemas.ids import run_slot
from duraton_schemas.records import acts as facts
from duraton_schemas.records import commands, messages
from duraton_schemas.slots import PROJECT_SLOT
from duraton_streams.partition.machine import Transition

REPLAY, CANCEL = "replay", "cancel"
COMPLETED, STOPPED = "completed", "stopped"


# At the project slot ------------------------------------------------------------------


def add_job_runs(tx: Transition, engine: EngineContext, command: commands.AddJobRuns) -> None:
    """A part of a job's ids has come; parts come in order.

    Raises:
        BadRecordError: A text in it is no run's id, or there is none; nothing is kept.
    """
    if not command.runs:
        raise BadRecordError("a part of a job's ids holds at least one")
    for run in command.runs:
        run_slot(run)
    job = tx.state.get(acts.JOBS, (PROJECT_SLOT, command.job))
    if job is None and _too_many(tx, engine, command):
        return
    parts, begun = (0, False) if job is None else (job.parts, bool(job.act))
    if begun or command.part != parts:
        message = f"part {command.part} does not follow what was added to the job"
        tx.effect(Reply(command.id, ok=False, code=JOB_INCOMPLETE, message=message))
        return
    due = tx.now + engine.settings.carry_ms
    added = facts.JobRunsAdded(job=command.job, part=command.part, runs=command.runs, due=due)
    tx.emit(PROJECT_SLOT, added)
    tx.effect(Reply(command.id, ok=True))


def _too_many(tx: Transition, engine: EngineContext, command: commands.Command) -> bool:
    most = engine.settings.jobs_max
    if len(tx.state.scan(acts.JOBS, (PROJECT_SLOT,), most)) < most:
        return False
    message = f"{most} jobs are under way, which is the most; wait for one, or stop one"
    tx.effect(Reply(command.id, ok=False, code=JOBS_TOO_MANY, message=message))
    return True


def start_job(tx: Transition, engine: EngineContext, command: commands.StartJob) -> None:
    """All ids are here: the job begins.

    Raises:
        BadRecordError: It is no act that a job carries out.
    """
    if command.act not in (REPLAY, CANCEL):
        raise BadRecordError(f"{command.act!r} is no act of a job")
    job = tx.state.get(acts.JOBS, (PROJECT_SLOT, command.job))
    if job is None and _too_many(tx, engine, command):
        return
    parts, runs, begun = (0, 0, False) if job is None else (job.parts, job.runs, bool(job.act))
    if begun or (parts, runs) != (command.parts, command.total):
        message = "not all of the job's runs were added, or too long ago; send it again"
        tx.effect(Reply(command.id, ok=False, code=JOB_INCOMPLETE, message=message))
        return
    started = facts.JobStarted(
        job=command.job,
        act=command.act,
        filter=command.filter,
        total=command.total,
        caller=command.caller,
        reason=command.reason,
    )
    tx.emit(PROJECT_SLOT, started)
    _go_on_later(tx, command.job)
    tx.effect(Reply(command.id, ok=True))


def _go_on_later(tx: Transition, job: str) -> None:
    # In a batch of its own: where all slots are in one partition, a whole job would
    # otherwise be one transaction.
    tx.call_at(tx.now, JobGoesOn(job))


def job_goes_on(tx: Transition, engine: EngineContext, call: JobGoesOn) -> None:
    """Nothing of a job is under way: its next batch begins, or it is over."""
    job = tx.state.get(acts.JOBS, (PROJECT_SLOT, call.job))
    if job is None or not job.act or job.waits_for:
        return
    if job.stopping or job.part >= job.parts:
        status = STOPPED if job.part < job.parts else COMPLETED
        tx.emit(PROJECT_SLOT, facts.JobEnded(job=call.job, status=status))
        return
    part = tx.state.get(acts.JOB_PARTS, (PROJECT_SLOT, call.job, job.part))
    assert part is not None, "a job that is not through has the ids of its turn"
    assert job.caller is not None, "a job that began has its caller"
    runs = part.runs[job.first : job.first + engine.settings.job_batch]
    sent = facts.JobBatchSent(job=call.job, part=job.part, first=job.first, count=len(runs))
    act, caller, reason = job.act, job.caller, job.reason
    tx.emit(PROJECT_SLOT, sent)
    for run in runs:
        asked = messages.JobRunAsked(job=call.job, act=act, run=run, caller=caller, reason=reason)
        tx.send(run_slot(run), asked, source=PROJECT_SLOT)


def job_run_done(
    tx: Transition, engine: EngineContext, slot: int, message: messages.JobRunDone
) -> None:
    """One run of a batch is done with."""
    if tx.state.get(acts.JOBS, (slot, message.job)) is None:
        return
    reported = facts.JobRunReported(
        job=message.job,
        of=message.run,
        made=message.made,
        code=message.code,
        message=message.message,
    )
    tx.emit(slot, reported)
    job = tx.state.get(acts.JOBS, (slot, message.job))
    if job is not None and not job.waits_for:
        _go_on_later(tx, message.job)


def stop_job(tx: Transition, engine: EngineContext, command: commands.StopJob) -> None:
    """No further batch begins; what is under way of this one is finished."""
    job = tx.state.get(acts.JOBS, (PROJECT_SLOT, command.job))
    if job is None or not job.act:
        message = f"there is no job {command.job} that is not over"
        tx.effect(Reply(command.id, ok=False, code=JOB_NOT_RUNNING, message=message))
        return
    if not job.stopping:
        tx.emit(PROJECT_SLOT, facts.JobStopAsked(job=command.job, caller=command.caller))
        _go_on_later(tx, command.job)
    tx.effect(Reply(command.id, ok=True))


def drop_job(tx: Transition, job: str) -> None:
    """The time of a job that was not begun is over."""
    tx.emit(PROJECT_SLOT, facts.JobDropped(job=job))


# At the run's slot --------------------------------------------------------------------


def job_run_asked(
    tx: Transition, engine: EngineContext, slot: int, message: messages.JobRunAsked
) -> None:
    """Carry out a job's act on one run, and report."""
    if message.act == REPLAY:
        want_replay(tx, engine, slot, message)
        return
    done = messages.JobRunDone(job=message.job, run=message.run)
    run = tx.state.get(tables.RUNS, (slot, message.run))
    if run is None:
        done.code, done.message = RUN_NOT_ACTIVE, "the run has ended meanwhile"
    else:
        error = cancelled_by_person(message.reason)
        end_run(tx, engine, slot, run, CANCELLED, error=error)
    tx.send(PROJECT_SLOT, done, source=slot)


def carry_awaited(tx: Transition, engine: EngineContext, call: CarryAwaited) -> None:
    """The owner began anew: whatever a job still wants here is fetched again."""
    slot = run_slot(call.run)
    wanted = tx.state.get(acts.REPLAYS_WANTED, (slot, call.job, call.run))
    if wanted is not None:
        tx.effect(CarryWanted(call.job, call.run, wanted.caller))


def report_defect(tx: Transition, value: object, error: Exception) -> None:
    """A decision about one run of a job raised: the job goes on without it."""
    code, message = "engine", f"the engine could not decide about it: {error}"
    if isinstance(value, messages.JobRunAsked):
        done = messages.JobRunDone(job=value.job, run=value.run, code=code, message=message)
        tx.send(PROJECT_SLOT, done, source=run_slot(value.run))
    elif isinstance(value, commands.ReplayRun) and value.job is not None:
        slot = run_slot(value.run)
        if tx.state.get(acts.REPLAYS_WANTED, (slot, value.job, value.run)) is not None:
            refuse(tx, slot, value.job, value.run, code, message)
