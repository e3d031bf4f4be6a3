"""Budget: a workflow's AI spend in a rolling window holds all its runs (P30, P31).

The workflow is looked at on the instants of a tick, and only where something can have
changed: after new spend, and, while it is held or warned of, when old spend rolls off.
"""

from duraton_engine.context import EngineContext
from duraton_engine.controls.look import Block, Look
from duraton_engine.state import tables
from duraton_engine.state.flow import Late, Spending
from duraton_engine.state.lanes import BUDGET, gate_of
from duraton_engine.state.objects import RunState
from duraton_schemas.cap import MICROS
from duraton_schemas.controls import Budget
from duraton_schemas.ids import run_slot
from duraton_schemas.records.common import Scopes, StepSpend
from duraton_schemas.records.journal import RunStarted
from duraton_streams.partition.machine import Transition
from duraton_streams.state.table import Key, StateReader

GATE = gate_of(BUDGET, "")


def holds(state: StateReader, of: Key) -> bool:
    """Whether a workflow is held."""
    spending = state.get(tables.SPENDING, of)
    return spending is not None and spending.held


def rests(state: StateReader, run: RunState) -> bool:
    """Whether its workflow's budget holds a run."""
    if run.kind != "main" or run.exempt:
        return False
    return holds(state, (run_slot(run.id), run.app, run.workflow))


def check(look: Look) -> Block | None:
    """Held back while the workflow is, unless a person exempted the run; not in onFailure."""
    if look.flow is None or not look.flow.budgeted or look.exempt:
        return None
    return Block(GATE) if holds(look.tx.state, look.of) else None


def claim(look: Look, started: RunStarted) -> None:
    """A start takes nothing: spend is counted as it is committed."""


def release(scopes: Scopes) -> tuple[str, ...]:
    """Nothing is given back: the window rolls on."""
    return ()


def due(look: Look, scope: str) -> int | None:
    """When the workflow is looked at next."""
    spending = look.tx.state.get(tables.SPENDING, look.of)
    return spending.due if spending is not None else None


def next_tick(now: int, tick_ms: int) -> int:
    """The first instant of the tick after a time."""
    return (now // tick_ms + 1) * tick_ms


def look_again_at(
    tx: Transition, engine: EngineContext, slot: int, run: RunState | Late, spend: StepSpend | None
) -> int | None:
    """When the budget is looked at for new spend, for the fact that records it."""
    if spend is None or not (spend.tokens or spend.cost):
        return None
    flow = engine.registrations.flow(run.app, run.workflow)
    if flow is None or flow.controls.budget is None:
        return None
    at = next_tick(tx.now, engine.settings.budget_tick)
    spending = tx.state.get(tables.SPENDING, (slot, run.app, run.workflow))
    if spending is not None and spending.due is not None and spending.due <= at:
        return None
    return at


def crossed(budget: Budget, spending: Spending, share: float = 1.0) -> str | None:
    """The axis on which spend is over a share of the budget, or None."""
    if budget.max_tokens is not None and spending.tokens > budget.max_tokens * share:
        return "maxTokens"
    if budget.max_cost is not None and spending.cost > budget.max_cost * MICROS * share:
        return "maxCost"
    return None


def warns(budget: Budget, spending: Spending) -> bool:
    """Whether spend has reached the percentage that is warned of."""
    if budget.warn_at_pct is None:
        return False
    share = budget.warn_at_pct / 100
    tokens, cost = budget.max_tokens, budget.max_cost
    return (tokens is not None and spending.tokens >= tokens * share) or (
        cost is not None and spending.cost >= cost * MICROS * share
    )
