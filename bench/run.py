"""The speeds that the design asks for (DESIGN 10): measured, printed, added to the history.

    make bench                        everything
    make bench ARGS="embedded-64"     some rows, by name
    make bench ARGS="controls"        what flow control costs (bench/controls.py)
    make bench ARGS="--runs 20000"    longer

The engine runs in one process, the runner and the load in another, the broker, where
there is one, in a third. Every step is committed and synced before the next; the view
is on, and the time ends only once it has caught up. Figures move with the machine:
compare ratios within one run.
"""

import argparse
import json
import os
import platform
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import machine
from rich.console import Console
from rich.table import Table

HERE = Path(__file__).parent
ROOT = HERE.parent
HISTORY = HERE / "history.jsonl"
LOAD_S = 600.0
"""How long one load may take; one that hangs ends the bench."""
KAFKA_WARM_RUNS = 5_000
"""Runs before a row on Kafka is measured: the broker's code is compiled while it is used."""
START_S = 40.0
"""How long an engine or a broker may take to answer."""


@dataclass(frozen=True)
class Row:
    """A row of the table.

    Attributes:
        name: By which it is asked for.
        what: For people.
        unit: Of floor, goal and figure.
        floor: What must be reached.
        goal: What is aimed at.
        at_once: Runs under way.
        transport: `connect` or `serve`.
        kafka: Whether the log is on a broker.
        share: Of the runs asked for.
    """

    name: str
    what: str
    unit: str
    floor: float | None
    goal: float | None
    at_once: int = 1
    transport: str = "connect"
    kafka: bool = False
    share: float = 1.0


ROWS = (
    Row("embedded-1", "embedded, one at a time, p50", "ms", 3.5, 1.8, 1, share=0.1),
    Row("embedded-64", "embedded, 64 at once", "runs/s", 2_500, 8_000, 64),
    Row("embedded-256", "embedded, 256 at once", "runs/s", None, None, 256),
    Row("serve-64", "embedded, serve, 64 at once", "runs/s", 600, 1_500, 64, "serve", share=0.3),
    Row("kafka-1", "Kafka, one at a time, p50", "ms", 20, 11, 1, kafka=True, share=0.05),
    Row("kafka-256", "Kafka, 256 at once", "runs/s", 1_200, 5_000, 256, kafka=True),
    Row("replay", "recovery by replay", "facts/s", 30_000, 100_000),
    Row("memory", "engine after 100,000 ended runs", "MB", 200, None, 64),
)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_port(port: int, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + START_S
    while time.monotonic() < until:
        if process.poll() is not None:
            raise SystemExit(f"a process ended before it answered: {process.args}")
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise SystemExit(f"nothing answers on port {port}")


@contextmanager
def running(command: list[str], port: int) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=ROOT
    )
    try:
        wait_port(port, process)
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()


@contextmanager
def engine(data: Path, kafka: str | None) -> Iterator[tuple[str, int]]:
    """An engine process; gives its address and its process id."""
    port = free_port()
    command = [sys.executable, "-m", "duraton_api.cli.main", "serve", "--quiet"]
    command += ["--port", str(port), "--data", str(data)]
    if kafka is not None:
        # A cluster of its own, so that no row has to read what another wrote.
        command += ["--kafka", kafka, "--prefix", f"bench-{port}-"]
    with running(command, port) as process:
        yield f"http://127.0.0.1:{port}", process.pid


def load(url: str, row: Row, runs: int) -> dict[str, Any]:
    command = [sys.executable, str(HERE / "load.py"), "--url", url, "--runs", str(runs)]
    command += ["--at-once", str(row.at_once), "--transport", row.transport]
    command += ["--port", str(free_port()), "--warm", str(KAFKA_WARM_RUNS if row.kafka else 0)]
    answer = subprocess.run(command, stdout=subprocess.PIPE, check=True, cwd=ROOT, timeout=LOAD_S)
    found: dict[str, Any] = json.loads(answer.stdout)
    return found


def rss_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return float("nan")


def measure(row: Row, runs: int, folder: Path, kafka: str | None) -> dict[str, Any]:
    if row.name == "replay":
        return replay(runs, folder)
    count = 100_000 if row.name == "memory" else max(int(runs * row.share), 100)
    data = folder / row.name
    with engine(data, kafka if row.kafka else None) as (url, pid):
        found = load(url, row, count)
        found["rss_mb"] = rss_mb(pid)
    if row.unit == "ms":
        found["figure"] = found["p50_ms"]
    elif row.unit == "MB":
        found["figure"] = found["rss_mb"]
    else:
        found["figure"] = found["runs_per_s"]
    return found


def replay(runs: int, folder: Path) -> dict[str, Any]:
    """Apply a journal from its beginning to an empty store, as a start does."""
    from duraton_engine.appliers import APPLIERS  # noqa: PLC0415 - only this row needs the engine
    from duraton_engine.state.tables import TABLES  # noqa: PLC0415 - as above
    from duraton_schemas.codec import Codec  # noqa: PLC0415 - as above
    from duraton_streams.logs.base import JOURNAL  # noqa: PLC0415 - as above
    from duraton_streams.logs.sqlite import SqliteLog  # noqa: PLC0415 - as above
    from duraton_streams.partition.recovery import read_standing  # noqa: PLC0415 - as above
    from duraton_streams.partition.recovery import replay as apply  # noqa: PLC0415 - as above
    from duraton_streams.partition.settings import ProcessorSettings  # noqa: PLC0415 - as above
    from duraton_streams.state.overlay import State  # noqa: PLC0415 - as above
    from duraton_streams.state.rocksdb import RocksStore  # noqa: PLC0415 - as above

    data = folder / "replay"
    with engine(data, None) as (url, _):
        load(url, Row("", "", "runs/s", None, None, 64), max(runs, 1_000))
    log = SqliteLog.open_readonly(data / "log.sqlite")
    state = State(RocksStore(folder / "replayed"), TABLES)
    standing = read_standing(state, log, 0)
    end = log.bounds(JOURNAL, 0)[1]
    began = time.perf_counter()
    batch = ProcessorSettings().replay_batch
    apply(log, state, standing, APPLIERS, Codec(), end=end, batch=batch)
    seconds = time.perf_counter() - began
    log.close()
    return {"facts": standing.seq, "seconds": seconds, "figure": standing.seq / seconds}


@contextmanager
def broker(wanted: bool) -> Iterator[str | None]:
    """A broker: the one of DURATON_TEST_KAFKA, or one that the tests know how to start."""
    given = os.environ.get("DURATON_TEST_KAFKA")
    if not wanted or given:
        yield given
        return
    port = free_port()
    with tempfile.TemporaryDirectory() as data:
        command = [sys.executable, "tests/kafka_broker.py", "--port", str(port), "--data", data]
        with running(command, port):
            yield f"127.0.0.1:{port}"


def machine_today(folder: Path) -> dict[str, float]:
    """The bare loops of bench/machine.py that need no broker."""
    return {"python_ns": machine.python_ns(), "sqlite_ms": machine.sqlite_commit_ms(folder)}


def show_machine(console: Console, today: dict[str, float]) -> None:
    words = {
        "python_ns": ("a turn of a loop in Python", "ns"),
        "sqlite_ms": ("a bare synced SQLite transaction, p50", "ms"),
        "kafka_ms": ("a bare Kafka transaction, p50", "ms"),
    }
    for name, figure in today.items():
        what, unit = words[name]
        console.print(f"{what}: {figure:.2f} {unit}")


def show(console: Console, results: dict[str, dict[str, Any]]) -> None:
    table = Table("row", "figure", "floor", "goal", "of the floor")
    for row in ROWS:
        if row.name not in results:
            continue
        figure = results[row.name]["figure"]
        lower_is_better = row.unit in ("ms", "MB")
        ratio = ""
        if row.floor is not None:
            ratio = f"{row.floor / figure if lower_is_better else figure / row.floor:.2f}"
        cells = [f"{n:,.1f} {row.unit}" if n else "" for n in (figure, row.floor, row.goal)]
        table.add_row(row.what, *cells, ratio)
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("rows", nargs="*", help="names of rows; all where none is given")
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--no-history", action="store_true")
    args = parser.parse_args()
    wanted = [row for row in ROWS if not args.rows or row.name in args.rows]
    console = Console()
    results: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        today = machine_today(Path(folder))

    def measure_all(rows: list[Row], kafka: str | None) -> None:
        for row in rows:
            with tempfile.TemporaryDirectory() as folder:
                console.print(f"{row.what} ...", style="dim")
                results[row.name] = measure(row, args.runs, Path(folder), kafka)

    # A broker at rest takes a good part of a core, so it comes last.
    measure_all([row for row in wanted if not row.kafka], None)
    on_kafka = [row for row in wanted if row.kafka]
    with broker(bool(on_kafka)) as kafka:
        if on_kafka and kafka is not None:
            console.print("warming the broker ...", style="dim")
            today["kafka_ms"] = machine.warm_kafka_ms(kafka)
        measure_all(on_kafka, kafka)
    if results:
        show(console, results)
    if not args.rows or "controls" in args.rows:
        import controls  # noqa: PLC0415 - it uses this module

        results.update(controls.measure(console, min(args.runs, 5_000)))
    show_machine(console, today)
    if not args.no_history:
        entry = {
            "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "machine": f"{platform.machine()}, {os.cpu_count()} cores",
            "python": platform.python_version(),
            "today": today,
            "rows": results,
        }
        with HISTORY.open("a") as history:
            history.write(json.dumps(entry) + "\n")


if __name__ == "__main__":
    main()
