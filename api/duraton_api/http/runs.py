"""`GET /runs`, `GET /runs/{id}`, its journal, and acts on runs."""

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
from starlette.responses import Response

from duraton_api.errors import (
    ApiError,
    BadParameterError,
    PendingError,
    RefusedError,
    RunEndedError,
    RunUnknownError,
)
from duraton_api.http.backend import Backend
from duraton_api.http.call import Call, command_id, json_answer, read_json
from duraton_api.http.reading import fresh, page_limit, read_moment, whole_number
from duraton_api.view import shapes
from duraton_api.view.at import run_at
from duraton_api.view.cursors import read_cursor, write_cursor
from duraton_api.view.filters import STATUSES, RunFilter
from duraton_api.view.reads import FactPlaces
from duraton_api.view.render import folded_detail
from duraton_api.view.times import iso
from duraton_schemas.errors import BadRecordError
from duraton_schemas.ids import run_slot
from duraton_schemas.records.commands import CancelRun, Command, PauseRun, ResumeRun
from duraton_schemas.records.common import Caller, Cause, Fact
from duraton_streams.logs.base import JOURNAL

ENDED = frozenset({"completed", "failed", "cancelled"})
JOURNAL_PAGE_DEFAULT = 200
JOURNAL_PAGE_MAX = 1_000
FACTS_AT_MAX = 20_000
"""Facts that are read to show a run as it stood; a run of 2,000 steps has about 4,000."""
REASON_LENGTH_MAX = 1_000
SEQ_MAX = 1 << 51

_LIST_PARAMETERS = frozenset(
    {
        "status",
        "workflow",
        "app",
        "since",
        "until",
        "q",
        "kind",
        "limit",
        "cursor",
        "consistency",
    }
)
_ONE_PARAMETERS = frozenset({"consistency"})
_JOURNAL_PARAMETERS = frozenset({"at", "limit", "cursor", "consistency"})
_NONE: frozenset[str] = frozenset()
_KINDS = {"main": "main", "onFailure": "onFailure", "all": None}


class ActBody(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """The body of an act; it may be left out.

    Attributes:
        reason: Why, for people; of a cancel it becomes the run's error.
    """

    reason: str | None = None


class FactShape(msgspec.Struct, rename="camel", kw_only=True):
    """A fact of a run.

    Attributes:
        type: The record's name.
        topic: Where it stands.
        partition: See `topic`.
        offset: See `topic`.
        seq: Its number in its partition, without gaps.
        epoch: The owner that wrote it.
        at: When it was decided.
        cause: What led to it.
        fact: Its own fields.
    """

    type: str
    topic: str
    partition: int
    offset: int
    seq: int
    epoch: int
    at: str
    cause: Cause
    fact: dict[str, Any]


class JournalPage(msgspec.Struct, rename="camel", kw_only=True):
    """A page of a run's facts, oldest first; `missing` counts those that retention removed."""

    run: str
    facts: list[FactShape]
    missing: int
    cursor: str | None


class RunAt(msgspec.Struct, rename="camel", kw_only=True):
    """A run as it stood at a fact."""

    at: int
    run: shapes.RunDetail


class ActAnswer(msgspec.Struct, rename="camel", kw_only=True, omit_defaults=True):
    """What an act did: the run it changed, and its status then."""

    run_id: str
    status: str | None = None
    pending: bool = False


class _Act(NamedTuple):
    caller: Caller
    run: str
    reason: str | None

    def common(self) -> dict[str, Any]:
        """The fields that every command about a run has."""
        return {"id": command_id(), "caller": self.caller, "run": self.run}


_act = msgspec.json.Decoder(ActBody)


class RunsApi:
    """The calls about runs.

    Args:
        backend: The node.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def list(self, call: Call) -> Response:
        """Runs, newest first."""
        query = call.query(_LIST_PARAMETERS)
        kind = query.get("kind", "main")
        if kind not in _KINDS:
            raise BadParameterError(f"kind: it is one of {', '.join(_KINDS)}")
        wanted = RunFilter(
            statuses=_statuses(query.get("status")),
            workflow=query.get("workflow"),
            app=query.get("app"),
            since=read_moment(query, "since"),
            until=read_moment(query, "until"),
            q=query.get("q", "").strip() or None,
            kind=_KINDS[kind],
            limit=page_limit(query),
            cursor=query.get("cursor"),
        )
        await fresh(self._backend, query)
        view = self._backend.view
        if wanted.q:
            await view.ask(view.search_ready)
        return json_answer(await view.ask(view.reads.runs, wanted))

    async def get(self, call: Call) -> Response:
        """One run whole."""
        query = call.query(_ONE_PARAMETERS)
        run = run_of(call)
        await fresh(self._backend, query)
        view = self._backend.view
        found = await view.ask(view.reads.run, run)
        if found is None:
            raise _unknown(run)
        return json_answer(found)

    async def journal(self, call: Call) -> Response:
        """A run's facts, or with `at` the run as it stood at one of them."""
        query = call.query(_JOURNAL_PARAMETERS)
        run = run_of(call)
        limit = page_limit(query, JOURNAL_PAGE_DEFAULT, JOURNAL_PAGE_MAX)
        at = whole_number(query, "at", -1, 0, SEQ_MAX)
        first = 0 if query.get("cursor") is None else read_cursor(query["cursor"])[1]
        await fresh(self._backend, query)
        view = self._backend.view
        places = await view.ask(view.reads.facts, run)
        if places is None:
            raise _unknown(run)
        if at >= 0:
            return await self._run_at(run, places, at)
        wanted = places.offsets[max(first, 0) :][:limit]
        facts = await self._backend.read_facts(places.partition, wanted)
        shown = [
            fact_shape(places.partition, offset, fact)
            for offset, fact in zip(wanted, facts, strict=True)
            if fact is not None
        ]
        after = first + len(wanted)
        more = after < len(places.offsets)
        page = JournalPage(
            run=run,
            facts=shown,
            missing=len(wanted) - len(shown),
            cursor=write_cursor(0, after) if more else None,
        )
        return json_answer(page)

    async def _run_at(self, run: str, places: FactPlaces, at: int) -> Response:
        view = self._backend.view
        kept = await view.ask(view.reads.state, run)
        if kept is None:
            raise _unknown(run)
        facts = await self._backend.read_facts(places.partition, places.offsets[:FACTS_AT_MAX])
        there = [fact for fact in facts if fact is not None]
        stood = run_at(there, kept[0], at)
        if stood is None:
            first = there[0].header.seq if there and there[0].header else 0
            raise BadParameterError(f"at: the run began at fact {first}, not before")
        fold, output = stood
        return json_answer(RunAt(at=at, run=folded_detail(fold, output, kept[1])))

    async def pause(self, call: Call) -> Response:
        """Let a run begin nothing until it is resumed."""
        return await self._do(call, lambda made: PauseRun(**made.common()))

    async def resume(self, call: Call) -> Response:
        """Take every reason to pause from a run."""
        return await self._do(call, lambda made: ResumeRun(**made.common()))

    async def cancel(self, call: Call) -> Response:
        """End a run as cancelled."""
        return await self._do(call, lambda made: CancelRun(**made.common(), reason=made.reason))

    async def _do(self, call: Call, make: Callable[["_Act"], Command]) -> Response:
        call.query(_NONE)
        run = run_of(call)
        raw = await call.body(self._backend.settings.body_bytes_max)
        reason = read_json(raw, _act).reason if raw.strip() else None
        if reason is not None and len(reason) > REASON_LENGTH_MAX:
            raise BadParameterError(f"$.reason: at most {REASON_LENGTH_MAX} characters")
        command = make(_Act(call.principal.caller, run, reason))
        try:
            reply = await self._backend.command(command)
        except PendingError:
            return json_answer(ActAnswer(run_id=run, pending=True), PendingError.status)
        if not reply.ok:
            raise await self._refusal(run, reply.code, reply.message)
        return json_answer(ActAnswer(run_id=reply.run or run, status=reply.status))

    async def _refusal(self, run: str, code: str | None, message: str | None) -> ApiError:
        # The engine forgets runs that have ended; the view tells those from unknown ones.
        view = self._backend.view
        await view.reached(self._backend.journal_ends())
        status = await view.ask(view.reads.run_status, run)
        if status is None:
            return _unknown(run)
        if status in ENDED:
            return RunEndedError(f"the run {run} is {status}")
        return RefusedError(message or f"the run {run} is {status}", code)


def fact_shape(partition: int, offset: int, fact: Fact) -> FactShape:
    """A fact as the journal call shows it."""
    header = fact.header
    assert header is not None, "a fact of the journal has its header"
    fields = msgspec.to_builtins(fact)
    fields.pop("header", None)
    return FactShape(
        type=type(fact).__name__,
        topic=JOURNAL,
        partition=partition,
        offset=offset,
        seq=header.seq,
        epoch=header.epoch,
        at=iso(header.at),
        cause=header.cause,
        fact=fields,
    )


def _statuses(text: str | None) -> tuple[str, ...]:
    if text is None:
        return ()
    words = tuple(dict.fromkeys(word.strip() for word in text.split(",")))
    for word in words:
        if word not in STATUSES:
            raise BadParameterError(f"status: {word!r} is none of {', '.join(STATUSES)}")
    return words


def run_of(call: Call) -> str:
    """The run that the path names.

    Raises:
        RunUnknownError: It is no run's id.
    """
    run = call.path("id")
    try:
        run_slot(run)
    except BadRecordError as error:
        raise RunUnknownError(str(error)) from error
    return run


def _unknown(run: str) -> RunUnknownError:
    return RunUnknownError(f"no run has the id {run!r}")
