"""Admission: the one list of what may hold a start back, in the order of P1 (7 to 9)."""

from types import ModuleType

from duraton_engine.controls import (
    budget,
    concurrency,
    project,
    room_at_runner,
    throttle,
    together,
    token_throttle,
)
from duraton_engine.controls.look import Block, Look
from duraton_engine.room import Seat
from duraton_engine.state import tables
from duraton_engine.state.flow import RUNNER, UNSEEN
from duraton_engine.state.lanes import CONCURRENCY, THROTTLE, TOGETHER, TOKEN_THROTTLE, gate_of
from duraton_schemas.records.common import Scopes
from duraton_schemas.records.journal import RunStarted

STARTS: tuple[ModuleType, ...] = (
    budget,  # a workflow that is held starts nothing (P30)
    token_throttle,  # (7) the earliest start
    throttle,  # (7)
    concurrency,  # (9) what gates it
    together,  # (9)
)
"""All of them are checked before anything is claimed. Behind them come room at a runner,
which is kept in memory only and holds nothing while it says no (DESIGN 8), and what is
counted across workflows, which is asked for once all else would let a run start."""
PLAIN: tuple[ModuleType, ...] = (budget,)
"""Those that also hold back runs that are counted nowhere."""


def admit(look: Look) -> Block | Seat:
    """What holds a start back, or the runner that it goes to."""
    if look.kind == "main":
        for control in STARTS if look.scopes is not None else PLAIN:
            block: Block | None = control.check(look)
            if block is not None:
                return block
    seat = room_at_runner.find(look)
    if seat is None:
        return Block(RUNNER)
    return project.check(look) or seat


def let_go_at(look: Look) -> int | None:
    """When the throttles let a first start go, so that it was ready (P14); None for no throttle."""
    scopes, flow = look.scopes, look.flow
    if not look.first or scopes is None or flow is None or look.kind != "main":
        return None
    found: list[int | None] = []
    if flow.controls.throttle is not None and scopes.throttle is not None:
        found.append(throttle.due(look, scopes.throttle))
    if flow.controls.token_throttle is not None and scopes.token_throttle is not None:
        found.append(token_throttle.due(look, scopes.token_throttle))
    return max((due for due in found if due is not None), default=None)


def claim(look: Look, started: RunStarted) -> None:
    """Write what a start takes into its fact."""
    if look.scopes is not None and look.kind == "main":
        for control in STARTS:
            control.claim(look, started)
    project.claim(look, started)


def overtaken(look: Look, sort: int, seq: int) -> Block | None:
    """The gate at which somebody stands before a run that comes now, or None.

    Lanes stand before gates that are closed, or that are being looked at lane by lane. In
    the second case the run's turn is behind them: order is kept inside a scope.

    Args:
        look: A run that is in no lane.
        sort: Its sort key.
        seq: Its place among equal ones.
    """
    state = look.tx.state
    if state.get(tables.WAITING, look.of) is None:
        return None
    for gate in (UNSEEN, RUNNER, *_gates(look)):
        rows = state.scan(tables.LINES, (*look.of, gate), 1)
        if rows and rows[0][0][4:] < (tables.SORT_BIAS + sort, seq):
            return Block(gate)
    return None


def _gates(look: Look) -> list[str]:
    scopes = look.scopes
    if scopes is None or look.kind != "main":
        return []
    pairs = [(CONCURRENCY, scopes.concurrency)]
    if look.victim is None:
        # Who stops a run takes that one's place, which nobody else waits for (P25).
        pairs.append((TOGETHER, scopes.together))
    if look.first:
        pairs += [(THROTTLE, scopes.throttle), (TOKEN_THROTTLE, scopes.token_throttle)]
    return [gate_of(control, scope) for control, scope in pairs if scope is not None]


ASKS_MAX = 64
"""Runs of a lane whose asks for a place are open at once."""


def free(look: Look) -> int:
    """How many runs of a lane the local controls would let start now, at most `ASKS_MAX`."""
    most = ASKS_MAX
    flow, scopes = look.flow, look.scopes
    if flow is None or scopes is None or look.kind != "main":
        return most
    controls = flow.controls
    if controls.concurrency is not None and scopes.concurrency is not None:
        used = look.executing(CONCURRENCY, scopes.concurrency)
        most = min(most, controls.concurrency.limit - used)
    whole = controls.together
    if whole is not None and whole.group is None and scopes.together is not None:
        most = min(most, whole.max - look.executing(TOGETHER, scopes.together))
    if look.first and controls.throttle is not None:
        most = min(most, 1)
    return max(most, 1)


def released(scopes: Scopes) -> list[str]:
    """The gates that may open where a run stops executing."""
    return [gate for control in STARTS for gate in control.release(scopes)]
