"""Errors inside the gateway. None leaves it: each becomes a close frame or a missed invoke.

HelloRefusedError   a hello that is not let in
MissedError         a POST that brought no answer
BrokenError         a connection that broke, an OSError
"""

from typing import Any


class HelloRefusedError(Exception):
    """A hello that is not let in; inside the gateway only, runners see a close frame.

    Attributes:
        close_code: The connection is closed with it.
        code: A stable code.
    """

    def __init__(self, close_code: int, code: str, message: str) -> None:
        super().__init__(message)
        self.close_code, self.code = close_code, code

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.close_code, self.code, str(self))


class MissedError(Exception):
    """A POST that brought no answer; inside the gateway only, the run's page shows it.

    Attributes:
        counts: Whether it uses one of the run's three invokes (P38).
    """

    def __init__(self, reason: str, *, counts: bool = True) -> None:
        super().__init__(reason)
        self.counts = counts

    def __reduce__(self) -> tuple[Any, ...]:
        return _missed, (str(self), self.counts)


def _missed(reason: str, counts: bool) -> MissedError:
    return MissedError(reason, counts=counts)


class BrokenError(OSError):
    """The connection broke, or what came over it is no HTTP."""
