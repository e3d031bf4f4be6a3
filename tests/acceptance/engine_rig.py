"""Several engines on one cluster: an address before them, clients, and what the log tells."""

import contextlib
import heapq
import itertools
import json
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
from kill_rig import READY_S, ROOT, STALLED_S, Rig, StalledError

# The ledger of flow control is the model check's own.
sys.path.insert(0, str(ROOT / "tests" / "properties"))

HERE = Path(__file__).parent
LOOK_S = 0.02
CHUNK = 1 << 16
JOURNAL_READ = 1_000


class Front:
    """An address that passes connections on to whichever engine it is told, as a balancer does."""

    def __init__(self) -> None:
        self.to: int | None = None
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._threads: list[threading.Thread] = []
        self._run(self._accept)

    def _run(self, target, *args: socket.socket) -> threading.Thread:
        thread = threading.Thread(target=target, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()
        return thread

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return  # it is closed
            self._run(self._pass_on, client)

    def _pass_on(self, client: socket.socket) -> None:
        with (
            client,
            contextlib.suppress(OSError),
            socket.create_connection(("127.0.0.1", self.to or 0)) as engine,
        ):
            back = self._run(self._pump, engine, client)
            self._pump(client, engine)
            back.join()

    @staticmethod
    def _pump(source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(CHUNK):
                sink.sendall(data)
        for each in (source, sink):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End it; the processes on its connections must have ended."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(READY_S)


class Engine(Rig):
    """One engine process with a local state of its own, which is empty at its start."""

    @property
    def process(self):
        return self.children["engine"]

    @property
    def said(self) -> str:
        return (self.home / "engine.log").read_text()

    @property
    def ready(self) -> bool:
        with contextlib.suppress(httpx.HTTPError):
            return httpx.get(f"{self.url}/readyz", timeout=5).status_code == 200
        return False

    def wait_end(self) -> int:
        """Its exit status, once it has ended by itself."""
        return self.process.wait(timeout=READY_S)

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)


@dataclass
class Worker(Rig):
    """One worker; `more` is added to its environment."""

    more: dict[str, str] = field(default_factory=dict)

    def environment(self) -> dict[str, str]:
        return {**super().environment(), **self.more}


@dataclass
class Cluster:
    """A cluster on a broker and the processes around it."""

    home: Path
    bootstrap: str
    prefix: str
    partitions: int
    engines: list[Engine] = field(default_factory=list)
    workers: list[Rig] = field(default_factory=list)
    front: Front = field(default_factory=Front)

    @property
    def ledger(self) -> Path:
        return self.home / "ledger"

    @property
    def go(self) -> Path:
        return self.home / "go"

    def engine(self) -> Engine:
        """Start one more engine; it may not be ready yet."""
        home = self.home / f"engine-{len(self.engines)}"
        home.mkdir()
        log = ["--data", str(home / "data"), "--kafka", self.bootstrap, "--prefix", self.prefix]
        engine = Engine(home, log, partitions=self.partitions)
        self.engines.append(engine)
        engine.start("engine")
        return engine

    def worker(self, target: Path, **more: str) -> Rig:
        """Start a worker that knows the front's address alone, with more in its environment."""
        more["ENGINES_GO"] = str(self.go)
        rig = Worker(self.home, [], name=target.stem, port=self.front.port, more=more)
        self.workers.append(rig)
        rig.start("worker", target)
        return rig

    def ask(self, path: str) -> dict[str, object]:
        """A GET at the engine behind the front, again until there is one that answers."""
        deadline = time.monotonic() + READY_S
        while True:
            with contextlib.suppress(httpx.HTTPError):
                answer = httpx.get(f"http://127.0.0.1:{self.front.port}{path}", timeout=15)
                if answer.status_code == 200:
                    return answer.json()
            if time.monotonic() > deadline:
                raise StalledError(f"GET {path} is not answered")
            time.sleep(LOOK_S)

    def set_ceiling(self, engine: Engine, ceiling: int) -> None:
        """Return once the project's ceiling is in force: every partition has committed it."""
        deadline = time.monotonic() + READY_S
        while True:
            answer = httpx.put(f"{engine.url}/project", json={"ceiling": ceiling}, timeout=60)
            if answer.status_code == 200:
                return
            if answer.status_code not in (202, 503) or time.monotonic() > deadline:
                raise StalledError(f"PUT /project: {answer.status_code} {answer.text[:500]}")

    def wait(self, what: str, holds) -> None:
        """Until a condition holds; the engine behind the front must live meanwhile."""
        deadline = time.monotonic() + STALLED_S
        while not holds():
            if time.monotonic() > deadline:
                raise StalledError(f"{what}: not within {STALLED_S} s")
            time.sleep(LOOK_S)

    def end(self) -> None:
        """Leave no process behind."""
        for rig in (*self.engines, *self.workers):
            rig.end()
        self.front.close()

    def facts(self) -> Iterator[tuple[int, object]]:
        """All facts as (partition, fact), in the order of their times.

        What one partition decides because of another it decides later: a commit and a
        message lie between. Within a partition the journal's order is kept.
        """
        from duraton_schemas.codec import Codec
        from duraton_streams.logs.base import JOURNAL
        from duraton_streams.logs.kafka import KafkaLog

        codec, log = Codec(), KafkaLog(self.bootstrap, prefix=self.prefix)

        def journal(partition: int) -> Iterator[tuple[int, int, int, object]]:
            at = 0
            while records := log.read(JOURNAL, partition, at, JOURNAL_READ):
                for record in records:
                    fact = codec.decode(record.value)
                    yield fact.at, partition, record.offset, fact
                at = records[-1].offset + 1

        try:
            for _, partition, _, fact in heapq.merge(*map(journal, range(self.partitions))):
                yield partition, fact
        finally:
            log.close()


class Client(threading.Thread):
    """Sends events one after another, each to the next engine, until one has recorded it."""

    def __init__(self, cluster: Cluster, events: list[dict[str, object]]) -> None:
        super().__init__(daemon=True)
        self.cluster, self.events = cluster, events
        self.sent = 0
        self.again = 0
        self.failed: BaseException | None = None
        self.stopped = threading.Event()
        self.start()

    def run(self) -> None:
        try:
            with httpx.Client(timeout=15) as http:
                for event in self.events:
                    self._send(http, event)
                    self.sent += 1
        except BaseException as error:
            self.failed = error

    def _send(self, http: httpx.Client, event: dict[str, object]) -> None:
        for turn in itertools.count(self.sent):
            if self.stopped.is_set():
                return
            live = [each for each in self.cluster.engines if each.children]
            if live and self._recorded(http, live[turn % len(live)], event):
                return
            self.again += 1
            time.sleep(LOOK_S)

    @staticmethod
    def _recorded(http: httpx.Client, engine: Engine, event: dict[str, object]) -> bool:
        with contextlib.suppress(httpx.HTTPError):
            answer = http.post(f"{engine.url}/events", json=event)
            if answer.status_code in (200, 202):
                found = json.loads(answer.text)
                each = found[0] if isinstance(found, list) else found
                return bool(each["recorded"] or each["duplicateOf"])
            if answer.status_code not in (429, 503):
                raise StalledError(f"POST /events: {answer.status_code} {answer.text[:500]}")
        return False
