"""`run_worker`: a runner as a process, for the command line."""

import asyncio
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from duraton.app import App
from duraton.connection import connect
from duraton.runtime.host import THREADS_PREFIX

SWITCH_INTERVAL_S = 0.0005
"""How long a worker thread may keep the interpreter from the event loop."""
LEAVE_S = 2.0
"""What handlers left behind has so long to end, once the worker has drained."""
_log = logging.getLogger("duraton")


def run_worker(app: App | Sequence[App], url: str | None = None, **options: Any) -> None:
    """Run a worker until SIGTERM or SIGINT, then let it drain; a second signal ends it.

    Args:
        app: The app, or several.
        url: The engine's address; left out, DURATON_URL or http://127.0.0.1:8420.
        **options: As `duraton.connect` takes them.

    Where step code does not let itself be ended, the process ends without it.

    Raises:
        ConnectionRefusedByEngineError: The engine will not have this runner.
    """
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(_work(app, url, options))
        if runner.run(_left_tasks()) or _left_threads():
            # What swallows its cancellation would be waited for, and run on, for ever.
            _log.warning(
                "step code that does not let itself be ended is left; other runners execute it"
            )
            logging.shutdown()
            os._exit(0)


async def _left_tasks() -> int:
    """Cancel what handlers left behind; how many tasks did not end by that."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    if not tasks:
        return 0
    for task in tasks:
        task.cancel()
    _, left = await asyncio.wait(tasks, timeout=LEAVE_S)
    return len(left)


def _left_threads() -> int:
    """How many threads still execute a step; those that have nothing to do end by themselves."""
    own = [each for each in threading.enumerate() if each.name.startswith(THREADS_PREFIX)]
    deadline = time.monotonic() + LEAVE_S
    for thread in own:
        thread.join(max(deadline - time.monotonic(), 0.0))
    return sum(each.is_alive() for each in own)


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """Uvloop's where it is installed, otherwise asyncio's own."""
    try:
        import uvloop  # noqa: PLC0415 - not everywhere
    except ImportError:
        return asyncio.new_event_loop
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


async def _work(app: App | Sequence[App], url: str | None, options: dict[str, Any]) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    assert task is not None

    def stopped() -> None:
        if stop.is_set():
            task.cancel()
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped)
    try:
        await connect(app, url, stop=stop, **options)
    except asyncio.CancelledError:
        if not stop.is_set():
            raise
