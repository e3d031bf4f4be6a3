"""The WebSocket on which runners come, as a plain ASGI application.

Run it under uvicorn with `ws="websockets-sansio"`, `ws_per_message_deflate=False`,
`ws_max_size=MESSAGE_BYTES_MAX` and `ws_ping_interval=None`: the protocol has its own.
"""

import asyncio
import json
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, MutableMapping
from typing import Any

from duraton_api.runners.connection import Connection, close_reason
from duraton_api.runners.hub import Hub
from duraton_schemas.wire.closing import CLOSE_UNREADABLE
from duraton_schemas.wire.eager import Rest, begin

_log = logging.getLogger("duraton.runners")

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Coroutine[Any, Any, None]]

CLOSING_S = 2.0
"""How long a runner may take what is still queued when its connection is closed. One
that is stalled would hold the queue for as long as TCP is patient."""


class RunnerSocket:
    """The endpoint that runners connect to.

    Args:
        hub: Gives the hub of now; an engine that restarts in one process has a new one.
    """

    def __init__(self, hub: Callable[[], Hub]) -> None:
        self._hub = hub

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one WebSocket until it ends."""
        if scope["type"] != "websocket":
            await _refuse_http(send)
            return
        await receive()
        await send({"type": "websocket.accept"})
        hub = self._hub()
        connection = SocketConnection(hub, send)
        hub.connected(connection)
        reading = asyncio.ensure_future(self._read(hub, connection, receive))
        writing = asyncio.ensure_future(connection.write())
        closing = asyncio.ensure_future(connection.closing.wait())
        code = 1006
        try:
            await asyncio.wait((reading, writing, closing), return_when=asyncio.FIRST_COMPLETED)
            # Closed from here: what is queued may still go out. A failed write: the
            # reader is about to learn why.
            rest = writing if connection.closing.is_set() else reading
            await asyncio.wait((rest,), timeout=CLOSING_S)
            if reading.done():
                code = reading.result()
        except Exception:  # noqa: BLE001 a defect of ours costs this connection, nothing else
            _log.exception("a runner's connection broke")
        finally:
            hub.closed(connection, code)
            for task in (reading, writing, closing):
                task.cancel()
            await asyncio.gather(reading, writing, closing, return_exceptions=True)

    async def _read(self, hub: Hub, connection: "SocketConnection", receive: Receive) -> int:
        while True:
            event = await receive()
            if event["type"] == "websocket.disconnect":
                return int(event.get("code") or 1006)
            message = event.get("bytes")
            if message is None:
                reason = close_reason("runner-unreadable", "messages are binary, not text")
                connection.close(CLOSE_UNREADABLE, reason)
                hub.closed(connection)
                continue
            hub.received(connection, message)
            if connection.paused is not None:
                await connection.paused.wait()


class SocketConnection(Connection):
    """A WebSocket's outgoing side: writes at once, or queues while the socket is full.

    Args:
        hub: Told when bytes were taken.
        send: The server's `send`; it waits while the socket's buffer is full.

    Attributes:
        closing: Set once it is to be closed.
        paused: What the reader waits for while it is paused.
    """

    def __init__(self, hub: Hub, send: Send) -> None:
        self.closing = asyncio.Event()
        self.paused: asyncio.Event | None = None
        self._hub = hub
        self._send = send
        self._queue: deque[bytes] = deque()
        self._unsent = 0
        self._begun: Rest | None = None
        self._code, self._reason = 0, ""
        self._wake = asyncio.Event()

    @property
    def unsent(self) -> int:
        return self._unsent

    def send(self, message: bytes) -> None:
        if self.closing.is_set():
            return
        self._unsent += len(message)
        if self._wake.is_set():  # until `write` has nothing left
            self._queue.append(message)
            return
        self._begun = begin(self._write(message))
        if self._begun is not None:
            self._wake.set()

    def close(self, code: int, reason: str) -> None:
        if not self.closing.is_set():
            self._code, self._reason = code, reason
            self.closing.set()
            self.resume()
            self._wake.set()

    def pause(self) -> None:
        self.paused = asyncio.Event()

    def resume(self) -> None:
        if self.paused is not None:
            self.paused.set()
            self.paused = None

    async def write(self) -> None:
        """Write what is queued until the connection is closed and the queue is empty."""
        while True:
            if self._begun is not None:
                await self._begun
                self._begun = None
            while self._queue:
                await self._write(self._queue.popleft())
            if self.closing.is_set():
                event = {"type": "websocket.close", "code": self._code, "reason": self._reason}
                await self._send(event)
                return
            self._wake.clear()
            await self._wake.wait()

    async def _write(self, message: bytes) -> None:
        await self._send({"type": "websocket.send", "bytes": message})
        self._unsent -= len(message)
        self._hub.taken(self)


async def _refuse_http(send: Send) -> None:
    problem = {
        "type": "about:blank",
        "status": 426,
        "code": "websocket-needed",
        "title": "Runners connect here by WebSocket.",
    }
    headers = [(b"content-type", b"application/problem+json"), (b"upgrade", b"websocket")]
    await send({"type": "http.response.start", "status": 426, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps(problem).encode()})
