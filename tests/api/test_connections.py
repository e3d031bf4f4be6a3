"""The bounds of HTTP connections, by the bytes that a caller sends; time is the test's own."""

import asyncio
from types import SimpleNamespace

import pytest
import uvicorn
from uvicorn.server import ServerState

from duraton_api.errors import BusyError
from duraton_api.http import call as calls
from duraton_api.node import connections
from duraton_api.node.connections import BODY_S, HEAD_BYTES_MAX, HEAD_S, STALLED_S, BoundedHttp


class Line(asyncio.Transport):
    """A connection whose bytes stay with the test."""

    def __init__(self):
        super().__init__()
        self.said, self.gone = b"", False

    def write(self, data):
        self.said += data

    def close(self):
        self.gone = True

    abort = close

    def is_closing(self):
        return self.gone

    def pause_reading(self):
        pass

    def resume_reading(self):
        pass


class Server:
    def __init__(self):
        async def app(scope, receive, send):
            while (await receive()).get("more_body"):
                pass
            await send({"type": "http.response.start", "status": 204, "headers": []})
            await send({"type": "http.response.body", "body": b""})

        self.config = uvicorn.Config(app, http=BoundedHttp, log_config=None, lifespan="off")
        self.state = ServerState()

    def connect(self):
        protocol = BoundedHttp(self.config, self.state, {})
        protocol.connection_made(Line())
        return protocol

    @property
    def now(self):
        return asyncio.get_running_loop().time()


@pytest.fixture
def server():
    return Server()


async def test_a_head_without_end_is_cut_off(server):
    caller = server.connect()
    caller.data_received(b"GET / HTTP/1.1\r\nhost: localhost\r\n")
    for number in range(HEAD_BYTES_MAX // 1_000 + 2):
        caller.data_received(b"x-%06d: " % number + b"a" * 1_000 + b"\r\n")
    assert caller.transport.said.startswith(b"HTTP/1.1 431 ") and caller.transport.gone
    caller.data_received(b"more")


async def test_one_connection_too_many_is_told_so(server, monkeypatch):
    monkeypatch.setattr(BoundedHttp, "most", 2)
    kept = [server.connect() for _ in range(2)]
    refused = server.connect()
    assert refused.transport.said.startswith(b"HTTP/1.1 503 ") and refused.transport.gone
    assert not any(caller.transport.gone for caller in kept)


async def test_who_sends_no_whole_head_is_given_up(server):
    silent, begun, empty = (server.connect() for _ in range(3))
    begun.data_received(b"GET / HTT")
    empty.data_received(b"\r\n")
    for caller in (silent, begun, empty):
        caller.look(server.now + HEAD_S - 1)
        assert not caller.transport.gone
        caller.look(server.now + HEAD_S + 1)
        assert caller.transport.gone


async def test_who_drips_a_body_is_given_up(server):
    caller = server.connect()
    caller.data_received(b"POST / HTTP/1.1\r\ncontent-length: 100\r\n\r\na")
    caller.data_received(b"b")
    caller.look(server.now + BODY_S - 1)
    assert not caller.transport.gone
    caller.look(server.now + BODY_S + 1)
    assert caller.transport.gone


async def test_a_connection_that_is_kept_alive_is_not_late(server):
    caller = server.connect()
    for _ in range(2):
        caller.data_received(b"POST / HTTP/1.1\r\ncontent-length: 1\r\n\r\na")
        await asyncio.wait(server.state.tasks)
        caller.look(server.now + BODY_S + 1)
        assert not caller.transport.gone
    caller.data_received(b"POST / HTTP/1.1\r\ncontent-length: 200000\r\n\r\n")
    caller.data_received(b"a" * 100_000)
    caller.data_received(b"a" * 100_000)
    await asyncio.wait(server.state.tasks)
    caller.data_received(b"\r\n")
    caller.look(server.now + HEAD_S + 1)
    assert caller.transport.gone, "blank lines are no request"
    assert caller.transport.said.count(b"HTTP/1.1 204") == 3


async def test_a_request_that_is_answered_late_is_left_alone(server):
    caller = server.connect()
    caller.data_received(b"GET / HTTP/1.1\r\n\r\n")
    caller.look(server.now + BODY_S + 1)
    assert not caller.transport.gone
    await asyncio.wait(server.state.tasks)
    assert b"HTTP/1.1 204" in caller.transport.said


async def test_who_does_not_read_an_answer_is_given_up(server):
    caller = server.connect()
    caller.data_received(b"GET / HTTP/1.1\r\n\r\n")
    caller.pause_writing()
    caller.look(server.now + STALLED_S - 1)
    assert not caller.transport.gone
    caller.resume_writing()
    caller.look(server.now + STALLED_S + 1)
    assert not caller.transport.gone
    caller.pause_writing()
    caller.look(server.now + STALLED_S + 1)
    assert caller.transport.gone
    caller.connection_lost(None)


async def test_connections_leave_files_for_the_log(monkeypatch):
    limits = []
    system = SimpleNamespace(
        RLIMIT_NOFILE=7,
        RLIM_INFINITY=-1,
        getrlimit=lambda _: (256, 1_024),
        setrlimit=lambda _, pair: limits.append(pair),
    )
    monkeypatch.setattr(connections, "resource", system)
    assert connections.connections_max() == 768 and limits == [(1_024, 1_024)]


async def test_bodies_of_calls_under_way_are_bounded_together(monkeypatch):
    monkeypatch.setattr(calls, "BODIES_BYTES_MAX", 250)

    def call(size):
        async def receive():
            return {"type": "http.request", "body": b"x" * size}

        return calls.Call({calls.PRINCIPAL: None, "headers": []}, receive)

    first, second, third = call(200), call(100), call(200)
    assert len(await first.body(1_000)) == 200
    with pytest.raises(BusyError):
        await second.body(1_000)
    second.release()
    first.release()
    first.release()
    assert len(await third.body(1_000)) == 200
    third.release()
