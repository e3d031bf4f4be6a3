"""An in-process pipe between a runner and the engine: the frames and bytes of the real socket."""

import asyncio
from collections.abc import Callable

from duraton.runtime.runner import Runner
from duraton_api.runners.connection import Connection
from duraton_api.runners.hub import Hub
from duraton_schemas.wire.closing import CLOSE_GOING, CLOSE_LATER
from duraton_schemas.wire.frames import Frame, decode_from_engine, encode


class Pipe(Connection):
    """Carries messages both ways; each arrives on a later turn of the loop.

    Args:
        hub: The engine's side.
        runner: The runner's side; its `send` is `Pipe.upstream`.
        passed: Called for each message, so that the kit sees that something happens.
        again: Called where the engine asks the runner to come back.
    """

    def __init__(
        self,
        hub: Hub,
        runner: Runner,
        passed: Callable[[], None],
        again: Callable[[], None] = lambda: None,
    ) -> None:
        self._hub = hub
        self._runner = runner
        self._passed = passed
        self._again = again
        self._loop = asyncio.get_running_loop()
        self.open = True
        self.refused: str | None = None

    def connect(self) -> None:
        """Connect and say hello."""
        self._hub.connected(self)
        self.upstream([self._runner.hello()])

    def upstream(self, frames: list[Frame]) -> None:
        """From the runner to the engine."""
        message = encode(frames)
        self._passed()
        self._loop.call_soon(self._up, message)

    def _up(self, message: bytes) -> None:
        self._passed()
        if self.open:
            self._hub.received(self, message)

    def send(self, message: bytes) -> None:
        self._passed()
        self._loop.call_soon(self._down, message)

    def _down(self, message: bytes) -> None:
        self._passed()
        if self.open:
            self._runner.receive(decode_from_engine(message))

    def close(self, code: int, reason: str) -> None:
        if not self.open:
            return
        self.refused = f"{code} {reason}"
        self._loop.call_soon(self._hub.closed, self, code)
        self.cut()
        if code in (CLOSE_GOING, CLOSE_LATER):
            self._passed()
            self._loop.call_soon(self._again)

    def cut(self) -> None:
        """The connection is gone on both sides; nothing more arrives."""
        self.open = False
        self._runner.disconnected()
