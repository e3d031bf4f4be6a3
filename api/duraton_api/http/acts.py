"""Replay, retry from a step, acts on many runs, and the jobs that these are."""

from typing import Any

import msgspec
from starlette.responses import Response

from duraton_api.acts import Acts
from duraton_api.acts.choosing import Choice, input_text
from duraton_api.acts.filtering import FIELDS
from duraton_api.errors import (
    ApiError,
    BadParameterError,
    JobEndedError,
    JobUnknownError,
    PendingError,
    RefusedError,
)
from duraton_api.http.backend import Backend
from duraton_api.http.call import Call, command_id, json_answer, read_json
from duraton_api.http.reading import fresh, page_limit
from duraton_api.http.runs import REASON_LENGTH_MAX, run_of
from duraton_api.view.shapes import JobShape
from duraton_engine.commands.run_job import CANCEL, REPLAY
from duraton_schemas.records.commands import StopJob

ID_LENGTH_MAX = 500
STEP_LENGTH_MAX = 500
JOB_STATUSES = ("running", "stopping", "completed", "stopped")

_NONE: frozenset[str] = frozenset()
_BULK_PARAMETERS = frozenset({"dryRun"})
_LIST_PARAMETERS = frozenset({"status", "limit", "cursor", "consistency"})
_ONE_PARAMETERS = frozenset({"consistency"})


class ReplayBody(msgspec.Struct, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """The body of a replay; it may be left out.

    Attributes:
        dedupe_id: Two requests of the same id make one run.
    """

    dedupe_id: str | None = None


class RetryBody(ReplayBody, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """The body of a retry from a step.

    Attributes:
        step: The step's id, or as it is shown (`name:1`).
        n: Which use of that id, from 0.
        input: What the step is given in place of its own input.
    """

    step: str
    n: int | None = None
    input: Any = None


class BulkBody(msgspec.Struct, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """The body of an act on many runs: the filter of `GET /runs`.

    Attributes:
        status: Statuses, with commas.
        workflow: The workflow's name.
        app: The app's name.
        since: Created at or after it.
        until: Created before it.
        q: Words to be found in id, workflow, error or the event's data.
        reason: Of a cancel: why, for people.
    """

    status: str | None = None
    workflow: str | None = None
    app: str | None = None
    since: str | int | None = None
    until: str | int | None = None
    q: str | None = None
    reason: str | None = None


class ReplayAnswer(msgspec.Struct, rename="camel", kw_only=True, omit_defaults=True):
    """What a replay did.

    Attributes:
        run_id: The new run, or None where it is recorded and not made yet.
        replay_of: The run that it repeats.
        status: The new run's status.
        repeated: Whether an earlier request of the same dedupe id had made it.
        pending: Whether it is recorded and not made yet; then the old run's `replays`
            will name it.
    """

    run_id: str | None = msgspec.field(default=None)
    replay_of: str
    status: str | None = None
    repeated: bool = False
    pending: bool = False


class JobAnswer(msgspec.Struct, rename="camel", kw_only=True):
    """A job whose act is recorded and not carried out yet."""

    id: str
    pending: bool = True


_replay = msgspec.json.Decoder(ReplayBody)
_retry = msgspec.json.Decoder(RetryBody)
_bulk = msgspec.json.Decoder(BulkBody)


class ActsApi:
    """The calls that act on ended runs and on many runs.

    Args:
        backend: The node.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._acts = Acts(backend)

    # One run --------------------------------------------------------------------------

    async def replay(self, call: Call) -> Response:
        """Make a fresh run of the same trigger."""
        call.query(_NONE)
        run = run_of(call)
        raw = await call.body(self._backend.settings.body_bytes_max)
        body = read_json(raw, _replay) if raw.strip() else ReplayBody()
        return await self._made(call, run, None, body.dedupe_id)

    async def retry_from_step(self, call: Call) -> Response:
        """Make a fresh run that carries the completed steps before the chosen one."""
        call.query(_NONE)
        run = run_of(call)
        body = read_json(await call.body(self._backend.settings.body_bytes_max), _retry)
        if not 0 < len(body.step) <= STEP_LENGTH_MAX:
            raise BadParameterError(f"$.step: a step's id has 1 to {STEP_LENGTH_MAX} characters")
        if body.n is not None and body.n < 0:
            raise BadParameterError("$.n: uses of a step's id are counted from 0")
        choice = Choice(body.step, body.n, input_text(body.input))
        return await self._made(call, run, choice, body.dedupe_id)

    async def _made(
        self, call: Call, run: str, choice: Choice | None, dedupe_id: str | None
    ) -> Response:
        if dedupe_id is not None and not 0 < len(dedupe_id) <= ID_LENGTH_MAX:
            raise BadParameterError(f"$.dedupeId: it has 1 to {ID_LENGTH_MAX} characters")
        try:
            reply = await self._acts.replay(call.principal.caller, run, choice, dedupe_id)
        except PendingError:
            return json_answer(ReplayAnswer(replay_of=run, pending=True), PendingError.status)
        answer = ReplayAnswer(
            run_id=reply.run, replay_of=run, status=reply.status, repeated=reply.repeated
        )
        return json_answer(answer)

    # Many runs ------------------------------------------------------------------------

    async def bulk_replay(self, call: Call) -> Response:
        """Replay every run that a filter means."""
        return await self._many(call, REPLAY)

    async def bulk_cancel(self, call: Call) -> Response:
        """Cancel every run that a filter means."""
        return await self._many(call, CANCEL)

    async def _many(self, call: Call, act: str) -> Response:
        dry = call.query(_BULK_PARAMETERS).get("dryRun", "false")
        if dry not in ("true", "false"):
            raise BadParameterError("dryRun: it is `true` or `false`")
        raw = await call.body(self._backend.settings.body_bytes_max)
        body = read_json(raw, _bulk) if raw.strip() else BulkBody()
        given = {name: getattr(body, name) for name in FIELDS if getattr(body, name) is not None}
        if body.reason is not None and act != CANCEL:
            raise BadParameterError("$.reason: only a cancel has one")
        if body.reason is not None and len(body.reason) > REASON_LENGTH_MAX:
            raise BadParameterError(f"$.reason: at most {REASON_LENGTH_MAX} characters")
        if dry == "true":
            return json_answer(await self._acts.dry_run(act, given))
        job = await self._acts.bulk(call.principal.caller, act, given, body.reason)
        found = await self._acts.job(job)
        return json_answer(JobAnswer(id=job) if found is None else found, PendingError.status)

    # Jobs -----------------------------------------------------------------------------

    async def jobs(self, call: Call) -> Response:
        """Jobs, newest first."""
        query = call.query(_LIST_PARAMETERS)
        text = query.get("status")
        words = tuple(word.strip() for word in text.split(",")) if text is not None else ()
        for word in words:
            if word not in JOB_STATUSES:
                raise BadParameterError(f"status: {word!r} is none of {', '.join(JOB_STATUSES)}")
        limit = page_limit(query)
        await fresh(self._backend, query)
        view = self._backend.view
        return json_answer(await view.ask(view.reads.jobs, words, limit, query.get("cursor")))

    async def job(self, call: Call) -> Response:
        """One job."""
        query = call.query(_ONE_PARAMETERS)
        await fresh(self._backend, query)
        job, view = call.path("id"), self._backend.view
        return _shown(job, await view.ask(view.reads.job, job))

    async def stop_job(self, call: Call) -> Response:
        """Let a job begin no further batch."""
        call.query(_NONE)
        job = call.path("id")
        stop = StopJob(id=command_id(), caller=call.principal.caller, job=job)
        try:
            reply = await self._backend.command(stop)
        except PendingError:
            return json_answer(JobAnswer(id=job), PendingError.status)
        if not reply.ok:
            raise await self._refusal(job, reply.message)
        return _shown(job, await self._acts.job(job))

    async def _refusal(self, job: str, message: str | None) -> ApiError:
        # The engine forgets jobs that are over; the view tells those from unknown ones.
        found = await self._acts.job(job)
        if found is None:
            return _unknown(job)
        if found.ended_at is not None:
            return JobEndedError(f"the job {job} is {found.status}")
        return RefusedError(message or f"the job {job} is {found.status}")


def _shown(job: str, found: JobShape | None) -> Response:
    if found is None:
        raise _unknown(job)
    return json_answer(found)


def _unknown(job: str) -> JobUnknownError:
    return JobUnknownError(f"no job has the id {job!r}")
