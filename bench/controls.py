"""What flow control costs: each figure beside that of the same load without it.

    make bench ARGS="controls"

A control that never binds, a scope before which many wait, many scopes instead of one.
The loads of a comparison take turns, so that both meet the same machine.
"""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import httpx
from rich.console import Console
from rich.table import Table
from run import HERE, LOAD_S, ROOT, engine, rss_mb

ROUNDS = 3
WAITING = 100_000
KEYS = 10_000


class Comparison(NamedTuple):
    """Two loads, and by how much the second may be slower.

    Attributes:
        name: By which it stands in the history.
        what: For people.
        base: Arguments of the load without it.
        other: Arguments of the load with it.
        least: The share of the first's rate that the second must reach.
    """

    name: str
    what: str
    base: list[str]
    other: list[str]
    least: float


def _controls(**controls: Any) -> list[str]:
    return ["--controls", json.dumps(controls)]


_FULL = _controls(concurrency={"limit": 64})
COMPARISONS = (
    Comparison("concurrency", "concurrency 64 at 64 at once", [], _FULL, 0.75),
    Comparison(
        "throttle",
        "a throttle that never binds",
        [],
        _controls(throttle={"limit": 1_000_000, "perMs": 1_000}),
        0.75,
    ),
    Comparison(
        "keys",
        f"{KEYS:,} keys with limit 1, against one key with limit 64",
        _controls(concurrency={"limit": 64, "key": "orderId"}),
        [*_controls(concurrency={"limit": 1, "key": "orderId"}), "--keys", str(KEYS)],
        0.8,
    ),
)


def _load(url: str, runs: int, more: list[str]) -> subprocess.Popen[bytes]:
    command = [sys.executable, str(HERE / "load.py"), "--url", url, "--runs", str(runs)]
    command += ["--at-once", "64", *more]
    return subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT)


def _rate(runs: int, more: list[str]) -> float:
    with tempfile.TemporaryDirectory() as folder, engine(Path(folder), None) as (url, _):
        out, _ = _load(url, runs, more).communicate(timeout=LOAD_S)
    return float(json.loads(out.splitlines()[-1])["runs_per_s"])


def compare(each: Comparison, runs: int) -> dict[str, Any]:
    """The median rates of both loads, taken in turns, and their ratio."""
    pairs = [(_rate(runs, each.base), _rate(runs, each.other)) for _ in range(ROUNDS)]
    base, other = (statistics.median(rates) for rates in zip(*pairs, strict=True))
    return {"base": base, "other": other, "ratio": other / base, "least": each.least}


def waiting(runs: int) -> dict[str, Any]:
    """A scope before which many runs wait, against one where none does.

    Also the engine's memory then, and how long it takes to start on that state.
    """
    base = _rate(runs, _FULL)
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder)
        with engine(data, None) as (url, pid):
            load = _load(url, runs, [*_FULL, "--backlog", str(WAITING)])
            assert load.stdout is not None, "it was asked for"
            load.stdout.readline()
            rss = rss_mb(pid)
            out, _ = load.communicate(timeout=LOAD_S)
            rate = float(json.loads(out.splitlines()[-1])["runs_per_s"])
        began = time.perf_counter()
        with engine(data, None) as (url, _):
            while httpx.get(f"{url}/readyz").status_code != 200:
                time.sleep(0.02)
            start = time.perf_counter() - began
    found = {"base": base, "other": rate, "ratio": rate / base, "least": 0.7}
    return {**found, "rss_mb": rss, "start_s": start}


def measure(console: Console, runs: int) -> dict[str, dict[str, Any]]:
    """Measure everything and print it."""
    results: dict[str, dict[str, Any]] = {}
    table = Table("control", "without", "with", "ratio", "at least")
    for each in COMPARISONS:
        console.print(f"{each.what} ...", style="dim")
        results[each.name] = found = compare(each, runs)
        _add(table, each.what, found)
    console.print(f"{WAITING:,} runs wait ...", style="dim")
    results["waiting"] = found = waiting(runs)
    _add(table, f"a scope before which {WAITING:,} runs wait, against none", found)
    console.print(table)
    console.print(
        f"with {WAITING:,} waiting: {found['rss_mb']:.0f} MB (at most 600), "
        f"ready {found['start_s']:.1f} s after a start (at most 10)"
    )
    return results


def _add(table: Table, what: str, found: dict[str, Any]) -> None:
    cells = [f"{found['base']:,.0f} runs/s", f"{found['other']:,.0f} runs/s"]
    table.add_row(what, *cells, f"{found['ratio']:.2f}", f"{found['least']:.2f}")
