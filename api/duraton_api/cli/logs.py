"""`duraton log`: the log as it stands, and the proof that the state is what it gives."""

import time
from typing import Annotated

import typer

from duraton_api.cli import show
from duraton_api.cli.errors import EXIT_FAILED
from duraton_api.cli.options import DATA_DEFAULT, Data, Json, Kafka, Prefix
from duraton_api.cli.records import Reader, one_line, open_log, partitions_of, topic_of
from duraton_api.cli.verifying import rebuild_all, verify_all
from duraton_streams.logs.base import JOURNAL, REGISTRY, TOPICS, Log

POLL_S = 0.2
"""How often `tail` looks for new records: soon enough for eyes."""
READ_RECORDS = 500
TAIL_DEFAULT = 10

app = typer.Typer(no_args_is_help=True, help="Read, verify and rebuild from the log.")

Topic = Annotated[
    str, typer.Option("--topic", "-t", help="journal, events, commands, messages, outcomes, …")
]
Partition = Annotated[
    int | None, typer.Option("--partition", "-p", min=0, help="One partition; all where left out.")
]


@app.command("topics")
def topics(
    data: Data = DATA_DEFAULT, kafka: Kafka = None, prefix: Prefix = "", as_json: Json = False
) -> None:
    """List topics and partitions with their first and next offsets."""
    log = open_log(data, kafka, prefix)
    try:
        found = [
            (topic, partition, *log.bounds(topic, partition))
            for topic in TOPICS
            for partition in range(1 if topic == REGISTRY else log.partitions)
        ]
        cluster = {"cluster": log.cluster, "partitions": log.partitions}
    finally:
        log.close()
    names = ("topic", "partition", "first", "next")
    if as_json:
        show.data({**cluster, "topics": [dict(zip(names, row, strict=True)) for row in found]})
        return
    show.note(f"cluster {cluster['cluster']}, {cluster['partitions']} partitions")
    show.table(names, [[str(cell) for cell in row] for row in found], "")


@app.command("tail")
def tail(
    topic: Topic = JOURNAL,
    partition: Partition = None,
    count: Annotated[
        int, typer.Option("-n", min=0, help="Begin with the last n of each partition.")
    ] = TAIL_DEFAULT,
    follow: Annotated[
        bool, typer.Option("--follow/--no-follow", "-f", help="Go on as records come.")
    ] = True,
    data: Data = DATA_DEFAULT,
    kafka: Kafka = None,
    prefix: Prefix = "",
    as_json: Json = False,
) -> None:
    """Show a topic's newest records, and further ones as they come."""
    name = topic_of(topic)
    log = open_log(data, kafka, prefix)
    reader = Reader()
    try:
        numbers = partitions_of(log, name, partition)
        bounds = {number: log.bounds(name, number) for number in numbers}
        at = {number: max(first, end - count) for number, (first, end) in bounds.items()}
        while True:
            for number, offset in at.items():
                at[number] = _print(log, reader, name, number, offset, None, as_json)
            if not follow:
                return
            time.sleep(POLL_S)
    except KeyboardInterrupt:
        return
    finally:
        log.close()


@app.command("dump")
def dump(
    topic: Topic = JOURNAL,
    partition: Partition = None,
    first: Annotated[int, typer.Option("--from", min=0, help="The first offset.")] = 0,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, help="The most records of each partition.")
    ] = None,
    data: Data = DATA_DEFAULT,
    kafka: Kafka = None,
    prefix: Prefix = "",
    as_json: Json = False,
) -> None:
    """Print a topic's records, partition after partition; with --json one a line."""
    name = topic_of(topic)
    log = open_log(data, kafka, prefix)
    reader = Reader()
    try:
        for number in partitions_of(log, name, partition):
            there, end = log.bounds(name, number)
            _print(log, reader, name, number, max(first, there), (end, limit), as_json)
    finally:
        log.close()


@app.command("verify")
def verify(
    data: Data = DATA_DEFAULT, kafka: Kafka = None, prefix: Prefix = "", as_json: Json = False
) -> None:
    """Prove that the journal keeps its rules and that the state is what it gives."""
    report = verify_all(data, kafka, prefix)
    if as_json:
        show.data(report.plain)
    else:
        for line in report.lines:
            show.line(line)
    if not report.ok:
        raise typer.Exit(EXIT_FAILED)


@app.command("rebuild")
def rebuild(
    data: Data = DATA_DEFAULT,
    kafka: Kafka = None,
    prefix: Prefix = "",
    view_only: Annotated[
        bool, typer.Option("--view-only", help="Rebuild the view and leave the state.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Drop state and view and build them anew from the log; the engine must be stopped."""
    built = rebuild_all(data, kafka, prefix, state=not view_only)
    if as_json:
        show.data(built)
        return
    for each in built["partitions"]:
        show.line(f"partition {each['partition']}: {each['journal']} journal records applied")
    show.line("the view was made anew")


def _print(
    log: Log,
    reader: Reader,
    topic: str,
    partition: int,
    at: int,
    bound: tuple[int, int | None] | None,
    as_json: bool,
) -> int:
    """Print records from an offset on; the offset after the last one read.

    Args:
        log: The log.
        reader: Decodes.
        topic: The topic.
        partition: The partition.
        at: Where to begin.
        bound: The offset to stop at and the most records, or None for all that is there.
        as_json: One JSON value a line instead of text.
    """
    end, left = bound or (None, None)
    while left is None or left > 0:
        limit = READ_RECORDS if left is None else min(left, READ_RECORDS)
        records = log.read(topic, partition, at, limit, end)
        if not records:
            return at
        for record in records:
            shown = reader.read(record)
            if as_json:
                show.data_line(shown)
            else:
                show.line(one_line(shown, show.width()))
        at = records[-1].offset + 1
        left = None if left is None else left - len(records)
    return at
