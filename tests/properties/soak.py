"""Random programs for as long as asked, one process a core: `make soak MINUTES=30`.

Every way of the flow control model, crash points of the small programs, and the scenarios
of runs take turns, each with the next seed. What breaks is printed at once with what makes
it again; in the end a table says what was done. The exit status is 1 where anything broke.

    make soak ARGS="--first 5000"           other seeds
    make soak ARGS="--one exact 312"        one program again, with its whole error
"""

import argparse
import asyncio
import logging
import multiprocessing
import os
import queue
import random
import sys
import time
import traceback
from collections import Counter
from typing import Any, NamedTuple

import test_model as scenarios
from crash_points import DOUBTS, KILLS, OPENS, Stop, check, go
from flow_programs_of_crashes import FLOW_PROGRAMS
from flow_ways import WAYS
from hypothesis import seed as seeded
from programs import PROGRAMS
from rich.console import Console
from rich.table import Table

import duraton.testing.host
from duraton.testing import engine as testing_engine

POINTS = {**PROGRAMS, **FLOW_PROGRAMS}
SCENARIOS = (
    scenarios.test_scenarios_end_as_the_model_says,
    scenarios.test_scenarios_end_so_whatever_point_the_engine_dies_at,
    scenarios.test_scenarios_end_so_in_whatever_order_partitions_take_their_turns,
)
UNDISTURBED: dict[tuple[str, int], Any] = {}
REPORT_S = 30.0
"""Between two lines of progress."""


class Done(NamedTuple):
    """What one program came to.

    Attributes:
        kind: Of the program.
        seed: That made it.
        counts: What was done.
        error: What broke, or None.
    """

    kind: str
    seed: int
    counts: Counter[str]
    error: str | None


def flow_program(way: str, seed: int) -> Counter[str]:
    """A program of the flow control model, carried out in a way."""
    carried, tied = asyncio.run(WAYS[way].carry_out(WAYS[way].make(seed)))
    checks = carried.checks
    return Counter(
        programs=1,
        runs=len(checks.runs),
        transitions=checks.transitions,
        crashes=carried.crashes + carried.stopping.crashes,
        ties=int(tied),
    )


def crash_point(seed: int) -> Counter[str]:
    """A small program that is stopped at a random point; its end must be the same."""
    draw = random.Random(seed)
    name = draw.choice(sorted(POINTS))
    partitions = draw.choice((1, 1, 3))
    key = (name, partitions)
    if key not in UNDISTURBED:
        UNDISTURBED[key] = asyncio.run(go(POINTS[name], partitions=partitions))
    end, counted = UNDISTURBED[key]
    point = draw.choice((*KILLS, *DOUBTS))
    kill = point in KILLS
    stop = Stop(
        point,
        draw.randint(1, counted.counts[point]),
        runner=kill and draw.random() < 0.5,
        again=draw.choice((None, None, *OPENS)),
    )
    try:
        asyncio.run(check(name, POINTS[name], end, stop, partitions=partitions))
    except BaseException as error:
        error.add_note(f"{name}, stopped at {stop}, {partitions} partitions")
        raise
    commits = counted.counts["commit:after"]
    return Counter(programs=1, runs=len(end.runs), transitions=commits, crashes=1)


def scenario(seed: int) -> Counter[str]:
    """Some scenarios of runs against their model."""
    seeded(seed)(SCENARIOS[seed % len(SCENARIOS)])()
    return Counter(programs=scenarios.EXAMPLES)


def prepare() -> None:
    """As the tests' fixtures do it."""
    duraton.testing.host.SHADOW_DEFAULT.on = True
    testing_engine.ANSWER_TIMEOUT_S = 1.0


KINDS = (*(way for way in WAYS if way != "kafka"), "crash points", "scenarios")
"""A broker keeps a core busy by itself, so `make test` alone has one."""


def carry_out(kind: str, seed: int) -> Counter[str]:
    """One program of a kind."""
    if kind == "crash points":
        return crash_point(seed)
    return scenario(seed) if kind == "scenarios" else flow_program(kind, seed)


def work(worker: int, workers: int, first: int, until: float, found: Any) -> None:
    """Carry out programs until the time is out; seeds of one worker are no other's."""
    logging.disable(logging.CRITICAL)  # engines that die say so
    prepare()
    seed = first + worker
    while time.monotonic() < until:
        for kind in KINDS:
            counts, error = Counter(programs=1), None
            try:
                counts = carry_out(kind, seed)
            except Exception as broken:
                notes = getattr(broken, "__notes__", ())
                error = " | ".join((f"{type(broken).__name__}: {broken}"[:600], *notes))
            found.put(Done(kind, seed, counts, error))
        seed += workers
    found.put(None)


def collect(found: Any, workers: int, console: Console) -> tuple[dict[str, Counter[str]], int]:
    """Count what workers tell until all are done; how many programs broke."""
    totals: dict[str, Counter[str]] = {kind: Counter() for kind in KINDS}
    broken, began, told = 0, time.monotonic(), time.monotonic()
    while workers:
        try:
            done = found.get(timeout=REPORT_S)
        except queue.Empty:
            continue
        if done is None:
            workers -= 1
            continue
        totals[done.kind].update(done.counts)
        if done.error is not None:
            broken += 1
            totals[done.kind]["violations"] += 1
            console.print(f"[red]{done.kind}, seed {done.seed}[/]: ", end="")
            console.print(done.error, markup=False)
        if time.monotonic() - told > REPORT_S:
            told = time.monotonic()
            programs = sum(each["programs"] for each in totals.values())
            console.print(f"{told - began:,.0f} s: {programs:,} programs, {broken} broken")
    return totals, broken


def show(totals: dict[str, Counter[str]], console: Console) -> None:
    """The table of what was done."""
    columns = ("programs", "runs", "transitions", "crashes", "violations")
    table = Table("way", *columns)
    for kind, counts in (*totals.items(), ("all", sum(totals.values(), Counter()))):
        table.add_row(kind, *(f"{counts[column]:,}" for column in columns))
    console.print(table)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--first", type=int, default=100_000, help="the first seed")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--one", nargs=2, metavar=("KIND", "SEED"), help="one program alone")
    args = parser.parse_args()
    console = Console()
    if args.one:
        prepare()
        try:
            console.print(dict(carry_out(args.one[0], int(args.one[1]))))
        except Exception:
            traceback.print_exc()
            return 1
        return 0
    until = time.monotonic() + args.minutes * 60
    processes = multiprocessing.get_context("spawn")
    found = processes.Queue()
    for worker in range(args.workers):
        given = (worker, args.workers, args.first, until, found)
        processes.Process(target=work, args=given, daemon=True).start()
    totals, broken = collect(found, args.workers, console)
    show(totals, console)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
