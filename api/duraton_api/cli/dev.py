"""`duraton dev`: engine and runner in one command, for the desk."""

import asyncio
import contextlib
import logging
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from duraton_api.cli import show
from duraton_api.cli.options import (
    DATA_DEFAULT,
    Data,
    Host,
    Kafka,
    Partitions,
    Port,
    Prefix,
    Target,
)
from duraton_api.cli.process_log import log_to_stderr
from duraton_api.cli.reloading import NAME, Reloader
from duraton_api.cli.serve import banner, node_settings
from duraton_api.node.defaults import HOST, PORT

if TYPE_CHECKING:
    from duraton_api.node.node import Node
    from duraton_api.node.settings import NodeSettings

LOOK_S = 0.1
"""How often is looked whether a runner was let in."""
OFFERS_SHOWN = 5
ANY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}  # noqa: S104 compared with, not listened on


def dev(
    target: Target,
    data: Data = DATA_DEFAULT,
    port: Port = PORT,
    kafka: Kafka = None,
    prefix: Prefix = "",
    partitions: Partitions = None,
    host: Host = HOST,
    reload: Annotated[
        bool, typer.Option("--reload/--no-reload", help="Start the runner again on changes.")
    ] = True,
    capacity: Annotated[
        int | None, typer.Option("--capacity", min=1, help="Runs executed at once.")
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log more.")] = False,
) -> None:
    """Start an engine and a runner for a target; reload the runner when its source changes."""
    from duraton.worker import loop_factory  # noqa: PLC0415 other commands start no engine

    log_to_stderr(logging.INFO if verbose else logging.WARNING)
    settings = node_settings(data, kafka, prefix, partitions, host, port)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        ended = runner.run(_run(settings, target, reload=reload, capacity=capacity))
    if ended is not None:
        raise ended


async def _run(
    settings: "NodeSettings", target: str, *, reload: bool, capacity: int | None
) -> BaseException | None:
    """Run both until told to stop.

    1. Start the engine.
    2. Start the runner; say where everything is once it was let in.
    3. Wait for a signal, or for one of them to end by itself.
    4. Stop the runner first, so that what it finishes is still committed; a second
       signal kills it. Then the engine.

    Returns:
        Why the engine ended by itself, or None.
    """
    from duraton_api.node.node import Node  # noqa: PLC0415 other commands start no engine

    told = asyncio.Event()
    with show.progress("recovering") as meter:
        node = Node(settings, meter.one)  # 1
        await node.__aenter__()
    try:
        reloader = Reloader(target, _url(node), reload=reload, capacity=capacity)

        def stop() -> None:
            if told.is_set():
                reloader.kill()
            told.set()

        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stop)
        running = asyncio.ensure_future(reloader.run())  # 2
        ready = asyncio.ensure_future(_announce(node, reloader, target))
        ended = asyncio.ensure_future(node.ended())
        stopped = asyncio.ensure_future(told.wait())
        await asyncio.wait((running, ended, stopped), return_when=asyncio.FIRST_COMPLETED)  # 3
        if not running.done():
            show.note("stopping")
        for task in (running, ready, stopped):  # 4
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
        if ended.done():
            return ended.result()
        ended.cancel()
        return None
    finally:
        await node.__aexit__(None, None, None)


async def _announce(node: "Node", reloader: Reloader, target: str) -> None:
    """Print the banner once the runner was let in, then a line for each that replaces it."""
    where = Path(target).name if target.endswith(".py") else target
    boot = ""
    while True:
        runner = next((r for r in node.core.hub.runners if r.name == NAME and r.link), None)
        if runner is not None and runner.boot != boot:
            offers = sorted(f"{app}/{workflow}" for app, workflow in runner.offers)
            more = len(offers) - OFFERS_SHOWN
            shown = ", ".join(offers[:OFFERS_SHOWN]) + (f" and {more} more" if more > 0 else "")
            told = ("runner", f"{where}: {shown}")
            if boot:
                show.note(f"  {told[0]:<8}{told[1]}")
            else:
                banner(node, [told])
                show.note("Ctrl-C stops it.")
            boot, reloader.proven = runner.boot, True
        await asyncio.sleep(LOOK_S)


def _url(node: "Node") -> str:
    """Where the runner finds the engine."""
    host = ANY_ADDRESS.get(node.settings.host, node.settings.host)
    return f"http://{host}:{node.port}"
