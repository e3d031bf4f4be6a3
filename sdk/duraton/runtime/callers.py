"""Who may call a step: the handler, on its own event loop."""

import asyncio

from duraton.errors import StepUseError
from duraton.runtime.code import current_step_var
from duraton.runtime.live import Live


def check_caller(live: Live, step: str) -> None:
    """Refuse a call that could not be repeated when the run is replayed.

    Raises:
        StepUseError: It comes from another thread, or from a step's own code.
    """
    try:
        here = asyncio.get_running_loop() is live.host.loop
    except RuntimeError:
        here = False
    if not here:
        raise StepUseError(
            f"step {step!r} is called from another thread; only the handler's own event loop "
            "may call steps"
        )
    within = current_step_var.get()
    if within is not None and within.run == live.shown_run:
        raise StepUseError(
            f"step {step!r} is called inside step {within.step!r}; a step that is recorded is "
            "not executed again, so steps cannot hold others: call it from the handler"
        )
