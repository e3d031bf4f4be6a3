"""`duraton worker`: a runner process."""

import logging
import os
import threading
from typing import Annotated

import typer

from duraton_api.cli import show
from duraton_api.cli.options import URL_DEFAULT, ApiKey, Target, Url
from duraton_api.cli.process_log import log_to_stderr

PARENT_VARIABLE = "DURATON_WORKER_OF_PARENT"
"""Set by `duraton dev`: the worker's stdin is a pipe that ends when its parent does."""


def worker(
    target: Target,
    url: Url = URL_DEFAULT,
    name: Annotated[
        str | None,
        typer.Option("--name", help="A name that only one live process has."),
    ] = None,
    capacity: Annotated[
        int | None, typer.Option("--capacity", min=1, help="Runs executed at once.")
    ] = None,
    drain: Annotated[
        float | None,
        typer.Option("--drain", min=0, help="Seconds that runs have to end when it is stopped."),
    ] = None,
    api_key: ApiKey = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log more.")] = False,
) -> None:
    """Execute a target's workflows for an engine, until stopped."""
    from duraton.connection import ConnectSettings  # noqa: PLC0415 other commands need no SDK
    from duraton.runtime.runner import CAPACITY_DEFAULT  # noqa: PLC0415 as above
    from duraton.target import load_target  # noqa: PLC0415 as above
    from duraton.worker import run_worker  # noqa: PLC0415 as above

    log_to_stderr(logging.INFO if verbose else logging.WARNING)
    owned = os.environ.pop(PARENT_VARIABLE, None) is not None
    if owned:
        # Who develops wants to see what their code raised, beside the runner's own warnings.
        logging.getLogger("duraton.runs").setLevel(logging.INFO)
        threading.Thread(target=_end_with_parent, daemon=True).start()
    loaded = load_target(target)
    if not owned:
        count = len(loaded.workflows)
        show.note(f"{loaded.name}: {count} workflow{'s' if count != 1 else ''} for {url}")
    settings = ConnectSettings() if drain is None else ConnectSettings(drain_s=drain)
    run_worker(
        loaded,
        url,
        name=name,
        capacity=capacity or CAPACITY_DEFAULT,
        api_key=api_key,
        settings=settings,
    )


def _end_with_parent() -> None:
    """End when the pipe on stdin does: nobody would commit what this process executes."""
    while os.read(0, 1):
        pass
    os._exit(0)
