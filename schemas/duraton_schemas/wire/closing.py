"""Close codes of the runners' WebSocket, as docs/reference/wire-protocol.md lists them."""

from typing import Final

CLOSE_DEFECT: Final = 1011
"""Something the engine did not expect; its log has it."""
CLOSE_GOING: Final = 1012
"""The engine stops or restarts: come back."""
CLOSE_LATER: Final = 1013
"""The engine cannot take the runner now: come back later."""
CLOSE_UNREADABLE: Final = 4400
"""A message that is none of the protocol's."""
CLOSE_SILENT: Final = 4408
"""No frame for the silence."""
CLOSE_NAME_TAKEN: Final = 4409
"""Another live process has the name."""
CLOSE_REPLACED: Final = 4410
"""The same process has made a newer connection."""
CLOSE_REFUSED: Final = 4422
"""The registration or the hello states what cannot work."""
CLOSE_VERSION: Final = 4426
"""The protocol's version is not this engine's."""
CLOSE_SLOW: Final = 4429
"""The runner does not take what it is sent."""

CLEAN_CODES: Final = frozenset({1000, 1001})
"""Codes with which a runner closes when it means to."""
COME_BACK_CODES: Final = frozenset({CLOSE_SILENT, CLOSE_REPLACED, CLOSE_SLOW})
"""The protocol's own codes (4000 to 4999) after which a runner comes back: it was silent,
it was replaced by itself, it was slow. The others refuse it."""
