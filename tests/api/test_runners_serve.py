"""Calls to served apps: against applications in the test, and against real sockets."""

import asyncio
import hashlib
import hmac
import socket

import httpx
import pytest
import uvicorn

from duraton_api.runners.connection import Connection
from duraton_api.runners.errors import BrokenError
from duraton_api.runners.gateway import Gateway
from duraton_api.runners.http import ClientTransport, HttpPool
from duraton_api.runners.serve import ServeCaller
from duraton_api.runners.settings import ServeSettings
from duraton_engine.calls import Answered, InvokeMissed, RoomFreed, RunnerLost
from duraton_engine.effects import ToRunner
from duraton_engine.room import Room
from duraton_schemas.ids import run_id
from duraton_schemas.options import read_app
from duraton_schemas.wire import frames as wire

URL = "http://shop.test/duraton"
SERVED = read_app(f'{{"name":"shop","workflows":[{{"name":"order"}}],"url":"{URL}"}}')
RUN = run_id(700, "event:a", "shop", "order")
TOKEN = "2.1.1"
INVOKE = wire.Invoke(run=RUN, token=TOKEN, epoch=1, app="shop", workflow="order", results=3)
STEP = wire.Step(run=RUN, token=TOKEN, step="a", output="1")
COMPLETE = wire.Complete(run=RUN, token=TOKEN, output="2")


class Time:
    def __init__(self):
        self.now = 0
        self.timers = []

    def now_ms(self):
        return self.now

    def call_later_ms(self, delay_ms, action):
        timer = [self.now + delay_ms, action]
        self.timers.append(timer)
        return lambda: self.timers.remove(timer) if timer in self.timers else None

    def pass_ms(self, span):
        end = self.now + span
        while due := [timer for timer in self.timers if timer[0] <= end]:
            self.timers.remove(due[0])
            self.now = due[0][0]
            due[0][1]()
        self.now = end


class Runner:
    """An ASGI application that answers as the test says and keeps what it was asked."""

    def __init__(self):
        self.status, self.headers, self.parts = 200, [], [wire.encode([COMPLETE])]
        self.asked = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.dropped = False

    async def __call__(self, scope, receive, send):
        body = b""
        more = True
        while more:
            event = await receive()
            body += event.get("body", b"")
            more = event.get("more_body", False)
        self.asked.append((dict(scope["headers"]), body))
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.dropped = True
            raise
        headers = [(k.encode(), v.encode()) for k, v in self.headers]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        for part in self.parts:
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


class World:
    def __init__(self, transport, **settings):
        self.time = Time()
        self.offers = []
        self.room = Room(lambda: self.offers.append((None, RoomFreed())))
        self.offered = asyncio.Event()
        self.caller = ServeCaller(
            partitions=4,
            offer=self.offer,
            room=self.room,
            clock=self.time,
            transport=transport,
            settings=ServeSettings(**settings),
            wall_s=lambda: 1_700_000_000.5,
        )
        self.caller.registered(SERVED)
        self.offers.clear()

    def offer(self, partition, call):
        self.offers.append((partition, call))
        self.offered.set()

    async def call(self, *frames):
        self.caller.deliver([ToRunner("serve:shop", frame) for frame in frames or (INVOKE,)])
        await asyncio.wait_for(self.offered.wait(), 10)
        return self.offers

    async def missed(self):
        [(partition, missed)] = await self.call()
        assert isinstance(missed, InvokeMissed)
        assert (partition, missed.run, missed.token) == (2, RUN, TOKEN)
        return missed


@pytest.fixture
def runner():
    return Runner()


@pytest.fixture
async def make(runner):
    async with httpx.AsyncClient(transport=httpx.ASGITransport(runner)) as client:
        yield lambda **settings: World(ClientTransport(client), **settings)


async def test_an_app_with_a_url_has_a_seat_as_long_as_it_has_one(make):
    world = make(capacity=7)
    seat = world.room.find("shop", "order")
    assert (seat.boot, seat.transport, seat.capacity) == ("serve:shop", "serve", 7)
    world.caller.registered(SERVED)
    assert world.offers == []
    world.caller.registered(read_app('{"name":"shop","workflows":[{"name":"order"}]}'))
    assert world.room.seats == {}
    [(partition, lost)] = world.offers
    assert isinstance(lost, RunnerLost) and partition is None and not lost.counts


async def test_an_answer_is_offered_and_ends_the_invocation(make, runner):
    runner.parts = [wire.encode([STEP, COMPLETE])]
    assert await make().call() == [
        (2, Answered("serve:shop", STEP)),
        (2, Answered("serve:shop", COMPLETE)),
    ]
    [(headers, body)] = runner.asked
    assert wire.decode_from_engine(body) == [INVOKE]
    assert headers[b"content-type"] == b"application/msgpack"
    assert b"duraton-signature" not in headers


async def test_an_answer_that_stops_at_a_step_suspends_with_what_the_handler_had(make, runner):
    runner.parts = [wire.encode([STEP])]
    [(_, step), (_, end)] = await make().call()
    assert step.frame == STEP
    assert end.frame == wire.Suspend(run=RUN, token=TOKEN, seen=3)


async def test_requests_are_signed_with_the_key(make, runner):
    await make(signing_key="secret").call()
    [(headers, body)] = runner.asked
    expected = hmac.new(b"secret", b"1700000000." + body, hashlib.sha256).hexdigest()
    assert headers[b"duraton-signature"].decode() == f"t=1700000000,v1={expected}"


async def test_signs_of_life_before_an_answer_are_no_part_of_it(make, runner):
    runner.parts = [b"\xc0", b"\xc0\xc0", wire.encode([COMPLETE])]
    assert await make().call() == [(2, Answered("serve:shop", COMPLETE))]


@pytest.mark.parametrize(
    ("status", "headers", "counts", "says"),
    [
        (503, [("Duraton-Draining", "1")], False, "draining"),
        (503, [], True, "answered 503"),
        (500, [], True, "answered 500"),
        (502, [], True, "answered 502"),
        (404, [], True, "no such workflow"),
        (401, [], True, "signing key"),
        (308, [("Location", "http://elsewhere.test")], True, "redirects are not followed"),
    ],
)
async def test_a_refusal_is_a_missed_invoke_that_names_the_cause(
    make, runner, status, headers, counts, says
):
    runner.status, runner.headers = status, headers
    runner.parts = [b"\x00because\n" + b"x" * 10_000]
    missed = await make().missed()
    assert missed.counts == counts and says in missed.reason and len(missed.reason) < 500


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"nonsense",
        wire.encode([]),
        wire.encode([wire.Ping()]),
        wire.encode([COMPLETE, STEP]),
        wire.encode([wire.Complete(run=RUN, token="2.1.2")]),
        wire.encode([STEP, wire.Step(run=RUN, token=TOKEN, step="", output="1")]),
    ],
)
async def test_of_an_answer_that_makes_no_sense_nothing_is_used(make, runner, body):
    runner.parts = [body]
    assert (await make().missed()).counts


async def test_an_answer_above_the_limit_is_not_taken(make, runner):
    runner.parts = [b"x" * 600, b"x" * 600]
    assert "above 1000 bytes" in (await make(answer_bytes_max=1000).missed()).reason


async def test_a_runner_that_is_silent_is_given_up(make, runner):
    runner.gate.clear()
    world = make(silence_ms=1_000)
    world.caller.deliver([ToRunner("serve:shop", INVOKE)])
    while not runner.asked:  # noqa: ASYNC110 the application has no event for it
        await asyncio.sleep(0)
    world.time.pass_ms(999)
    await asyncio.sleep(0)
    assert world.offers == []
    world.time.pass_ms(1)
    await world.offered.wait()
    [(_, missed)] = world.offers
    assert "no sign of life for 1000 ms" in missed.reason and missed.counts and runner.dropped
    assert world.time.timers == []


async def test_signs_of_life_do_not_outlast_the_whole_length():
    class Alive:
        async def post(self, url, headers, body, heard):
            self.heard = heard
            await asyncio.Event().wait()

    transport = Alive()
    world = World(transport, silence_ms=1_000, total_ms=5_000)
    world.caller.deliver([ToRunner("serve:shop", INVOKE)])
    await asyncio.sleep(0)
    for _ in range(9):
        transport.heard(1)
        world.time.pass_ms(500)
    assert world.offers == []
    transport.heard(1)
    world.time.pass_ms(500)
    await world.offered.wait()
    assert "within 5000 ms" in world.offers[0][1].reason


async def test_a_cancelled_run_gives_its_call_up_and_says_nothing(make, runner):
    runner.gate.clear()
    world = make()
    world.caller.deliver([ToRunner("serve:shop", INVOKE)])
    while not runner.asked:  # noqa: ASYNC110 the application has no event for it
        await asyncio.sleep(0)
    world.caller.deliver(
        [
            ToRunner("serve:shop", wire.Ack(run=RUN, token=TOKEN)),
            ToRunner("serve:shop", wire.Cancel(run=RUN, token="2.1.9")),
            ToRunner("serve:shop", wire.Cancel(run=RUN, token=TOKEN)),
        ]
    )
    await world.caller.stop()
    assert runner.dropped and world.offers == [] and world.time.timers == []


async def test_no_more_calls_in_flight_than_allowed(make, runner):
    runner.gate.clear()
    world = make(calls_max=2)
    for number in range(5):
        invoke = wire.Invoke(run=RUN, token=f"2.1.{number}", epoch=1, app="shop", workflow="order")
        world.caller.deliver([ToRunner("serve:shop", invoke)])
    for _ in range(20):
        await asyncio.sleep(0)
    assert len(runner.asked) == 2
    await world.caller.stop()


async def test_the_gateway_parts_frames_by_boot(make):
    class Hub:
        def deliver(self, effects):
            self.got = list(effects)

    world, hub = make(), Hub()
    gateway = Gateway(hub, world.caller)
    other = ToRunner("boot-a", wire.Cancel(run=RUN, token="2.1.5"))
    gateway.deliver([other, ToRunner("serve:shop", INVOKE), other])
    assert hub.got == [other, other]
    await world.offered.wait()
    assert world.offers == [(2, Answered("serve:shop", COMPLETE))]


# The pool, over real sockets -------------------------------------------------


class Served:
    """A runner behind uvicorn on a port of its own."""

    def __init__(self, app):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}/x?y=1"
        self.server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off"))

    async def __aenter__(self):
        self.task = asyncio.create_task(self.server.serve(sockets=[self.listener]))
        return self

    async def __aexit__(self, *_):
        self.server.should_exit = True
        await self.task
        self.listener.close()


@pytest.fixture
async def pool():
    made = HttpPool()
    yield made
    await made.close()


async def scripted(*answers):
    """A server that gives each connection the next list of raw answers, then closes it."""
    left = list(answers)
    count = 0

    async def talk(reader, writer):
        nonlocal count
        count += 1
        for answer in left.pop(0) if left else ():
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            await reader.readexactly(length)
            writer.write(answer)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    return server, f"http://127.0.0.1:{port}/", lambda: count


async def post(pool, url, body=b"in"):
    sizes = []
    answer = await pool.post(url, {"x-a": "1"}, body, sizes.append)
    assert sum(sizes) == len(answer.body)
    return answer


async def test_the_pool_reaches_a_real_server_and_uses_its_connections_again(pool, runner):
    runner.parts = [b"a" * 70_000, b"b" * 70_000]
    async with Served(runner) as served:
        answers = await asyncio.gather(*(post(pool, served.url, b"z" * 200_000) for _ in range(8)))
        answers += [await post(pool, served.url) for _ in range(8)]
        assert [len(answer.body) for answer in answers] == [140_000] * 16
        assert {answer.status for answer in answers} == {200}
        assert len(next(iter(pool._idle.values()))) <= 8
        await pool.close()
    assert runner.asked[0][1] == b"z" * 200_000 and runner.asked[0][0][b"x-a"] == b"1"


OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


async def test_a_kept_connection_that_its_server_gave_up_is_no_failure(pool):
    server, url, count = await scripted([OK], [OK])
    async with server:
        assert (await post(pool, url)).body == b"ok"
        assert (await post(pool, url)).body == b"ok"
        assert count() == 2


@pytest.mark.parametrize(
    ("raw", "body"),
    [
        (
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\no\r\n1\r\nk\r\n0\r\n\r\n",
            b"ok",
        ),
        (b"HTTP/1.0 200 OK\r\n\r\nok", b"ok"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + OK, b"ok"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", b""),
    ],
)
async def test_every_way_to_end_an_answer_is_understood(pool, raw, body):
    server, url, _ = await scripted([raw])
    async with server:
        answer = await post(pool, url)
        assert (answer.status, answer.body) == (200, body)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"nonsense\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nx: " + b"y" * 100_000,
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n"
        + b"".join(b"x%d: %s\r\n" % (n, b"y" * 1_000) for n in range(100))
        + b"\r\n",
    ],
)
async def test_what_is_no_whole_answer_is_a_broken_connection(pool, raw):
    server, url, _ = await scripted([raw])
    async with server:
        with pytest.raises(BrokenError):
            await post(pool, url)


async def test_an_address_where_nobody_listens_and_urls_that_are_none(pool):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(OSError, match=r"refused|Connect"):
        await post(pool, f"http://127.0.0.1:{port}/")
    for url in ("http://", "ftp://a/b", "http://a:99999/"):
        with pytest.raises((ValueError, OSError)):
            await post(pool, url)


async def test_a_call_given_up_closes_its_connection(pool, runner):
    runner.gate.clear()
    async with Served(runner) as served:
        task = asyncio.ensure_future(post(pool, served.url))
        while not runner.asked:  # noqa: ASYNC110 the application has no event for it
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not any(pool._idle.values())
        runner.gate.set()


def test_a_carrier_need_not_pause():
    class Pipe(Connection):
        def send(self, message): ...

        def close(self, code, reason): ...

    pipe = Pipe()
    pipe.pause(), pipe.resume()
    assert pipe.unsent == 0
