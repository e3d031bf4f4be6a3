"""Executing the user's code of a step."""

import contextvars
import functools
import inspect
from contextlib import nullcontext
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from duraton.runtime.calls import Work
from duraton.runtime.failures import frame_error
from duraton.runtime.host import Host
from duraton.runtime.tally import Tally, tally_var
from duraton_schemas import values
from duraton_schemas.errors import ValueFormError, ValueSizeError
from duraton_schemas.values import STEP_OUTPUT_BYTES_MAX
from duraton_schemas.wire.frames import FrameError

_COROUTINE_FLAGS = inspect.CO_COROUTINE


@dataclass(frozen=True)
class StepInfo:
    """What step code may ask about itself, by `duraton.context.current_step()`.

    User code runs at least once per step: after a crash it may run again.

    Attributes:
        run: The run's id; in onFailure the failed run's.
        step: The step's id.
        n: Which use of that id, from 0.
        attempt: Which attempt, from 1.
        idempotency_key: The same for every attempt and every repeat; give it to
            services that take one.
    """

    run: str
    step: str
    n: int
    attempt: int
    idempotency_key: str


current_step_var: contextvars.ContextVar[StepInfo | None] = contextvars.ContextVar(
    "duraton_step", default=None
)


async def execute(host: Host, work: Work) -> Any:
    """The answer of the user's code.

    A coroutine function is awaited on the loop. Anything else is called in a worker
    thread with the caller's context variables, and if it gives back an awaitable,
    that is awaited on the loop.
    """
    function = work.function
    if _is_coroutine_function(function):
        return await function(*work.args, **work.kwargs)
    context = contextvars.copy_context()
    answer = await host.in_thread(
        functools.partial(context.run, function, *work.args, **work.kwargs)
    )
    if inspect.isawaitable(answer):
        answer = await answer
    return answer


async def execute_metered(host: Host, work: Work, tally: Tally) -> Any:
    """The output of an AI step: its code's answer, metered first and then parsed.

    So what the answer cost is known though parsing it raises.
    """
    metering = work.metering
    assert metering is not None, "it is an AI step's"
    tally_var.set(tally)
    with host.awaiting_network() if work.awaits_network else nullcontext():
        answer = await execute(host, work)
    tally.answered(metering, answer)
    if metering.parse is None:
        return answer
    return await execute(host, Work(metering.parse, (answer,), {}))


def stored(value: object, what: str) -> str | FrameError:
    """The JSON text of a value, or the final error that it has none (P43, P58)."""
    try:
        return values.dump(value, limit=STEP_OUTPUT_BYTES_MAX)
    except (ValueFormError, ValueSizeError) as error:
        found: ValueFormError | ValueSizeError = error
    except Exception as error:  # noqa: BLE001 - a value's own methods may raise anything
        found = ValueFormError(f"it cannot be read: {type(error).__name__}: {error}")
    report = frame_error(found)
    report.message = f"{what} cannot be stored: {report.message}. {found.advice}"
    report.final = True
    return report


def _is_coroutine_function(function: object) -> bool:
    if type(function) is FunctionType:  # the common case, and the look below is slow
        return bool(function.__code__.co_flags & _COROUTINE_FLAGS) or (
            inspect.iscoroutinefunction(function)
        )
    if inspect.iscoroutinefunction(function):
        return True
    # An object with an `async def __call__`.
    call = getattr(type(function), "__call__", None)  # noqa: B004 - the method is looked at
    return inspect.iscoroutinefunction(call)
