"""A runner: the executions of one process, between the engine's frames and its own.

It has no I/O: frames come in by `receive` and go out by `send`, all that one pass
of the event loop produced at once. `duraton.connection` puts it on a WebSocket, the
testing kit on a pipe.
"""

import asyncio
import logging
import os
import secrets
import socket
from collections.abc import Callable, Sequence
from typing import Any

from duraton.app import App
from duraton.environment import sdk_version
from duraton.runtime.execution import Execution
from duraton.runtime.host import THREADS_DEFAULT, Host, Observer, wall_clock_ms
from duraton_schemas.options import write_app
from duraton_schemas.wire.frames import (
    Ack,
    Cancel,
    Drain,
    EngineFrame,
    Fail,
    Frame,
    FrameError,
    Hello,
    Invoke,
    LiveToken,
    Pause,
    Ping,
    RunnerFrame,
    Stale,
    Wake,
)

_log = logging.getLogger("duraton")

CAPACITY_DEFAULT = 1_000
"""Runs that one process executes at once."""


class Runner:
    """The executions of one process.

    It must be made on the event loop that it is used on.

    Args:
        apps: What it offers.
        send: Takes the frames of one pass of the loop, in order; not called while
            the runner is offline.
        name: Its name; where a person gave it, one live process may have it.
        capacity: Runs that it executes at once.
        observer: Is told of step code that begins.
        now_ms: The time that is written on steps, milliseconds since 1970 UTC.
        threads: Plain step functions that run at once.

    Attributes:
        boot: Random, new for each Runner.
        executions: What it executes, by run id.
        draining: Whether it takes nothing new.
    """

    def __init__(
        self,
        apps: App | Sequence[App],
        send: Callable[[list[Frame]], None],
        *,
        name: str | None = None,
        capacity: int = CAPACITY_DEFAULT,
        observer: Observer | None = None,
        now_ms: Callable[[], int] = wall_clock_ms,
        threads: int = THREADS_DEFAULT,
    ) -> None:
        self.apps = {app.name: app for app in ([apps] if isinstance(apps, App) else apps)}
        self.boot = secrets.token_hex(8)
        self.name = name or f"{socket.gethostname()}-{os.getpid()}"
        self.explicit = name is not None
        self.capacity = capacity
        self.executions: dict[str, Execution] = {}
        self.draining = False
        self.online = False
        self.host = Host(self._emit, observer=observer, now_ms=now_ms, threads=threads)
        self._send = send
        self._out: list[Frame] = []
        self._epochs: dict[int, int] = {}
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def executing(self) -> int:
        """Steps whose code has begun and not ended."""
        return self.host.executing

    def hello(self) -> Hello:
        """The first frame of a connection. Until the engine's, nothing else is sent."""
        self.online = False
        return Hello(
            apps=[write_app(app.options()) for app in self.apps.values()],
            capacity=self.capacity,
            name=self.name,
            explicit=self.explicit,
            boot=self.boot,
            tokens=[LiveToken(run=each.run, token=each.token) for each in self.executions.values()],
            sdk=sdk_version(),
        )

    def disconnected(self) -> None:
        """The connection is gone; what is produced meanwhile is sent after the next hello."""
        self.online = False

    def receive(self, frames: Sequence[EngineFrame]) -> None:
        """Take a message of the engine's."""
        for frame in frames:
            if isinstance(frame, Invoke):
                self._invoke(frame)
            elif isinstance(frame, Hello):
                self._welcomed()
            elif isinstance(frame, (Ack, Wake, Pause, Cancel, Stale)):
                execution = self.executions.get(frame.run)
                if (
                    execution is not None
                    and execution.token == frame.token
                    and self._current(execution.live.partition, frame.epoch)
                ):
                    _tell(execution, frame)
            # Ping says only that the engine lives, Drain that it takes nothing new.

    def drain(self) -> None:
        """Take nothing new and finish what runs; `wait_idle` says when."""
        if not self.draining:
            self.draining = True
            self._emit(Drain())

    async def wait_idle(self) -> None:
        """Wait until nothing is executed any more."""
        await self._idle.wait()

    def close(self) -> None:
        """Stop everything; what was not sent is lost, and the engine invokes it elsewhere."""
        self.online = False
        for execution in list(self.executions.values()):
            execution.stop()
        self.host.close()

    def _invoke(self, frame: Invoke) -> None:
        partition = int(frame.token.partition(".")[0])
        if not self._current(partition, frame.epoch):
            return
        old = self.executions.get(frame.run)
        if old is not None:
            if old.token == frame.token:
                return
            old.stop()
        app = self.apps.get(frame.app)
        workflow = app.workflows.get(frame.workflow) if app is not None else None
        if workflow is None or (frame.kind == "onFailure" and workflow.on_failure is None):
            self._emit(Fail(run=frame.run, token=frame.token, error=unknown_workflow(frame)))
            return
        self._idle.clear()
        self.executions[frame.run] = Execution(frame, workflow, self.host, self._ended)

    def _current(self, partition: int, epoch: int) -> bool:
        """Whether a frame is of the newest owner known of its partition."""
        highest = self._epochs.get(partition, 0)
        if epoch > highest:
            self._epochs[partition] = epoch
        elif epoch < highest and epoch:
            _log.debug("a frame of epoch %d came after one of %d", epoch, highest)
            return False
        return True

    def _ended(self, execution: Execution) -> None:
        if self.executions.get(execution.run) is execution:
            del self.executions[execution.run]
        if not self.executions:
            self._idle.set()

    def _welcomed(self) -> None:
        """The engine has let it in: say again what was not acknowledged."""
        self.online = True
        self._out.clear()
        if self.draining:
            self._emit(Drain())
        for execution in self.executions.values():
            for frame in execution.unacknowledged():
                self._emit(frame)

    def _emit(self, frame: "RunnerFrame | Ping") -> None:
        if not self.online:
            return  # the execution keeps it and tells it again
        if not self._out:
            self.host.loop.call_soon(self._flush)
        self._out.append(frame)

    def _flush(self) -> None:
        out, self._out = self._out, []
        if out and self.online:
            self._send(out)


def unknown_workflow(frame: Invoke) -> FrameError:
    """The error of an invocation that this process has no handler for."""
    what = "an on_failure handler of" if frame.kind == "onFailure" else "workflow"
    return FrameError(
        message=f"this runner does not have {what} {frame.app}/{frame.workflow}",
        name="UnknownWorkflowError",
        code="workflow-unknown",
        final=True,
    )


def _tell(execution: Execution, frame: Any) -> None:
    if isinstance(frame, Ack):
        execution.acked(frame)
    elif isinstance(frame, Wake):
        execution.woken(frame.items)
    elif isinstance(frame, Stale):
        execution.staled(frame)
    elif isinstance(frame, Pause):
        execution.pause()
    else:
        execution.stop()
