"""Errors of the API, the views and the node.

ApiError
├── BadRequestError          a request that cannot be understood (400)
│   ├── BadJsonError         a body that is no JSON, or not of the call's form
│   ├── BadParameterError    a query or path parameter that cannot be read
│   └── BadSqlError          SQL that is refused, or that SQLite cannot run
├── UnauthorizedError        no key, or a key that is not known (401)
├── ForbiddenError           a key without the scope (403)
│   └── NotLocalError        a caller or host that is not this machine, without keys
├── NotFoundError            what the path names is not known (404)
│   ├── RunUnknownError, EventUnknownError, WorkflowUnknownError, SchemaMissingError
│   ├── StepUnknownError     the run has called no such step
│   └── JobUnknownError      no job has that id
├── RunGoneError             what an act needs of a run is kept no longer (410)
├── MethodNotAllowedError    a path that takes other methods (405)
├── RefusedError             the engine refused a command (409)
│   ├── RunEndedError        the run has ended already
│   ├── ReplayOfHandlerError the run is an onFailure execution
│   └── JobEndedError        the job is over already
├── TooLargeError            a body, event or POST above its limit (413)
├── BusyError                too much new work waits (429)
├── NotYetError              a call that this version does not carry out (501)
├── ViewError                something about a view (503)
│   ├── ViewBehindError      the view has not reached what the caller must see
│   ├── ViewFailedError      the view cannot be folded at present
│   └── QueryTooSlowError    a read took longer than it may
├── UnavailableError         the engine cannot answer now (503)
│   ├── AnswerUnknownError   it is not known whether the request was recorded
│   └── EngineStoppedError   the engine stopped before it could answer
├── PortInUseError           another process listens on the port
└── PendingError             a command is recorded, its answer has not come yet (202)

Policy is data on the class: `code` is stable and shown to people, `status` is
the HTTP status, `advice` says what to do.
"""

from typing import ClassVar


class ApiError(Exception):
    """Root of this component's errors."""

    code: ClassVar[str] = "internal"
    status: ClassVar[int] = 500
    title: ClassVar[str] = "Something went wrong inside the engine"
    retriable: ClassVar[bool] = False
    advice: ClassVar[str] = "Look at the engine's log for the instance shown here."


class BadRequestError(ApiError):
    """A request that cannot be understood."""

    code = "bad-request"
    status = 400
    title = "The request cannot be understood"
    advice = "See docs/reference/http-api.md for the call's form."


class BadJsonError(BadRequestError):
    """A body that is no JSON, or not of the form that the call takes."""

    code = "bad-json"
    title = "The body is not of the call's form"
    advice = "Correct the field that the detail names; nothing of the request was stored."


class BadParameterError(BadRequestError):
    """A query or path parameter that cannot be read."""

    code = "bad-parameter"
    title = "A parameter cannot be read"
    advice = "Correct the parameter that the detail names."


class BadSqlError(BadRequestError):
    """SQL that is refused (it is read-only), or that SQLite cannot run."""

    code = "bad-sql"
    title = "The query cannot be run"
    advice = "Write one SELECT over the tables of docs/reference/view-tables.md."


class UnauthorizedError(ApiError):
    """No key was sent, or one that is not known."""

    code = "unauthorized"
    status = 401
    title = "A key is needed"
    advice = "Send `Authorization: Bearer <key>` with one of the engine's keys."


class ForbiddenError(ApiError):
    """A key that lacks the scope, or a caller that a keyless server does not take."""

    code = "forbidden"
    status = 403
    title = "The call is not allowed"
    advice = "Use a key with the scope that the detail names."


class NotLocalError(ForbiddenError):
    """No keys are configured, and the caller or the host it names is not this machine."""

    code = "not-local"
    advice = "Configure keys, or call it by http://localhost or http://127.0.0.1."


class NotFoundError(ApiError):
    """What the path names is not known here."""

    code = "not-found"
    status = 404
    title = "There is no such thing"
    advice = "Check the id; the lists show what there is."


class RunUnknownError(NotFoundError):
    """No run has that id."""

    code = "run-unknown"
    title = "There is no such run"
    advice = "Check the id; `duraton runs list` or `GET /runs` lists the runs."


class EventUnknownError(NotFoundError):
    """No event has that id."""

    code = "event-unknown"
    title = "There is no such event"
    advice = "Check the id; `GET /events` lists the events."


class WorkflowUnknownError(NotFoundError):
    """No registered workflow has that name."""

    code = "workflow-unknown"
    title = "There is no such workflow"
    advice = "Check the app and the name; `GET /workflows` lists the workflows."


class SchemaMissingError(NotFoundError):
    """No released schema has that id, subject or version."""

    code = "schema-missing"
    title = "There is no such schema"
    advice = "`GET /subjects` lists the subjects."


class StepUnknownError(NotFoundError):
    """The run has called no such step, or has not got to it."""

    code = "step-unknown"
    title = "The run has no such step"
    advice = "Name one of the steps that the detail lists, as `GET /runs/{id}` shows their ids."


class JobUnknownError(NotFoundError):
    """No job has that id."""

    code = "job-unknown"
    title = "There is no such job"
    advice = "Check the id; `duraton jobs list` or `GET /jobs` lists the jobs."


class RunGoneError(ApiError):
    """What an act needs of a run is kept no longer."""

    code = "run-gone"
    status = 410
    title = "The run is kept no longer"
    advice = "Send its event again; runs older than the log's retention cannot be replayed."


class MethodNotAllowedError(ApiError):
    """The path takes other methods."""

    code = "method-not-allowed"
    status = 405
    title = "The path does not take this method"
    advice = "Use a method that the Allow header names."

    def __init__(self, message: str, methods: list[str]) -> None:
        super().__init__(message)
        self.methods = methods


class RefusedError(ApiError):
    """The engine refused a command; nothing changed."""

    code = "refused"
    status = 409
    title = "The engine refused the command"
    advice = "The detail says what stands in the way; docs/reference/errors.md has the code."

    def __init__(self, message: str, code: str | None = None) -> None:
        """Refuse with a message, and with the engine's own code where it gave one."""
        super().__init__(message)
        if code is not None:
            self.code = code  # type: ignore[misc]  # one refusal's own, over its class's


class RunEndedError(RefusedError):
    """The run has ended already."""

    code = "run-ended"
    title = "The run has ended"
    advice = "Nothing is left to do for this run."


class ReplayOfHandlerError(RefusedError):
    """The run is the onFailure execution of another, which is not replayed by itself."""

    code = "replay-of-handler"
    title = "An onFailure execution is not replayed"
    advice = "Replay the run whose failure it handled: if that fails again, onFailure runs again."


class JobEndedError(RefusedError):
    """The job is over already."""

    code = "job-ended"
    title = "The job is over"
    advice = "Nothing is left to stop; `GET /jobs/{id}` shows what it did."


class TooLargeError(ApiError):
    """A body, an event or a POST above its limit; nothing of it was stored."""

    code = "too-large"
    status = 413
    title = "The request is too large"
    advice = "Split the POST, or store large data elsewhere and send a reference to it."


class BusyError(ApiError):
    """Too much new work waits; nothing was stored."""

    code = "overloaded"
    status = 429
    title = "Too much new work waits"
    retriable = True
    advice = "Send again after the Retry-After time."

    def __init__(self, message: str, retry_after_s: int = 1) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class NotYetError(ApiError):
    """A call that this version does not carry out."""

    code = "not-yet"
    status = 501
    title = "This version does not do that yet"
    advice = "See CHANGELOG.md for what each version brings."


class ViewError(ApiError):
    """Something about a view."""

    code = "view"
    status = 503
    title = "The view cannot answer now"
    retriable = True
    advice = "Ask again in a moment."


class ViewBehindError(ViewError):
    """The view has not reached what the caller must see: its own writes."""

    code = "view-behind"
    title = "The view is behind the journal"
    advice = "Ask again, or add `consistency=eventual` to read what the view has."


class ViewFailedError(ViewError):
    """The view cannot be folded at present; the log is not touched by that."""

    code = "view-failed"
    title = "The view cannot be folded"
    advice = "Look at the engine's log (a full disk?); `duraton log rebuild` makes the view anew."


class QueryTooSlowError(ViewError):
    """A read took longer than it may and was stopped."""

    code = "query-too-slow"
    title = "The query took too long"
    retriable = False
    advice = "Narrow it by time, status or workflow."


class UnavailableError(ApiError):
    """The engine cannot answer now."""

    code = "unavailable"
    status = 503
    title = "The engine cannot answer now"
    retriable = True
    advice = "Send it again; an event with a dedupeId is recorded once."


class AnswerUnknownError(UnavailableError):
    """It is not known whether the request was recorded."""

    code = "answer-unknown"
    title = "It is not known whether the request was recorded"


class EngineStoppedError(UnavailableError):
    """The engine stopped before it could answer."""

    code = "engine-stopped"
    title = "The engine stopped"


class PortInUseError(ApiError):
    """The node cannot listen: another process does, or the address is not this machine's."""

    code = "port-in-use"
    title = "The port cannot be listened on"
    advice = "Stop the other process, or pass another --port."


class PendingError(ApiError):
    """A command is recorded and will be carried out; its answer has not come yet."""

    code = "pending"
    status = 202
    title = "The command is recorded"
    retriable = False
    advice = "Look at the run in a moment."
