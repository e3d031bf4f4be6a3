"""What an execution has around it: the loop, worker threads, where frames go."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Protocol

from duraton.runtime.failure_log import FailureLog
from duraton.runtime.turns import Turns
from duraton_schemas.wire.frames import RunnerFrame

THREADS_DEFAULT = 64
"""Worker threads of one runner for plain step functions; further ones wait their turn."""
THREADS_PREFIX = "duraton-step"
"""Begins the names of those threads."""


class Observer(Protocol):
    """Is told what a runner executes; the testing kit gives one."""

    def execution_began(self, run: str, step: str, attempt: int) -> None:
        """The user's code of a step begins.

        Args:
            run: The run's id; in onFailure the failed run's.
            step: The step's id; in onFailure `onFailure/<step>`.
            attempt: Which attempt, from 1.
        """


class _Unobserved:
    def execution_began(self, run: str, step: str, attempt: int) -> None:
        """Nobody watches."""


def wall_clock_ms() -> int:
    """Milliseconds since 1970 UTC by this machine; for the record only, nothing waits for it."""
    return time.time_ns() // 1_000_000


class Host:
    """What the executions of one runner share.

    Args:
        emit: Takes a frame that an execution sends.
        observer: Is told of step code that begins.
        now_ms: The time that is written on steps.
        threads: How many plain functions run at once.

    Attributes:
        executing: Steps whose code has begun and not ended, threads included.
        left_waiting: What handlers wait for that will not end; held here, since a
            coroutine that is collected is run once more.
    """

    def __init__(
        self,
        emit: Callable[[RunnerFrame], None],
        *,
        observer: Observer | None = None,
        now_ms: Callable[[], int] = wall_clock_ms,
        threads: int = THREADS_DEFAULT,
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.emit = emit
        self.observer: Observer = observer or _Unobserved()
        self.now_ms = now_ms
        self.turns = Turns(self.loop)
        self.failures = FailureLog()
        self.tasks_executing = 0
        self.left_waiting: list[asyncio.Future[str]] = []
        self._threads_max = threads
        self._threads: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()
        self._threads_executing = 0
        self._network_awaited = 0

    @property
    def executing(self) -> int:
        return self.tasks_executing + self._threads_executing

    @property
    def busy_elsewhere(self) -> bool:
        """Whether worker threads or the network have something in hand for a step."""
        return self._threads_executing > 0 or self._network_awaited > 0

    @contextmanager
    def awaiting_network(self) -> Iterator[None]:
        """Around a call of the SDK's own that goes out by the network."""
        self._network_awaited += 1
        try:
            yield
        finally:
            self._network_awaited -= 1

    async def in_thread(self, function: Callable[[], Any]) -> Any:
        """Call a plain function in a worker thread.

        It cannot be stopped: where the caller is cancelled it goes on, and what it
        answers is dropped.
        """
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self._threads_max, THREADS_PREFIX)
        with self._lock:
            self._threads_executing += 1
        future = self._threads.submit(_call, function)
        future.add_done_callback(self._thread_ended)
        return await asyncio.wrap_future(future, loop=self.loop)

    def close(self) -> None:
        """Let the worker threads end; those that are busy end when they are done."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)

    def _thread_ended(self, _future: "Future[Any]") -> None:
        with self._lock:
            self._threads_executing -= 1


def _call(function: Callable[[], Any]) -> Any:
    """Call a step's function; no StopIteration comes out, since no future takes one."""
    try:
        return function()
    except StopIteration as error:
        raise RuntimeError("the step's function raised StopIteration") from error
