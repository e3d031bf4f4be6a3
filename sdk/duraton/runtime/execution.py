"""The durable execution of one invocation (DESIGN 8).

An execution runs a handler, sends frames about its steps, and gives it their
results strictly in the order of their numbers, one at a time, the next only after
the loop has run whatever the last one made ready. So a first pass and a replay give
the handler the same results in the same order.

It has no clock and no I/O. What it is told comes in by `acked`, `staled`, `woken`,
`attach` and `stop`; what it tells goes out by its host's `emit`.
"""

import asyncio
import contextvars
import logging
from collections.abc import Callable
from typing import Any, TypeVar

from duraton.context import StepContext
from duraton.errors import ExecutionEnded
from duraton.runtime.calls import Call, State, Work
from duraton.runtime.code import StepInfo, current_step_var, execute, metered, stored
from duraton.runtime.failures import frame_error
from duraton.runtime.host import Host
from duraton.runtime.order import Key, Order
from duraton.workflow import WorkflowDefinition
from duraton_schemas.ids import Token
from duraton_schemas.wire.frames import (
    Ack,
    Complete,
    Fail,
    FrameError,
    FrameSpend,
    Invoke,
    RunnerFrame,
    Stale,
    Step,
    StepMemo,
    Suspend,
    WakeItem,
)

_log = logging.getLogger("duraton")
_F = TypeVar("_F", Step, Complete, Fail)


class Execution:
    """One invocation of a handler.

    Args:
        invoke: What the engine sent.
        workflow: The workflow that it names.
        host: What is around it.
        ended: Called once, when nothing more will come of it.
        serving: Whether its answers are collected for one HTTP response at a time.

    Attributes:
        invoke: What the engine sent.
        token: What every answer carries.
        partition: The partition in the token.
        spend: The run's committed spend.
        rested: Serve: called when a response is due.
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
        self.invoke = invoke
        self.run, self.token = invoke.run, invoke.token
        self.partition = Token.parse(invoke.token).partition
        self.workflow = workflow
        self.spend = invoke.spend or FrameSpend()
        failing = invoke.kind == "onFailure"
        handler = workflow.on_failure if failing else workflow.handler
        assert handler is not None, "the runner refuses an onFailure that is not there"
        self.shown_run = (invoke.failed_run or invoke.run) if failing else invoke.run
        self.shown_prefix = "onFailure/" if failing else ""
        self._handler = handler
        self._host = host
        self._ended = ended
        self._order = Order(invoke.steps)
        self._uses: dict[str, int] = {}
        self._calls: dict[Key, Call] = {}
        self._open: dict[Key, Call] = {}
        self._unacked: dict[Key, Step] = {}
        self._suspend: Suspend | None = None
        self._final: Complete | Fail | None = None
        self._held: list[WakeItem] = []
        self._over = False
        self._executing = 0
        self._parallel = False
        self._warned: set[str] = set()
        self._quiet_at: int | None = None
        self._watched = 0
        self._pump_queued = False
        self.serving = serving
        self.rested: Callable[[], None] | None = None
        context = StepContext(self)
        self._task = host.loop.create_task(self._handle(context))

    # What is asked of it ---------------------------------------------------

    @property
    def replaying(self) -> bool:
        """Whether the handler has not been given all that was recorded."""
        return self._order.replaying

    @property
    def over(self) -> bool:
        """Whether nothing more will come of it."""
        return self._over

    @property
    def final(self) -> bool:
        """Whether its handler has ended."""
        return self._final is not None

    @property
    def suspended(self) -> bool:
        """Whether it asked to be suspended."""
        return self._suspend is not None

    def unacknowledged(self) -> list[RunnerFrame]:
        """What it sent and the engine has not answered, in order; to be sent again."""
        frames: list[RunnerFrame] = list(self._unacked.values())
        if self._suspend is not None:
            frames.append(self._suspend)
        if self._final is not None:
            frames.append(self._final)
        return frames

    # The handler -----------------------------------------------------------

    async def _handle(self, context: StepContext) -> None:
        frame: Complete | Fail
        try:
            value = await self._handler(context)
        except asyncio.CancelledError as error:
            if self._over:
                return
            frame = self._failing(frame_error(error))
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever it is, the run is told
            frame = self._failing(frame_error(error))
        else:
            if self._over:
                return
            late = self._order.next()
            if late is not None and late[0] not in self._calls:
                self._diverged(late[0], "the handler returned without calling it")
                return
            output = stored(value, "what the handler returned")
            if isinstance(output, FrameError):
                frame = self._failing(output)
            else:
                frame = Complete(
                    run=self.run, token=self.token, output=output, seen=self._order.seen
                )
        if not self._over and self._final is None:
            self._finish(frame)

    def _failing(self, error: FrameError) -> Fail:
        return Fail(run=self.run, token=self.token, error=error, seen=self._order.seen)

    def _finish(self, frame: Complete | Fail) -> None:
        """The handler has ended: what its steps still do counts no more."""
        self._final = frame
        self._suspend = None
        self._release()
        self._host.emit(frame)
        if self.rested is not None:
            self.rested()

    def _diverged(self, key: Key, how: str) -> None:
        """The code does not do what is recorded: the run cannot go on with it."""
        name = key[0] if not key[1] else f"{key[0]}:{key[1]}"
        message = (
            f"step {name!r} is recorded for this run, but {how}. The run cannot continue "
            "with this code: deploy the code it began with, or cancel the run. "
            "Code outside of steps must do the same each time it runs."
        )
        error = FrameError(
            message=message, name="NondeterministicError", code="nondeterministic", final=True
        )
        if self._final is None:
            self._finish(self._failing(error))
            self._task.cancel()

    def stop(self) -> None:
        """End it now: cancel the handler and its steps' tasks, send nothing more."""
        if self._over:
            return
        self._over = True
        self._task.cancel()
        self._release()
        self._unacked.clear()
        self._suspend = self._final = None
        self._ended(self)

    def _release(self) -> None:
        for call in list(self._open.values()):
            if call.task is not None:
                call.task.cancel()
            # Tasks that the handler left behind end quietly with their futures.
            call.future.cancel()
        self._open.clear()

    # Calls -----------------------------------------------------------------

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
        """
        if self._over or self._final is not None:
            raise ExecutionEnded("the invocation is over; a step cannot be called any more")
        n = self._uses.get(step, 0)
        self._uses[step] = n + 1
        key = (step, n)
        if n and step not in self._warned and any(name == step for name, _ in self._open):
            self._warned.add(step)
            _log.warning(
                "%s: step %r is called again while it runs; parallel uses of one id are told "
                "apart by the order of their calls, so give each its own id",
                self.workflow.name,
                step,
            )
        memo = self._order.called(key)
        if memo is not None and memo.kind != kind:
            self._diverged(key, f"as {memo.kind!r}, and the code calls it as {kind!r}")
            raise ExecutionEnded("the code differs from what is recorded")
        host = self._host
        # Only code that may be executed now or later needs its caller's variables.
        context = contextvars.copy_context() if work is not None else None
        call = Call(key, kind, self._order.seen, host.loop.create_future(), work, request, context)
        self._calls[key] = self._open[key] = call
        if not self._parallel and asyncio.current_task() is not self._task:
            self._parallel = True
        self._stirred()
        self._begin(call, memo)
        if self._order.waiting or memo is not None:
            self._pump_soon()
        return call.future

    def _begin(self, call: Call, memo: StepMemo | None) -> None:
        if memo is None:
            self._attempt(call, 1)
        elif memo.status == "due":
            self._attempt(call, memo.attempt)
        elif memo.status == "pending":
            call.attempt, call.state = memo.attempt, State.PENDING

    def _attempt(self, call: Call, attempt: int) -> None:
        call.attempt = attempt
        if call.work is None:
            call.state = State.ANSWERED
            self._send(call, call.frame(self.run, self.token))
            return
        call.state = State.EXECUTING
        self._executing += 1
        self._host.tasks_executing += 1
        assert call.context is not None
        call.task = self._host.loop.create_task(
            self._execute(call, call.work), context=call.context.copy()
        )
        call.task.add_done_callback(self._executed)

    def _executed(self, _task: "asyncio.Task[None]") -> None:
        self._executing -= 1
        self._host.tasks_executing -= 1
        if not self._over and (self.serving or not self._unacked):
            self._pump_soon()

    async def _execute(self, call: Call, work: Work) -> None:
        """Execute the user's code of a step and send what became of it."""
        step, n = call.key
        host = self._host
        started_at = host.now_ms()
        current_step_var.set(
            StepInfo(self.shown_run, step, n, call.attempt, f"{self.run}:{step}:{n}")
        )
        host.observer.execution_began(self.shown_run, self.shown_prefix + step, call.attempt)
        spend: FrameSpend | None = None
        result: str | FrameError
        try:
            answer = await execute(host, work)
            spend = metered(work.meter, answer)
            result = stored(answer, f"the output of step {step!r}")
        except asyncio.CancelledError as error:
            if self._over or self._final is not None:
                return
            result = frame_error(error)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever it is, the run is told
            result = frame_error(error)
        if self._over or self._final is not None or call.state is not State.EXECUTING:
            return
        output = error_ = None
        if isinstance(result, str):
            output = result
        else:
            error_ = result
        call.state = State.ANSWERED
        self._send(
            call,
            call.frame(
                self.run,
                self.token,
                output=output,
                error=error_,
                started_at=started_at,
                spend=spend,
            ),
        )

    def _send(self, call: Call, frame: Step) -> None:
        self._unacked[call.key] = frame
        self._host.emit(frame)

    # What the engine says --------------------------------------------------

    def acked(self, ack: Ack) -> None:
        """An answer is committed. Repeated and late acks change nothing."""
        if self._over:
            return
        if ack.spend is not None:
            self.spend = ack.spend
        if ack.of == "step":
            self._acked_step(ack)
        elif ack.of == "suspend":
            # Also where a call has meanwhile taken the wish back: the token is gone.
            self.stop()
        elif self._final is not None:
            self.stop()

    def _acked_step(self, ack: Ack) -> None:
        key = (ack.step, ack.n)
        frame = self._unacked.get(key)
        if frame is None or frame.attempt != ack.attempt:
            return
        del self._unacked[key]
        call = self._calls[key]
        if ack.number:
            call.state = State.CALLED
            self._order.put(key, ack.number, ack.output if ack.output is not None else frame.output)
        elif ack.retry_at is None and frame.error is not None:
            call.state = State.FAILED
        else:
            call.state = State.PENDING
        self._pump()

    def staled(self, stale: Stale) -> None:
        """An answer does not count and is not sent again."""
        if self._over:
            return
        if stale.of == "step":
            frame = self._unacked.get((stale.step, stale.n))
            if frame is not None and frame.attempt == stale.attempt:
                del self._unacked[(stale.step, stale.n)]
                call = self._calls[(stale.step, stale.n)]
                if call.state is State.ANSWERED:
                    call.state = State.PENDING
                self._pump()
        elif stale.of == "suspend":
            if self._held:
                self._go_on()
            else:
                # Nothing had come in between, so it is the token that does not count.
                self.stop()
        elif self._final is not None:
            self.stop()

    def woken(self, items: list[WakeItem]) -> None:
        """What the handler waited for has come. Repeated items change nothing.

        Items that come while a suspend is under way are held until it is answered:
        if it was committed first, they come again with the next invocation, and what
        is due must not be executed twice.
        """
        if self._over or self._final is not None:
            return
        if self._suspend is not None:
            self._held.extend(items)
            return
        for item in items:
            key = (item.step, item.n)
            if item.number:
                self._result(key, item.number, item.output)
            else:
                self._due(key, item.attempt)
        self._pump()

    def _go_on(self) -> None:
        """The suspend was not committed."""
        self._suspend = None
        held, self._held = self._held, []
        self._quiet_at = None
        self.woken(held)

    def _result(self, key: Key, number: int, output: str | None) -> None:
        if self._order.put(key, number, output):
            self._unacked.pop(key, None)
            call = self._calls.get(key)
            if call is not None and call.state is not State.EXECUTING:
                call.state = State.CALLED

    def _due(self, key: Key, attempt: int) -> None:
        call = self._calls.get(key)
        if call is None:
            memo = self._order.memos.get(key)
            if memo is not None and memo.status != "done":
                memo.status, memo.attempt = "due", attempt
        elif call.attempt < attempt and call.state in (State.PENDING, State.ANSWERED):
            self._unacked.pop(key, None)
            self._attempt(call, attempt)

    def attach(self, invoke: Invoke) -> None:
        """The engine invokes a run that this execution still executes (serve).

        It goes on under the new token; what the invocation brings counts as
        acknowledged, what it lacks is sent again.
        """
        self.token = invoke.token
        self._unacked = {key: _retold(frame, invoke.token) for key, frame in self._unacked.items()}
        if self._final is not None:
            self._final = _retold(self._final, invoke.token)
            return
        self._suspend = None
        self.spend = invoke.spend or self.spend
        for memo in invoke.steps:
            key = (memo.step, memo.n)
            call = self._calls.get(key)
            if memo.status == "done":
                self._result(key, memo.number, memo.output)
            elif memo.status == "due":
                self._due(key, memo.attempt)
            elif call is not None and call.state is State.ANSWERED:
                self._unacked.pop(key, None)
                call.state = State.PENDING
        self._pump_soon()

    # Results ---------------------------------------------------------------

    def _stirred(self) -> None:
        """The execution did something: it has to settle anew."""
        # While only the handler's own task calls steps, nothing else can be under
        # way, and the passes need not be counted until somebody asks.
        self._quiet_at = self._host.turns.mark() if self._parallel else None

    def _quiet(self) -> bool:
        """Whether the loop has settled; if not, the pump is called when it has."""
        turns = self._host.turns
        if self._quiet_at is None:
            self._quiet_at = turns.mark()
        if turns.now >= self._quiet_at:
            return True
        if self._watched != self._quiet_at:
            self._watched = self._quiet_at
            turns.call_at(self._quiet_at, self._pump)
        return False

    def _pump_soon(self) -> None:
        if not self._pump_queued:
            self._pump_queued = True
            self._host.loop.call_soon(self._pump)

    def _pump(self) -> None:
        """Give the handler the next result, if it has come and it is its turn."""
        self._pump_queued = False
        order = self._order
        while not self._over and self._final is None:
            result = order.next()
            if result is None:
                break
            key, output = result
            call = self._calls.get(key)
            if call is None or not order.complete:
                # Steps that were called by now when this was recorded are not yet.
                if not self._awaits_steps() or not self._quiet():
                    return
                if call is None:
                    self._diverged(key, f"the code waits for {self._awaited()} instead")
                    return
            elif (self._parallel or len(self._open) != 1) and not self._quiet():
                return
            order.given()
            del self._open[key]
            call.given(output)
            self._stirred()
        self._consider_rest()

    def _awaits_steps(self) -> bool:
        return any(not call.future.done() for call in self._open.values())

    def _awaited(self) -> str:
        names = [repr(step) for step, _ in self._open][:5]
        return ", ".join(names)

    def _consider_rest(self) -> None:
        """Suspend if all that pends is the engine's to wake; serve: answer."""
        if self._over or self._final is not None or self._suspend is not None:
            return
        if not self._open or self._executing or self._order.waiting:
            return
        if self._unacked and not self.serving:
            return
        for call in self._open.values():
            if call.state is not State.PENDING and call.key not in self._unacked:
                return
        if not self._awaits_steps():
            return
        woken = all(_engine_wakes(frame) for frame in self._unacked.values())
        alone = not self._parallel and len(self._open) == 1 and self._order.complete
        if (woken or not alone) and not self._quiet():
            return
        if woken:
            self._suspend = Suspend(run=self.run, token=self.token, seen=self._order.seen)
            self._host.emit(self._suspend)
        if self.rested is not None:
            self.rested()


def _engine_wakes(frame: Step) -> bool:
    """Whether the engine will wake the run for a step that was told so."""
    return frame.error is not None or frame.kind in ("sleep", "wait", "invoke")


def _retold(frame: _F, token: str) -> _F:
    frame.token = token
    return frame
