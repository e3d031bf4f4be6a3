"""One connection to a runner process, whatever carries it, and why it is closed."""

import json
from abc import ABC, abstractmethod
from typing import Final

CLOSE_GOING = 1012
"""The engine stops or restarts: come back."""
CLOSE_LATER = 1013
"""The engine cannot take the runner now: come back later."""
CLOSE_DEFECT = 1011
"""Something the engine did not expect; its log has it."""
CLOSE_UNREADABLE = 4400
"""A message that is none of the protocol's."""
CLOSE_SILENT = 4408
"""No frame for the silence."""
CLOSE_NAME_TAKEN = 4409
"""Another live process has the name."""
CLOSE_REPLACED = 4410
"""The same process has made a newer connection."""
CLOSE_REFUSED = 4422
"""The registration or the hello states what cannot work."""
CLOSE_VERSION = 4426
"""The protocol's version is not this engine's."""
CLOSE_SLOW = 4429
"""The runner does not take what it is sent."""

CLEAN_CODES: Final = (1000, 1001)
"""Codes with which a runner closes when it means to."""

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
            code: One of the codes above.
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
