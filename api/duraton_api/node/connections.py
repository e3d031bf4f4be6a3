"""Bounds of the connections that the HTTP server takes: how many, how slow, how long a head.

uvicorn waits for ever for a request that does not come whole, and takes any number of
connections; each costs a file, and the log and the state need files too.
"""

import asyncio
import resource
from collections.abc import Callable

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

CONNECTIONS_MAX = 16_384
"""Connections at once, runners' included, where the system allows as many files."""
FILES_MAX = 65_536
"""Files that the process asks the system for."""
FILES_KEPT_MIN = 256
"""Files kept for the log, the state and the view; at least a quarter of all are."""
HEAD_BYTES_MAX = 64 << 10
"""A request's first line and headers."""
HEAD_S = 15.0
"""How long a connection may be open without a whole head."""
BODY_S = 120.0
"""How long a body may take: 6 MiB by half a megabit a second, and a margin."""
STALLED_S = 60.0
"""How long a caller may leave an answer unread."""
LOOK_S = 5.0
"""How often is looked who is late."""

_REFUSAL = (
    b"HTTP/1.1 %s\r\ncontent-type: text/plain\r\ncontent-length: %d\r\n"
    b"connection: close\r\nretry-after: 1\r\n\r\n%s"
)


def connections_max() -> int:
    """How many connections the process may hold; it asks the system for more files first."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY:
        hard = FILES_MAX
    wanted = min(hard, FILES_MAX)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    files = FILES_MAX if soft == resource.RLIM_INFINITY else soft
    return max(16, min(CONNECTIONS_MAX, files - max(FILES_KEPT_MIN, files // 4)))


class BoundedHttp(HttpToolsProtocol):
    """uvicorn's HTTP protocol that gives up who is slow, endless or one too many.

    Attributes:
        most: Connections at once; set once the process knows how many files it has.
    """

    most = CONNECTIONS_MAX

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        self._in_head, self._head_bytes = False, 0
        self._deadline: float | None = self.loop.time() + HEAD_S
        self._stalled_since: float | None = None
        super().connection_made(transport)
        if len(self.connections) > self.most:
            self._refuse(b"503 Service Unavailable", b"too many connections")

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        began_before = self._in_head
        super().data_received(data)
        if self._in_head and began_before:
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_BYTES_MAX and not self.transport.is_closing():
                self._refuse(b"431 Request Header Fields Too Large", b"the headers are too long")
        elif self._deadline is None and not self._answering:
            # Blank lines before a head end uvicorn's keep-alive and begin no request.
            self._deadline = self.loop.time() + HEAD_S

    @property
    def _answering(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle  # uvicorn's type leaves None out
        return cycle is not None and not cycle.response_complete

    def on_message_begin(self) -> None:
        self._in_head, self._head_bytes = True, 0
        self._deadline = self.loop.time() + HEAD_S
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._deadline = self.loop.time() + BODY_S
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        # From here the answer is awaited, then uvicorn's keep-alive watches.
        self._deadline = None
        super().on_message_complete()

    def pause_writing(self) -> None:
        """The caller does not read."""
        self._stalled_since = self.loop.time()
        super().pause_writing()

    def resume_writing(self) -> None:
        """The caller reads again."""
        self._stalled_since = None
        super().resume_writing()

    def look(self, now: float) -> None:
        """Give the connection up if it is late.

        Args:
            now: The loop's time in seconds.
        """
        deadline, stalled = self._deadline, self._stalled_since
        late = deadline is not None and now > deadline
        if late or (stalled is not None and now - stalled > STALLED_S):
            self.transport.abort()

    def _refuse(self, status: bytes, text: bytes) -> None:
        self.transport.write(_REFUSAL % (status, len(text), text))
        self.transport.close()


def watch(state: ServerState, loop: asyncio.AbstractEventLoop) -> Callable[[], None]:
    """Look from time to time who is late.

    Returns:
        Ends it.
    """
    next_look: list[asyncio.TimerHandle] = []

    def look() -> None:
        now = loop.time()
        for connection in list(state.connections):
            if isinstance(connection, BoundedHttp):
                connection.look(now)
        next_look[:] = [loop.call_later(LOOK_S, look)]

    def end() -> None:
        next_look[0].cancel()

    next_look.append(loop.call_later(LOOK_S, look))
    return end
