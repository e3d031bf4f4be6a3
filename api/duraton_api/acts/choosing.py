"""Which step a retry begins again with, what it takes, and which results go along (P40)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from duraton_api.errors import BadParameterError, StepUnknownError
from duraton_api.view.states import StepState
from duraton_schemas.values import EVENT_BYTES_MAX, dump

NAMES_SHOWN_MAX = 20
_CALLED = frozenset({"run", "ai"})
_ASKED = frozenset({"invoke", "send"})


@dataclass(frozen=True)
class Choice:
    """The step that a retry begins again with.

    Attributes:
        step: Its id, or as it is shown (`name:1`).
        n: Which use of that id, or None: as `step` says, otherwise the first.
        input: What it is given in place of its own input, as JSON text, or None.
    """

    step: str
    n: int | None = None
    input: str | None = None


def input_text(value: Any) -> str | None:
    """The JSON text of an edited input, None for None.

    Raises:
        ValueFormError: It has no exact JSON form.
        ValueSizeError: It is above 1 MiB.
    """
    return None if value is None else dump(value, limit=EVENT_BYTES_MAX)


def choose_step(steps: Sequence[StepState], choice: Choice) -> StepState:
    """The step of a run that is meant.

    Raises:
        StepUnknownError: There is none; the message names those that there are.
        BadParameterError: It takes no such input.
    """
    chosen = _find(steps, choice)
    if chosen is None:
        n = f":{choice.n}" if choice.n else ""
        raise StepUnknownError(
            f"the run has called no step {choice.step + n!r}; {_names(steps)}",
        )
    if choice.input is not None:
        _check_input(chosen, choice.input)
    return chosen


def _find(steps: Sequence[StepState], choice: Choice) -> StepState | None:
    by_use = {(step.step, step.n): step for step in steps}
    found = by_use.get((choice.step, choice.n or 0))
    if found is not None or choice.n is not None:
        return found
    name, _, n = choice.step.rpartition(":")
    return by_use.get((name, int(n))) if name and n.isascii() and n.isdecimal() else None


def _names(steps: Sequence[StepState]) -> str:
    names = [repr(step.name) for step in steps]
    if not names:
        return "it has called none, so replay it from its first step"
    more = len(names) - NAMES_SHOWN_MAX
    listed = ", ".join(names[:NAMES_SHOWN_MAX])
    return f"it has called {listed}" + (f" and {more} more" if more > 0 else "")


def _check_input(step: StepState, text: str) -> None:
    object_ = text.startswith("{")
    if step.kind in _CALLED:
        if not object_ and not text.startswith("["):
            raise BadParameterError(
                f"$.input: {step.name!r} calls a function, so its input is an array of positional "
                "arguments, or an object of named ones"
            )
    elif step.kind in _ASKED:
        if not object_:
            raise BadParameterError(f"$.input: {step.name!r} sends data, so its input is an object")
    else:
        raise BadParameterError(f"$.input: {step.name!r} is a {step.kind} and takes no input")


def carried_steps(steps: Sequence[StepState], chosen: StepState) -> list[StepState]:
    """The completed items that go along, in the order of their results.

    Those of which the handler was not told what the chosen step gave: what is called
    later may depend on it. Their numbers stay the same up to the chosen one's, so what
    each has `seen` still names the same results.
    """
    done = sorted((s for s in steps if s.status == "completed"), key=lambda step: step.number)
    if not chosen.number:
        return done
    return [step for step in done if step.seen < chosen.number and step is not chosen]
