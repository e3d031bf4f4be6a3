"""A lock file: one process at a time owns what it stands beside."""

import contextlib
import fcntl
import os
from pathlib import Path

from duraton_streams.errors import LogError, LogInUseError


class LockFile:
    """Holds a lock file, with the owner's process id in it, until `release`.

    The operating system drops the lock when the process ends, however it ends, so a
    file left behind means nothing. It is never removed: two processes must not hold
    locks on two files of one name.

    Args:
        path: The file; made where it is missing.
        what: What is locked, for the error's text.

    Raises:
        LogInUseError: Another owner holds it; the message names its process.
        LogError: The file cannot be opened.
    """

    def __init__(self, path: Path, what: str) -> None:
        try:
            self._file: int | None = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise LogError(f"cannot open {path}: {error.strerror}") from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            owner = os.pread(self._file, 32, 0).decode("ascii", "replace").strip()
            self.release()
            raise LogInUseError(f"{what} is in use by process {owner or '(unknown)'}") from error
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, f"{os.getpid()}\n".encode("ascii"), 0)

    def release(self) -> None:
        """Let go of the lock; doing it twice is harmless."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                os.close(self._file)
            self._file = None
