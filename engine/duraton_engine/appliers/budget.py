"""Appliers of AI spend by workflow, and of what its budget holds (P30)."""

from duraton_engine.state import tables
from duraton_engine.state.flow import Spending, Spent
from duraton_engine.state.objects import RunState
from duraton_schemas.controls import WINDOW_MS_MAX
from duraton_schemas.records import journal as facts
from duraton_schemas.records.common import Spend
from duraton_streams.state.table import Key, StateWriter, scan_all

SWEPT_AT_ONCE = 10
"""Seconds of spend past any window that go with each new one."""


def spend(
    state: StateWriter,
    of: Key,
    run: RunState | None,
    used: Spend,
    at: int,
    budget_at: int | None,
) -> None:
    """A run's step used AI: its workflow's spend grows, whether it has a budget or not.

    A run that a person exempted from the budget is so only until now, if that holds.

    Args:
        state: The state.
        of: The slot, the app, the workflow.
        run: The run, or None where it has ended.
        used: What the step used.
        at: When that was recorded, milliseconds since 1970 UTC.
        budget_at: When the budget is looked at for it, or None.
    """
    second = at // 1_000
    key = (*of, second)
    old = state.get(tables.SPENT, key)
    tokens, cost = (old.tokens, old.cost) if old is not None else (0, 0)
    state.put(tables.SPENT, key, Spent(tokens + used.tokens, cost + used.cost))
    spending = _edit(state, of)
    if second > spending.floor:
        spending.tokens += used.tokens
        spending.cost += used.cost
    if budget_at is not None:
        _arm(state, of, spending, budget_at)
    if spending.held and run is not None:
        run.exempt = False
    oldest = second - WINDOW_MS_MAX // 1_000
    for row, _ in state.scan(tables.SPENT, of, SWEPT_AT_ONCE):
        if int(row[3]) < oldest:
            state.delete(tables.SPENT, row)


def _edit(state: StateWriter, of: Key) -> Spending:
    if state.get(tables.SPENDING, of) is None:
        state.put(tables.SPENDING, of, Spending())
    return state.edit(tables.SPENDING, of)


def _arm(state: StateWriter, of: Key, spending: Spending, due: int | None) -> None:
    target = (of[0], "budget", *of[1:])
    if spending.due is not None:
        state.clear_timer(spending.due, target)
    spending.due = due
    if due is not None:
        state.set_timer(due, target)


def budget_ticked(state: StateWriter, fact: facts.BudgetTicked) -> None:
    """The window moves: what rolled off no longer counts; a wider one counts again."""
    of = (fact.slot, fact.app, fact.workflow)
    spending = _edit(state, of)
    low, high = sorted((spending.floor, fact.floor))
    sign = -1 if fact.floor > spending.floor else 1
    for row, spent in scan_all(state, tables.SPENT, of, after=(*of, low)):
        if int(row[3]) > high:
            break
        spending.tokens += sign * spent.tokens
        spending.cost += sign * spent.cost
    spending.floor = fact.floor
    _arm(state, of, spending, fact.next)


def workflow_held(state: StateWriter, fact: facts.WorkflowHeld) -> None:
    """Every run of the workflow rests by this, save those that are exempt."""
    _edit(state, (fact.slot, fact.app, fact.workflow)).held = True


def workflow_released(state: StateWriter, fact: facts.WorkflowReleased) -> None:
    """None rests by the budget any more."""
    _edit(state, (fact.slot, fact.app, fact.workflow)).held = False


def budget_warned(state: StateWriter, fact: facts.BudgetWarned) -> None:
    """The next warning comes after the spend has sunk below its mark."""
    _edit(state, (fact.slot, fact.app, fact.workflow)).warned = fact.over
