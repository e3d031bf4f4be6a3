"""`connect`: a runner that keeps a WebSocket to the engine (docs/reference/wire-protocol.md).

The connection may break at any time: executions go on, and what the engine has not
acknowledged is sent again once there is a new one.
"""

import asyncio
import contextlib
import json
import logging
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

from websockets.asyncio.client import ClientConnection
from websockets.asyncio.client import connect as open_socket
from websockets.exceptions import ConnectionClosed, InvalidStatus, InvalidURI, WebSocketException
from websockets.protocol import State

from duraton.app import App
from duraton.environment import auth_headers, engine_url
from duraton.errors import ConnectionRefusedByEngineError
from duraton.runtime.messages import messages_of
from duraton.runtime.runner import CAPACITY_DEFAULT, Runner
from duraton_schemas.errors import BadRecordError
from duraton_schemas.wire.closing import CLOSE_UNREADABLE, COME_BACK_CODES
from duraton_schemas.wire.eager import Rest, begin
from duraton_schemas.wire.frames import (
    MESSAGE_BYTES_MAX,
    EngineFrame,
    Frame,
    Hello,
    Ping,
    Refused,
    decode_from_engine,
    encode,
)

_log = logging.getLogger("duraton")

REFUSING_STATUS = range(400, 500)
_HEARTBEAT: list[Frame] = [Ping()]
_PING = encode(_HEARTBEAT)


@dataclass(frozen=True)
class ConnectSettings:
    """Deadlines of a connection.

    Attributes:
        reconnect_first_s: Seconds before the first try to connect again; then doubled.
        reconnect_max_s: The most seconds between two tries. It never gives up: a run
            may be waiting here, and the engine may be away for as long as it likes.
        open_s: Seconds in which a connection must be made and greeted.
        drain_s: Seconds that executions have to end once the runner is stopped. Less
            than the 30 s after which orchestrators kill.
    """

    reconnect_first_s: float = 0.1
    reconnect_max_s: float = 5.0
    open_s: float = 10.0
    drain_s: float = 25.0


async def connect(
    app: App | Sequence[App],
    url: str | None = None,
    *,
    name: str | None = None,
    capacity: int = CAPACITY_DEFAULT,
    api_key: str | None = None,
    stop: asyncio.Event | None = None,
    settings: ConnectSettings | None = None,
    ready: Callable[[Runner], None] = lambda _runner: None,
) -> None:
    """Offer apps to an engine and execute their runs until stopped.

    Args:
        app: The app, or several.
        url: The engine's address; left out, DURATON_URL or http://127.0.0.1:8420.
        name: The runner's name. Where it is given, only one live process may have it,
            and a new process takes over from an old one at once.
        capacity: Runs that it executes at once.
        api_key: Left out, DURATON_API_KEY.
        stop: When it is set, the runner takes nothing new, finishes and returns.
        settings: Deadlines.
        ready: Called each time the engine has let the runner in.

    Raises:
        ConnectionRefusedByEngineError: The engine will not have this runner: its
            registration, its name, its key or its version.
    """
    client = _Client(app, engine_url(url), name, capacity, api_key, settings, ready)
    await client.run(stop or asyncio.Event())


class _Client:
    def __init__(
        self,
        app: App | Sequence[App],
        url: str,
        name: str | None,
        capacity: int,
        api_key: str | None,
        settings: ConnectSettings | None,
        ready: Callable[[Runner], None],
    ) -> None:
        self._uri = socket_uri(url)
        self._headers = auth_headers(api_key)
        self._settings = settings or ConnectSettings()
        self._ready = ready
        self._out: list[Frame] = []
        self._socket: ClientConnection | None = None
        self._begun: Rest | None = None
        self._more = asyncio.Event()
        self._runner = Runner(app, self._queue, name=name, capacity=capacity)
        self._done = asyncio.Event()
        self._failures = 0
        self._refused: Refused | None = None
        self._heard = self._said = 0.0

    async def run(self, stop: asyncio.Event) -> None:
        stopping = asyncio.create_task(self._stop(stop))
        try:
            while not self._done.is_set():
                await self._once()
                if not self._done.is_set():
                    await self._pause()
        finally:
            stopping.cancel()
            self._runner.close()

    async def _stop(self, stop: asyncio.Event) -> None:
        await stop.wait()
        self._runner.drain()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._runner.wait_idle(), self._settings.drain_s)
        left = len(self._runner.executions)
        if left:
            _log.warning("%d runs did not end in time; the engine will invoke them again", left)
        self._done.set()

    async def _once(self) -> None:
        """One connection, from its opening to its end."""
        self._refused = None
        try:
            async with open_socket(
                self._uri,
                additional_headers=self._headers,
                compression=None,  # frames are small, and the engine is near
                max_size=MESSAGE_BYTES_MAX,
                open_timeout=self._settings.open_s,
                ping_interval=None,  # the protocol has its own
            ) as socket:
                await self._converse(socket)
        except InvalidURI as error:
            raise ConnectionRefusedByEngineError(
                "url-unusable", f"{self._uri!r} is no address of an engine"
            ) from error
        except InvalidStatus as error:
            _raise_if_refused(error, self._uri)
            self._lost(f"HTTP status {error.response.status_code}")
        except ConnectionClosed as error:
            self._closed(error)
        except (WebSocketException, OSError, TimeoutError) as error:
            self._lost(str(error) or type(error).__name__)
        finally:
            self._runner.disconnected()
            self._socket = self._begun = None
            self._out.clear()

    async def _converse(self, socket: ClientConnection) -> None:
        """Speak with the engine.

        1. Say hello; nothing else goes out until the engine's hello.
        2. Read the engine's hello, or why there is none.
        3. Write, read and keep time at once, until one of them ends.
        4. If the runner is done, send what is left and close.
        """
        loop = asyncio.get_running_loop()
        greeting: list[Frame] = [self._runner.hello()]
        await socket.send(encode(greeting))  # 1
        async with asyncio.timeout(self._settings.open_s):  # 2
            first = self._read(await socket.recv())
            if first and isinstance(first[0], Refused):
                self._refused = first[0]
                await socket.recv()  # the close says whether to come back
        if not first or not isinstance(first[0], Hello):
            await socket.close(CLOSE_UNREADABLE, "the first frame must be hello")
            raise OSError(f"{self._uri} did not answer with a hello; is it a Duraton engine?")
        hello = first[0]
        self._heard = self._said = loop.time()
        self._failures = 0
        self._runner.receive(first)
        self._socket = socket
        _log.info("connected to %s (%s)", self._uri, hello.node)
        self._ready(self._runner)
        tasks = [  # 3
            asyncio.create_task(self._write(socket)),
            asyncio.create_task(self._listen(socket)),
            asyncio.create_task(self._keep_time(socket, hello)),
            asyncio.create_task(self._done.wait()),
        ]
        try:
            ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in ended:
                task.result()
            await asyncio.sleep(0)  # 4: frames of this pass are queued by now
            for message in messages_of(self._out):
                await socket.send(message)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _queue(self, frames: list[Frame]) -> None:
        """Write at once where nothing waits to be written; called on the loop, in no task."""
        socket = self._socket
        self._out.extend(frames)
        if socket is not None and socket.state is State.OPEN and not self._more.is_set():
            out, self._out = self._out, []
            self._begun = begin(self._send(socket, out))
            if self._begun is None:
                return
        self._more.set()

    async def _write(self, socket: ClientConnection) -> None:
        while True:
            if self._begun is not None:
                await self._begun
                self._begun = None
            elif self._out:
                out, self._out = self._out, []
                await self._send(socket, out)
            else:
                self._more.clear()
                await self._more.wait()

    async def _send(self, socket: ClientConnection, frames: list[Frame]) -> None:
        for message in messages_of(frames):
            await socket.send(message)
        self._said = asyncio.get_running_loop().time()

    async def _listen(self, socket: ClientConnection) -> None:
        clock = asyncio.get_running_loop().time
        while True:
            frames = self._read(await socket.recv())
            self._heard = clock()
            self._runner.receive(frames)

    @staticmethod
    def _read(message: str | bytes) -> list[EngineFrame]:
        if isinstance(message, str):
            raise OSError(f"the engine sent text: {message[:200]!r}")
        try:
            return decode_from_engine(message)
        except BadRecordError as error:
            raise OSError(str(error)) from error

    async def _keep_time(self, socket: ClientConnection, hello: Hello) -> None:
        """Give signs of life, and end a connection on which none comes."""
        clock = asyncio.get_running_loop().time
        ping_s, silence_s = hello.ping_ms / 1000, hello.silence_ms / 1000
        while ping_s > 0:
            await asyncio.sleep(ping_s / 2)
            now = clock()
            if now - self._heard > silence_s > 0:
                socket.transport.abort()
                raise OSError(f"no sign of life from the engine for {silence_s:g} s")
            if now - self._said >= ping_s / 2:
                self._said = now
                await socket.send(_PING)
        await asyncio.Event().wait()

    def _closed(self, error: ConnectionClosed) -> None:
        refused = self._refused
        _raise_if_closed_for_good(error, refused)
        self._lost(str(error) if refused is None else refused.message)

    def _lost(self, why: str) -> None:
        self._failures += 1
        level = logging.WARNING if self._failures in (1, 10) else logging.INFO
        live = len(self._runner.executions)
        _log.log(level, "no connection to %s: %s (%d runs live here)", self._uri, why, live)

    async def _pause(self) -> None:
        settings = self._settings
        exponent = min(max(self._failures - 1, 0), 16)
        longest = min(settings.reconnect_first_s * 2**exponent, settings.reconnect_max_s)
        # Spread, so that a thousand runners do not come back in one instant.
        seconds = longest * random.uniform(0.5, 1)  # noqa: S311 - nothing secret
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._done.wait(), seconds)


def socket_uri(url: str) -> str:
    """The WebSocket address of an engine's HTTP address."""
    parts = urlsplit(url)
    scheme = {"http": "ws", "https": "wss"}.get(parts.scheme, parts.scheme)
    return urlunsplit((scheme, parts.netloc, parts.path.rstrip("/") + "/connect", "", ""))


def _raise_if_refused(error: InvalidStatus, uri: str) -> None:
    status = error.response.status_code
    if status not in REFUSING_STATUS or status in (408, 425, 429):
        return
    code, message = _reason((error.response.body or b"").decode("utf-8", "replace"))
    if status in (401, 403):
        message = message or "the engine wants an API key; give api_key or set DURATON_API_KEY"
    message = message or f"{uri} answered HTTP status {status}; is it a Duraton engine?"
    raise ConnectionRefusedByEngineError(code or f"http-{status}", message) from error


def _raise_if_closed_for_good(error: ConnectionClosed, refused: Refused | None) -> None:
    if error.rcvd is None or error.rcvd.code < 4000 or error.rcvd.code in COME_BACK_CODES:
        return
    code, message = _reason(error.rcvd.reason)
    if refused is not None:
        code, message = refused.code, refused.message
    code = code or f"closed-{error.rcvd.code}"
    raise ConnectionRefusedByEngineError(code, message or error.rcvd.reason or code) from error


def _reason(text: str) -> tuple[str, str]:
    """Code and message of a close reason or a problem document, empty where it is neither."""
    try:
        found = json.loads(text)
    except ValueError:
        return "", ""
    if not isinstance(found, dict):
        return "", ""
    message = found.get("message") or found.get("detail") or found.get("title") or ""
    return str(found.get("code") or ""), str(message)
