"""Looking at a run that would start: who it is, and what holds it back."""

from typing import NamedTuple

from duraton_engine.context import EngineContext
from duraton_engine.state import tables
from duraton_engine.state.objects import RunState
from duraton_schemas.records.common import Scopes
from duraton_streams.partition.machine import Transition
from duraton_streams.state.table import Key


class Block(NamedTuple):
    """What holds a start back.

    Attributes:
        gate: The gate, as in the fact `LaneMoved`.
        due: When it opens by itself, milliseconds since 1970 UTC, or None.
    """

    gate: str
    due: int | None = None


class Look:
    """A run that would start now, or one that would be created.

    Attributes:
        tx: The transition.
        engine: The engine's context.
        slot: Its slot.
        flow: Its workflow, or None where it is not registered.
        app: Its app.
        workflow: Its workflow's name.
        kind: `main` or `onFailure`.
        scopes: Where it is counted, or None.
        first: Whether it has not started before.
        exempt: Whether the budget does not hold it.
        waits: Whether `together` lets it wait whatever the flow says: a replay (P40).
        victim: The run that ends for it (`together` with `stop`), or None.
        takes_over: Whether the places of that run under gate keys pass on to it.
        granted: The gate keys under which it has a place already, or None.
    """

    __slots__ = (
        "app",
        "engine",
        "exempt",
        "first",
        "flow",
        "granted",
        "kind",
        "scopes",
        "slot",
        "takes_over",
        "tx",
        "victim",
        "waits",
        "workflow",
    )

    def __init__(
        self,
        tx: Transition,
        engine: EngineContext,
        slot: int,
        app: str,
        workflow: str,
        *,
        kind: str = "main",
        scopes: Scopes | None = None,
        first: bool = True,
        exempt: bool = False,
        waits: bool = False,
    ) -> None:
        self.tx = tx
        self.engine = engine
        self.slot = slot
        self.app = app
        self.workflow = workflow
        self.flow = engine.registrations.flow(app, workflow)
        self.kind = kind
        self.scopes = scopes
        self.first = first
        self.exempt = exempt
        self.waits = waits
        self.victim: RunState | None = None
        self.takes_over = False
        self.granted: tuple[str, ...] | None = None

    @property
    def of(self) -> Key:
        """The first parts of the workflow's keys."""
        return (self.slot, self.app, self.workflow)

    def newest(self, control: str, scope: str) -> RunState | None:
        """The newest unended run of a key, or None."""
        key, state = (*self.of, control, scope), self.tx.state
        if state.get(tables.OPEN_COUNTS, key) is None:
            return None
        rows = state.scan(tables.OPEN, key, 1)
        return state.get(tables.RUNS, (self.slot, rows[0][1].run)) if rows else None

    def executing(self, control: str, scope: str) -> int:
        """How many runs execute in a scope."""
        count = self.tx.state.get(tables.COUNTS, (*self.of, control, scope))
        return count.count if count is not None else 0


def look_at(tx: Transition, engine: EngineContext, slot: int, run: RunState) -> Look:
    """A look at a run that exists."""
    return Look(
        tx,
        engine,
        slot,
        run.app,
        run.workflow,
        kind=run.kind,
        scopes=run.scopes,
        first=run.started_at is None,
        exempt=run.exempt,
        waits=run.waits,
    )
