"""`serve`: an app behind HTTP, as a plain ASGI application (docs/reference/wire-protocol.md).

POST is one invocation, GET the app's options. It mounts into any ASGI framework;
a framework that does not pass lifespan events on to what it mounts calls
`register()` and `drain()` itself.
"""

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

from duraton.app import App
from duraton.errors import RegistrationRefusedError
from duraton.registration import register_app
from duraton.runtime.host import Observer, wall_clock_ms
from duraton.runtime.served import Served
from duraton.signing import verify
from duraton_schemas.errors import BadRecordError
from duraton_schemas.options import write_app
from duraton_schemas.wire import serve as wire
from duraton_schemas.wire.frames import (
    MESSAGE_BYTES_MAX,
    PROTOCOL_VERSION,
    Frame,
    Invoke,
    decode_from_engine,
    encode,
)

_log = logging.getLogger("duraton")

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

# As ASGI has header names.
_VERSION = wire.VERSION_HEADER.lower().encode()
_SIGNATURE = wire.SIGNATURE_HEADER.lower().encode()
_DRAINING = wire.DRAINING_HEADER.lower().encode()
_CONTENT_TYPE = wire.CONTENT_TYPE.encode()


@dataclass(frozen=True)
class ServeOptions:
    """Deadlines of a served app.

    Attributes:
        sign_of_life_s: Seconds between signs of life while an answer is awaited; well
            below the silence after which the engine gives a call up.
        drain_s: Seconds that answers under way have when the server shuts down.
        sleep: Waits for so many seconds; the testing kit gives its virtual clock's.
    """

    sign_of_life_s: float = 5.0
    drain_s: float = 25.0
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep


def serve(
    app: App,
    *,
    signing_key: str | None = None,
    url: str | None = None,
    engine: str | None = None,
    api_key: str | None = None,
    options: ServeOptions | None = None,
    observer: Observer | None = None,
    now_ms: Callable[[], int] = wall_clock_ms,
) -> "ServedApp":
    """An ASGI application that executes an app's runs.

    Args:
        app: The app.
        signing_key: The key shared with the engine; requests without its signature
            are refused. None takes every request: for loopback and tests.
        url: Where the engine reaches this application.
        engine: The engine's address; with `url` the app is registered at start.
        api_key: For the registration; left out, DURATON_API_KEY.
        options: Deadlines.
        observer: Is told of step code that begins.
        now_ms: The time that is written on steps, milliseconds since 1970 UTC.
    """

    def make() -> Served:
        return Served(app, observer=observer, now_ms=now_ms)

    return ServedApp(app, make, signing_key, url, engine, api_key, options or ServeOptions())


class ServedApp:
    """What `serve` gives: call it as an ASGI application.

    Attributes:
        app: The app.
        draining: Whether it takes no more invocations.
    """

    def __init__(
        self,
        app: App,
        make: Callable[[], Served],
        signing_key: str | None,
        url: str | None,
        engine: str | None,
        api_key: str | None,
        options: ServeOptions,
    ) -> None:
        self.app = app
        self._make = make
        self.draining = False
        self._key = signing_key
        self._url, self._engine, self._api_key = url, engine, api_key
        self._options = options
        self._served: Served | None = None
        self._registering: asyncio.Task[None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or the server's lifespan."""
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "http":
            await self._http(scope, receive, send)
        else:
            raise RuntimeError(f"a Duraton app does not serve {scope['type']!r}")

    @property
    def executing(self) -> int:
        """Steps whose code has begun and not ended."""
        return 0 if self._served is None else self._served.executing

    @property
    def busy_elsewhere(self) -> bool:
        """Whether worker threads or the network have something in hand for a step."""
        return self._served is not None and self._served.host.busy_elsewhere

    async def register(self) -> None:
        """Register the app at the engine; while that is away, tried again in the background.

        Raises:
            RegistrationRefusedError: The engine refuses what the app states.
        """
        if self._url is None or self._engine is None:
            return
        options = self.app.options(self._url)
        if not await register_app(self._engine, options, self._api_key):
            self._registering = asyncio.create_task(self._register_later())

    async def drain(self) -> None:
        """Take no more invocations and wait for the answers under way."""
        self.draining = True
        if self._registering is not None:
            self._registering.cancel()
        if self._served is not None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._served.wait_idle(), self._options.drain_s)
        self.close()

    def close(self) -> None:
        """Stop everything at once; what it executes is invoked again."""
        if self._served is not None:
            self._served.close()

    async def _register_later(self) -> None:
        seconds = 0.2
        while True:
            await asyncio.sleep(seconds)
            seconds = min(seconds * 2, 10.0)
            try:
                if await register_app(
                    self._engine or "", self.app.options(self._url), self._api_key
                ):
                    return
            except RegistrationRefusedError as error:
                _log.error("%s", error)
                return

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                try:
                    await self.register()
                except RegistrationRefusedError as error:
                    await send({"type": "lifespan.startup.failed", "message": str(error)})
                    return
                await send({"type": "lifespan.startup.complete"})
            else:
                await self.drain()
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        method = scope["method"]
        if method in ("GET", "HEAD"):
            body = write_app(self.app.options(self._url)).encode()
            await _answer(send, 200, b"application/json", body if method == "GET" else b"")
        elif method != "POST":
            await _problem(send, 405, "method-not-allowed", "POST an invocation, or GET the app")
        else:
            await self._post(scope, receive, send)

    async def _post(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer an invocation.

        1. While draining, say so: it costs the run no invoke.
        2. Read the body, up to the limit.
        3. Check the signature, then the version, then the frame.
        4. Bring the run to its next commit point, giving signs of life.
        """
        if self.draining:  # 1
            headers = [(_DRAINING, b"1"), (b"retry-after", b"1")]
            await _problem(send, 503, "draining", "this runner takes nothing new", headers)
            return
        body = await _body(receive)  # 2
        if body is None:
            await _problem(send, 413, "too-large", f"a message above {MESSAGE_BYTES_MAX} bytes")
            return
        headers_in = dict(scope["headers"])
        if self._key is not None:  # 3
            header = headers_in.get(_SIGNATURE, b"").decode("latin-1")
            fault = verify(self._key, body, header, time.time())
            if fault is not None:
                await _problem(send, 401, "signature-refused", fault)
                return
        version = headers_in.get(_VERSION, str(PROTOCOL_VERSION).encode())
        if version != str(PROTOCOL_VERSION).encode():
            await _problem(
                send, 400, "protocol-version", f"this runner speaks version {PROTOCOL_VERSION}"
            )
            return
        invoke = _read(body)
        if isinstance(invoke, str):
            await _problem(send, 400, "message-unreadable", invoke)
            return
        if self._served is None:
            self._served = self._make()
        if not self._served.knows(invoke):
            what = f"{invoke.app}/{invoke.workflow}"
            await _problem(send, 404, "workflow-unknown", f"this runner has no {what}")
            return
        await self._invoke(self._served, invoke, receive, send)  # 4

    async def _invoke(self, served: Served, invoke: Invoke, receive: Receive, send: Send) -> None:
        loop = asyncio.get_running_loop()
        work = loop.create_task(served.invoke(invoke))
        gone = loop.create_task(_disconnected(receive))
        began = False
        try:
            while not work.done():
                pause = asyncio.ensure_future(self._options.sleep(self._options.sign_of_life_s))
                await asyncio.wait({work, gone, pause}, return_when=asyncio.FIRST_COMPLETED)
                pause.cancel()
                if work.done():
                    break
                if gone.done():
                    # The engine went, not the run: it may be POSTed again and attach.
                    return
                if not began:
                    began = True
                    await send(_start(200, _CONTENT_TYPE))
                await send(
                    {"type": "http.response.body", "body": wire.SIGN_OF_LIFE, "more_body": True}
                )
            frames: list[Frame] = list(work.result())
            if not frames and not began:
                await _problem(send, 409, "superseded", "a newer request took this one's place")
                return
            message = encode(frames) if frames else b""
            if began:
                await send({"type": "http.response.body", "body": message})
            else:
                await _answer(send, 200, _CONTENT_TYPE, message)
        finally:
            gone.cancel()
            work.cancel()


def _read(body: bytes) -> Invoke | str:
    """The invocation in a body, or why it is none."""
    try:
        frames = decode_from_engine(body)
    except BadRecordError as error:
        return str(error)
    if len(frames) != 1 or not isinstance(frames[0], Invoke):
        return "a message must be one invoke frame"
    invoke = frames[0]
    if invoke.token.count(".") != 2 or not invoke.token.replace(".", "").isdecimal():
        return f"{invoke.token[:80]!r} is no token"
    return invoke


async def _body(receive: Receive) -> bytes | None:
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        part = message.get("body", b"")
        size += len(part)
        if size > MESSAGE_BYTES_MAX:
            return None
        parts.append(part)
        if not message.get("more_body"):
            return b"".join(parts)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _start(
    status: int, content_type: bytes, headers: list[tuple[bytes, bytes]] | None = None
) -> Message:
    return {
        "type": "http.response.start",
        "status": status,
        "headers": [(b"content-type", content_type), *(headers or [])],
    }


async def _answer(
    send: Send,
    status: int,
    content_type: bytes,
    body: bytes,
    headers: list[tuple[bytes, bytes]] | None = None,
) -> None:
    length = [(b"content-length", str(len(body)).encode())]
    await send(_start(status, content_type, [*length, *(headers or [])]))
    await send({"type": "http.response.body", "body": body})


async def _problem(
    send: Send,
    status: int,
    code: str,
    detail: str,
    headers: list[tuple[bytes, bytes]] | None = None,
) -> None:
    problem = {
        "type": "about:blank",
        "title": code.replace("-", " "),
        "status": status,
        "code": code,
        "detail": detail,
    }
    body = json.dumps(problem).encode()
    await _answer(send, status, b"application/problem+json", body, headers)
