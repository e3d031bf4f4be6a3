"""Appliers of AI spend by workflow, and of what its budget holds (P30)."""

from duraton_engine.state import tables
from duraton_engine.state.flow import Spending, Spent
from duraton_engine.state.objects import RunState
from duraton_schemas.records import journal as facts
from duraton_schemas.records.common import Spend
from duraton_streams.state.table import Key, StateWriter, scan_all

BY_SECOND_S = 31 * 86_400
"""Seconds for which spend is kept by the second; older spend is kept by the hour, for good.

So a workflow has at most that many rows, and one more for each hour in which it spent.
"""
HOUR_S = 3_600
FOLDED_AT_ONCE = 10
"""Seconds of old spend that go into their hours with each new one."""


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
    _fold(state, of, spending, second - BY_SECOND_S)


def _fold(state: StateWriter, of: Key, spending: Spending, oldest: int) -> None:
    """Put spend of old seconds into their hours; an hour's row is that of its last second.

    So an hour counts for as long as any of it lies in the window, like a second.
    """
    for row, spent in state.scan(tables.SPENT, of, FOLDED_AT_ONCE, (*of, spending.folded)):
        second = int(row[3])
        last = second // HOUR_S * HOUR_S + HOUR_S - 1
        if last >= oldest:
            return
        spending.folded = second
        if second == last:
            continue
        state.delete(tables.SPENT, row)
        hour = state.get(tables.SPENT, (*of, last)) or Spent(0, 0)
        state.put(
            tables.SPENT, (*of, last), Spent(hour.tokens + spent.tokens, hour.cost + spent.cost)
        )
        if second <= spending.floor < last:
            # What stands in an hour that counts counts.
            spending.tokens += spent.tokens
            spending.cost += spent.cost


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
