"""`duraton doctor`: what is wrong, one line a problem, and what to do."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import typer

from duraton_api.cli import show
from duraton_api.cli.errors import EXIT_FAILED, CommandFailedError, describe
from duraton_api.cli.options import (
    DATA_DEFAULT,
    URL_DEFAULT,
    ApiKey,
    Data,
    Json,
    Kafka,
    Prefix,
    Url,
)
from duraton_api.cli.records import open_log
from duraton_api.cli.remote import Remote
from duraton_api.node.defaults import LOG_FILE
from duraton_streams.logs.base import DEAD_LETTERS

FREE_BYTES_MIN = 1 << 30
PAUSED_LOOKED_AT = "500"


class Trouble(NamedTuple):
    """A problem: its code, what it is, what to do."""

    code: str
    message: str
    advice: str


def doctor(
    url: Url = URL_DEFAULT,
    data: Data = DATA_DEFAULT,
    kafka: Kafka = None,
    prefix: Prefix = "",
    api_key: ApiKey = None,
    as_json: Json = False,
) -> None:
    """Look at the engine, its log and its directory, and name what is wrong."""
    looks: list[Callable[[], Iterator[Trouble]]] = [
        lambda: _engine(url, api_key),
        lambda: _log(data, kafka, prefix),
        lambda: _disk(data),
    ]
    found: list[Trouble] = []
    for look in looks:
        try:
            found.extend(look())
        except Exception as error:
            told = describe(error)
            if told is None:
                raise
            message, code, advice = told
            found.append(Trouble(code, message, advice))
    if as_json:
        show.data([each._asdict() for each in found])
    else:
        for each in found:
            show.line(f"{each.message} ({each.code}): {each.advice}")
        if not found:
            show.line("ok")
    if found:
        raise typer.Exit(EXIT_FAILED)


def _engine(url: str, api_key: str | None) -> Iterator[Trouble]:
    with Remote(url, api_key) as engine:
        try:
            engine.get("/readyz")
        except CommandFailedError as error:
            if error.code != "not-an-engine":
                raise
            yield Trouble(
                "engine-not-ready", f"the engine at {url} is not ready", "Look at its log."
            )
            return
        yield from _unoffered(engine)
        yield from _quarantined(engine)


def _unoffered(engine: Remote) -> Iterator[Trouble]:
    """Workflows that no runner executes."""
    for each in engine.get("/workflows")["workflows"]:
        if each["active"] and not each["runners"]:
            name = f"{each['app']}/{each['name']}"
            yield Trouble(
                "workflow-unoffered", f"no runner offers {name}", "Start its worker; its runs wait."
            )


def _quarantined(engine: Remote) -> Iterator[Trouble]:
    params = {"status": "paused", "limit": PAUSED_LOOKED_AT, "kind": "all"}
    for run in engine.get("/runs", params)["runs"]:
        paused = run.get("pausedBy") or {}
        if "quarantine" in paused.get("reasons", ()):
            error = (paused.get("error") or {}).get("message", "")
            yield Trouble(
                "run-quarantined",
                f"run {run['id']} is set aside: {show.short(error)}",
                "It is a fault of the engine: report it; `duraton runs resume` tries again.",
            )


def _log(data: Path, kafka: str | None, prefix: str) -> Iterator[Trouble]:
    """The log's own troubles; without brokers and without a directory there is none."""
    if kafka is None and not (data / LOG_FILE).is_file():
        return
    log = open_log(data, kafka, prefix)
    try:
        for partition in range(log.partitions):
            first, end = log.bounds(DEAD_LETTERS, partition)
            if end > first:
                yield Trouble(
                    "dead-letters",
                    f"{end - first} records of partition {partition} could not be read",
                    f"See `duraton log dump --topic dead-letters --partition {partition}`.",
                )
    finally:
        log.close()


def _disk(data: Path) -> Iterator[Trouble]:
    if not data.is_dir():
        return
    free = shutil.disk_usage(data).free
    if free < FREE_BYTES_MIN:
        yield Trouble(
            "disk-low", f"{free >> 20} MiB are free in {data}", "Make room: commits need space."
        )
