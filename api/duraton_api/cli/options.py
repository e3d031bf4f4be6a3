"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

from duraton_api.cli.errors import EXIT_USAGE, CommandFailedError
from duraton_api.node import defaults
from duraton_schemas.slots import PARTITIONS_MAX

URL_DEFAULT = f"http://{defaults.HOST}:{defaults.PORT}"
DATA_DEFAULT = Path(".duraton")
KAFKA_FOLDER = "kafka"
"""Within the data directory: state and view of a cluster whose log is on Kafka, apart
from those of an embedded log."""

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Url = Annotated[
    str, typer.Option("--url", envvar="DURATON_URL", help="The engine's address.", metavar="URL")
]
ApiKey = Annotated[
    str | None,
    typer.Option("--api-key", envvar="DURATON_API_KEY", help="The API key.", show_envvar=True),
]
Workflow = Annotated[str | None, typer.Option("--workflow", help="A workflow's name.")]
AppName = Annotated[str | None, typer.Option("--app", help="An app's name.")]
Since = Annotated[
    str | None,
    typer.Option("--since", help="Created at or after: ISO-8601, milliseconds, or 2h for ago."),
]
Until = Annotated[str | None, typer.Option("--until", help="Created before; as --since.")]
Query = Annotated[
    str | None, typer.Option("-q", "--query", help="Words in id, workflow, error or event.")
]
Data = Annotated[
    Path,
    typer.Option(
        "--data",
        envvar="DURATON_DATA",
        help="The directory of log, state and view.",
        metavar="DIR",
        file_okay=False,
    ),
]
Kafka = Annotated[
    str | None,
    typer.Option(
        "--kafka",
        envvar="DURATON_KAFKA",
        help="The brokers' addresses; without it the log is embedded.",
        metavar="HOST:PORT",
    ),
]
Prefix = Annotated[
    str,
    typer.Option("--prefix", envvar="DURATON_PREFIX", help="What topics' names begin with."),
]
Partitions = Annotated[
    int | None,
    typer.Option(
        "--partitions", min=1, max=PARTITIONS_MAX, help="Partitions of a new cluster, for ever."
    ),
]
Host = Annotated[str, typer.Option("--host", help="The address to listen on.")]
Port = Annotated[
    int, typer.Option("--port", min=0, max=65_535, help="The port to listen on; 0: any free.")
]
Target = Annotated[
    str, typer.Argument(help="module:app, module or path/to/file.py", metavar="TARGET")
]


def data_folder(data: Path, kafka: str | None) -> Path:
    """Where state and view are kept."""
    return data if kafka is None else data / KAFKA_FOLDER


def usage(message: str, advice: str = "") -> CommandFailedError:
    """A failure of wrong usage."""
    return CommandFailedError("usage", message, advice, status=EXIT_USAGE)
