"""Errors of the engine, and the codes of what it answers and records.

EngineError
├── WorkflowUnknownError    nobody registered the workflow
└── AnswerError             a runner's answer that makes no sense

The codes below stand in the errors of runs and in refusals; each has a section
in docs/reference/errors.md.
"""

from typing import ClassVar


class EngineError(Exception):
    """Root of this component's errors."""

    code: ClassVar[str] = "engine"
    retriable: ClassVar[bool] = False
    advice: ClassVar[str] = "See docs/reference/errors.md."


class WorkflowUnknownError(EngineError):
    """No app has registered a workflow of that name."""

    code = "workflow-unknown"
    advice = "Register the app, or correct the workflow's name."


class AnswerError(EngineError):
    """A runner answered what it cannot have meant."""

    code = "runner-answer"
    advice = "Use an SDK of the protocol's version."


RUN_NOT_ACTIVE = "run-not-active"
RUN_NOT_PAUSED = "run-not-paused"
RUN_STATE_TOO_LARGE = "run-state-too-large"
RUNNER_UNREACHABLE = "runner-unreachable"
CHILD_CANCELLED = "child-cancelled"
CANCELLED = "cancelled"
STEPS_TOO_MANY = "steps-too-many"
SHAPES_TOO_MANY = "shapes-too-many"
CRON_MALFORMED = "cron-malformed"
