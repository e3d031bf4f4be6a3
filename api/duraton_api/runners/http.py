"""POSTs to runners: over pooled connections, or over whatever an httpx client has beneath.

The pool exists because of its speed: at 64 calls in flight one takes 51 µs of CPU here,
220 µs with aiohttp and 5 ms with httpx (docs/internals/choices.md).
"""

import asyncio
import contextlib
import ssl
import time
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import NamedTuple, Protocol, cast

import httptools
import httpx

from duraton_api.runners.errors import BrokenError

IDLE_S = 4.0
"""A connection unused for longer is not used again: servers commonly close after 5 s,
and a request that meets the closing would be lost."""
IDLE_MAX = 256
"""Unused connections kept, for each address."""
CONNECT_S = 5.0
"""How long a connection may take to be made: two lost packets and the answer."""
HEAD_BYTES_MAX = 64 << 10
"""An answer's status line and headers."""


class HttpAnswer(NamedTuple):
    """An answer: its status, its headers by lower-case name, its body."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class HttpTransport(Protocol):
    """What makes the requests."""

    async def post(
        self, url: str, headers: Mapping[str, str], body: bytes, heard: Callable[[int], None]
    ) -> HttpAnswer:
        """POST and give the answer; redirects are not followed.

        Args:
            url: Where to.
            headers: The request's headers.
            body: The request's bytes.
            heard: Called with their number whenever bytes of the answer's body come;
                what it raises ends the request and is raised.

        Raises:
            OSError: There is no answer.
            ValueError: The URL is none.
        """


class ClientTransport:
    """Requests through an httpx client, for applications in the same process.

    Args:
        client: The client; it is closed by whoever made it.
    """

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def post(
        self, url: str, headers: Mapping[str, str], body: bytes, heard: Callable[[int], None]
    ) -> HttpAnswer:
        parts: list[bytes] = []
        try:
            async with self._client.stream(
                "POST", url, headers=headers, content=body, timeout=None, follow_redirects=False
            ) as response:
                heard(0)
                async for part in response.aiter_bytes():
                    heard(len(part))
                    parts.append(part)
                return HttpAnswer(response.status_code, response.headers, b"".join(parts))
        except httpx.InvalidURL as error:
            raise ValueError(str(error)) from error
        except httpx.HTTPError as error:
            raise BrokenError(str(error) or type(error).__name__) from error


class HttpPool:
    """Requests over HTTP/1.1 connections that are kept and used again.

    Args:
        connect_s: How long a connection may take to be made, in seconds.
    """

    def __init__(self, connect_s: float = CONNECT_S) -> None:
        self._connect_s = connect_s
        self._idle: dict[tuple[str, str, int], list[_Channel]] = {}
        self._tls: ssl.SSLContext | None = None

    async def post(
        self, url: str, headers: Mapping[str, str], body: bytes, heard: Callable[[int], None]
    ) -> HttpAnswer:
        target = _target(url)
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        head = f"{target.begin}content-length: {len(body)}\r\n{lines}\r\n".encode("latin-1")
        channel = self._kept(target.origin)
        if channel is not None:
            try:
                return await self._exchange(channel, target, head + body, heard)
            except BrokenError:
                # A kept connection that its server had given up says nothing about the
                # runner, as long as no byte of an answer came.
                if channel.began:
                    raise
        channel = await self._connect(target)
        return await self._exchange(channel, target, head + body, heard)

    async def close(self) -> None:
        """Close the connections that are kept."""
        for channels in self._idle.values():
            for channel in channels:
                channel.abort()
        self._idle.clear()

    async def _exchange(
        self, channel: "_Channel", target: "_Target", request: bytes, heard: Callable[[int], None]
    ) -> HttpAnswer:
        try:
            answer = await channel.exchange(request, heard)
        except BaseException:
            channel.abort()
            raise
        if channel.reusable:
            kept = self._idle.setdefault(target.origin, [])
            if len(kept) < IDLE_MAX:
                channel.idle_since = time.monotonic()
                kept.append(channel)
                return answer
        channel.abort()
        return answer

    def _kept(self, origin: tuple[str, str, int]) -> "_Channel | None":
        kept = self._idle.get(origin)
        while kept:
            channel = kept.pop()
            if channel.reusable and time.monotonic() - channel.idle_since < IDLE_S:
                return channel
            channel.abort()
        return None

    async def _connect(self, target: "_Target") -> "_Channel":
        scheme, host, port = target.origin
        if scheme == "https" and self._tls is None:
            self._tls = ssl.create_default_context()
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._connect_s):
                _, channel = await loop.create_connection(
                    _Channel, host, port, ssl=self._tls if scheme == "https" else None
                )
        except TimeoutError as error:
            raise BrokenError(f"no connection within {self._connect_s:g} s") from error
        return channel


class _Target(NamedTuple):
    origin: tuple[str, str, int]
    begin: str


@lru_cache(maxsize=1_024)
def _target(url: str) -> _Target:
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise ValueError(f"{url} is no URL: {error}") from error
    if parsed.scheme not in ("http", "https") or not parsed.raw_host:
        raise ValueError(f"{url} is no http or https URL")
    port = parsed.port or (443 if parsed.scheme == "https" else 80)
    path = parsed.raw_path.decode("ascii")
    begin = (
        f"POST {path} HTTP/1.1\r\nhost: {parsed.netloc.decode('ascii')}\r\n"
        "accept-encoding: identity\r\n"
    )
    return _Target((parsed.scheme, parsed.raw_host.decode("ascii").strip("[]"), port), begin)


class _Channel(asyncio.Protocol):
    """One connection, with at most one request under way; also its parser's callbacks."""

    def __init__(self) -> None:
        self.began = False
        self.idle_since = 0.0
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._answer: asyncio.Future[HttpAnswer] | None = None
        self._heard: Callable[[int], None] = lambda _size: None
        self._begin_answer()

    @property
    def reusable(self) -> bool:
        """Whether another request may be sent."""
        return (
            self._transport is not None
            and not self._transport.is_closing()
            and self._answer is None
            and self._keep
        )

    async def exchange(self, request: bytes, heard: Callable[[int], None]) -> HttpAnswer:
        """Send a request and wait for its answer."""
        if self._transport is None or self._transport.is_closing():
            raise BrokenError("the connection was closed")
        self.began = False
        self._heard = heard
        self._begin_answer()
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return await self._answer

    def abort(self) -> None:
        """Close at once."""
        if self._transport is not None:
            self._transport.abort()

    # From the loop -----------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are none of asyncio's by type.
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self._answer is None:
            self.abort()  # An answer nobody asked for.
            return
        self.began = True
        try:
            if not self._headers_done:
                self._head_bytes += len(data)
            self._parser.feed_data(data)
            self._heard(0)
            if not self._headers_done and self._head_bytes > HEAD_BYTES_MAX:
                self._fail(BrokenError(f"headers above {HEAD_BYTES_MAX} bytes"))
        except httptools.HttpParserError as error:
            cause = error.__context__ if isinstance(error.__context__, Exception) else None
            self._fail(cause or BrokenError(f"what came is no HTTP: {error}"))
        except Exception as error:  # noqa: BLE001 it is raised where the request was made
            self._fail(error)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._answer is None:
            return
        if exc is None and self._headers_done and self._until_close:
            self._keep = False
            self.on_message_complete()
        else:
            self._fail(BrokenError(str(exc) if exc else "the connection was closed early"))

    # From the parser ---------------------------------------------------------

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._headers_done:  # A trailer, which nobody reads; they are as bounded.
            self._head_bytes += len(name) + len(value)
            if self._head_bytes > HEAD_BYTES_MAX:
                raise BrokenError(f"trailers above {HEAD_BYTES_MAX} bytes")
            return
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        self._status = self._parser.get_status_code()
        self._headers_done = True
        self._until_close = not (
            "content-length" in self._headers or "transfer-encoding" in self._headers
        )

    def on_body(self, part: bytes) -> None:
        self._heard(len(part))
        self._parts.append(part)

    def on_message_complete(self) -> None:
        if self._status < 200:  # An interim answer; the real one follows.
            self._begin_answer()
            return
        self._keep = self._parser.should_keep_alive() and not self._until_close
        answer, self._answer = self._answer, None
        if answer is not None and not answer.done():
            body = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
            answer.set_result(HttpAnswer(self._status, self._headers, body))

    def _begin_answer(self) -> None:
        self._status = 0
        self._headers: dict[str, str] = {}
        self._parts: list[bytes] = []
        self._head_bytes = 0
        self._headers_done = False
        self._until_close = False
        self._keep = True

    def _fail(self, error: Exception) -> None:
        answer, self._answer = self._answer, None
        if answer is not None and not answer.done():
            answer.set_exception(error)
        with contextlib.suppress(RuntimeError):
            self.abort()
