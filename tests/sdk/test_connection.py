"""`connect` over a real WebSocket, against a server that says what a test wants."""

import asyncio
import json

import pytest
from websockets.asyncio.client import ClientConnection
from websockets.asyncio.server import serve as serve_socket
from websockets.http11 import Response

from duraton import App, ConnectionRefusedByEngineError, connect, define_workflow
from duraton.connection import ConnectSettings, socket_uri
from duraton_schemas.wire.frames import (
    Ack,
    Complete,
    Drain,
    FrameEvent,
    Hello,
    Invoke,
    Ping,
    Refused,
    Step,
    decode_from_runner,
    encode,
)

RUN = "run_000123456789abcdefghjkm1"
FAST = ConnectSettings(reconnect_first_s=0.001, reconnect_max_s=0.002, open_s=5, drain_s=5)


def invoke(token="0.1.1"):
    event = FrameEvent(id="e", name="work", data='{"x":1}', ts=1)
    return Invoke(run=RUN, token=token, epoch=1, app="shop", workflow="work", events=[event])


class Server:
    """One connection at a time; `script` says what is done with each."""

    def __init__(self, *scripts, refuse=None):
        self.scripts = list(scripts)
        self.refuse = refuse
        self.headers = []

    async def __aenter__(self):
        def process(_socket, request):
            self.headers.append(request.headers)
            if self.refuse:
                status, body = self.refuse
                from websockets.datastructures import Headers

                return Response(status, "no", Headers(), body)
            return None

        self.server = await serve_socket(
            self.handle, "127.0.0.1", 0, process_request=process, compression=None
        )
        port = self.server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        return self

    async def __aexit__(self, *_):
        self.server.close()
        await self.server.wait_closed()

    async def handle(self, socket):
        await self.scripts.pop(0)(Peer(socket))


class Peer:
    def __init__(self, socket):
        self.socket = socket
        self.frames = []

    async def hello(self, **fields):
        hello = await self.next(Hello)
        await self.send(Hello(node="n", **fields))
        return hello

    async def send(self, *frames):
        await self.socket.send(encode(list(frames)))

    async def next(self, kind):
        while True:
            while self.frames:
                frame = self.frames.pop(0)
                if isinstance(frame, kind):
                    return frame
                assert isinstance(frame, Ping), frame
            self.frames += decode_from_runner(await self.socket.recv())

    async def close(self, close_code, **reason):
        await self.socket.close(close_code, json.dumps(reason))


async def handle(ctx):
    return await ctx.step.run("a", lambda: ctx.event.data["x"])


APP = App("shop", [define_workflow("work", handle)])


async def test_a_run_goes_through_and_a_stopped_runner_drains():
    stop = asyncio.Event()
    seen = {}

    async def script(peer):
        seen["hello"] = await peer.hello()
        await peer.send(invoke())
        await peer.next(Step)
        stop.set()
        await peer.next(Drain)
        await peer.send(Ack(run=RUN, token="0.1.1", step="a", number=1, epoch=1))
        seen["complete"] = await peer.next(Complete)
        await peer.send(Ack(run=RUN, token="0.1.1", of="complete", epoch=1))
        await peer.socket.wait_closed()
        seen["code"] = peer.socket.close_code

    async with Server(script) as server:
        await asyncio.wait_for(
            connect(APP, server.url, name="w", api_key="k1", stop=stop, settings=FAST), 10
        )
    hello = seen["hello"]
    assert (hello.name, hello.explicit, hello.capacity) == ("w", True, 1000)
    assert json.loads(hello.apps[0])["workflows"][0]["name"] == "work"
    assert server.headers[0]["Authorization"] == "Bearer k1"
    assert seen["complete"].output == "1" and seen["code"] == 1000


async def test_a_broken_connection_comes_back_with_what_was_not_acknowledged():
    stop = asyncio.Event()
    boots = []

    async def first(peer):
        boots.append((await peer.hello()).boot)
        await peer.send(invoke())
        await peer.next(Step)
        peer.socket.transport.abort()

    async def second(peer):
        hello = await peer.hello()
        boots.append(hello.boot)
        assert [(live.run, live.token) for live in hello.tokens] == [(RUN, "0.1.1")]
        step = await peer.next(Step)
        assert (step.step, step.output) == ("a", "1")
        await peer.send(Ack(run=RUN, token="0.1.1", step="a", number=1, epoch=1))
        await peer.next(Complete)
        await peer.send(Ack(run=RUN, token="0.1.1", of="complete", epoch=1))
        stop.set()
        await peer.socket.wait_closed()

    async def restart(peer):
        await peer.next(Hello)
        await peer.close(1012, code="engine-stopping", message="the engine stops")

    async with Server(first, restart, second) as server:
        await asyncio.wait_for(connect(APP, server.url, stop=stop, settings=FAST), 10)
    assert boots[0] == boots[1]


async def test_what_could_not_be_written_is_sent_again_on_the_next_connection(monkeypatch):
    stop, written = asyncio.Event(), []
    send = ClientConnection.send

    async def failing(self, message):
        written.append(message)
        if len(written) == 2:  # the first is the hello
            raise OSError("the network is gone")
        await send(self, message)

    monkeypatch.setattr(ClientConnection, "send", failing)

    async def first(peer):
        await peer.hello()
        await peer.send(invoke())
        await peer.socket.wait_closed()

    async def second(peer):
        await peer.hello()
        step = await peer.next(Step)
        assert (step.step, step.output) == ("a", "1")
        await peer.send(Ack(run=RUN, token="0.1.1", step="a", number=1, epoch=1))
        await peer.next(Complete)
        await peer.send(Ack(run=RUN, token="0.1.1", of="complete", epoch=1))
        stop.set()
        await peer.socket.wait_closed()

    async with Server(first, second) as server:
        await asyncio.wait_for(connect(APP, server.url, stop=stop, settings=FAST), 10)


@pytest.mark.parametrize("code", [4400, 4409, 4422, 4426])
async def test_a_refusal_ends_the_runner_with_the_engines_words(code):
    async def script(peer):
        await peer.next(Hello)
        await peer.close(code, code="options-refused", message="limit must be above 0")

    async with Server(script) as server:
        with pytest.raises(ConnectionRefusedByEngineError, match="limit must") as caught:
            await asyncio.wait_for(connect(APP, server.url, settings=FAST), 10)
    assert caught.value.engine_code == "options-refused"


async def test_a_long_refusal_is_heard_whole():
    words = "order.together: max must be " + "the same everywhere, " * 20

    async def script(peer):
        await peer.next(Hello)
        await peer.send(Refused(code="options-refused", message=words))
        await peer.close(4422, code="options-refused", message="order.together: max...")

    async with Server(script) as server:
        with pytest.raises(ConnectionRefusedByEngineError) as caught:
            await asyncio.wait_for(connect(APP, server.url, settings=FAST), 10)
    assert words in str(caught.value) and caught.value.engine_code == "options-refused"


async def test_a_missing_key_says_what_to_do(monkeypatch):
    monkeypatch.delenv("DURATON_API_KEY", raising=False)
    async with Server(refuse=(401, b"")) as server:
        with pytest.raises(ConnectionRefusedByEngineError, match="DURATON_API_KEY"):
            await asyncio.wait_for(connect(APP, server.url, settings=FAST), 10)


async def test_nonsense_from_the_engine_is_survived():
    stop = asyncio.Event()

    async def text(peer):
        await peer.next(Hello)
        await peer.socket.send("hello")
        await peer.socket.wait_closed()

    async def bytes_(peer):
        await peer.hello()
        await peer.socket.send(b"\xff\xff")
        await peer.socket.wait_closed()

    async def right(peer):
        await peer.hello()
        stop.set()
        await peer.socket.wait_closed()

    async with Server(text, bytes_, right) as server:
        await asyncio.wait_for(connect(APP, server.url, stop=stop, settings=FAST), 10)
    assert len(server.headers) == 3


async def test_a_silent_engine_is_left_and_pings_are_sent():
    stop = asyncio.Event()
    pings = []

    async def silent(peer):
        await peer.hello(ping_ms=10, silence_ms=50)
        pings.append(decode_from_runner(await peer.socket.recv()))
        await peer.socket.wait_closed()

    async def right(peer):
        await peer.hello()
        stop.set()
        await peer.socket.wait_closed()

    async with Server(silent, right) as server:
        await asyncio.wait_for(connect(APP, server.url, stop=stop, settings=FAST), 10)
    assert isinstance(pings[0][0], Ping)


def test_addresses_become_those_of_sockets():
    assert socket_uri("http://h:1") == "ws://h:1/connect"
    assert socket_uri("https://h/base/") == "wss://h/base/connect"
