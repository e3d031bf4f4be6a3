"""`serve` over ASGI, mounted as users mount it."""

import asyncio
import json
import time

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from duraton import App, Client, SendError, define_workflow, serve
from duraton.errors import RegistrationRefusedError
from duraton.runtime import served as served_module
from duraton.serving import ServeOptions
from duraton_schemas.wire.frames import (
    Complete,
    Fail,
    FrameEvent,
    Invoke,
    Ping,
    Step,
    StepMemo,
    Suspend,
    decode_from_runner,
    encode,
)
from duraton_schemas.wire.serve import sign

RUN = "run_000123456789abcdefghjkm1"


def invoke(number=1, steps=(), workflow="work", run=RUN, **fields):
    event = FrameEvent(id="e", name="work", data='{"x":1}', ts=1)
    done = sum(1 for memo in steps if memo.number)
    return Invoke(
        run=run, token=f"0.1.{number}", epoch=1, app="shop", workflow=workflow,
        events=[event], steps=list(steps), results=done, **fields,
    )  # fmt: skip


def app_of(handler, **options):
    return App("shop", [define_workflow("work", handler, **options)])


async def post(asgi, frame, path="/", **headers):
    transport = httpx.ASGITransport(asgi)
    body = frame if isinstance(frame, bytes) else encode([frame])
    async with httpx.AsyncClient(transport=transport, base_url="http://runner") as client:
        return await client.post(path, content=body, headers=headers)


async def answers(asgi, frame, **options):
    response = await post(asgi, frame, **options)
    assert response.status_code == 200, response.text
    return decode_from_runner(response.content.lstrip(b"\xc0"))


async def test_posts_bring_a_run_from_one_commit_point_to_the_next():
    executed = []

    async def code(name):
        executed.append(name)
        return name

    async def handle(ctx):
        executed.append("handler")
        both = await asyncio.gather(ctx.step.run("a", code, "a"), ctx.step.run("b", code, "b"))
        await ctx.step.sleep("nap", 1000)
        return [*both, await ctx.step.run("c", code, "c")]

    asgi = serve(app_of(handle))
    first = await answers(asgi, invoke(1))
    assert [(f.step, f.output, f.token) for f in first] == [
        ("a", '"a"', "0.1.1"),
        ("b", '"b"', "0.1.1"),
    ]
    done = [StepMemo(step="a", number=1, output='"a"'), StepMemo(step="b", number=2, output='"b"')]
    second = await answers(asgi, invoke(2, done))
    assert isinstance(second[0], Step) and (second[0].kind, second[0].seen) == ("sleep", 2)
    assert isinstance(second[1], Suspend) and second[1].token == "0.1.2"
    assert executed == ["handler", "a", "b"]
    done.append(StepMemo(step="nap", kind="sleep", number=3, seen=2, output="null"))
    third = await answers(asgi, invoke(3, done))
    assert [f.step for f in third] == ["c"]
    done.append(StepMemo(step="c", number=4, seen=3, output='"c"'))
    last = await answers(asgi, invoke(4, done))
    assert isinstance(last[0], Complete) and json.loads(last[0].output) == ["a", "b", "c"]
    assert executed == ["handler", "a", "b", "handler", "c"]


async def test_an_answer_that_was_lost_is_given_again_without_executing():
    executed = []

    async def handle(ctx):
        return await ctx.step.run("a", executed.append, 1)

    asgi = serve(app_of(handle))
    first = await answers(asgi, invoke(1))
    again = await answers(asgi, invoke(2))
    assert executed == [1]
    assert (first[0].token, again[0].token, again[0].step) == ("0.1.1", "0.1.2", "a")


async def test_a_post_attaches_to_a_step_that_still_executes():
    gate, executed = asyncio.Event(), []

    async def slow():
        executed.append(1)
        await gate.wait()

    async def handle(ctx):
        await ctx.step.run("a", slow)

    asgi = serve(app_of(handle))
    old = asyncio.create_task(post(asgi, invoke(1)))
    for _ in range(20):
        await asyncio.sleep(0)
    new = asyncio.create_task(post(asgi, invoke(2)))
    assert (await old).status_code == 409
    gate.set()
    frames = decode_from_runner((await new).content)
    assert executed == [1] and frames[0].token == "0.1.2"


async def test_failures_are_answers_and_backoff_suspends():
    def bad():
        raise ValueError("no")

    async def handle(ctx):
        await ctx.step.run("a", bad)

    frames = await answers(serve(app_of(handle)), invoke(1))
    assert frames[0].error.message == "no" and isinstance(frames[1], Suspend)
    due = [StepMemo(step="a", status="due", attempt=2)]
    frames = await answers(serve(app_of(handle)), invoke(2, due))
    assert frames[0].attempt == 2


async def test_a_handler_that_throws_fails_and_its_next_attempt_begins_anew():
    attempts = []

    async def handle(ctx):
        attempts.append(ctx.attempt)
        raise ValueError("between steps")

    asgi = serve(app_of(handle))
    for attempt in (1, 2):
        frames = await answers(asgi, invoke(attempt, attempt=attempt))
        assert isinstance(frames[0], Fail)
    assert attempts == [1, 2]


async def test_what_is_no_invocation_is_refused_with_a_problem():
    async def handle(ctx):
        return None

    asgi = serve(app_of(handle))
    for body, status, code in [
        (b"nonsense", 400, "message-unreadable"),
        (encode([Ping()]), 400, "message-unreadable"),
        (encode([]), 400, "message-unreadable"),
        (encode([invoke(workflow="other")]), 404, "workflow-unknown"),
        (encode([invoke(kind="onFailure")]), 404, "workflow-unknown"),
    ]:
        response = await post(asgi, body)
        assert (response.status_code, response.json()["code"]) == (status, code)
        assert response.headers["content-type"] == "application/problem+json"
    response = await post(asgi, invoke(), **{"Duraton-Version": "9"})
    assert response.json()["code"] == "protocol-version"
    asgi.draining = True
    response = await post(asgi, invoke())
    assert (response.status_code, response.headers["Duraton-Draining"]) == (503, "1")


async def test_only_the_engines_requests_are_taken_where_there_is_a_key():
    async def handle(ctx):
        return None

    asgi = serve(app_of(handle), signing_key="secret")
    body = encode([invoke()])
    now = int(time.time())
    for header in (
        "",
        "t=x,v1=00",
        f"t={now},v1=00",
        sign("other", body, now),
        sign("secret", body, now - 600),
        sign("secret", body + b"x", now),
    ):
        response = await post(asgi, body, **({"Duraton-Signature": header} if header else {}))
        assert (response.status_code, response.json()["code"]) == (401, "signature-refused")
    good = sign("other", body, now) + "," + sign("secret", body, now).split(",")[1]
    assert (await post(asgi, body, **{"Duraton-Signature": good})).status_code == 200


async def test_long_steps_give_signs_of_life():
    beats = asyncio.Queue()

    async def slow():
        await asyncio.sleep(0)
        for _ in range(2):
            await beats.put(None)
        await beats.join()

    async def sleep(_seconds):
        await beats.get()
        beats.task_done()

    async def handle(ctx):
        await ctx.step.run("a", slow)

    asgi = serve(app_of(handle), options=ServeOptions(sleep=sleep))
    response = await post(asgi, invoke())
    assert response.content.startswith(b"\xc0\xc0")
    assert decode_from_runner(response.content.lstrip(b"\xc0"))[0].step == "a"


async def test_kept_executions_are_bounded(monkeypatch):
    monkeypatch.setattr(served_module, "KEPT_MAX", 2)

    async def handle(ctx):
        await ctx.step.run("a", int)

    asgi = serve(app_of(handle))
    for n in range(5):
        await answers(asgi, invoke(1, run=f"run_000123456789abcdefghjkm{n}"))
    assert len(asgi._served._executions) <= 3


async def test_it_mounts_into_starlette_and_fastapi():
    async def handle(ctx):
        return "ok"

    runner = serve(app_of(handle))
    outer = Starlette(routes=[Mount("/duraton", app=runner)])
    frames = await answers(outer, invoke(), path="/duraton/")
    assert frames[0].output == '"ok"'
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(outer), base_url="http://runner"
    ) as client:
        options = (await client.get("/duraton/")).json()
        assert options["workflows"] == [{"name": "work"}]
        assert (await client.put("/duraton/")).status_code == 405
    fastapi = pytest.importorskip("fastapi")
    api = fastapi.FastAPI()
    api.mount("/duraton", serve(app_of(handle)))
    assert (await answers(api, invoke(), path="/duraton/"))[0].output == '"ok"'


class Engine:
    """An engine's HTTP side that answers what a test wants."""

    def __init__(self, *answers):
        self.answers, self.requests = list(answers), []

    async def __aenter__(self):
        self.server = await asyncio.start_server(self.handle, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self.server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_):
        self.server.close()
        await self.server.wait_closed()

    async def handle(self, reader, writer):
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = next(
            int(line.split(":")[1])
            for line in head.lower().split("\r\n")
            if "content-length" in line
        )
        self.requests.append((head.split("\r\n")[0], head, await reader.readexactly(length)))
        status, body = self.answers.pop(0)
        raw = json.dumps(body).encode()
        writer.write(
            f"HTTP/1.1 {status} x\r\nconnection: close\r\ncontent-length: {len(raw)}\r\n\r\n".encode()
            + raw
        )
        await writer.drain()
        writer.close()


async def test_a_served_app_registers_itself_when_it_starts():
    async def handle(ctx):
        return None

    refusal = {"code": "options-refused", "detail": "limit must be above 0"}
    async with Engine((200, {}), (422, refusal)) as engine:
        asgi = serve(app_of(handle), url="http://me/duraton", engine=engine.url, api_key="k")
        sent = []
        incoming = asyncio.Queue()
        for kind in ("lifespan.startup", "lifespan.shutdown"):
            incoming.put_nowait({"type": kind})

        async def send(message):
            sent.append(message["type"])

        await asgi({"type": "lifespan"}, incoming.get, send)
        assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
        line, head, body = engine.requests[0]
        assert line == "PUT /apps/shop HTTP/1.1" and "Bearer k" in head
        assert json.loads(body) == {
            "name": "shop",
            "url": "http://me/duraton",
            "workflows": [{"name": "work"}],
        }
        with pytest.raises(RegistrationRefusedError, match="limit must"):
            await asgi.register()


async def test_events_are_sent_from_any_program():
    problem = {"code": "body-unreadable", "detail": "no"}
    async with (
        Engine((200, {"ids": ["e1"]}), (200, []), (400, problem)) as engine,
        Client(engine.url, "k") as client,
    ):
        answer = await client.send("order.created", {"n": 1}, dedupe_id="d", subject="s")
        assert answer == {"ids": ["e1"]}
        await client.send_many([("a", {"x": 1}), {"name": "b", "dedupe_id": "d2"}])
        with pytest.raises(SendError, match="no") as caught:
            await client.send("c")
    assert (caught.value.status, caught.value.engine_code) == (400, "body-unreadable")
    line, head, body = engine.requests[0]
    assert line == "POST /events HTTP/1.1" and "Bearer k" in head
    assert json.loads(body) == {
        "name": "order.created", "data": {"n": 1}, "dedupeId": "d", "subject": "s",
    }  # fmt: skip
    assert json.loads(engine.requests[1][2])[1] == {"name": "b", "data": {}, "dedupeId": "d2"}
