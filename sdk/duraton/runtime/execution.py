"""The durable execution of one invocation (DESIGN 8).

An execution runs a handler, sends frames about its steps, and gives it their
results strictly in the order of their numbers, one at a time, the next only after
the loop has run whatever the last one made ready. So a first pass and a replay give
the handler the same results in the same order.

It has no clock and no I/O. What it is told comes in by `acked`, `staled`, `woken`,
`pause`, `attach` and `stop`; what it tells goes out by its host's `emit`.
"""

import asyncio
import contextvars
import logging
from collections.abc import Callable
from typing import Any

from duraton.context import StepContext
from duraton.errors import ExecutionEnded
from duraton.runtime.attempts import Attempts
from duraton.runtime.callers import check_caller
from duraton.runtime.calls import Call, State, Work
from duraton.runtime.code import current_step_var, stored
from duraton.runtime.delivery import Delivery
from duraton.runtime.edited import edited_work
from duraton.runtime.failures import frame_error
from duraton.runtime.host import Host
from duraton.runtime.live import Live
from duraton.runtime.order import Key
from duraton.workflow import WorkflowDefinition
from duraton_schemas.wire.frames import (
    Ack,
    Complete,
    Fail,
    FrameError,
    Invoke,
    RunnerFrame,
    Stale,
    WakeItem,
)

_log = logging.getLogger("duraton")

LATE_CALLS_MAX = 1_000
"""Calls of steps after the end that are refused; one more waits for ever. A handler that
catches everything and tries again would otherwise never let go of the event loop."""


class Execution:
    """One invocation of a handler.

    Args:
        invoke: What the engine sent.
        workflow: The workflow that it names.
        host: What is around it.
        ended: Called once, when nothing more will come of it.
        serving: Whether its answers are collected for one HTTP response at a time.

    Attributes:
        live: Its state.
    """

    def __init__(
        self,
        invoke: Invoke,
        workflow: WorkflowDefinition,
        host: Host,
        ended: "Callable[[Execution], None]",
        *,
        serving: bool = False,
    ) -> None:
        handler = workflow.on_failure if invoke.kind == "onFailure" else workflow.handler
        assert handler is not None, "the runner refuses an onFailure that is not there"
        self.live = Live(invoke, host, serving=serving)
        self._handler = handler
        self._ended = ended
        self._delivery = Delivery(self.live)
        self._attempts = Attempts(self.live, self._delivery.soon)
        self._uses: dict[str, int] = {}
        self._warned: set[str] = set()
        self._held: list[WakeItem] = []
        self._late_calls = 0
        context = StepContext(self)
        self.live.task = host.loop.create_task(self._handle(context))

    # What is asked of it ---------------------------------------------------

    @property
    def invoke(self) -> Invoke:
        """What the engine sent."""
        return self.live.invoke

    @property
    def run(self) -> str:
        """The run's id."""
        return self.live.run

    @property
    def token(self) -> str:
        """What every answer carries."""
        return self.live.token

    @property
    def replaying(self) -> bool:
        """Whether the handler has not been given all that was recorded."""
        return self.live.order.replaying

    @property
    def done(self) -> bool:
        """Whether its handler has ended or asked to be suspended."""
        return self.live.final is not None or self.live.suspend is not None

    def unacknowledged(self) -> list[RunnerFrame]:
        """What it sent and the engine has not answered, in order; to be sent again."""
        return self.live.unacknowledged()

    # The handler -----------------------------------------------------------

    async def _handle(self, context: StepContext) -> None:
        live = self.live
        # The step code that happened to be under way where this task was made is another's.
        current_step_var.set(None)
        frame: Complete | Fail
        try:
            value = await self._handler(context)
        except asyncio.CancelledError as error:
            if live.ended:
                return
            frame = live.failing(frame_error(error))
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:  # noqa: BLE001 - whatever it is, the run is told
            frame = live.failing(frame_error(error))
        else:
            late = live.order.next()
            if late is not None and late[0] not in live.calls:
                live.diverged(late[0], "the handler returned without calling it")
            output = stored(value, "what the handler returned")
            if isinstance(output, FrameError):
                frame = live.failing(output)
            else:
                seen = live.order.seen
                frame = Complete(run=live.run, token=live.token, output=output, seen=seen)
        if not live.ended:
            live.finish(frame)

    def stop(self) -> None:
        """End it now: cancel the handler and its steps' tasks, send nothing more."""
        live = self.live
        if live.over:
            return
        live.over = True
        assert live.task is not None, "it is made with its handler's task"
        live.task.cancel()
        live.release()
        live.unacked.clear()
        live.suspend = live.final = None
        self._ended(self)

    def call(
        self, step: str, kind: str, request: dict[str, Any], work: Work | None = None
    ) -> "asyncio.Future[str]":
        """A handler calls a step.

        Args:
            step: Its id.
            kind: As in the Step frame.
            request: Fields of the Step frame that the call fixes.
            work: The user's code, for `run` and `ai`.

        Returns:
            The result's JSON text, once it has come and it is its turn.

        Raises:
            ExecutionEnded: The invocation is over.
            StepUseError: It is called from another thread, or by a step's own code.
        """
        live = self.live
        if live.ended:
            return self._called_late()
        check_caller(live, step)
        n = self._uses.get(step, 0)
        self._uses[step] = n + 1
        key = (step, n)
        if n:
            self._warn_of_parallel_use(step)
        work, request = self._edited(key, work, request)
        memo = live.order.called(key)
        if memo is not None and memo.kind != kind:
            live.diverged(key, f"as {memo.kind!r}, and the code calls it as {kind!r}")
            raise ExecutionEnded("the code differs from what is recorded")
        # Only code that is executed here, now or later, needs its caller's variables.
        context = contextvars.copy_context() if work is not None else None
        future: asyncio.Future[str] = live.host.loop.create_future()
        call = Call(key, kind, live.order.seen, future, work, request, context)
        live.calls[key] = live.open[key] = call
        if not live.parallel and asyncio.current_task() is not live.task:
            live.parallel = True
        self._delivery.stirred()
        self._attempts.called(call, memo)
        # A served run has no acknowledgement that would make it look again.
        if memo is not None or live.serving or live.pausing or live.order.waiting:
            self._delivery.soon()
        return future

    def _edited(
        self, key: Key, work: Work | None, request: dict[str, Any]
    ) -> tuple[Work | None, dict[str, Any]]:
        """What the step does, where the run was begun again with an edited input for it."""
        edit = self.invoke.step_input
        if edit is None or key != (edit.step, edit.n):
            return work, request
        if work is not None:
            return edited_work(work, edit.input, edit.step), request
        return work, request | {"data": edit.input} if "data" in request else request

    def _called_late(self) -> "asyncio.Future[str]":
        """A step is called after the end; who goes on calling them is left to wait for ever."""
        self._late_calls += 1
        if self._late_calls <= LATE_CALLS_MAX:
            raise ExecutionEnded("the invocation is over; a step cannot be called any more")
        for_ever: asyncio.Future[str] = self.live.host.loop.create_future()
        self.live.host.left_waiting.append(for_ever)
        return for_ever

    def _warn_of_parallel_use(self, step: str) -> None:
        if step not in self._warned and any(name == step for name, _ in self.live.open):
            self._warned.add(step)
            _log.warning(
                "%s: step %r is called again while it runs; parallel uses of one id are told "
                "apart by the order of their calls, so give each its own id",
                self.invoke.workflow,
                step,
            )

    # What the engine says --------------------------------------------------

    def acked(self, ack: Ack) -> None:
        """An answer is committed. Repeated and late acks change nothing."""
        live = self.live
        if live.over:
            return
        if ack.spend is not None:
            live.spend = ack.spend
        if ack.of == "step":
            self._acked_step(ack)
        elif ack.of == "suspend" or live.final is not None:
            # The token is gone, whatever the handler has done since.
            self.stop()

    def _acked_step(self, ack: Ack) -> None:
        live, key = self.live, (ack.step, ack.n)
        frame = live.unacked.get(key)
        if frame is None or frame.attempt != ack.attempt:
            return
        del live.unacked[key]
        call = live.calls[key]
        if ack.number:
            call.state = State.CALLED
            output = ack.output if ack.output is not None else frame.output
            live.order.put(key, ack.number, output)
        elif ack.retry_at is None and frame.error is not None:
            # It was the last attempt, and the run has failed with it.
            self.stop()
        else:
            call.state = State.PENDING
        self._delivery.pump()

    def staled(self, stale: Stale) -> None:
        """An answer does not count and is not sent again."""
        live = self.live
        if live.over:
            return
        if stale.of == "step":
            key = (stale.step, stale.n)
            frame = live.unacked.get(key)
            if frame is not None and frame.attempt == stale.attempt:
                del live.unacked[key]
                if live.calls[key].state is State.ANSWERED:
                    live.calls[key].state = State.PENDING
                self._delivery.pump()
        elif stale.of != "suspend":
            if live.final is not None:
                self.stop()
        elif live.suspend is not None:
            if self._held:
                live.suspend = None
                held, self._held = self._held, []
                self._delivery.stirred()
                self.woken(held)
            else:
                # Nothing had come in between, so it is the token that does not count.
                self.stop()

    def woken(self, items: list[WakeItem]) -> None:
        """What the handler waited for has come. Repeated items change nothing.

        Items that come while a suspend is under way are held until it is answered:
        if it was committed first, they come again with the next invocation, and what
        is due must not be executed twice.
        """
        live = self.live
        if live.ended:
            return
        if live.suspend is not None:
            self._held.extend(items)
            return
        for item in items:
            key = (item.step, item.n)
            if item.number:
                self._result(key, item.number, item.output)
            else:
                self._due(key, item.attempt)
        self._delivery.pump()

    def pause(self) -> None:
        """Begin nothing new; once what executes has ended and is committed, suspend."""
        if not self.live.ended:
            self.live.pausing = True
            self._delivery.soon()

    def attach(self, invoke: Invoke) -> None:
        """The engine invokes a run that this execution still executes (serve).

        It goes on under the new token; what the invocation brings counts as
        acknowledged, what it lacks is sent again.
        """
        live = self.live
        live.token = invoke.token
        for frame in live.unacked.values():
            frame.token = invoke.token
        if live.final is not None:
            live.final.token = invoke.token
            live.rest()
            return
        live.spend, live.cap = invoke.spend or live.spend, invoke.cap
        for memo in invoke.steps:
            key = (memo.step, memo.n)
            call = live.calls.get(key)
            if memo.status == "done":
                self._result(key, memo.number, memo.output)
            elif memo.status == "due":
                self._due(key, memo.attempt)
            elif call is not None and call.state is State.ANSWERED:
                live.unacked.pop(key, None)
                call.state = State.PENDING
        self._delivery.soon()

    def _result(self, key: Key, number: int, output: str | None) -> None:
        live = self.live
        if live.order.put(key, number, output):
            live.unacked.pop(key, None)
            call = live.calls.get(key)
            if call is not None and call.state is not State.EXECUTING:
                call.state = State.CALLED

    def _due(self, key: Key, attempt: int) -> None:
        live = self.live
        call = live.calls.get(key)
        if call is None:
            memo = live.order.memos.get(key)
            if memo is not None and memo.status != "done":
                memo.status, memo.attempt = "due", attempt
        elif call.attempt < attempt and call.state in (State.PENDING, State.ANSWERED):
            live.unacked.pop(key, None)
            self._attempts.begin(call, attempt)
