"""One connection to a runner process, whatever carries it."""

import json
from abc import ABC, abstractmethod

REASON_BYTES_MAX = 123
"""A close frame has room for this many bytes of reason (RFC 6455, 5.5)."""


class Connection(ABC):
    """Carries messages to one runner; the hub calls it on the loop's thread only."""

    @abstractmethod
    def send(self, message: bytes) -> None:
        """Queue one message. It does not wait, and is ignored once closed."""

    @abstractmethod
    def close(self, code: int, reason: str) -> None:
        """Send what is queued, as far as the runner takes it, and close.

        Args:
            code: One of `duraton_schemas.wire.closing`.
            reason: JSON with `code` and `message`, as `close_reason` makes it.
        """

    @property
    def unsent(self) -> int:
        """Bytes queued that the transport has not taken."""
        return 0

    def pause(self) -> None:  # noqa: B027 not every carrier can, and then need not
        """Receive nothing for now, so that the runner's side has to wait."""

    def resume(self) -> None:  # noqa: B027 as `pause`
        """Receive again."""


def close_reason(code: str, message: str) -> str:
    """The reason of a close frame: `{"code", "message"}`, the message cut to fit.

    Args:
        code: A stable code.
        message: For people; the engine's log has it whole.
    """
    while True:
        reason = json.dumps({"code": code, "message": message}, ensure_ascii=False)
        over = len(reason.encode()) - REASON_BYTES_MAX
        if over <= 0:
            return reason
        message = message[: -over - 3].rstrip() + "..." if len(message) > over + 3 else ""
