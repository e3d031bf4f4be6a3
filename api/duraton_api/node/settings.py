"""Settings of a node."""

import os
import platform
from dataclasses import dataclass, field
from pathlib import Path

from duraton_api.node import defaults
from duraton_api.runners.settings import HubSettings, ServeSettings
from duraton_engine.settings import Settings as EngineSettings
from duraton_streams.partition.settings import ProcessorSettings

EMBEDDED_PROCESSOR = ProcessorSettings(calls_max=32, events_max=64)
"""A synced commit of one's own file is cheap, so batches are short: the runner goes on with
the first answers while the engine decides about the next. A broker's commit is dear, and
there a batch is whatever has come."""


def _node_name() -> str:
    return f"{platform.node() or 'node'}-{os.getpid()}"


@dataclass(frozen=True)
class NodeSettings:
    """What one engine process is told at its start.

    Attributes:
        data: The directory of the embedded log, the state and the view; None keeps
            all of it in memory.
        kafka: The broker's addresses, or None for the embedded log.
        prefix: What all topics' names begin with, on Kafka.
        partitions: How many a new cluster gets; None for 1 embedded, 12 on Kafka.
        host: The address to listen on.
        port: The port to listen on; 0 for any that is free.
        node: This process's name.
        keys: API keys, as their SHA-256 in hex, each with its name.
        engine: Limits and delays of runs.
        processor: Bounds of batches; None for what suits the log.
        hub: Bounds and deadlines of runners' connections.
        serve: Bounds and deadlines of calls to served apps.
        view_memory: Whether the view is kept in memory though there is a directory.
    """

    data: Path | None = None
    kafka: str | None = None
    prefix: str = ""
    partitions: int | None = None
    host: str = defaults.HOST
    port: int = defaults.PORT
    node: str = field(default_factory=_node_name)
    keys: tuple[tuple[str, str], ...] = ()
    engine: EngineSettings = field(default_factory=EngineSettings)
    processor: ProcessorSettings | None = None
    hub: HubSettings = field(default_factory=HubSettings)
    serve: ServeSettings = field(default_factory=ServeSettings)
    view_memory: bool = False
