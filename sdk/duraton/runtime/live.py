"""The state of one live invocation, which its parts share."""

import asyncio
from collections.abc import Callable

from duraton.runtime.calls import Call
from duraton.runtime.host import Host
from duraton.runtime.order import Key, Order
from duraton_schemas.ids import Token
from duraton_schemas.wire.frames import (
    Complete,
    Fail,
    FrameError,
    FrameSpend,
    Invoke,
    RunnerFrame,
    Step,
    Suspend,
)


class Live:
    """The state of one live invocation.

    Args:
        invoke: What the engine sent.
        host: What is around it.
        serving: Whether its answers are collected for one HTTP response at a time.

    Attributes:
        token: What every answer carries.
        partition: The partition in the token.
        spend: The run's committed spend.
        cap: What it may spend, or None.
        order: The results and their order.
        calls: Every step the handler has called.
        open: Those of them whose result it has not been given.
        unacked: What was sent about steps and not answered, in order.
        suspend: The wish to be suspended, until it is answered.
        final: How the handler ended, until that is answered.
        over: Whether nothing more will come of it.
        pausing: Whether nothing new is to begin.
        executing: Steps whose code runs here.
        parallel: Whether a task other than the handler's own has called a step.
        rested: Serve: called when a response is due.
        shown_run: The run's id as users know it: in onFailure the failed run's.
        shown_prefix: What stands before step ids in evidence.
    """

    def __init__(self, invoke: Invoke, host: Host, *, serving: bool) -> None:
        self.invoke, self.host, self.serving = invoke, host, serving
        self.run, self.token = invoke.run, invoke.token
        self.partition = Token.parse(invoke.token).partition
        self.spend = invoke.spend or FrameSpend()
        self.cap = invoke.cap
        self.order = Order(invoke.steps)
        self.calls: dict[Key, Call] = {}
        self.open: dict[Key, Call] = {}
        self.unacked: dict[Key, Step] = {}
        self.suspend: Suspend | None = None
        self.final: Complete | Fail | None = None
        self.over = self.pausing = self.parallel = False
        self.executing = 0
        self.rested: Callable[[], object] | None = None
        self.task: asyncio.Task[None] | None = None
        failing = invoke.kind == "onFailure"
        self.shown_run = (invoke.failed_run or invoke.run) if failing else invoke.run
        self.shown_prefix = "onFailure/" if failing else ""

    @property
    def ended(self) -> bool:
        """Whether the handler's calls count no more."""
        return self.over or self.final is not None

    def awaits_steps(self) -> bool:
        """Whether the handler waits for a step."""
        return any(not call.future.done() for call in self.open.values())

    def unacknowledged(self) -> list[RunnerFrame]:
        """What was sent and not answered, in order."""
        frames: list[RunnerFrame] = list(self.unacked.values())
        if self.suspend is not None:
            frames.append(self.suspend)
        if self.final is not None:
            frames.append(self.final)
        return frames

    def send(self, call: Call, frame: Step) -> None:
        """Send what became of a call; kept until it is answered."""
        self.unacked[call.key] = frame
        self.host.emit(frame)

    def failing(self, error: FrameError) -> Fail:
        """A frame that says that the handler failed."""
        return Fail(run=self.run, token=self.token, error=error, seen=self.order.seen)

    def finish(self, frame: Complete | Fail) -> None:
        """The handler has ended: what its steps still do counts no more."""
        self.final = frame
        self.suspend = None
        if isinstance(frame, Fail):
            self.tell_failure(f"handler, attempt {self.invoke.attempt},", frame.error)
        self.release()
        self.host.emit(frame)
        self.rest()

    def tell_failure(self, what: str, error: FrameError) -> None:
        """Tell people who watch the runner what failed."""
        self.host.failures.tell(self.run, self.invoke.workflow, what, error)

    def diverged(self, key: Key, how: str) -> None:
        """The code does not do what is recorded: the run cannot go on with it."""
        if self.ended:
            return
        name = key[0] if not key[1] else f"{key[0]}:{key[1]}"
        message = (
            f"step {name!r} is recorded for this run, but {how}. The run cannot continue "
            "with this code: deploy the code it began with, or cancel the run. "
            "Code outside of steps must do the same each time it runs."
        )
        error = FrameError(
            message=message, name="NondeterministicError", code="nondeterministic", final=True
        )
        self.finish(self.failing(error))
        assert self.task is not None, "a handler runs before it calls a step"
        self.task.cancel()

    def release(self) -> None:
        """Stop step code and let tasks that the handler left behind end quietly."""
        for call in list(self.open.values()):
            if call.task is not None:
                call.task.cancel()
            call.future.cancel()
        self.open.clear()

    def rest(self) -> None:
        """Serve: a response is due."""
        if self.rested is not None:
            self.rested()
