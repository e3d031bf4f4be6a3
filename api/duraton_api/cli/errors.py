"""What a command ends with when it cannot do what it was asked to."""

from typing import Any

EXIT_FAILED = 1
"""Refused or failed."""
EXIT_USAGE = 2
"""Wrong usage."""


class CommandFailedError(Exception):
    """A command's own failure, shown as message, code and advice; never a traceback.

    Attributes:
        code: Stable, for programs.
        advice: What to do, or empty.
        status: The exit status.
    """

    def __init__(
        self, code: str, message: str, advice: str = "", *, status: int = EXIT_FAILED
    ) -> None:
        super().__init__(message)
        self.code, self.advice, self.status = code, advice, status

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.code, str(self), self.advice)


def describe(error: BaseException) -> tuple[str, str, str] | None:
    """Message, code and advice of an error of ours, or None for any other.

    Every component's errors carry `code` and `advice` on their classes.
    """
    code = getattr(error, "engine_code", None) or getattr(error, "code", None)
    advice = getattr(error, "advice", None)
    if not isinstance(code, str) or not isinstance(advice, str):
        return None
    return str(error) or code, code, advice
