"""Room at a runner: the last gate, kept in memory only (DESIGN 8).

It has none of the controls' four functions: a seat is taken and freed in memory where a run
starts and stops, and `Room.freed` tells of itself.
"""

from duraton_engine.controls.look import Look
from duraton_engine.room import Seat


def find(look: Look) -> Seat | None:
    """The runner that a run would go to, or None where none has room.

    A workflow that is not registered has none, though an older runner may offer it still:
    nobody knows what holds its runs back, so they wait until it comes back (P38).
    """
    if look.flow is None:
        return None
    return look.engine.room.find(look.app, look.workflow)
