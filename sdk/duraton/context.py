"""What a handler gets: `ctx.event`, `ctx.run`, `ctx.step` and the rest."""

import logging
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from duraton.runtime.code import StepInfo, current_step_var
from duraton.steps import Steps
from duraton_schemas import values
from duraton_schemas.wire.frames import FrameEvent

if TYPE_CHECKING:
    from duraton.runtime.execution import Execution

__all__ = ["Event", "RunError", "RunInfo", "StepContext", "StepInfo", "current_step"]


# A dataclass, so that a step or a handler may give back the event it got.
@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class Event:
    """An event as a handler sees it.

    Attributes:
        id: Its id.
        name: Its name.
        data: Its data, a JSON object.
        ts: When it happened, milliseconds since 1970 UTC.
        dedupe_id: The id by which repeats were dropped, or None.
        subject: What it is about, or None.
    """

    id: str
    name: str
    data: Any
    ts: int
    dedupe_id: str | None = None
    subject: str | None = None

    @classmethod
    def of_frame(cls, frame: FrameEvent) -> "Event":
        """The event in a frame."""
        return cls(
            id=frame.id,
            name=frame.name,
            data=values.load(frame.data),
            ts=frame.ts,
            dedupe_id=frame.dedupe_id,
            subject=frame.subject,
        )

    def __repr__(self) -> str:
        return f"Event(id={self.id!r}, name={self.name!r}, data={self.data!r})"


@dataclass(frozen=True)
class RunInfo:
    """The run that a handler executes.

    Attributes:
        id: Its id; in onFailure the id of the run that failed.
        workflow: The workflow's name.
        app: The app's name.
        attempt: Which attempt of the handler's own code this is, from 1 (P37).
        started_at: When the run first started, milliseconds since 1970 UTC.
        root: Who began the chain of runs that led to it, as `kind:id`.
    """

    id: str
    workflow: str
    app: str
    attempt: int
    started_at: int
    root: str


@dataclass(frozen=True)
class RunError:
    """The error that a run failed with.

    Attributes:
        message: What it said.
        name: Its type's name.
        stack: The traceback's text, or None.
    """

    message: str
    name: str = "Error"
    stack: str | None = None


class StepContext:
    """What a handler gets.

    Attributes:
        event: The run's event, of a batch the first; of a schedule one that names the tick.
        events: All of its events.
        run: The run.
        error: In on_failure the error that the run failed with, otherwise None.
        attempt: Which attempt of the handler's own code this is, from 1.
        step: The steps.
        logger: Writes to the logger `duraton.workflow`; silent while recorded steps are
            replayed, so that a line is not written again for each replay.
    """

    def __init__(self, execution: "Execution") -> None:
        invoke = execution.invoke
        self.events: Sequence[Event] = [Event.of_frame(event) for event in invoke.events]
        self.event: Event = (
            self.events[0]
            if self.events
            else Event(id=invoke.run, name="duraton.cron", data={}, ts=invoke.started_at)
        )
        self.run = RunInfo(
            id=execution.live.shown_run,
            workflow=invoke.workflow,
            app=invoke.app,
            attempt=invoke.attempt,
            started_at=invoke.started_at,
            root=invoke.root,
        )
        failure = invoke.error
        self.error: RunError | None = (
            None if failure is None else RunError(failure.message, failure.name, failure.stack)
        )
        self.attempt = invoke.attempt
        self.step = Steps(execution)
        self._execution = execution
        self._logger: RunLogger | None = None

    @property
    def logger(self) -> "logging.LoggerAdapter[logging.Logger]":
        if self._logger is None:
            self._logger = RunLogger(self._execution, self.run)
        return self._logger


class RunLogger(logging.LoggerAdapter[logging.Logger]):
    """A logger that names the run and is silent while it is replayed."""

    def __init__(self, execution: "Execution", run: RunInfo) -> None:
        extra: Mapping[str, object] = {"run": run.id, "workflow": run.workflow, "app": run.app}
        super().__init__(logging.getLogger("duraton.workflow"), extra)
        self._execution = execution

    def isEnabledFor(self, level: int) -> bool:  # noqa: N802 - logging's own name
        return not self._execution.replaying and super().isEnabledFor(level)

    def process(
        self, msg: Any, kwargs: MutableMapping[str, Any]
    ) -> tuple[Any, MutableMapping[str, Any]]:
        kwargs["extra"] = {**(self.extra or {}), **(kwargs.get("extra") or {})}
        return msg, kwargs


def current_step() -> StepInfo:
    """Which step the calling code is: its ids, its attempt and an idempotency key.

    Raises:
        LookupError: It is not called from step code.
    """
    info = current_step_var.get()
    if info is None:
        raise LookupError("current_step() is for code that a step executes")
    return info
