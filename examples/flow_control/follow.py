"""An engine and a worker for the demos, and what is seen of them through the HTTP API."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx

from duraton import Client

WORKFLOWS = Path(__file__).with_name("workflows.py")
APP = "flow-control"
READY_S = 60
STOP_S = 20
LOOK_S = 0.1
STALLED_S = 20
"""Nothing has happened to a demo's runs for that long: it is judged by what there is."""
PAGE = 500


class ShowError(Exception):
    """The demos cannot go on; the text says why."""


@dataclass
class Event:
    """An event as it was sent, and what was answered.

    Attributes:
        answers: One for each workflow, as `POST /events` answers it.
        at: When it was recorded, milliseconds by the engine's clock.
    """

    id: str
    name: str
    data: Mapping[str, Any]
    answers: list[dict[str, Any]]
    at: int = 0

    def was(self, outcome: str) -> bool:
        """Whether a workflow answered `dropped`, `deduped`, `skipped`, … about it."""
        return any(answer.get(outcome) for answer in self.answers)


@dataclass
class Run:
    """A run as `GET /runs` shows it; times are milliseconds by the engine's clock.

    Attributes:
        held: When it was first and last seen paused by its workflow's budget, by the clock
            of this machine; None where it was not.
    """

    id: str
    workflow: str
    status: str
    event: str
    created: int
    started: int | None
    ended: int | None
    detail: dict[str, Any] = field(default_factory=dict)
    held: tuple[int, int] | None = None


@dataclass
class Seen:
    """What a demo has sent, and the runs that came of it, in the order of their starts."""

    events: list[Event] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)

    @property
    def started(self) -> list[Run]:
        return [run for run in self.runs if run.started is not None]


Complete = Callable[[Sequence[Event], Sequence[Run]], bool]


class Engine:
    """The engine, and the processes that were started for it.

    Args:
        url: Of one that runs already, or None.
        folder: For the data and the logs of processes.
    """

    def __init__(self, url: str | None, folder: Path) -> None:
        self.folder = folder
        self.children: dict[str, subprocess.Popen[bytes]] = {}
        self.own = url is None
        self.url = url or f"http://127.0.0.1:{free_port()}"
        key = os.environ.get("DURATON_API_KEY")
        headers = {"authorization": f"Bearer {key}"} if key else {}
        self.client = Client(self.url)
        self.http = httpx.AsyncClient(base_url=self.url, headers=headers, timeout=30)
        self.runs: dict[str, Run] = {}

    async def __aenter__(self) -> "Engine":
        try:
            if self.own:
                data = str(self.folder / "data")
                port = self.url.rpartition(":")[2]
                self.start("engine", "serve", "--data", data, "--port", port, "--quiet")
            await self.until_ready()
            if not await self.is_offered():
                self.start("worker", "worker", str(WORKFLOWS), "--url", self.url)
                await self.until_offered()
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.http.aclose()
        await self.client.close()
        for what in ("worker", "engine"):
            child = self.children.pop(what, None)
            if child is None:
                continue
            child.send_signal(signal.SIGTERM)
            try:
                await asyncio.to_thread(child.wait, STOP_S)
            except (subprocess.TimeoutExpired, asyncio.CancelledError):
                child.kill()
                child.wait()

    # Processes ----------------------------------------------------------------------

    def start(self, what: str, *arguments: str) -> None:
        with (self.folder / f"{what}.log").open("ab") as out:
            self.children[what] = subprocess.Popen(
                [sys.executable, "-m", "duraton_api.cli.main", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                # The engine's log is embedded, whatever this shell is set to.
                env={name: v for name, v in os.environ.items() if name != "DURATON_KAFKA"},
                start_new_session=True,  # Ctrl-C is for the demos, which then end them
            )

    def check_alive(self) -> None:
        for what, child in self.children.items():
            if child.poll() is not None:
                said = (self.folder / f"{what}.log").read_text()[-2_000:]
                raise ShowError(f"the {what} ended with status {child.returncode}:\n{said}")

    async def until_ready(self) -> None:
        deadline = time.monotonic() + (READY_S if self.own else 0)
        while True:
            self.check_alive()
            try:
                if (await self.http.get("/readyz")).status_code == 200:
                    return
            except httpx.HTTPError:
                pass  # it does not listen yet
            if time.monotonic() > deadline:
                raise ShowError(f"no engine is ready at {self.url}; start one with `duraton dev`")
            await asyncio.sleep(LOOK_S)

    async def until_offered(self) -> None:
        deadline = time.monotonic() + READY_S
        while not await self.is_offered():
            self.check_alive()
            if time.monotonic() > deadline:
                raise ShowError(f"no worker was registered within {READY_S} s")
            await asyncio.sleep(LOOK_S)

    async def is_offered(self) -> bool:
        """Whether a worker has the demos' workflows."""
        found = (await self.get("/workflows", app=APP))["workflows"]
        return any(each["active"] and each["runners"] for each in found)

    # The API ------------------------------------------------------------------------

    async def get(self, path: str, **query: Any) -> Any:
        answer = await self.http.get(path, params=query)
        if answer.status_code != 200:
            raise ShowError(f"GET {path}: {answer.status_code} {answer.text[:500]}")
        return answer.json()

    async def put(self, path: str, body: Any) -> None:
        answer = await self.http.put(path, json=body)
        if not answer.is_success:
            raise ShowError(f"PUT {path}: {answer.status_code} {answer.text[:500]}")

    async def follow(self) -> None:
        """Look at the runs again and again, for all demos."""
        since = (datetime.now(UTC) - timedelta(hours=1)).isoformat()
        while True:
            self.check_alive()
            query = {"app": APP, "since": since, "limit": PAGE}
            while True:
                page = await self.get("/runs", **query)
                for item in page["runs"]:
                    self.runs[item["id"]] = _run(item, self.runs.get(item["id"]))
                if page["cursor"] is None:
                    break
                query["cursor"] = page["cursor"]
            await asyncio.sleep(LOOK_S)

    async def see(
        self, events: list[Event], complete: Complete, following: "asyncio.Task[None]"
    ) -> Seen:
        """What came of some events.

        Args:
            events: What was sent.
            complete: Whether all runs are there that will be; they must have ended.
            following: Looks at the runs.
        """
        ids = {event.id for event in events}
        moved, before = time.monotonic(), None
        while True:
            if following.done():
                following.result()
            mine = [run for run in self.runs.values() if run.event in ids]
            over = all(run.ended is not None for run in mine) and complete(events, mine)
            if over or time.monotonic() - moved > STALLED_S:
                break
            if before != (now := [(run.id, run.status) for run in mine]):
                moved, before = time.monotonic(), now
            await asyncio.sleep(LOOK_S)
        await self._when(events)
        for run in mine:
            run.detail = await self.get(f"/runs/{run.id}")
        # A run that never started stands last.
        return Seen(events, sorted(mine, key=lambda run: (run.started is None, run.started or 0)))

    async def _when(self, events: list[Event]) -> None:
        """Note when events were recorded."""
        for name in {event.name for event in events}:
            page = await self.get("/events", name=name, limit=PAGE)
            recorded = {each["id"]: _ms(each["recordedAt"]) for each in page["events"]}
            for event in events:
                if event.name == name:
                    event.at = recorded.get(event.id) or 0


def _run(item: dict[str, Any], before: Run | None) -> Run:
    trigger = item["trigger"] or {}
    held = before.held if before is not None else None
    if item["status"] == "paused" and item["pausedBy"]["reason"] == "budget":
        now = time.time_ns() // 1_000_000
        held = (held[0] if held is not None else now, now)
    return Run(
        id=item["id"],
        workflow=item["workflow"],
        status=item["status"],
        event=trigger.get("eventId", ""),
        created=_ms(item["createdAt"]) or 0,
        started=_ms(item["startedAt"]),
        ended=_ms(item["endedAt"]),
        held=held,
    )


def moment(text: str) -> int:
    """Milliseconds of a time as the API writes it."""
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def _ms(text: str | None) -> int | None:
    return None if text is None else moment(text)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
