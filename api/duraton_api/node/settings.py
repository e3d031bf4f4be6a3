"""Settings of a node."""

import os
import platform
from dataclasses import dataclass, field
from pathlib import Path

from duraton_api.runners.settings import HubSettings, ServeSettings
from duraton_engine.settings import Settings as EngineSettings
from duraton_streams.partition.settings import ProcessorSettings

DEFAULT_PORT = 8420
KAFKA_PARTITIONS = 12
"""Partitions of a cluster on Kafka, unless it is made with others (DESIGN 3)."""

KAFKA_REPLICATION = 3
"""Brokers that hold each record of a new cluster, where there are as many (DESIGN 7)."""


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
        processor: Bounds of batches.
        hub: Bounds and deadlines of runners' connections.
        serve: Bounds and deadlines of calls to served apps.
        view_memory: Whether the view is kept in memory though there is a directory.
    """

    data: Path | None = None
    kafka: str | None = None
    prefix: str = ""
    partitions: int | None = None
    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    node: str = field(default_factory=_node_name)
    keys: tuple[tuple[str, str], ...] = ()
    engine: EngineSettings = EngineSettings()
    processor: ProcessorSettings = ProcessorSettings()
    hub: HubSettings = HubSettings()
    serve: ServeSettings = ServeSettings()
    view_memory: bool = False
