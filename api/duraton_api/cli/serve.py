"""`duraton serve`: an engine alone, and what `dev` shares with it."""

import logging
import os
from collections.abc import Sequence
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
    data_folder,
)
from duraton_api.cli.process_log import log_to_stderr
from duraton_api.node.defaults import HOST, PORT
from duraton_api.version import VERSION

if TYPE_CHECKING:
    from duraton_api.node.node import Node
    from duraton_api.node.settings import NodeSettings

SIGNING_KEY_VARIABLE = "DURATON_SIGNING_KEY"


def serve(
    data: Data = DATA_DEFAULT,
    kafka: Kafka = None,
    prefix: Prefix = "",
    partitions: Partitions = None,
    host: Host = HOST,
    port: Port = PORT,
    memory: Annotated[
        bool, typer.Option("--memory", help="Keep everything in memory; nothing survives.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Log warnings only.")] = False,
) -> None:
    """Start an engine: log, HTTP API, and the place where workers connect."""
    from duraton_api.node.node import run  # noqa: PLC0415 other commands start no engine

    log_to_stderr(logging.WARNING if quiet else logging.INFO)
    settings = node_settings(None if memory else data, kafka, prefix, partitions, host, port)
    with show.progress("recovering") as meter:

        def ready(node: "Node") -> None:
            meter.close()
            banner(node)

        ended = run(settings, ready, meter.one)
    if ended is not None:
        raise ended


def node_settings(
    data: Path | None,
    kafka: str | None,
    prefix: str,
    partitions: int | None,
    host: str,
    port: int,
) -> "NodeSettings":
    """A node's settings from the command line and the environment."""
    from duraton_api.node.settings import NodeSettings  # noqa: PLC0415 as above
    from duraton_api.runners.settings import ServeSettings  # noqa: PLC0415 as above

    key = os.environ.get(SIGNING_KEY_VARIABLE) or None
    return NodeSettings(
        data=None if data is None else data_folder(data, kafka),
        kafka=kafka,
        prefix=prefix,
        partitions=partitions,
        host=host,
        port=port,
        serve=ServeSettings(signing_key=key),
    )


def banner(node: "Node", more: Sequence[tuple[str, str]] = ()) -> None:
    """Say where the engine is and what it keeps where.

    Args:
        node: The engine, once it listens.
        more: Further lines, each a word and a text.
    """
    settings = node.settings
    count = node.core.log.partitions
    parts = f"{count} partition{'s' if count != 1 else ''}"
    where = f"Kafka at {settings.kafka}" if settings.kafka else "embedded"
    if settings.data is None and settings.kafka is None:
        where = "in memory, nothing survives"
    lines = [("engine", node.url), ("log", f"{where}, {parts}")]
    if settings.data is not None:
        lines.append(("data", str(settings.data)))
    if not settings.keys:
        lines.append(("keys", "none: only this machine may call"))
    show.note(f"duraton {VERSION}")
    for word, text in [*lines, *more]:
        show.note(f"  {word:<8}{text}")
