"""`duraton dev` and `duraton serve` as the processes that they are."""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import pytest

from duraton_api.cli import main
from duraton_api.node.node import Node
from duraton_api.node.settings import NodeSettings
from duraton_schemas.records.public import Event

ROOT = Path(__file__).parents[2]
PATHS = os.pathsep.join(str(ROOT / name) for name in ("schemas", "streams", "engine", "api", "sdk"))
SHOP = """
from duraton import define_workflow

async def handle(ctx):
    first = await ctx.step.run("first", lambda: {said!r})
    if ctx.event.data.get("broken"):
        await ctx.step.run("divide", lambda: 1 / 0)
    if ctx.event.data.get("wait"):
        await ctx.step.wait_for_event("go", "go", timeout="1h")
    return first

order = define_workflow("order", handle)
"""


class Duraton:
    """A process whose stderr is read line by line."""

    def __init__(self, folder):
        self.folder, self.process, self.said = folder, None, []

    async def start(self, *arguments):
        self.process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "duraton_api.cli.main", *arguments,
            cwd=self.folder, env={**os.environ, "PYTHONPATH": PATHS},
            stdin=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        return self

    async def line(self, wanted):
        async with asyncio.timeout(60):
            while True:
                line = (await self.process.stderr.readline()).decode()
                assert line, f"it ended without saying {wanted!r}: {self.said}"
                self.said.append(line)
                if wanted in line:
                    return line

    async def status(self):
        async with asyncio.timeout(60):
            self.said.append((await self.process.stderr.read()).decode())
            return await self.process.wait()


@pytest.fixture
async def start(tmp_path):
    (tmp_path / "shop.py").write_text(SHOP.format(said="one"))
    started = []

    async def begin(*arguments):
        started.append(await Duraton(tmp_path).start(*arguments))
        return started[-1]

    yield begin
    for each in started:
        if each.process.returncode is None:
            each.process.kill()
            await each.process.wait()


async def cli(capsys, *arguments):
    assert await asyncio.to_thread(main.run, [*arguments, "--json"]) == 0, capsys.readouterr()
    return json.loads(capsys.readouterr().out)


async def url_of(process, monkeypatch):
    url = (await process.line("engine")).split()[-1]
    monkeypatch.setenv("DURATON_URL", url)
    return url.rpartition(":")[2]


async def until(capsys, run, status):
    while (found := await cli(capsys, "runs", "get", run))["status"] != status:  # noqa: ASYNC110 a read waits for what is committed
        await asyncio.sleep(0)
    return found


async def test_dev_reloads_and_survives_kills_with_nothing_lost(
    start, tmp_path, capsys, monkeypatch
):
    dev = await start("dev", "shop.py", "--port", "0")
    port = await url_of(dev, monkeypatch)
    await dev.line("shop/order")
    sent = await cli(capsys, "send", "order", '{"wait": true}')
    run = sent["answers"][0]["runId"]
    await until(capsys, run, "waiting")

    # A change of the source starts the runner again.
    (tmp_path / "shop.py").write_text(SHOP.format(said="two, and longer"))
    await dev.line("reload:")
    await dev.line("shop/order")
    sent = await cli(capsys, "send", "order", "{}")
    assert (await until(capsys, sent["answers"][0]["runId"], "completed"))[
        "output"
    ] == "two, and longer"

    # What the code raises is told where it is developed, with the line it came from.
    await cli(capsys, "send", "order", '{"broken": true}')
    told = await dev.line("duraton.runs")
    assert "step 'divide', attempt 1, failed: ZeroDivisionError" in told
    assert f"{tmp_path / 'shop.py'}:7" in told

    # A second engine on the same port or directory says so.
    other = await start("dev", "shop.py", "--port", port)
    assert await other.status() == 1 and "(port-in-use)" in other.said[-1]
    other = await start("serve", "--port", "0")
    assert await other.status() == 1 and "(log-in-use)" in other.said[-1]

    # Killed and started again: the run goes on, its step is not executed again.
    dev.process.kill()
    await dev.process.wait()
    dev = await start("dev", "shop.py", "--port", "0")
    await url_of(dev, monkeypatch)
    await dev.line("shop/order")
    await cli(capsys, "send", "go", "{}")
    found = await until(capsys, run, "completed")
    assert found["output"] == "one" and found["steps"][0]["attempts"] == 1

    dev.process.send_signal(signal.SIGINT)
    assert await dev.status() == 0
    report = await cli(capsys, "log", "verify", "--data", str(tmp_path / ".duraton"))
    assert report["ok"] and report["stateCompared"] and report["figures"]["offers_open"] == 0


async def test_dev_ends_with_what_is_wrong_with_its_target(start, tmp_path):
    (tmp_path / "broken.py").write_text("def (\n")
    dev = await start("dev", "broken.py", "--port", "0")
    assert await dev.status() == 1
    assert "broken.py:1: SyntaxError" in dev.said[-1] and "Traceback" not in dev.said[-1]


async def test_serve_with_a_worker_that_drains(start, tmp_path, capsys, monkeypatch):
    engine = await start("serve", "--port", "0", "--memory")
    await url_of(engine, monkeypatch)
    worker = await start("worker", "shop.py")
    await worker.line("shop: 1 workflow")
    sent = await cli(capsys, "send", "order", "{}")
    while not sent["answers"]:
        sent = await cli(capsys, "send", "order", "{}")
    await until(capsys, sent["answers"][0]["runId"], "completed")
    worker.process.send_signal(signal.SIGTERM)
    assert await worker.status() == 0
    engine.process.send_signal(signal.SIGTERM)
    assert await engine.status() == 0


STUCK = """
import asyncio, sys, time
from duraton import define_workflow

async def swallows(ctx):
    print("began", file=sys.stderr, flush=True)
    while True:
        try:
            await asyncio.sleep(3600)
        except BaseException:
            pass

def sleeps():
    print("began", file=sys.stderr, flush=True)
    time.sleep(3600)

async def blocks(ctx):
    await ctx.step.run("a", sleeps)

first = define_workflow("swallows", swallows)
second = define_workflow("blocks", blocks)
"""


@pytest.mark.parametrize("workflow", ["swallows", "blocks"])
async def test_a_worker_ends_though_step_code_does_not(start, tmp_path, workflow):
    (tmp_path / "stuck.py").write_text(STUCK)
    async with Node(NodeSettings(data=None, port=0)) as node:
        worker = await start("worker", "stuck.py", "--url", node.url, "--drain", "0")
        while node.core.room.find("stuck", workflow) is None:  # noqa: ASYNC110 - until it was let in
            await asyncio.sleep(0.01)
        await node.backend.append_events([Event(id="e", name=workflow, data="{}", ts=1)])
        await worker.line("began")
        worker.process.send_signal(signal.SIGTERM)
        assert await worker.status() == 0
        assert "does not let itself be ended" in worker.said[-1]
