"""Room at a runner: the last gate, kept in memory only (DESIGN 8)."""

from duraton_engine.controls.flow import Flow
from duraton_engine.controls.look import Block, Look
from duraton_engine.room import Seat
from duraton_engine.state.flow import RUNNER
from duraton_schemas.records.common import Scopes
from duraton_schemas.records.journal import RunStarted


def find(look: Look) -> Seat | None:
    """The runner that a run would go to, or None where none has room.

    A workflow that is not registered has none, though an older runner may offer it still:
    nobody knows what holds its runs back, so they wait until it comes back (P38).
    """
    if look.flow is None:
        return None
    return look.engine.room.find(look.app, look.workflow)


def check(look: Look) -> Block | None:
    """Held back while no runner has room."""
    return Block(RUNNER) if find(look) is None else None


def claim(look: Look, started: RunStarted) -> None:
    """The seat is taken in memory, where the run is started."""


def release(flow: Flow | None, scopes: Scopes) -> tuple[str, ...]:
    """Room tells of itself (`Room.freed`)."""
    return ()


def due(look: Look, scope: str) -> int | None:
    """No time brings a runner."""
    return None
