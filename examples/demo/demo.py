"""`make demo`: real data through a workflow, a kill -9 in the middle, and the proof.

1. Start an engine with its embedded log, and a worker, each a process of its own.
2. Send a few thousand records of the public airports data set as events.
3. When half of the runs have ended, kill the engine with SIGKILL; start it again. What was
   not answered is sent again, with the same dedupe ids.
4. Wait until every run has ended, and stop both.
5. Print what happened, and prove from the log that nothing was lost or done twice.

The exit status is 0 only if the proof holds.
"""

import argparse
import asyncio
import contextlib
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import httpx
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from duraton import Client, SendError

HERE = Path(__file__).parent
EVENTS_A_POST = 100
UNENDED_MAX = 1_000
"""Runs under way at once, so that half of the events are not yet sent at the kill."""
READY_S = 60
STALLED_S = 60
"""Nothing has ended for that long: something is wrong, and the demo says so."""
LOOK_S = 0.1

OWN = """
from duraton import define_workflow

async def handle_order(ctx):
    paid = await ctx.step.run("charge", charge_card, ctx.event.data["orderId"])
    await ctx.step.sleep("cool-off", "10s")
    return await ctx.step.run("ship", lambda: f"shipped {paid}")

def charge_card(order_id):
    return f"receipt {order_id}"

order = define_workflow("order.created", handle_order)
"""


class DemoError(Exception):
    """The demo cannot go on; the text says why."""


@dataclass
class Story:
    """What happened, for the end.

    Attributes:
        sent: Events.
        recorded: Events that an answer said are recorded, by their dedupe ids.
        resent: POSTs that were sent again.
        at_kill: Runs that had ended when the engine was killed.
        before_s, restart_s, going_s, after_s: Seconds from the first POST to the kill,
            from it until the engine was ready again and until a further run ended, and
            from ready to the end.
    """

    sent: int = 0
    recorded: set[str] = field(default_factory=set)
    resent: int = 0
    at_kill: int = 0
    before_s: float = 0
    restart_s: float = 0
    going_s: float = 0
    after_s: float = 0


class Demo:
    """The processes and what is seen of them."""

    def __init__(self, folder: Path, console: Console) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.ledger = folder / "executions"
        self.console = console
        self.story = Story()
        self.children: dict[str, subprocess.Popen[bytes]] = {}
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.ended = 0

    # Processes ----------------------------------------------------------------------

    def start_engine(self) -> None:
        self.start("engine", "serve", "--data", str(self.data), "--port", str(self.port))

    def start_worker(self) -> None:
        self.start("worker", "worker", str(HERE / "airports.py"), "--url", self.url)

    def start(self, what: str, *arguments: str) -> None:
        with (self.folder / f"{what}.log").open("ab") as out:
            self.children[what] = subprocess.Popen(
                duraton(*arguments),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env={**os.environ, "DEMO_LEDGER": str(self.ledger)},
                start_new_session=True,  # Ctrl-C is for the demo, which then ends them
            )

    def stop(self, what: str) -> None:
        """Ask it to end, as a deployment does."""
        child = self.children.pop(what)
        child.terminate()
        try:
            child.wait(READY_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
            raise DemoError(f"the {what} did not stop within {READY_S} s") from None

    def end(self) -> None:
        """Leave no process behind."""
        for child in self.children.values():
            child.kill()
            child.wait()
        self.children.clear()

    def check_alive(self) -> None:
        for what, child in self.children.items():
            if child.poll() is not None:
                said = (self.folder / f"{what}.log").read_text()[-2_000:]
                raise DemoError(f"the {what} ended with status {child.returncode}:\n{said}")

    async def wait_for(self, path: str, what: str) -> None:
        """Until a read of the engine answers something."""
        deadline = time.monotonic() + READY_S
        async with httpx.AsyncClient(base_url=self.url) as http:
            while time.monotonic() < deadline:
                self.check_alive()
                with contextlib.suppress(httpx.HTTPError):
                    answer = await http.get(path)
                    if answer.status_code == 200 and answer.json().get("workflows") != []:
                        return
                await asyncio.sleep(0.02)
        raise DemoError(f"{what} within {READY_S} s")

    # The story ----------------------------------------------------------------------

    async def run(self, records: list[dict]) -> None:
        """Steps 1 to 4 of the demo."""
        story = self.story
        story.sent = len(records)
        self.start_engine()  # 1
        await self.wait_for("/readyz", "the engine was not ready")
        self.start_worker()
        await self.wait_for("/workflows", "the worker was not registered")
        with shown(self.console, len(records)) as show:
            began = time.monotonic()
            sending = asyncio.create_task(self.send(records))  # 2
            try:
                await self.until(len(records) // 2, sending, show)
                story.before_s = time.monotonic() - began
                story.at_kill = self.ended
                await self.crash(show)  # 3
                ready = time.monotonic()
                await self.until(len(records), sending, show)  # 4
                story.after_s = time.monotonic() - ready
                await sending
            finally:
                sending.cancel()
        self.stop("worker")
        self.stop("engine")

    async def crash(self, show: "Show") -> None:
        """Kill the engine, start it again, and wait until it goes on."""
        killed = time.monotonic()
        child = self.children.pop("engine")
        child.kill()
        child.wait()
        show.note(f"kill -9 of the engine after {self.ended:,} runs; starting it again")
        self.start_engine()
        await self.wait_for("/readyz", "the engine was not ready again")
        self.story.restart_s = time.monotonic() - killed
        before = self.count_ended()
        while self.count_ended() == before < self.story.sent:
            self.check_alive()
            if time.monotonic() - killed > STALLED_S:
                raise DemoError(f"no run has ended for {STALLED_S} s after the restart")
            await asyncio.sleep(0.01)
        self.story.going_s = time.monotonic() - killed
        show.note(f"the engine was back after {self.story.restart_s:.1f} s")

    async def until(self, count: int, sending: "asyncio.Task[None]", show: "Show") -> None:
        """Until so many runs have ended."""
        moved, before = time.monotonic(), -1
        while self.count_ended() < count:
            self.check_alive()
            if sending.done():
                sending.result()
            if self.ended != before:
                moved, before = time.monotonic(), self.ended
            elif time.monotonic() - moved > STALLED_S:
                raise DemoError(f"no run has ended for {STALLED_S} s")
            show.progress(self.ended)
            await asyncio.sleep(LOOK_S)
        show.progress(self.ended)

    def count_ended(self) -> int:
        """How many runs have ended, from the engine's view, an SQLite file that anyone may read."""
        query = "SELECT count(*) FROM runs WHERE status IN ('completed', 'failed', 'cancelled') "
        query += "AND kind = 'main'"
        view = self.data / "view.sqlite"
        with (
            contextlib.suppress(sqlite3.Error),  # an engine that starts may hold it
            contextlib.closing(sqlite3.connect(f"file:{view}?mode=ro", uri=True)) as db,
        ):
            self.ended = max(self.ended, db.execute(query).fetchone()[0])
        return self.ended

    async def send(self, records: list[dict]) -> None:
        """Send each record as an event, in array POSTs."""
        async with Client(self.url) as client:
            for first in range(0, len(records), EVENTS_A_POST):
                while first - self.ended >= UNENDED_MAX:  # noqa: ASYNC110 - another looks
                    await asyncio.sleep(0.01)
                await self.post(client, records[first : first + EVENTS_A_POST])

    async def post(self, client: Client, records: list[dict]) -> None:
        """One array, again until it is answered; dedupe ids make that safe."""
        events = [
            {"name": "airport.listed", "data": record, "dedupe_id": record["iata"]}
            for record in records
        ]
        while True:
            try:
                answers = await client.send_many(events)
            except SendError as error:
                if error.status not in (0, 429, 503):
                    raise DemoError(f"the engine refused events: {error}") from error
            else:
                if all(each["recorded"] or each["duplicateOf"] for each in answers):
                    self.story.recorded.update(record["iata"] for record in records)
                    return
            self.story.resent += 1
            await asyncio.sleep(0.1)


# What is shown ----------------------------------------------------------------------


class Show:
    """Plain lines, for what is no terminal."""

    def __init__(self, console: Console, total: int) -> None:
        self.console, self.total = console, total
        self.tenth = 0

    def note(self, text: str) -> None:
        self.console.print(f"  {text}", highlight=False)

    def progress(self, ended: int) -> None:
        if ended * 10 // self.total > self.tenth:
            self.tenth = ended * 10 // self.total
            self.note(f"{ended:,} of {self.total:,} runs ended")


class Bar(Show):
    """A bar, for a terminal."""

    def __init__(self, console: Console, total: int, bar: Progress) -> None:
        super().__init__(console, total)
        self.bar = bar
        self.task = bar.add_task("runs ended", total=total)

    def progress(self, ended: int) -> None:
        self.bar.update(self.task, completed=ended)


@contextlib.contextmanager
def shown(console: Console, total: int):
    if not console.is_terminal:
        yield Show(console, total)
        return
    columns = TextColumn("  {task.description}"), BarColumn(), MofNCompleteColumn()
    with Progress(*columns, TimeElapsedColumn(), console=console) as bar:
        yield Bar(console, total, bar)


# The proof --------------------------------------------------------------------------


@dataclass
class Proof:
    """What was checked, and what was found."""

    lines: list[tuple[bool, str]] = field(default_factory=list)
    facts: dict[str, object] = field(default_factory=dict)

    def check(self, holds: bool, text: str) -> None:
        self.lines.append((holds, text))

    @property
    def holds(self) -> bool:
        return bool(self.lines) and all(holds for holds, _ in self.lines)


def prove(demo: Demo) -> Proof:
    """Hold the log, the view and the worker's own file against each other."""
    story, proof = demo.story, Proof()
    report = run_json("log", "verify", "--data", str(demo.data), "--json")
    figures, partition = report["figures"], report["partitions"][0]
    runs = query(demo, "SELECT status, count(*) AS runs FROM runs WHERE kind = 'main' GROUP BY 1")
    by_status = {row["status"]: row["runs"] for row in runs}
    (steps,) = query(
        demo,
        "SELECT sum(attempts) AS attempts, sum(attempts > 1) AS retried, count(*) AS steps "
        "FROM steps WHERE kind = 'run'",
    )
    (failures,) = query(
        demo, "SELECT count(*) AS runs FROM runs WHERE kind = 'onFailure' AND status = 'completed'"
    )
    executions = Counter(demo.ledger.read_text().splitlines())
    proof.facts = {
        "by_status": by_status,
        "retried": steps["retried"],
        "failures": failures["runs"],
        "facts": partition["facts"],
        "executions": sum(executions.values()),
    }
    proof.check(
        len(story.recorded) == story.sent == figures["events"],
        f"{figures['events']:,} events on the log, each of those sent once "
        f"({figures['repeats']} repeats dropped)",
    )
    proof.check(
        report["ok"] and figures["offers_met"] == figures["runs"] == story.sent,
        f"{figures['runs']:,} runs: each event led to one",
    )
    proof.check(
        figures["unended"] == 0
        and sum(by_status.values()) == story.sent
        and failures["runs"] == by_status.get("failed", 0) == figures["failure_runs"],
        "every run ended, and every failed one was handled by its onFailure",
    )
    proof.check(
        report["ok"] and report["stateCompared"],
        f"{figures['steps']:,} results of steps on the log, each recorded once",
    )
    proof.check(
        report["ok"] and partition["compared_at"] is not None and partition["facts_after"] == 0,
        f"the state equals a rebuild from {partition['facts']:,} facts of the log, "
        f"in all {partition['rows']:,} rows",
    )
    twice = sum(count - 1 for count in executions.values())
    proof.check(
        twice == 0 and len(executions) == steps["attempts"],
        f"the worker executed {sum(executions.values()):,} attempts of steps and the log has "
        f"{steps['attempts']:,}; {twice} ran twice",
    )
    return proof


def query(demo: Demo, text: str) -> list[dict]:
    return run_json("sql", text, "--data", str(demo.data), "--json")["rows"]


def run_json(*arguments: str) -> dict:
    done = subprocess.run(duraton(*arguments), capture_output=True, text=True, check=False)
    if not done.stdout.strip():
        raise DemoError(f"duraton {' '.join(arguments)}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def tell(console: Console, story: Story, proof: Proof) -> None:
    """Print what happened, and the proof."""
    facts = proof.facts
    statuses = ", ".join(f"{count:,} {status}" for status, count in facts["by_status"].items())
    before = story.at_kill / story.before_s
    after = (story.sent - story.at_kill) / story.after_s
    rows = [
        ("events", f"{story.sent:,} airports; {story.resent} POSTs sent again"),
        ("runs", statuses),
        ("retried steps", f"{facts['retried']:,}"),
        ("onFailure", f"{facts['failures']:,} executions"),
        ("before the kill", f"{story.at_kill:,} runs in {story.before_s:.1f} s: {before:,.0f}/s"),
        (
            "kill -9, restart",
            f"ready after {story.restart_s:.1f} s, runs ended again after {story.going_s:.1f} s",
        ),
        (
            "after it",
            f"{story.sent - story.at_kill:,} runs in {story.after_s:.1f} s: {after:,.0f}/s",
        ),
    ]
    console.print("\n[bold]What happened[/bold]")
    for word, text in rows:
        console.print(f"  {word:<18}{text}", highlight=False, soft_wrap=True)
    console.print("\n[bold]The proof[/bold] (duraton log verify, duraton sql, the worker's file)")
    for holds, text in proof.lines:
        mark = "[green]yes[/green]" if holds else "[red]NO [/red]"
        console.print(f"  {mark}  {escape(text)}", highlight=False, soft_wrap=True)


# The program ------------------------------------------------------------------------


def duraton(*arguments: str) -> list[str]:
    """The command line, by the same Python."""
    return [sys.executable, "-m", "duraton_api.cli.main", *arguments]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def airports(count: int) -> list[dict]:
    """The records, by the codes of the International Air Transport Association."""
    try:
        import airportsdata  # noqa: PLC0415 - its absence has a message of its own
    except ImportError:
        raise DemoError("the data is missing: pip install '.[demo]'") from None
    return list(airportsdata.load("IATA").values())[:count]


async def main(given: argparse.Namespace, folder: Path, console: Console) -> int:
    task = asyncio.current_task()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    records = airports(given.records)
    console.print(
        f"[bold]Duraton[/bold]: {len(records):,} airports, each an event that starts a run of "
        "three steps;\nsome steps fail once and are retried, some runs fail for good.",
        highlight=False,
    )
    demo = Demo(folder, console)
    try:
        await demo.run(records)
    finally:
        demo.end()
    proof = prove(demo)
    tell(console, demo.story, proof)
    if not proof.holds:
        console.print("\n[bold red]The proof does not hold.[/bold red]")
        return 1
    console.print("\n[bold]Your own[/bold]: put this into shop.py")
    own = "\n".join(f"    {line}".rstrip() for line in OWN.strip().splitlines())
    console.print(own, highlight=False, markup=False, soft_wrap=True)
    console.print(
        "\n    duraton dev shop.py\n    duraton send order.created '{\"orderId\": 7}'",
        highlight=False,
    )
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--records", type=int, default=5_000, help="airports to send (to 7,884)")
    parser.add_argument("--keep", type=Path, help="a new directory for log, state and view")
    given = parser.parse_args()
    console = Console()
    with tempfile.TemporaryDirectory(prefix="duraton-demo-") as made:
        folder = given.keep or Path(made)
        try:
            folder.mkdir(parents=True, exist_ok=given.keep is None)
            status = asyncio.run(main(given, folder, console))
        except DemoError as error:
            console.print(f"\n[red]{escape(str(error))}[/red]")
            status = 1
        except (KeyboardInterrupt, asyncio.CancelledError):
            console.print("\nstopped")
            status = 130
        except FileExistsError:
            console.print(f"{folder} is there already; name a new directory")
            status = 2
    sys.exit(status)
