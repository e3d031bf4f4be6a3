"""What a runner's answer must be before the engine is given it.

The engine writes what an answer holds to the log. What could not be written, or
could be written and never read again, is turned back here.
"""

from functools import lru_cache

import msgspec

from duraton_schemas.errors import BadRecordError, OptionsError, ValueFormError
from duraton_schemas.ids import run_slot
from duraton_schemas.options import Retry
from duraton_schemas.values import (
    EVENT_BYTES_MAX,
    STEP_OUTPUT_BYTES_MAX,
    check_depth,
    text_bytes,
)
from duraton_schemas.wire.frames import (
    USAGES_MAX,
    Complete,
    Fail,
    FrameError,
    FrameUsage,
    Step,
    Suspend,
)

NUMBER_MAX = 2**53
"""Counts and times beyond it cannot be told apart in JSON."""
NAME_LENGTH_MAX = 500
"""Of a step's id, an event's name, an app or a workflow."""
VALUE_LENGTH_MAX = 4_000
"""Of the value that a wait's field must have; it stands in keys of the state."""
RETRY_LENGTH_MAX = 2_000
"""Of a step's own retry policy as JSON."""
ERROR_LENGTH_MAX = 256 << 10
"""Letters of an error's message or traceback that are kept."""
RUN_LENGTH_MAX = 64
"""Longer texts are no run ids and are not remembered."""
TOKEN_LENGTH_MAX = 64
"""Three numbers and two dots are never longer."""
KINDS = frozenset({"run", "sleep", "wait", "invoke", "send", "ai"})

Answer = Step | Suspend | Complete | Fail

_json = msgspec.json.Decoder()
_policy = msgspec.json.Decoder(Retry)


def fault_of(answer: Answer) -> str | None:
    """Why an answer makes no sense, or None where it does.

    Such an answer is a malformed one: it costs its run an invoke (P38).
    """
    if type(answer) is Step:
        return _fault_of_step(answer)
    if not 0 <= answer.seen < NUMBER_MAX:
        return f"seen is {answer.seen}"
    return _fault_of_error(answer.error) if type(answer) is Fail else None


def settled(answer: Answer) -> Answer:
    """The answer as it can be stored.

    A value that is no JSON, or above its limit, becomes the error it is (P43, P58);
    an error's text is cut to a length that a record can hold.
    """
    if type(answer) is Step:
        if answer.error is not None:
            _cut(answer.error)
        elif answer.output is not None:
            error = _error_of_value(answer.output, f"the output of step {answer.step!r}")
            if error is not None:
                return msgspec.structs.replace(answer, output=None, error=error)
        elif answer.data is not None:
            error = _error_of_value(
                answer.data, f"the data of step {answer.step!r}", EVENT_BYTES_MAX
            )
            if error is not None:
                return msgspec.structs.replace(answer, data=None, error=error)
    elif type(answer) is Complete:
        error = _error_of_value(answer.output, "what the handler returned")
        if error is not None:
            return Fail(run=answer.run, token=answer.token, error=error, seen=answer.seen)
    elif type(answer) is Fail:
        _cut(answer.error)
    return answer


def slot_of_run(run: str) -> int:
    """The slot written in a run's id, or -1 where the text is none."""
    return _slot_of_run(run) if len(run) <= RUN_LENGTH_MAX else -1


@lru_cache(maxsize=2_048)
def _slot_of_run(run: str) -> int:
    try:
        return run_slot(run)
    except BadRecordError:
        return -1


def _fault_of_step(step: Step) -> str | None:
    if step.kind not in KINDS:
        return f"{step.kind!r} is no kind of step"
    if not step.step or len(step.step) > NAME_LENGTH_MAX:
        return f"a step's id has 1 to {NAME_LENGTH_MAX} letters"
    if not (
        0 <= step.n < NUMBER_MAX and 1 <= step.attempt < NUMBER_MAX and 0 <= step.seen < NUMBER_MAX
    ):
        return f"step {step.step!r} counts n={step.n} attempt={step.attempt} seen={step.seen}"
    for moment in (step.due_ms, step.due_at, step.started_at):
        if moment is not None and not 0 <= moment < NUMBER_MAX:
            return f"step {step.step!r} names the time {moment}"
    if len(step.path) > NAME_LENGTH_MAX or len(step.value) > VALUE_LENGTH_MAX:
        return f"step {step.step!r} waits for a path or value that is too long"
    if step.retry is not None and not _is_policy(step.retry):
        return f"step {step.step!r} states a retry policy that is none"
    if step.usage and not _is_usage(step.usage):
        return f"step {step.step!r} states a usage that is none"
    if step.error is not None:
        return _fault_of_error(step.error)
    return _lack_of_step(step)


def _is_usage(usage: list[FrameUsage]) -> bool:
    if len(usage) > USAGES_MAX:
        return False
    for each in usage:
        if each.model is not None and len(each.model) > NAME_LENGTH_MAX:
            return False
        counts = (each.tokens, each.prompt, each.completion, each.cached, each.cache_writes)
        if not all(0 <= count < NUMBER_MAX for count in (*counts, each.cost or 0)):
            return False
    return True


def _is_policy(text: str) -> bool:
    if len(text) > RETRY_LENGTH_MAX:
        return False
    try:
        _policy.decode(text).check("retry")
    except (msgspec.DecodeError, OptionsError):
        return False
    return True


def _fault_of_error(error: FrameError) -> str | None:
    """Why an error cannot be kept; its message and its traceback are cut, not refused."""
    for text in (error.name, error.code, error.note):
        if text is not None and len(text) > NAME_LENGTH_MAX:
            return f"an error's name, code or note is {len(text)} letters"
    for delay in (error.retry_after_ms, error.retry_at):
        if delay is not None and not 0 <= delay < NUMBER_MAX:
            return f"an error asks for the time {delay}"
    return None


def _lack_of_step(step: Step) -> str | None:
    """What a step of its kind must carry and does not."""
    if step.kind in ("run", "ai"):
        return (
            None if step.output is not None else f"step {step.step!r} has neither output nor error"
        )
    if step.kind == "sleep":
        if step.due_ms is None and step.due_at is None:
            return f"sleep {step.step!r} does not say until when"
        return None
    name = step.workflow if step.kind == "invoke" else step.event
    if not name or len(name) > NAME_LENGTH_MAX or len(step.app) > NAME_LENGTH_MAX:
        return f"{step.kind} {step.step!r} does not say of what"
    if step.kind == "send" and "*" in name:
        return f"send {step.step!r} names an event with a `*`, which only triggers may have"
    return None


def _error_of_value(text: str, what: str, limit: int = STEP_OUTPUT_BYTES_MAX) -> FrameError | None:
    size = text_bytes(text)
    if size > limit:
        return FrameError(
            message=f"{what} is {size} bytes, the limit is {limit}",
            name="ValueSizeError",
            code="value-too-large",
            final=True,
        )
    try:
        check_depth(_json.decode(text), text)
    except (msgspec.DecodeError, ValueFormError) as error:
        said = str(error)
    except RecursionError:
        said = "it is nested too deeply"
    else:
        return None
    return FrameError(
        message=f"{what} is no JSON that can be read again: {said}",
        name="ValueFormError",
        code="value-not-json",
        final=True,
    )


def _cut(error: FrameError) -> None:
    if len(error.message) > ERROR_LENGTH_MAX:
        error.message = error.message[:ERROR_LENGTH_MAX] + "..."
    if error.stack is not None and len(error.stack) > ERROR_LENGTH_MAX:
        error.stack = "..." + error.stack[-ERROR_LENGTH_MAX:]
