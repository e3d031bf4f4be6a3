"""`run_worker`: a runner as a process, for the command line."""

import asyncio
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Any

from duraton.app import App
from duraton.connection import connect

SWITCH_INTERVAL_S = 0.0005
"""How long a worker thread may keep the interpreter from the event loop."""


def run_worker(app: App | Sequence[App], url: str | None = None, **options: Any) -> None:
    """Run a worker until SIGTERM or SIGINT, then let it drain; a second signal ends it.

    Args:
        app: The app, or several.
        url: The engine's address; left out, DURATON_URL or http://127.0.0.1:8420.
        **options: As `duraton.connect` takes them.

    Raises:
        ConnectionRefusedByEngineError: The engine will not have this runner.
    """
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(_work(app, url, options))


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
