"""A real WebSocket through uvicorn, as runners meet it."""

import asyncio
import json
import socket

import httpx
import pytest
import uvicorn
import websockets
from websockets.asyncio.client import connect

from duraton_api.runners.clock import LoopClock
from duraton_api.runners.hub import Hub
from duraton_api.runners.settings import HubSettings
from duraton_api.runners.socket import RunnerSocket
from duraton_engine.calls import Answered, RunnerLost
from duraton_engine.effects import Reply, ToRunner
from duraton_engine.room import Room
from duraton_schemas.ids import run_id
from duraton_schemas.wire import frames as wire

RUN = run_id(0, "event:a", "shop", "order")
HELLO = wire.Hello(
    apps=['{"name":"shop","workflows":[{"name":"order"}]}'], capacity=4, name="w", boot="boot-a"
)


class Node:
    """What a node needs of a server: the hub behind a port, and the calls it offered."""

    def __init__(self, **settings):
        self.offers = asyncio.Queue()
        self.hub = Hub(
            node="n1",
            partitions=1,
            offer=lambda _, call: self.offers.put_nowait(call),
            room=Room(),
            register=self.register,
            clock=LoopClock(),
            settings=HubSettings(**settings),
        )

    async def register(self, text):
        return Reply(id="1", ok=True)

    async def __aenter__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.server = uvicorn.Server(
            uvicorn.Config(
                RunnerSocket(lambda: self.hub),
                ws="websockets-sansio",
                ws_per_message_deflate=False,
                ws_max_size=wire.MESSAGE_BYTES_MAX,
                ws_ping_interval=None,
                log_level="error",
                lifespan="off",
            )
        )
        self.task = asyncio.create_task(self.server.serve(sockets=[self.listener]))
        return self

    async def __aexit__(self, *_):
        await self.hub.stop()
        self.server.should_exit = True
        await self.task
        self.listener.close()

    async def call(self, kind):
        while True:
            call = await asyncio.wait_for(self.offers.get(), 10)
            if isinstance(call, kind):
                return call

    def dial(self):
        return connect(f"ws://127.0.0.1:{self.port}/connect", compression=None, max_size=None)


@pytest.fixture
async def node():
    async with Node() as made:
        yield made


async def test_frames_travel_both_ways_and_a_clean_leave_is_seen_at_once(node):
    async with node.dial() as runner:
        await runner.send(wire.encode([HELLO]))
        [hello] = wire.decode_from_engine(await runner.recv())
        assert hello.node == "n1"

        step = wire.Step(run=RUN, token="0.1.1", step="a", output='"' + "x" * (3 << 20) + '"')
        await runner.send(wire.encode([step]))
        assert (await node.call(Answered)).frame == step

        ack = wire.Ack(run=RUN, token="0.1.1", step="a", number=1, output=step.output)
        node.hub.deliver([ToRunner("boot-a", ack)])
        assert wire.decode_from_engine(await runner.recv()) == [ack]
        await runner.send(wire.encode([wire.Drain()]))
    lost = await node.call(RunnerLost)
    assert lost.boot == "boot-a" and not lost.counts


async def test_a_runner_learns_why_it_was_closed(node):
    async with node.dial() as runner:
        await runner.send(b"nonsense")
        with pytest.raises(websockets.ConnectionClosed) as closed:
            await runner.recv()
        assert closed.value.rcvd.code == 4400
        assert json.loads(closed.value.rcvd.reason)["code"] == "runner-unreadable"
    async with node.dial() as runner:
        await runner.send("text")
        with pytest.raises(websockets.ConnectionClosed) as closed:
            await runner.recv()
        assert closed.value.rcvd.code == 4400


async def test_a_process_that_dies_is_waited_for(node):
    runner = await node.dial()
    await runner.send(wire.encode([HELLO]))
    await runner.recv()
    runner.transport.abort()
    while node.hub.runners[0].link is not None:  # noqa: ASYNC110 the hub has no event for it
        await asyncio.sleep(0)
    async with node.dial() as again:
        await again.send(wire.encode([HELLO]))
        await again.recv()
        assert node.hub.runners[0].link is not None


async def test_a_runner_that_does_not_read_is_closed_and_its_bytes_are_let_go():
    async with Node(unsent_bytes_slow=1 << 20, unsent_bytes_max=16 << 20) as node:
        runner = await connect(f"ws://127.0.0.1:{node.port}/", compression=None, max_queue=1)
        await runner.send(wire.encode([HELLO]))
        await runner.recv()
        runner.transport.pause_reading()
        ack = wire.Ack(run=RUN, token="0.1.1", step="a", output='"' + "x" * (4 << 20) + '"')
        for _ in range(20):
            node.hub.deliver([ToRunner("boot-a", ack)])
            await asyncio.sleep(0)
        assert node.hub.runners[0].link is None
        runner.transport.abort()


async def test_plain_http_is_told_what_to_do(node):
    async with httpx.AsyncClient() as client:
        answer = await client.get(f"http://127.0.0.1:{node.port}/connect")
    assert answer.status_code == 426 and answer.json()["code"] == "websocket-needed"
