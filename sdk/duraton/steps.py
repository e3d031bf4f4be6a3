"""`ctx.step`: what a handler asks for durably.

Every step has an id. The n-th use of an id in a run, in the order of calls, is a
step of its own (P42). What a step gives back is always the stored JSON form (P43).
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from duraton.ai import AISteps
from duraton.app import app_of
from duraton.config import RetryConfig
from duraton.errors import StepUseError
from duraton.runtime.calls import Work
from duraton.workflow import WorkflowDefinition
from duraton_schemas import values
from duraton_schemas.canonical import canonical_text, check_path
from duraton_schemas.duration import Duration, to_ms
from duraton_schemas.errors import DurationError, KeyPathError, OptionsError
from duraton_schemas.options import Retry

if TYPE_CHECKING:
    from duraton.context import Event
    from duraton.runtime.execution import Execution

_log = logging.getLogger("duraton")

STEP_ID_LENGTH_MAX = 500
MATCH_PATH_LENGTH_MAX = 500
MATCH_VALUE_LENGTH_MAX = 4_000
"""Both stand in keys of the state; the engine refuses longer ones as well."""
_TIME_MS_MAX = 2**53
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

RetryPolicy = RetryConfig | Mapping[str, Any]


class Steps:
    """The steps of one run.

    Attributes:
        ai: Steps that call a model.
    """

    def __init__(self, execution: "Execution") -> None:
        self._execution = execution
        self.ai = AISteps(self)

    async def run(
        self,
        id: str,
        fn: Callable[..., Any],
        *args: Any,
        retry: RetryPolicy | None = None,
        **kwargs: Any,
    ) -> Any:
        """Execute code once and record what it gives.

        A coroutine function runs on the event loop. Any other callable runs in a
        worker thread; if it gives back an awaitable (`lambda: fetch(x)`), that is then
        awaited on the loop.

        Args:
            id: The step's id.
            fn: The code. It runs at least once; `duraton.context.current_step()` gives
                it an idempotency key.
            *args: Its positional arguments.
            retry: The step's own policy, which stands whole (P34).
            **kwargs: Its keyword arguments.

        Returns:
            What the code gave, in its stored JSON form.

        Raises:
            StepUseError: The call cannot work.
        """
        future = self._begin("run", id, Work(fn, args, kwargs), retry)
        return values.load(await future)

    async def sleep(self, id: str, duration: Duration) -> None:
        """Wait, holding nothing.

        Args:
            id: The step's id.
            duration: A timedelta, whole milliseconds, or text such as "90s".
        """
        try:
            due_ms = to_ms(duration)
        except DurationError as error:
            raise StepUseError(f"sleep {id!r}: {error}") from error
        await self._ask("sleep", id, {"due_ms": due_ms})

    async def sleep_until(self, id: str, when: datetime | int | str) -> None:
        """Wait until a moment, holding nothing; one that has passed is over at once.

        Args:
            id: The step's id.
            when: A datetime (a naive one is read as UTC), its ISO text, or milliseconds
                since 1970 UTC.
        """
        await self._ask("sleep", id, {"due_at": _moment(id, when)})

    async def wait_for_event(
        self,
        id: str,
        event: str,
        match: Mapping[str, Any] | None = None,
        timeout: Duration | None = None,  # noqa: ASYNC109 - the engine's timer, not a loop's
    ) -> "Event | None":
        """Wait for the first event of a name that is recorded from now on.

        Args:
            id: The step's id.
            event: The event's name.
            match: At most one field path and the value it must have (P51).
            timeout: After how long to give up; None waits without end.

        Returns:
            The event, or None after the time-out.
        """
        from duraton.context import Event  # noqa: PLC0415 - context imports this module

        request: dict[str, Any] = {"event": _name("event", id, event)}
        if match:
            request["path"], request["value"] = _match(id, match)
        if timeout is not None:
            try:
                request["due_ms"] = to_ms(timeout)
            except DurationError as error:
                raise StepUseError(f"wait {id!r}: {error}") from error
        found = await self._ask("wait", id, request)
        return None if found is None else _event(Event, found)

    async def invoke(
        self,
        id: str,
        workflow: "WorkflowDefinition | str",
        data: Any = None,
        *,
        retry: RetryPolicy | None = None,
    ) -> Any:
        """Start another workflow and wait for its output, holding nothing meanwhile.

        Args:
            id: The step's id.
            workflow: Its definition, "name" for one of the same app, or "app/name".
            data: Its event's data, a JSON object.
            retry: The step's own policy; a child that fails fails the step (P54).

        Returns:
            The child's output.
        """
        app, name = self._child(workflow)
        _check_text(f"step {id!r}: the app's name", app)
        request: dict[str, Any] = {
            "app": app,
            "workflow": _name("workflow", id, name),
            "data": _data(f"invoke {id!r}", data),
        }
        if retry is not None:
            request["retry"] = _policy(id, retry)
        return await self._ask("invoke", id, request)

    async def send_event(self, id: str, name: str, data: Any = None) -> Any:
        """Record an event, once.

        Args:
            id: The step's id.
            name: The event's name.
            data: Its data, a JSON object.

        Returns:
            `{"id": ...}`, the recorded event's.
        """
        event = _name("event", id, name)
        if "*" in event:
            raise StepUseError(f"send_event {id!r}: {name!r} holds a `*`, which only triggers may")
        request = {"event": event, "data": _data(f"send_event {id!r}", data)}
        return await self._ask("send", id, request)

    def _begin(
        self, kind: str, id: str, work: Work, retry: RetryPolicy | None
    ) -> "asyncio.Future[str]":
        if not callable(work.function):
            raise StepUseError(
                f"step {id!r}: fn must be callable, for example `lambda: fetch(x)`; "
                f"{type(work.function).__name__} is not"
            )
        request = {} if retry is None else {"retry": _policy(id, retry)}
        return self._execution.call(_id(id), kind, request, work)

    async def _ask(self, kind: str, id: str, request: dict[str, Any]) -> Any:
        return values.load(await self._execution.call(_id(id), kind, request))

    async def metered(self, id: str, work: Work, retry: RetryPolicy | None) -> Any:
        """A step of kind `ai`, for `ctx.step.ai`."""
        return values.load(await self._begin("ai", id, work, retry))

    def _child(self, workflow: object) -> tuple[str, str]:
        if isinstance(workflow, WorkflowDefinition):
            own = self._execution.invoke.app
            home = app_of(workflow)
            return ("" if home in ("", own) else home), workflow.name
        app, slash, name = str(workflow).partition("/")
        return (app, name) if slash else ("", app)


def _id(id: object) -> str:
    """A step's id; whole numbers, which often name a row, are taken as text."""
    text = id if isinstance(id, str) else str(id) if type(id) is int else ""
    if not text or len(text) > STEP_ID_LENGTH_MAX:
        raise StepUseError(
            f"a step's id is a text of 1 to {STEP_ID_LENGTH_MAX} letters, not {id!r}"[:300]
        )
    _check_text("a step's id", text)
    return text


def _check_text(what: str, text: str) -> None:
    """Refuse text that no encoding takes, before it is in a frame with others."""
    if text.isascii():
        return
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise StepUseError(f"{what} holds half a surrogate pair: {text!r}"[:300]) from error


def _name(what: str, id: str, name: object) -> str:
    if not isinstance(name, str) or not 0 < len(name) <= STEP_ID_LENGTH_MAX:
        raise StepUseError(f"step {id!r}: {name!r} is no {what}'s name"[:300])
    _check_text(f"step {id!r}: the {what}'s name", name)
    return name


def _data(what: str, data: Any) -> str:
    text = values.dump({} if data is None else data, limit=values.EVENT_BYTES_MAX)
    if not text.startswith("{"):
        raise StepUseError(f"{what}: data must be a JSON object, not {text[:40]}")
    return text


def _moment(id: str, when: object) -> int:
    if isinstance(when, str):
        try:
            when = datetime.fromisoformat(when)
        except ValueError as error:
            raise StepUseError(f"sleep_until {id!r}: {when!r} is no ISO time") from error
    if isinstance(when, datetime):
        aware = when if when.tzinfo is not None else when.replace(tzinfo=UTC)
        return max(round((aware - _EPOCH) / timedelta(milliseconds=1)), 0)
    if isinstance(when, int) and not isinstance(when, bool) and when < _TIME_MS_MAX:
        return max(when, 0)
    raise StepUseError(f"sleep_until {id!r}: {when!r} is no moment")


def _match(id: str, match: Mapping[str, Any]) -> tuple[str, str]:
    if len(match) > 1:
        raise StepUseError(f"wait {id!r}: match takes one field path, not {len(match)} (P51)")
    ((path, value),) = match.items()
    text = canonical_text(value)
    if text is None:
        raise StepUseError(f"wait {id!r}: match compares text, numbers and booleans")
    if len(path) > MATCH_PATH_LENGTH_MAX or len(text) > MATCH_VALUE_LENGTH_MAX:
        raise StepUseError(
            f"wait {id!r}: match takes a path of at most {MATCH_PATH_LENGTH_MAX} letters and a "
            f"value of at most {MATCH_VALUE_LENGTH_MAX}"
        )
    _check_text(f"wait {id!r}: the match", path + text)
    try:
        check_path(path)
    except KeyPathError as error:
        raise StepUseError(f"wait {id!r}: {error}") from error
    return path, text


def _event(kind: "type[Event]", found: Any) -> "Event":
    data = found.get("data")
    return kind(
        id=found.get("id", ""),
        name=found.get("name", ""),
        data=values.load(data) if isinstance(data, str) else data,
        ts=found.get("ts", 0),
        dedupe_id=found.get("dedupeId"),
        subject=found.get("subject"),
    )


_warned: set[str] = set()
_WARNED_MAX = 1_000


def _policy(id: str, retry: object) -> str:
    """A step's own policy as JSON text; fields left out take the general defaults (P34)."""
    if not isinstance(retry, (RetryConfig, Mapping)):
        raise StepUseError(f"step {id!r}: retry takes a RetryConfig, not {retry!r}"[:300])
    try:
        wire = retry.wire() if isinstance(retry, RetryConfig) else dict(retry)
        policy = msgspec.convert(wire, Retry)
        policy.check(f"step {id!r}: retry")
    except (msgspec.ValidationError, OptionsError) as error:
        raise StepUseError(f"step {id!r}: {error}") from error
    # Only the defaults of the attempts with something else stated looks unintended.
    if policy.max_attempts == 1 and policy != Retry() and id not in _warned:
        if len(_warned) < _WARNED_MAX:
            _warned.add(id)
        _log.warning(
            "step %r: its own retry states no max_attempts, so it runs once; a step's policy "
            "stands whole and takes nothing of the workflow's",
            id,
        )
    return msgspec.json.encode(policy).decode()
