"""The executions of a served app: each POST brings one run to its next commit point.

An execution outlives its response: the next POST of the run attaches to it, so no
handler code is repeated while the process lives. It is dropped when the run ends or
suspends, or when too many are kept; then the next POST replays.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable

from duraton.app import App
from duraton.runtime.execution import Execution
from duraton.runtime.host import Host, Observer, wall_clock_ms
from duraton_schemas.wire.frames import Invoke, RunnerFrame

KEPT_MAX = 1_000
"""Executions kept between two POSTs; the one that waited longest is dropped first."""


class Served:
    """The executions of one served app.

    It must be made on the event loop that it is used on.

    Args:
        app: What it offers.
        observer: Is told of step code that begins.
        now_ms: The time that is written on steps.
    """

    def __init__(
        self,
        app: App,
        *,
        observer: Observer | None = None,
        now_ms: Callable[[], int] = wall_clock_ms,
    ) -> None:
        self.app = app
        self.host = Host(lambda _frame: None, observer=observer, now_ms=now_ms)
        self._executions: OrderedDict[str, Execution] = OrderedDict()
        self._calls: dict[str, asyncio.Future[None]] = {}
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def executing(self) -> int:
        """Steps whose code has begun and not ended."""
        return self.host.executing

    async def wait_idle(self) -> None:
        """Wait until no POST is being answered."""
        await self._idle.wait()

    def knows(self, invoke: Invoke) -> bool:
        """Whether the app has a handler for an invocation."""
        workflow = self.app.workflows.get(invoke.workflow)
        if invoke.app != self.app.name or workflow is None:
            return False
        return invoke.kind != "onFailure" or workflow.on_failure is not None

    async def invoke(self, invoke: Invoke) -> list[RunnerFrame]:
        """Bring a run to its next commit point and give what happened up to there.

        An empty list means that a newer POST of the same run took this one's place.
        """
        call: asyncio.Future[None] = self.host.loop.create_future()

        def rested() -> None:
            if not call.done():
                call.set_result(None)

        older = self._calls.get(invoke.run)
        if older is not None and not older.done():
            older.cancel()
        self._calls[invoke.run] = call
        self._idle.clear()
        execution = self._execution(invoke, rested)
        try:
            await call
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            return []
        finally:
            if self._calls.get(invoke.run) is call:
                del self._calls[invoke.run]
                execution.live.rested = None
                self._forget()
                if not self._calls:
                    self._idle.set()
        frames = execution.unacknowledged()
        if execution.done:
            execution.stop()
        return frames

    def close(self) -> None:
        """Stop everything."""
        for execution in list(self._executions.values()):
            execution.stop()
        self.host.close()

    def _execution(self, invoke: Invoke, rested: Callable[[], object]) -> Execution:
        """The execution that goes on with a run, or a new one."""
        old = self._executions.get(invoke.run)
        if old is not None:
            same = (old.invoke.attempt, old.invoke.kind) == (invoke.attempt, invoke.kind)
            if same and old.live.suspend is None:
                self._executions.move_to_end(invoke.run)
                old.live.rested = rested
                old.attach(invoke)
                return old
            old.stop()
        workflow = self.app.workflows[invoke.workflow]
        execution = Execution(invoke, workflow, self.host, self._ended, serving=True)
        execution.live.rested = rested
        self._executions[invoke.run] = execution
        return execution

    def _ended(self, execution: Execution) -> None:
        if self._executions.get(execution.run) is execution:
            del self._executions[execution.run]

    def _forget(self) -> None:
        while len(self._executions) - len(self._calls) > KEPT_MAX:
            idle = next(run for run in self._executions if run not in self._calls)
            self._executions[idle].stop()
