"""Jobs in the view: folding their facts, keeping them, listing them."""

import sqlite3
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from duraton_api.view import shapes
from duraton_api.view.cursors import read_cursor, write_cursor
from duraton_api.view.states import Stored
from duraton_api.view.times import iso, maybe_iso
from duraton_schemas.records import acts
from duraton_schemas.records.common import Caller, Fact

REFUSALS_KEPT = 100
"""Runs that a job could not act on and that are shown with the reason; all are counted."""

_encode = msgspec.json.Encoder().encode


class Refusal(Stored, kw_only=True):
    """A run that a job could not act on."""

    run: str
    code: str
    message: str


class JobState(Stored, kw_only=True):
    """A job as the view keeps it.

    Attributes:
        num: The seq of the fact that began it.
        status: `running`, `stopping`, `completed` or `stopped`.
        done: Runs that were acted on.
        refused: Runs that could not be.
        refusals: The first of those.
    """

    num: int
    id: str
    act: str
    status: str = "running"
    filter: str = "{}"
    reason: str | None = None
    total: int = 0
    done: int = 0
    refused: int = 0
    created_at: int = 0
    ended_at: int | None = None
    caller: Caller | None = None
    stopped_by: Caller | None = None
    refusals: list[Refusal] = []


_decoder = msgspec.json.Decoder(JobState)


class Jobs:
    """The jobs that the facts folded since the last write have changed.

    Args:
        load: Reads a job that is not in memory.
    """

    def __init__(self, load: Callable[[str], JobState | None]) -> None:
        self._load = load
        self.changed: dict[str, JobState] = {}

    def apply(self, fact: Any) -> bool:
        """Fold a fact; False where it is not about jobs."""
        handler = JOB_FACTS.get(type(fact))
        if handler is None:
            return False
        job = self.changed.get(fact.job)
        if job is None:
            if isinstance(fact, acts.JobStarted):
                job = JobState(num=fact.seq, id=fact.job, act=fact.act)
            else:
                job = self._load(fact.job)
        if job is not None:
            handler(job, fact)
            self.changed[job.id] = job
        return True


def _started(job: JobState, fact: acts.JobStarted) -> None:
    job.filter, job.reason, job.total = fact.filter, fact.reason, fact.total
    job.caller, job.created_at = fact.caller, fact.at


def _reported(job: JobState, fact: acts.JobRunReported) -> None:
    if fact.code is None:
        job.done += 1
        return
    job.refused += 1
    if len(job.refusals) < REFUSALS_KEPT:
        refusal = Refusal(run=fact.of, code=fact.code, message=fact.message or "")
        job.refusals = [*job.refusals, refusal]


def _stop_asked(job: JobState, fact: acts.JobStopAsked) -> None:
    job.status, job.stopped_by = "stopping", fact.caller


def _ended(job: JobState, fact: acts.JobEnded) -> None:
    job.status, job.ended_at = fact.status, fact.at


JOB_FACTS: Final[Mapping[type[Fact], Callable[[JobState, Any], None]]] = {
    acts.JobStarted: _started,
    acts.JobRunReported: _reported,
    acts.JobStopAsked: _stop_asked,
    acts.JobEnded: _ended,
}
"""How each fact changes the job that it names."""


# The file ------------------------------------------------------------------------------


def load_job(db: sqlite3.Connection, job: str) -> JobState | None:
    """A job, or None where it is not known."""
    row = db.execute("SELECT detail FROM job_rows WHERE id = ?", (job,)).fetchone()
    return None if row is None else _decoder.decode(row[0])


def write_jobs(db: sqlite3.Connection, jobs: Jobs) -> None:
    """Write what a batch changed."""
    db.executemany(
        "INSERT INTO job_rows VALUES (?, ?, ?, ?, ?) ON CONFLICT (num) DO UPDATE"
        " SET status = excluded.status, detail = excluded.detail",
        [
            (job.num, job.id, job.status, job.created_at, _encode(job).decode())
            for job in jobs.changed.values()
        ],
    )


def read_jobs(
    db: sqlite3.Connection, statuses: tuple[str, ...], limit: int, cursor: str | None
) -> shapes.JobPage:
    """A page of jobs, newest first.

    Args:
        db: Where to read.
        statuses: Those that are asked for; empty for all.
        limit: The most jobs.
        cursor: The last page's cursor.
    """
    where = "(created_at, num) < (?, ?)"
    values: list[Any] = list(read_cursor(cursor))
    if statuses:
        where += f" AND status IN ({','.join('?' * len(statuses))})"
        values += statuses
    query = (
        f"SELECT num, created_at, detail FROM job_rows WHERE {where}"  # noqa: S608 - our own text
        f" ORDER BY created_at DESC, num DESC LIMIT {limit + 1}"
    )
    rows = db.execute(query, values).fetchall()
    shown = rows[:limit]
    last = shown[-1] if len(rows) > limit else None
    return shapes.JobPage(
        jobs=[job_shape(_decoder.decode(row["detail"])) for row in shown],
        cursor=None if last is None else write_cursor(last["created_at"], last["num"]),
    )


def job_shape(job: JobState) -> shapes.JobShape:
    """A job as it is answered."""
    return shapes.JobShape(
        id=job.id,
        act=job.act,
        status=job.status,
        filter=msgspec.Raw(job.filter.encode()),
        reason=job.reason,
        total=job.total,
        done=job.done,
        refused=job.refused,
        created_at=iso(job.created_at),
        ended_at=maybe_iso(job.ended_at),
        caller=job.caller,
        stopped_by=job.stopped_by,
        refusals=[
            shapes.RefusalShape(run=each.run, code=each.code, message=each.message)
            for each in job.refusals
        ],
    )
