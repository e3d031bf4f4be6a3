"""Served apps inside a test: the real ASGI applications, called without a network."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, Protocol

from duraton.app import App
from duraton.runtime.host import Observer
from duraton.serving import ServedApp, ServeOptions, serve
from duraton.testing.virtual import VirtualTime
from duraton_api.runners.errors import BrokenError
from duraton_api.runners.http import HttpAnswer

Message = MutableMapping[str, Any]
Asgi = Callable[
    [Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]],
    Awaitable[None],
]
Front = Callable[[Asgi], Asgi]
"""Puts something before a served app, for example a proxy that answers 502. An OSError
that it raises is a connection that broke."""


class _Watched(Observer, Protocol):
    time: VirtualTime


class ServedApps:
    """The served apps of a test; carries the engine's requests to them.

    Args:
        observer: Is told of step code that begins, and has the time.
        front: What stands before each app, or None.
    """

    def __init__(self, observer: _Watched, front: Front | None) -> None:
        self._observer = observer
        self._front = front
        self._apps: dict[str, ServedApp] = {}
        self._replaced: list[ServedApp] = []
        self._tasks: set[asyncio.Task[None]] = set()

    def add(self, app: App) -> None:
        """Serve an app, or its newer version; requests under way stay with the older."""
        time = self._observer.time
        old = self._apps.get(app.name)
        if old is not None:
            self._replaced.append(old)
        self._apps[app.name] = serve(
            app,
            observer=self._observer,
            now_ms=time.now_ms,
            options=ServeOptions(sleep=time.sleep),
        )

    @staticmethod
    def url(app: App) -> str:
        """Where the engine finds an app."""
        return f"http://runner.test/{app.name}"

    async def post(
        self, url: str, headers: Mapping[str, str], body: bytes, heard: Callable[[int], None]
    ) -> HttpAnswer:
        """One request of the engine's, as `HttpTransport` has it."""
        exchange = _Exchange(body, heard)
        name = url.rpartition("/")[2]
        served = self._apps.get(name)
        if served is None:
            raise BrokenError("nobody listens there")
        target: Asgi = served if self._front is None else self._front(served)
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "POST",
            "scheme": "http",
            "path": f"/{name}",
            "raw_path": f"/{name}".encode(),
            "query_string": b"",
            "root_path": "",
            "headers": [(key.lower().encode(), value.encode()) for key, value in headers.items()],
            "client": ("127.0.0.1", 1),
            "server": ("runner.test", 80),
        }
        # Its own task: the runner's process outlives the engine's.
        task = asyncio.get_running_loop().create_task(exchange.run(target, scope))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            return await exchange.answer
        finally:
            exchange.gone.set()

    def busy_elsewhere(self) -> bool:
        """Whether worker threads or the network have something in hand for a step."""
        return any(app.busy_elsewhere for app in (*self._apps.values(), *self._replaced))

    def kill(self) -> None:
        """The runner's process dies."""
        for task in list(self._tasks):
            task.cancel()
        for app in (*self._apps.values(), *self._replaced):
            app.close()
        self._replaced.clear()


class _Exchange:
    """One request and its answer."""

    def __init__(self, body: bytes, heard: Callable[[int], None]) -> None:
        self.answer: asyncio.Future[HttpAnswer] = asyncio.get_running_loop().create_future()
        self.gone = asyncio.Event()
        self._body: bytes | None = body
        self._heard = heard
        self._status = 0
        self._headers: dict[str, str] = {}
        self._parts: list[bytes] = []

    async def run(self, app: Asgi, scope: Message) -> None:
        """Call the application as a server would."""
        try:
            await app(scope, self._receive, self._send)
        except asyncio.CancelledError:
            self._broken("the runner's process ended")
            raise
        except OSError as error:
            self._broken(str(error) or type(error).__name__)
        except Exception as error:  # noqa: BLE001 - a server answers 500, whatever was raised
            if not self.answer.done():
                text = f"{type(error).__name__}: {error}".encode()
                self.answer.set_result(HttpAnswer(500, {}, text))
        self._broken("the connection was closed without an answer")

    def _broken(self, why: str) -> None:
        if not self.answer.done():
            self.answer.set_exception(BrokenError(why))
            if self.gone.is_set():
                self.answer.exception()  # nobody waits for it any more

    async def _receive(self) -> Message:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        if self.answer.done():
            return
        if message["type"] == "http.response.start":
            self._status = message["status"]
            pairs = message.get("headers", ())
            self._headers = {key.decode().lower(): value.decode() for key, value in pairs}
            return
        part = message.get("body", b"")
        try:
            self._heard(len(part))
        except Exception as error:  # noqa: BLE001 - it is raised where the request was made
            self.answer.set_exception(error)
            return
        self._parts.append(part)
        if not message.get("more_body"):
            body = b"".join(self._parts)
            self.answer.set_result(HttpAnswer(self._status, self._headers, body))
