"""What the kill programs share: processes of the command line, a sender, and the reckoning."""

import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx

ROOT = Path(__file__).parents[2]
LOAD = Path(__file__).with_name("kill_load.py")
STEPS = ("first", "second", "third")

READY_S = 60  # an engine on Kafka that was killed waits for its old transaction's end
QUIET_S = 0.5  # nothing has moved for that long: perhaps every run has ended
STALLED_S = 40  # nothing has moved for that long: the load hangs
PROGRAM_S = 300  # verify and dump of a whole log
POST_EVENTS = 50
EARLY_S = 1.0  # an engine takes about that long to be ready, alone on its machine
UNENDED_MAX = 300
"""Runs under way at once, so that kills meet many and the load lasts."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def processes_about(text: str) -> list[str]:
    """Command lines of processes that have a text in them."""
    if Path("/proc/self/cmdline").exists():
        found = []
        for each in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):  # it has ended meanwhile
                found.append(each.read_text().replace("\0", " "))
    else:
        listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
        found = listed.stdout.splitlines()
    return [line for line in found if text in line]


class StalledError(Exception):
    """The load does not go on."""


@dataclass
class Rig:
    """A data directory, an engine's address, and the processes around them.

    Attributes:
        home: A directory of this load's own.
        log_options: Where the log is: `--data DIR`, and with Kafka `--kafka` and `--prefix`.
        partitions: Of a new cluster.
        name: The worker's name; None gives it none.
    """

    home: Path
    log_options: list[str]
    partitions: int | None = None
    name: str | None = "kill-worker"
    port: int = field(default_factory=free_port)
    children: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def ledger(self) -> Path:
        return self.home / "ledger"

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "duraton_api.cli.main", *arguments]

    def environment(self) -> dict[str, str]:
        roots = ["schemas", "streams", "engine", "api", "sdk"]
        paths = [str(ROOT / each) for each in roots]
        return {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(paths),
            "KILL_LEDGER": str(self.ledger),
        }

    def start(self, what: str, target: Path = LOAD) -> None:
        """Start the engine, or a worker of a target; what it says goes to a file beside the ledger."""
        if what == "engine":
            arguments = ["serve", *self.log_options, "--port", str(self.port), "--quiet"]
            if self.partitions is not None:
                arguments += ["--partitions", str(self.partitions)]
        else:
            arguments = ["worker", str(target), "--url", self.url]
            arguments += ["--name", self.name] if self.name else []
        with (self.home / f"{what}.log").open("ab") as out:
            self.children[what] = subprocess.Popen(
                self.command(*arguments),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env=self.environment(),
            )

    def kill(self, what: str) -> None:
        """SIGKILL, as a crash does."""
        child = self.children.pop(what)
        child.kill()
        child.wait()

    def stop(self, what: str) -> int:
        """SIGTERM; its exit status."""
        child = self.children.pop(what)
        child.send_signal(signal.SIGTERM)
        return child.wait(timeout=READY_S)

    def end(self) -> None:
        """Leave no process behind."""
        for what in list(self.children):
            self.kill(what)

    def check_alive(self) -> None:
        for what, child in self.children.items():
            if child.poll() is not None:
                tail = (self.home / f"{what}.log").read_text()[-2_000:]
                raise StalledError(f"the {what} ended with status {child.returncode}: {tail}")

    def wait_ready(self) -> None:
        deadline = time.monotonic() + READY_S
        while time.monotonic() < deadline:
            self.check_alive()
            with contextlib.suppress(httpx.HTTPError):
                if httpx.get(f"{self.url}/readyz", timeout=1).status_code == 200:
                    return
            time.sleep(0.01)
        raise StalledError(f"the engine was not ready within {READY_S} s")

    def wait_registered(self) -> None:
        """Until a worker has registered: an event before that would match no workflow."""
        deadline = time.monotonic() + READY_S
        while not httpx.get(f"{self.url}/workflows", timeout=15).json()["workflows"]:
            self.check_alive()
            if time.monotonic() > deadline:
                raise StalledError(f"no worker registered within {READY_S} s")
            time.sleep(0.02)

    def run(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            self.command(*arguments),
            capture_output=True,
            text=True,
            env=self.environment(),
            timeout=PROGRAM_S,
            check=False,
        )


class Tail:
    """Reads what was added to the ledger."""

    def __init__(self, path: Path) -> None:
        path.touch()
        self._file = path.open("rb")
        self.ended: set[bytes] = set()
        self.acknowledged = 0
        self._rest = b""

    def read(self) -> bool:
        """Look at new lines; whether there were any."""
        found = self._rest + self._file.read()
        lines = found.split(b"\n")
        self._rest = lines.pop()
        for line in lines:
            if line.startswith(b"e "):
                self.ended.add(line)
            elif line.startswith(b"a "):
                self.acknowledged += 1
        return bool(lines)

    def close(self) -> None:
        self._file.close()


class Sender(threading.Thread):
    """Sends the events in array POSTs, each again until it is answered.

    `allowed` bounds how many it sends, `tail.ended` says how many came back.
    """

    def __init__(self, rig: Rig, total: int) -> None:
        super().__init__(daemon=True)
        self.url, self.total = rig.url, total
        self.allowed = self.begun = self.sent = self.resent = 0
        self.ended = 0
        self.failed: BaseException | None = None
        self.stopped = threading.Event()

    def run(self) -> None:
        try:
            with httpx.Client(base_url=self.url, timeout=15) as client:
                while self.sent < self.total and not self.stopped.is_set():
                    room = min(self.allowed, self.ended + UNENDED_MAX, self.total) - self.sent
                    if room < min(POST_EVENTS, self.total - self.sent):
                        time.sleep(0.005)
                        continue
                    count = min(POST_EVENTS, self.total - self.sent)
                    self.begun = self.sent + count
                    self.post(client, range(self.sent, self.sent + count))
                    self.sent += count
        except BaseException as error:
            self.failed = error

    def post(self, client: httpx.Client, numbers: range) -> None:
        events = [
            {"name": "kill.work", "data": {"n": n}, "dedupeId": f"event-{n}"} for n in numbers
        ]
        while not self.stopped.is_set():
            with contextlib.suppress(httpx.HTTPError):
                answer = client.post("/events", json=events)
                if answer.status_code in (200, 202):
                    found = answer.json()
                    if all(each["recorded"] or each["duplicateOf"] for each in found):
                        return
                elif answer.status_code not in (429, 503):
                    raise StalledError(f"POST /events: {answer.status_code} {answer.text[:500]}")
            self.resent += 1
            time.sleep(0.05)


@dataclass
class Kill:
    """One kill: runs under way then, and how long until things went on, in seconds."""

    under_way: int
    ready_s: float
    going_s: float


class Load:
    """A load of runs under way.

    Args:
        rig: The processes; none is started yet.
        runs: How many.
        seed: Of the moments.
    """

    def __init__(self, rig: Rig, runs: int, seed: int) -> None:
        self.rig, self.runs = rig, runs
        self.random = random.Random(seed)
        self.kills: list[Kill] = []
        rig.home.mkdir(parents=True, exist_ok=True)
        self.tail = Tail(rig.ledger)
        self.sender = Sender(rig, runs)

    def __enter__(self) -> "Load":
        try:
            self.rig.start("engine")
            self.rig.wait_ready()
            self.rig.start("worker")
            self.rig.wait_registered()
        except BaseException:
            self.rig.end()
            raise
        self.sender.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.sender.stopped.set()
        self.rig.end()
        self.sender.join()
        self.tail.close()

    @property
    def under_way(self) -> int:
        """Runs whose event was sent, or is being sent, and that have not ended."""
        return self.sender.begun - len(self.tail.ended)

    def look(self) -> bool:
        """Take note of what has moved; whether something has."""
        moved = self.tail.read()
        self.sender.ended = len(self.tail.ended)
        if self.sender.failed is not None:
            raise self.sender.failed
        return moved

    def watch(self, seconds: float) -> None:
        """Let it run for some time."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self.look()
            time.sleep(min(left, 0.005))

    def wait_sending(self) -> None:
        """Until events of this part of the load are on their way, or were all sent."""
        while self.sender.begun <= self.sender.sent and (
            self.sender.sent + POST_EVENTS <= self.sender.allowed
        ):
            self.look()
            time.sleep(0.001)

    def wait_going(self) -> None:
        """Until the worker is told of a further result, or nothing is left to tell."""
        before = self.tail.acknowledged
        since = time.monotonic()
        while self.tail.acknowledged == before and len(self.tail.ended) < self.sender.begun:
            self.look()
            self.rig.check_alive()
            if time.monotonic() - since > STALLED_S:
                raise StalledError(f"nothing has moved for {STALLED_S} s: {self.unended()}")
            time.sleep(0.002)

    def kill_often(
        self, what: str, kills: int, window_s: float, rest_s: float = 0, early_every: int = 5
    ) -> None:
        """Kill and start a process again at random moments, spread over the load.

        1. Let as many events be sent as belong to this part of the load.
        2. Wait a random time: mostly from when the first of them were sent, now and then
           from the start of the process, so that kills meet recoveries as well.
        3. Kill, start again, and take the times.

        Args:
            what: The process.
            kills: How often.
            window_s: The most seconds of that random time.
            rest_s: Seconds without a kill once work has gone on.
            early_every: Which kills meet a start: each so manieth; 0 for none.
        """
        early = False
        for number in range(kills):
            self.sender.allowed = self.runs * (number + 1) // (kills + 1)  # 1
            if not early:  # 2
                self.wait_sending()
            self.watch(self.random.uniform(0, EARLY_S if early else window_s))
            self.look()
            under_way = self.under_way
            self.rig.kill(what)  # 3
            self.look()
            began = time.monotonic()
            self.rig.start(what)
            early = bool(early_every) and number % early_every == early_every - 2
            if early:
                continue
            if what == "engine":
                self.rig.wait_ready()
            ready = time.monotonic() - began
            self.wait_going()
            self.kills.append(Kill(under_way, ready, time.monotonic() - began))
            self.watch(rest_s)
        self.sender.allowed = self.runs
        if early and what == "engine":
            self.rig.wait_ready()

    def finish(self) -> None:
        """Wait until every run has ended, as the API shows it."""
        self.sender.allowed = self.runs
        moved = time.monotonic()
        while True:
            self.rig.check_alive()
            if self.look():
                moved = time.monotonic()
            quiet = time.monotonic() - moved
            if self.sender.sent == self.runs and quiet > QUIET_S and not self.unended():
                return
            if quiet > STALLED_S:
                raise StalledError(f"nothing has moved for {STALLED_S} s: {self.unended()}")
            time.sleep(0.02)

    def unended(self) -> object:
        answer = httpx.get(
            f"{self.rig.url}/runs",
            params={"status": "queued,running,waiting,paused", "limit": "3", "kind": "all"},
            timeout=15,
        )
        return answer.json()["runs"] if answer.status_code == 200 else answer.text[:500]


@contextlib.contextmanager
def journal(rig: Rig) -> Iterator[Iterator[dict[str, object]]]:
    """The facts as `duraton log dump` prints them."""
    with subprocess.Popen(
        rig.command("log", "dump", "--topic", "journal", *rig.log_options, "--json"),
        stdout=subprocess.PIPE,
        text=True,
        env=rig.environment(),
    ) as dump:
        assert dump.stdout is not None
        yield (json.loads(line) for line in dump.stdout)
    if dump.returncode != 0:
        raise StalledError(f"log dump ended with status {dump.returncode}")


def reckon(rig: Rig, runs: int) -> dict[str, object]:
    """Hold what the worker did against what the journal says.

    Returns:
        Counts; those that must be 0 stand under `wrong`.
    """
    executions: dict[tuple[str, str, int], list[tuple[int, str]]] = defaultdict(list)
    told: dict[tuple[str, str], int] = {}
    wrong: Counter[str] = Counter()
    for place, line in enumerate(rig.ledger.read_text().splitlines()):
        what, run, *rest = line.split(" ")
        if what == "x":
            step, attempt, mark = rest
            executions[run, step, int(attempt)].append((place, mark))
            if (run, step) in told:
                wrong["executed after its result was acknowledged"] += 1
        elif what == "a":
            told.setdefault((run, rest[0]), place)
    recorded: dict[tuple[str, str, int], str] = {}
    results: Counter[tuple[str, str]] = Counter()
    statuses: Counter[str] = Counter()
    numbers: Counter[str] = Counter()
    with journal(rig) as facts:
        for fact in facts:
            kind, body = fact["type"], fact["record"]
            assert isinstance(body, dict)
            if kind == "StepCompleted":
                if body["kind"] != "run":
                    continue  # the engine's own, such as a sleep
                results[body["run"], body["step"]] += 1
                recorded[body["run"], body["step"], body["attempt"]] = json.loads(body["output"])
            elif kind == "StepFailed":
                key = body["run"], body["step"], body["attempt"]
                wrong["a failed attempt recorded twice"] += key in recorded
                recorded[key] = body["error"]["message"]
            elif kind == "RunEnded":
                statuses[body["status"]] += 1
                if body["status"] == "completed":
                    numbers[body["output"]] += 1
    wrong["a step recorded twice"] = sum(count - 1 for count in results.values())
    wrong["a step of a run not recorded"] = runs * len(STEPS) - len(results)
    wrong["an event that led to no completed run"] = sum(str(n) not in numbers for n in range(runs))
    wrong["an event that led to two completed runs"] = sum(count - 1 for count in numbers.values())
    wrong["a run that is not completed"] = sum(statuses.values()) - statuses["completed"]
    for key, mark in recorded.items():
        places = {found: place for place, found in executions[key]}
        if mark not in places:
            wrong["recorded and never executed"] += 1
        else:
            last = max(place for place, _ in executions[key])
            wrong["executed after it was recorded"] += places[mark] != last
    counts = Counter(len(each) for each in executions.values())
    return {
        "completed": statuses["completed"],
        "stepExecutions": sum(len(each) for each in executions.values()),
        "executionsPerAttempt": {str(times): counts[times] for times in sorted(counts)},
        "attemptsRecorded": len(recorded),
        "duplicates": sum((times - 1) * count for times, count in counts.items()),
        "acknowledgedDuplicates": wrong["executed after its result was acknowledged"]
        + wrong["executed after it was recorded"],
        "wrong": {what: count for what, count in wrong.items() if count},
    }


def verified(rig: Rig) -> dict[str, object]:
    """What `duraton log verify` says."""
    done = rig.run("log", "verify", *rig.log_options, "--json")
    if not done.stdout.strip():
        return {"ok": False, "said": done.stderr[-2_000:]}
    report = json.loads(done.stdout)
    return {
        "ok": report["ok"] and done.returncode == 0,
        "stateCompared": report["stateCompared"]
        and all(
            each["compared_at"] is not None and each["facts_after"] == 0
            for each in report["partitions"]
        ),
        "facts": sum(each["facts"] for each in report["partitions"]),
        "owners": max(each["epoch"] for each in report["partitions"]),
        "discarded": report["figures"]["discarded"],
        "repeats": report["figures"]["repeats"],
        "problems": report["problems"][:5],
    }


def spread(values: list[float]) -> dict[str, float]:
    """Median, 90th percentile and largest, in seconds."""
    if not values:
        return {}
    ordered = sorted(values)
    return {
        "median": round(ordered[len(ordered) // 2], 3),
        "p90": round(ordered[min(len(ordered) - 1, len(ordered) * 9 // 10)], 3),
        "max": round(ordered[-1], 3),
    }


def summary(load: Load, kills: int, began: float) -> dict[str, object]:
    """Everything, once the load is finished: stop the processes, reckon and verify."""
    seconds = time.monotonic() - began
    load.rig.stop("worker")
    stopped = load.rig.stop("engine")
    found = reckon(load.rig, load.runs)
    proof = verified(load.rig)
    under_way = [float(kill.under_way) for kill in load.kills]
    return {
        "runs": load.runs,
        "kills": kills,
        "seconds": round(seconds, 1),
        **found,
        "resentPosts": load.sender.resent,
        "underWayAtKill": spread(under_way),
        "readyAgainS": spread([kill.ready_s for kill in load.kills]),
        "goingAgainS": spread([kill.going_s for kill in load.kills]),
        "engineStoppedWith": stopped,
        "verify": proof,
        "ok": not found["wrong"]
        and found["completed"] == load.runs
        and bool(proof["ok"])
        and bool(proof.get("stateCompared"))
        and stopped == 0,
    }
