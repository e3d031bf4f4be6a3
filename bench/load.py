"""A runner and its load in one process: keeps a number of runs under way, and times them.

Run by bench/run.py; prints one JSON object.
"""

import argparse
import asyncio
import json
import statistics
import time
from typing import Any

import httpx
import uvicorn

from duraton import App, define_workflow, serve
from duraton.connection import connect
from duraton.runtime.runner import Runner
from duraton.worker import loop_factory
from duraton_api.runners.http import HttpPool

POST_EVENTS_MAX = 256
WARM_AT_ONCE = 256
"""Runs under way while it only warms up."""


async def one() -> int:
    return 1


async def two() -> int:
    return 2


async def three() -> int:
    return 3


class Load:
    """Keeps `at_once` runs under way until `runs` have ended."""

    def __init__(self, url: str, at_once: int, runs: int, keys: int = 0) -> None:
        self.url = url
        self.at_once = at_once
        self.runs = runs
        self.keys = keys
        self.released = asyncio.Event()
        self.released.set()
        self.ended = 0
        self.times: list[float] = []
        self.seen: set[str] | None = None
        self.moved = asyncio.Event()
        self.sent = 0
        self.client = httpx.AsyncClient(base_url=url, timeout=60)
        # A general client spends half a millisecond a request, which is not the engine's.
        self.pool = HttpPool()

    def note_end(self) -> None:
        self.ended += 1
        self.moved.set()

    async def handle(self, ctx: Any) -> int:
        await self.released.wait()
        a = await ctx.step.run("one", one)
        b = await ctx.step.run("two", two)
        c = await ctx.step.run("three", three)
        # Over HTTP a handler is called again and again; its run ends with the first that returns.
        if self.seen is not None and ctx.run.id not in self.seen:
            self.seen.add(ctx.run.id)
            self.note_end()
        return int(a + b + c)

    async def post(self, count: int) -> None:
        first, self.sent = self.sent, self.sent + count
        numbers = range(first, first + count)
        keys = self.keys or 1
        events = [{"name": "bench.order", "data": {"orderId": n % keys}} for n in numbers]
        body = json.dumps(events).encode()
        headers = {"content-type": "application/json"}
        answer = await self.pool.post(f"{self.url}/events", headers, body, lambda _: None)
        assert answer.status in (200, 202), answer

    async def pile_up(self, backlog: int) -> None:
        """Send that many runs and let none of them go on."""
        self.released.clear()
        for _ in range(0, backlog, POST_EVENTS_MAX):
            await self.post(POST_EVENTS_MAX)
        # The view's backlog is not what is measured; this read waits until it has it all.
        (await self.client.get("/runs?limit=1")).raise_for_status()

    async def drain(self, runs: int) -> float:
        """Let what has piled up go on; answers the seconds until that many have ended."""
        self.ended = 0
        began = time.perf_counter()
        self.released.set()
        while self.ended < runs:
            self.moved.clear()
            await self.moved.wait()
        return time.perf_counter() - began

    async def run(self, runs: int) -> float:
        """Start and end that many runs; answers the seconds taken."""
        self.ended, started = 0, 0
        began = time.perf_counter()
        while self.ended < runs:
            wanted = min(self.at_once - (started - self.ended), runs - started, POST_EVENTS_MAX)
            if wanted > 0:
                at = time.perf_counter()
                started += wanted
                await self.post(wanted)
                if self.at_once > 1:
                    continue
                while self.ended < started:
                    self.moved.clear()
                    await self.moved.wait()
                self.times.append(time.perf_counter() - at)
                continue
            self.moved.clear()
            if self.ended < runs:
                await self.moved.wait()
        return time.perf_counter() - began


async def wait_registered(client: httpx.AsyncClient) -> None:
    """Until the engine runs the bench's workflow."""
    while True:
        answer = await client.get("/workflows")  # 503 while the view reads what was before
        found = answer.json()["workflows"] if answer.status_code == 200 else []
        if "bench.order" in [item["name"] for item in found]:
            return
        await asyncio.sleep(0.05)


def watch_ends(load: Load) -> None:
    """Be told of each run whose end is acknowledged."""
    inner = Runner._ended  # noqa: SLF001 - the bench measures from outside the API

    def ended(self: Runner, execution: Any) -> None:
        inner(self, execution)
        load.note_end()

    Runner._ended = ended  # type: ignore[method-assign]  # noqa: SLF001 - as above


async def serve_app(app: App, load: Load, port: int) -> None:
    """Serve the app over HTTP and register it."""
    config = uvicorn.Config(serve(app), port=port, log_level="warning", lifespan="off")
    server = uvicorn.Server(config)
    asyncio.get_running_loop().create_task(server.serve())
    while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it
        await asyncio.sleep(0.01)
    options = json.loads((await load.client.get(f"http://127.0.0.1:{port}/")).content)
    options["url"] = f"http://127.0.0.1:{port}/"
    (await load.client.put(f"/apps/{app.name}", json=options)).raise_for_status()


async def main(args: argparse.Namespace) -> dict[str, Any]:
    load = Load(args.url, args.at_once, args.runs, args.keys)
    controls = json.loads(args.controls)
    app = App("bench", workflows=[define_workflow("bench.order", load.handle, extra=controls)])
    stop = asyncio.Event()
    if args.transport == "connect":
        watch_ends(load)
        task = asyncio.create_task(connect(app, args.url, capacity=4_096, stop=stop))
    else:
        load.seen = set()
        task = asyncio.create_task(asyncio.sleep(0))
        await serve_app(app, load, args.port)
    await wait_registered(load.client)
    load.at_once = max(args.at_once, WARM_AT_ONCE)
    await load.run(args.warm)
    load.at_once = args.at_once
    await load.run(min(args.runs, max(200, args.at_once * 4)) if args.at_once > 1 else 50)
    load.times.clear()
    if args.backlog:
        await load.pile_up(args.backlog)
        print(json.dumps({"piled": args.backlog}), flush=True)
        seconds = await load.drain(args.runs)
    else:
        seconds = await load.run(args.runs)
    # The last reads wait until the view has everything, so it is caught up here.
    caught_up = time.perf_counter()
    await load.client.get("/runs?limit=1")
    lag = time.perf_counter() - caught_up
    result = {
        "runs": args.runs,
        "seconds": seconds,
        "runs_per_s": args.runs / seconds,
        "view_lag_ms": lag * 1000,
    }
    if load.times:
        ordered = sorted(load.times)
        result["p50_ms"] = statistics.median(ordered) * 1000
        result["p99_ms"] = ordered[int(len(ordered) * 0.99)] * 1000
    stop.set()
    await asyncio.wait((task,), timeout=2)
    return result


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", default="http://127.0.0.1:8420")
    parser.add_argument("--at-once", type=int, default=64)
    parser.add_argument("--runs", type=int, default=5_000)
    parser.add_argument("--transport", default="connect")
    parser.add_argument("--warm", type=int, default=0, help="runs before anything is measured")
    parser.add_argument("--controls", default="{}", help="of the workflow, in wire form")
    parser.add_argument("--keys", type=int, default=0, help="so many values has orderId; 0: one")
    parser.add_argument("--backlog", type=int, default=0, help="runs that wait before it begins")
    parser.add_argument("--port", type=int, default=8_431)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        print(json.dumps(runner.run(main(parser.parse_args()))))
