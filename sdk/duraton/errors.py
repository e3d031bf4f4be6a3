"""Errors of the SDK: what users raise, what they may catch, and what they meet.

DuratonError
├── NonRetriableError        raised by user code: retrying cannot help
│   ├── BudgetError          the run's cap is used up
│   └── InferenceRefusedError  the endpoint of `ctx.step.ai.infer` refuses the call
├── RetryAfterError          raised by user code: try again then
├── InferenceError           a call of `ctx.step.ai.infer` failed
├── StepUseError             a call of ctx.step that cannot work
├── StepInputError           an edited input that the step's function does not take
├── TargetError              TARGET names no app
│   ├── TargetNotFoundError
│   ├── TargetImportError
│   ├── TargetEmptyError
│   └── TargetKindError
├── RefusedError             the engine under test refused an act or a registration
├── ConnectionRefusedByEngineError   the engine will not have this runner
├── RegistrationRefusedError the engine refuses what a served app states
└── SendError                the engine did not take an event

ExecutionEnded, a CancelledError, is control flow and no error: it stops a handler
whose invocation is over.

Policy is data on the class: `code` is stable and shown to people, `advice` says
what to do. OptionsError, which `define_workflow` raises, is `duraton_schemas`'.
"""

import asyncio
from datetime import datetime, timedelta
from typing import Any, ClassVar

FINAL_MARK = "__duraton_final__"
"""Attribute of errors that retrying cannot help; a mark, so that two copies of the
SDK in one process agree (P36)."""
RETRY_AFTER_MARK = "__duraton_retry_after__"
"""Attribute that holds a RetryAfterError's argument."""


class DuratonError(Exception):
    """Root of this component's errors."""

    code: ClassVar[str] = "sdk"
    retriable: ClassVar[bool] = True
    advice: ClassVar[str] = "See docs/reference/errors.md."


class NonRetriableError(DuratonError):
    """Raise it where retrying cannot help: the run fails at once (P36)."""

    code = "non-retriable"
    retriable = False
    advice = "Correct what the message names, then replay the run."
    __duraton_final__ = True


class RetryAfterError(DuratonError):
    """Raise it to choose when a step is tried again; it grants no extra attempt (P35).

    Args:
        message: What is recorded on the failed attempt.
        retry_after: A duration as text ("30s"), whole milliseconds or a timedelta;
            a moment as a datetime (a naive one is read as UTC); or the text of a
            Retry-After header, which is seconds or an HTTP date.
    """

    code = "retry-after"
    advice = "None needed: the step is tried again when the error says."

    def __init__(self, message: str, retry_after: str | float | timedelta | datetime) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.__duraton_retry_after__ = retry_after

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.retry_after)


class BudgetError(NonRetriableError):
    """The run's cap on AI spend is used up, so the next call was not made."""

    code = "cap-reached"
    advice = "Raise the workflow's cap and replay the run."


class InferenceError(DuratonError):
    """The endpoint of `ctx.step.ai.infer` was not reached, or failed; the step is tried again."""

    code = "inference-failed"
    advice = "Give the step a retry policy; look at the endpoint if it recurs."


class InferenceRefusedError(NonRetriableError):
    """The endpoint of `ctx.step.ai.infer` refuses the call; trying again cannot help."""

    code = "inference-refused"
    advice = "Correct what the endpoint's message names: the key, the model or the messages."


class StepUseError(DuratonError):
    """A call of `ctx.step` whose arguments cannot work."""

    code = "step-misused"
    retriable = False
    advice = "Correct the call that the message names."
    __duraton_final__ = True


class StepInputError(DuratonError):
    """A run was begun again with an edited input that the step's function does not take.

    A step takes one only if it is called with arguments: `ctx.step.run("charge", charge,
    order_id)`. A lambda closes over its values and takes none.
    """

    code = "step-input-refused"
    retriable = False
    advice = "Retry from the step with the arguments that its function takes, or with none."
    __duraton_final__ = True


class TargetError(DuratonError):
    """TARGET names no app: `module:app`, `module` or `path/to/file.py`."""

    code = "target"
    retriable = False
    advice = "Write module:app, module, or path/to/file.py."


class TargetNotFoundError(TargetError):
    """There is no such module, file or attribute."""

    code = "target-not-found"


class TargetImportError(TargetError):
    """The module was found and raised while it was imported."""

    code = "target-import-failed"
    advice = "Correct the line that the message names."


class TargetEmptyError(TargetError):
    """The module defines no workflow."""

    code = "target-empty"
    advice = "Define a workflow there with define_workflow(...)."


class TargetKindError(TargetError):
    """The attribute is no App."""

    code = "target-not-an-app"
    advice = 'Name an attribute that holds App("name", workflows=[...]).'


class RefusedError(DuratonError):
    """The engine under test refused an act or a registration; nothing of it took effect.

    Attributes:
        engine_code: The engine's code, for example `run-not-active`.
    """

    code = "act-refused"
    retriable = False
    advice = "Look at the engine's code and at the run's status."

    def __init__(self, engine_code: str, message: str) -> None:
        super().__init__(message)
        self.engine_code = engine_code

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.engine_code, str(self))


class ConnectionRefusedByEngineError(DuratonError):
    """The engine closed the connection and will not have this runner.

    Attributes:
        engine_code: The engine's code, for example `options-refused`.
    """

    code = "runner-refused"
    retriable = False
    advice = "Correct what the engine's message names and start the runner again."

    def __init__(self, engine_code: str, message: str) -> None:
        super().__init__(message)
        self.engine_code = engine_code

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.engine_code, str(self))


class RegistrationRefusedError(DuratonError):
    """The engine refuses what a served app states; its old registration stays in force."""

    code = "registration-refused"
    retriable = False
    advice = "Correct the option that the message names and start again."


class SendError(DuratonError):
    """The engine did not take an event.

    Attributes:
        status: The HTTP status, or 0 where the engine was not reached.
        engine_code: The engine's code, or an empty text.
    """

    code = "send-failed"
    advice = "Look at the engine's code; with a dedupe id it is safe to send again."

    def __init__(self, message: str, status: int = 0, engine_code: str = "") -> None:
        super().__init__(message)
        self.status, self.engine_code = status, engine_code

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.status, self.engine_code)


class ExecutionEnded(asyncio.CancelledError):
    """The invocation is over, so a step cannot be called.

    A handler meets it where its `finally` blocks call a step while it is being
    stopped. It is a CancelledError, so that `except Exception` does not hold it
    and the tasks that a handler left behind end quietly.
    """
