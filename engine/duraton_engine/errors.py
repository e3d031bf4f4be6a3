"""Errors of the engine, and the codes of what it answers and records.

EngineError
└── WorkflowUnknownError    nobody registered the workflow

The codes below stand in the errors of runs and in refusals; each has a section
in docs/reference/errors.md.
"""

from typing import ClassVar

from duraton_schemas.records.common import ErrorInfo


class EngineError(Exception):
    """Root of this component's errors."""

    code: ClassVar[str] = "engine"
    retriable: ClassVar[bool] = False
    advice: ClassVar[str] = "See docs/reference/errors.md."


class WorkflowUnknownError(EngineError):
    """No app has registered a workflow of that name."""

    code = "workflow-unknown"
    advice = "Register the app, or correct the workflow's name."


RUN_NOT_ACTIVE = "run-not-active"
RUN_NOT_PAUSED = "run-not-paused"
RUN_STATE_TOO_LARGE = "run-state-too-large"
RUNNER_UNREACHABLE = "runner-unreachable"
CHILD_CANCELLED = "child-cancelled"
RUN_CANCELLED = "cancelled"
RUN_STOPPED = "stopped"
RUN_REPLACED = "replaced"
SINGLETON_IN_USE = "singleton-in-use"
START_REFUSED = "T7103"
START_DECLINED = {
    "deduped": "start-deduped",
    "dropped": "start-dropped",
    "skipped": "start-skipped",
}
"""Codes of a step whose child did not come into being (P54)."""
STEPS_TOO_MANY = "steps-too-many"
SHAPES_TOO_MANY = "shapes-too-many"
RUN_NOT_ENDED = "run-not-ended"
CARRY_INCOMPLETE = "carry-incomplete"
JOB_INCOMPLETE = "job-incomplete"
JOB_NOT_RUNNING = "job-not-running"
JOBS_TOO_MANY = "jobs-too-many"


def workflow_unknown(app: str, workflow: str) -> ErrorInfo:
    """The error of what names a workflow that no app has registered; trying again cannot help."""
    return ErrorInfo(
        message=f"no app has registered the workflow {app}/{workflow}",
        name=WorkflowUnknownError.__name__,
        code=WorkflowUnknownError.code,
        final=True,
    )
