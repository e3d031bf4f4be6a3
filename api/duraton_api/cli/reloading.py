"""The runner of `duraton dev`: a child process, started again when its source changes."""

import asyncio
import contextlib
import os
import sys

import typer

from duraton_api.cli import show
from duraton_api.cli.errors import CommandFailedError
from duraton_api.cli.watching import Watch
from duraton_api.cli.worker import PARENT_VARIABLE

NAME = "dev"
"""The runner's explicit name: a new process ends the old one's tokens at once."""
DRAIN_S = 5.0
"""How long runs may go on when the child is replaced or stopped. Who saves a file wants
the new code soon; what was cut off is invoked again and loses no attempt."""
KILL_S = DRAIN_S + 3.0
"""After this a child that was told to stop is killed: a step that blocks the process."""
LOOK_S = 0.4
"""How often files are looked at."""
AGAIN_S = 1.0
"""How long after a crash the child is started again."""


class Reloader:
    """Keeps one child alive.

    Args:
        target: As on the command line.
        url: The engine's address.
        reload: Whether a change of the source starts it again.
        capacity: Runs executed at once, or None for the worker's own default.
    """

    def __init__(self, target: str, url: str, *, reload: bool, capacity: int | None) -> None:
        self._target = target
        self._command = [sys.executable, "-m", "duraton_api.cli.main", "worker", target]
        self._command += ["--url", url, "--name", NAME, "--drain", str(DRAIN_S)]
        if capacity is not None:
            self._command += ["--capacity", str(capacity)]
        self._reload = reload
        self._child: asyncio.subprocess.Process | None = None
        self.proven = False
        """Whether a child of this reloader was let in; until then its end is ours."""

    async def run(self) -> None:
        """Start the child, and again after each change or crash, until cancelled.

        Raises:
            typer.Exit: The first child ended before the engine let it in; it has said why.
            CommandFailedError: It was killed.
        """
        watch = await asyncio.to_thread(Watch, self._target) if self._reload else None
        try:
            while True:
                self._child = await self._start()
                ended = asyncio.ensure_future(self._child.wait())
                changed = asyncio.ensure_future(self._change(watch))
                await asyncio.wait((ended, changed), return_when=asyncio.FIRST_COMPLETED)
                if not ended.done():
                    show.note(f"reload: {changed.result()} changed")
                    await self._stop_child()
                    await ended
                    continue
                await self._ended(ended.result(), changed, watch is not None)
        finally:
            await self._stop_child()

    def kill(self) -> None:
        """End the child at once."""
        child = self._child
        if child is not None and child.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                child.kill()

    async def _start(self) -> asyncio.subprocess.Process:
        # A session of its own: Ctrl-C is for the parent, which stops both in order.
        return await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.PIPE,
            env={**os.environ, PARENT_VARIABLE: "1"},
            start_new_session=True,
        )

    async def _ended(self, status: int, changed: "asyncio.Future[str]", watched: bool) -> None:
        """The child ended by itself: start it again when that may help."""
        if not self.proven or (status >= 0 and not watched):
            changed.cancel()
            if status > 0:
                raise typer.Exit(status)
            raise CommandFailedError(
                "runner-ended", f"the runner of {self._target} ended (status {status})",
                "Start again; what it said last stands above.",
            )  # fmt: skip
        if status < 0:
            show.note(f"the runner was killed (signal {-status}); it is started again")
            changed.cancel()
            await asyncio.sleep(AGAIN_S)
            return
        show.note(f"the runner ended (status {status}); it is started again at the next change")
        show.note(f"reload: {await changed} changed")

    @staticmethod
    async def _change(watch: Watch | None) -> str:
        while watch is not None:
            await asyncio.sleep(LOOK_S)
            path = await asyncio.to_thread(watch.changed)
            if path is not None:
                return path
        await asyncio.Event().wait()
        raise AssertionError("nobody sets that event")

    async def _stop_child(self) -> None:
        child = self._child
        if child is None or child.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            child.terminate()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(child.wait(), KILL_S)
            return
        self.kill()
        await child.wait()
