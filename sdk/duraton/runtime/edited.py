"""The edited input of a step that a run is begun again with (P40)."""

import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NoReturn

from duraton.errors import StepInputError
from duraton.runtime.calls import Work
from duraton_schemas import values


def edited_work(work: Work, text: str, step: str) -> Work:
    """A step's code with edited arguments, in place of all that the handler passes.

    Args:
        work: The step's code.
        text: JSON text: an array of positional arguments, or an object of named ones.
        step: The step's id.

    Returns:
        The code; where its function takes no such arguments, code that says so.
    """
    found: Any = values.load(text)
    args: tuple[Any, ...] = tuple(found) if isinstance(found, list) else ()
    kwargs: dict[str, Any] = found if isinstance(found, dict) else {}
    try:
        signature = inspect.signature(work.function)
    except (TypeError, ValueError):
        signature = None  # some functions of C do not say what they take
    if signature is not None:
        try:
            signature.bind(*args, **kwargs)
        except TypeError as error:
            return Work(_refusing(step, str(error)), (), {})
    return replace(work, args=args, kwargs=kwargs)


def _refusing(step: str, why: str) -> Callable[[], Any]:
    async def refuse() -> NoReturn:
        raise StepInputError(f"step {step!r} does not take the edited input: {why}")

    return refuse
