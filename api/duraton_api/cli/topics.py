"""`duraton topics`: the topics of a cluster on Kafka."""

from typing import Annotated

import typer

from duraton_api.cli import show
from duraton_api.cli.options import Json, Prefix
from duraton_api.node.defaults import KAFKA_PARTITIONS, KAFKA_REPLICATION
from duraton_schemas.slots import PARTITIONS_MAX

app = typer.Typer(no_args_is_help=True, help="The topics of a cluster on Kafka.")


@app.callback()
def group() -> None:
    """The topics of a cluster on Kafka."""


@app.command("create")
def create(
    kafka: Annotated[
        str,
        typer.Option(
            "--kafka", envvar="DURATON_KAFKA", help="The brokers' addresses.", metavar="HOST:PORT"
        ),
    ],
    partitions: Annotated[
        int, typer.Option("--partitions", min=1, max=PARTITIONS_MAX, help="Partitions, for ever.")
    ] = KAFKA_PARTITIONS,
    replication: Annotated[
        int | None,
        typer.Option(
            "--replication",
            min=1,
            help="Brokers that hold each record; 3, or as many as there are.",
        ),
    ] = None,
    prefix: Prefix = "",
    as_json: Json = False,
) -> None:
    """Make a cluster's topics; those that are there already are left as they are."""
    from duraton_streams.logs.kafka import KafkaLog  # noqa: PLC0415 loads librdkafka

    copies = replication or min(KAFKA_REPLICATION, KafkaLog.brokers(kafka))
    made = KafkaLog.create_topics(kafka, partitions, copies, prefix)
    if as_json:
        show.data({"made": made, "partitions": partitions, "replication": copies})
        return
    for name in made:
        show.line(name)
    if not made:
        show.note("all topics are there already")
