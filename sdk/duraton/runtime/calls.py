"""One call of a step by a handler, from the call to its result."""

import asyncio
import enum
from collections.abc import Callable
from contextvars import Context
from dataclasses import dataclass
from typing import Any

from duraton.runtime.order import Key
from duraton.runtime.tally import Metering
from duraton_schemas.wire.frames import Step


class State(enum.Enum):
    """Where a call stands."""

    CALLED = "called"
    """Just called, or its result is known and waits its turn."""
    EXECUTING = "executing"
    """Its code runs here."""
    ANSWERED = "answered"
    """A frame about it was sent and is not acknowledged."""
    PENDING = "pending"
    """The engine will wake it."""
    GIVEN = "given"
    """The handler was given its result."""


@dataclass(frozen=True, slots=True)
class Work:
    """The user's code of a step.

    Attributes:
        function: Plain function, coroutine function, or a lambda that returns either's.
        args: Its positional arguments.
        kwargs: Its keyword arguments.
        metering: How what it used is read, of an AI step; otherwise None.
        awaits_network: Whether it is the SDK's own call of a model, which comes back
            without anybody's doing.
    """

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    metering: Metering | None = None
    awaits_network: bool = False


class Call:
    """A call of a step.

    Attributes:
        key: Its id and which use of that id it is.
        kind: As in the Step frame.
        seen: How many results the handler had.
        attempt: The attempt that executes, or is awaited.
        future: What the handler waits for; gives JSON text.
        work: The user's code, where it has some.
        request: Fields of the Step frame that the call fixes.
        context: The caller's context variables.
    """

    __slots__ = (
        "attempt", "context", "future", "key", "kind", "request", "seen", "state", "task", "work",
    )  # fmt: skip

    def __init__(
        self,
        key: Key,
        kind: str,
        seen: int,
        future: "asyncio.Future[str]",
        work: Work | None,
        request: dict[str, Any],
        context: Context | None,
    ) -> None:
        self.key, self.kind, self.seen, self.future = key, kind, seen, future
        self.work, self.request, self.context = work, request, context
        self.attempt = 1
        self.state = State.CALLED
        self.task: asyncio.Task[None] | None = None

    def frame(self, run: str, token: str, **fields: Any) -> Step:
        """A Step frame about it."""
        step, n = self.key
        return Step(
            run=run,
            token=token,
            step=step,
            n=n,
            kind=self.kind,
            attempt=self.attempt,
            seen=self.seen,
            **self.request,
            **fields,
        )

    def given(self, output: str) -> None:
        """Give the handler its result, unless it stopped waiting."""
        self.state = State.GIVEN
        self.work = self.context = self.task = None
        if not self.future.done():
            self.future.set_result(output)
