"""The attempts of a run's steps: code that is executed here, requests to the engine."""

import asyncio
from collections.abc import Callable, Sequence

from duraton.runtime.calls import Call, State, Work
from duraton.runtime.cap import halted
from duraton.runtime.code import StepInfo, current_step_var, execute, execute_metered, stored
from duraton.runtime.failures import frame_error
from duraton.runtime.live import Live
from duraton.runtime.tally import Tally
from duraton_schemas.wire.frames import FrameError, FrameUsage, StepMemo


class Attempts:
    """Begins the attempts of one invocation's steps.

    Args:
        live: The invocation.
        settled: Called when something ended of which nobody else will tell.
    """

    def __init__(self, live: Live, settled: Callable[[], None]) -> None:
        self._live = live
        self._settled = settled

    def called(self, call: Call, memo: StepMemo | None) -> None:
        """A step was called; `memo` is what is recorded of it."""
        if memo is None:
            self.begin(call, 1)
        elif memo.status == "due":
            self.begin(call, memo.attempt)
        elif memo.status == "pending":
            call.attempt, call.state = memo.attempt, State.PENDING

    def begin(self, call: Call, attempt: int) -> None:
        """Begin an attempt, unless the run is being paused: then it waits for the next invoke."""
        live = self._live
        if live.pausing:
            return
        call.attempt = attempt
        if call.work is None:
            call.state = State.ANSWERED
            live.send(call, call.frame(live.run, live.token))
            return
        call.state = State.EXECUTING
        live.executing += 1
        live.host.tasks_executing += 1
        assert call.context is not None, "a call with code keeps its caller's variables"
        # A context can be entered once at a time, so each attempt has its own.
        call.task = live.host.loop.create_task(
            self._execute(call, call.work), context=call.context.copy()
        )
        call.task.add_done_callback(self._executed)

    def _executed(self, _task: "asyncio.Task[None]") -> None:
        live = self._live
        live.executing -= 1
        live.host.tasks_executing -= 1
        if not live.over and (live.serving or live.pausing or not live.unacked):
            self._settled()

    async def _execute(self, call: Call, work: Work) -> None:
        """Execute the user's code of a step and send what became of it."""
        live, (step, n) = self._live, call.key
        host = live.host
        halt = None if work.metering is None else halted(live.cap, live.spend)
        if halt is not None:
            self._answer(call, frame_error(halt))
            return
        started_at = host.now_ms()
        key = f"{live.run}:{step}:{n}"
        current_step_var.set(StepInfo(live.shown_run, step, n, call.attempt, key))
        host.observer.execution_began(live.shown_run, live.shown_prefix + step, call.attempt)
        tally = None if work.metering is None else Tally()
        result: str | FrameError
        try:
            if tally is None:
                answer = await execute(host, work)
            else:
                answer = await execute_metered(host, work, tally)
            result = stored(answer, f"the output of step {step!r}")
        except asyncio.CancelledError as error:
            if live.ended:
                return
            result = frame_error(error)
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:  # noqa: BLE001 - whatever it is, the run is told
            result = frame_error(error)
        # An attempt that failed costs what it used as well (P29).
        self._answer(call, result, started_at, tally.usages if tally is not None else ())

    def _answer(
        self,
        call: Call,
        result: str | FrameError,
        started_at: int | None = None,
        usage: Sequence[FrameUsage] = (),
    ) -> None:
        live, step = self._live, call.key[0]
        if live.ended or call.state is not State.EXECUTING:
            return
        call.state = State.ANSWERED
        frame = call.frame(live.run, live.token, started_at=started_at, usage=list(usage))
        if isinstance(result, FrameError):
            frame.error = result
            live.tell_failure(f"step {step!r}, attempt {call.attempt},", result)
        else:
            frame.output = result
        live.send(call, frame)
