"""Look at a workflow's budget: hold its runs, release them, warn (P30)."""

import msgspec

from duraton_engine.commands.invocation import hold
from duraton_engine.commands.record_event import record_event
from duraton_engine.context import EngineContext
from duraton_engine.controls import budget as control
from duraton_engine.controls.flow import Flow
from duraton_engine.state import tables
from duraton_engine.state.flow import Spending
from duraton_schemas.cap import MICROS
from duraton_schemas.controls import Budget
from duraton_schemas.records import journal as facts
from duraton_schemas.records.common import Caller, Place
from duraton_schemas.records.public import Event
from duraton_streams.logs.base import JOURNAL
from duraton_streams.partition.machine import Transition
from duraton_streams.state.table import Key, scan_all

WARNING_EVENT = "duraton.budget.warning"
"""What users subscribe to; its data has the workflow, the percentage and the spend."""
BUDGET = Caller(kind="system", id="budget", root="system:budget")


def tick_budget(tx: Transition, engine: EngineContext, of: Key) -> None:
    """Look at a workflow, in this order.

    1. The window moves: what rolled off no longer counts.
    2. Over the budget the workflow is held, within it released; no hysteresis.
    3. A warning is given once for each crossing upwards.
    """
    flow = engine.registrations.flow(str(of[1]), str(of[2]))
    budget = flow.controls.budget if flow is not None else None
    # 1
    _move(tx, engine, of, budget)
    spending = tx.state.get(tables.SPENDING, of) or Spending()
    # 2
    axis = control.crossed(budget, spending) if budget is not None else None
    if axis is not None and not spending.held:
        _hold(tx, of, axis, spending)
    elif axis is None and spending.held:
        released = facts.WorkflowReleased(
            app=str(of[1]), workflow=str(of[2]), tokens=spending.tokens, cost=spending.cost
        )
        tx.emit(int(of[0]), released)
        engine.opened(of, control.GATE)
    # 3
    over = budget is not None and control.warns(budget, spending)
    if over != spending.warned:
        _warn(tx, engine, of, flow, spending, over=over)


def _move(tx: Transition, engine: EngineContext, of: Key, budget: Budget | None) -> None:
    old = tx.state.get(tables.SPENDING, of) or Spending()
    window = budget.window_ms if budget is not None else 0
    # A second counts as long as any of it lies in the window.
    floor = max(0, (tx.now - window) // 1_000 - 1) if budget is not None else old.floor
    following = None
    if budget is not None:
        following = _roll_off(tx, engine, of, budget, floor)
    ticked = facts.BudgetTicked(app=str(of[1]), workflow=str(of[2]), floor=floor, next=following)
    tx.emit(int(of[0]), ticked)


def _roll_off(
    tx: Transition, engine: EngineContext, of: Key, budget: Budget, floor: int
) -> int | None:
    """When the oldest spend that counts rolls off."""
    rows = tx.state.scan(tables.SPENT, of, 1, (*of, floor))
    if not rows:
        return None
    second = int(rows[0][0][3])
    off = (second + 1) * 1_000 + budget.window_ms
    return control.next_tick(off - 1, engine.settings.budget_tick)


def _hold(tx: Transition, of: Key, axis: str, spending: Spending) -> None:
    """One fact holds all; what executes is told to finish its step and to rest."""
    held = facts.WorkflowHeld(
        app=str(of[1]),
        workflow=str(of[2]),
        axis=axis,
        tokens=spending.tokens,
        cost=spending.cost,
    )
    tx.emit(int(of[0]), held)
    for key, _ in scan_all(tx.state, tables.LIVE, (int(of[0]),)):
        run = tx.state.get(tables.RUNS, key)
        assert run is not None, "an executing run exists"
        if (run.app, run.workflow) == of[1:] and run.kind == "main" and not run.exempt:
            hold(tx, run)


def _warn(
    tx: Transition,
    engine: EngineContext,
    of: Key,
    flow: Flow | None,
    spending: Spending,
    *,
    over: bool,
) -> None:
    slot, app, workflow = int(of[0]), str(of[1]), str(of[2])
    warned = facts.BudgetWarned(
        app=app, workflow=workflow, over=over, tokens=spending.tokens, cost=spending.cost
    )
    tx.emit(slot, warned)
    budget = flow.controls.budget if flow is not None else None
    if not over or budget is None:
        return
    data = {
        "app": app,
        "workflow": workflow,
        "warnAtPct": budget.warn_at_pct,
        "tokens": spending.tokens,
        "cost": spending.cost / MICROS,
        "maxTokens": budget.max_tokens,
        "maxCost": budget.max_cost,
        "windowMs": budget.window_ms,
    }
    place = Place(topic=JOURNAL, partition=tx.partition, offset=tx.next_seq)
    event = Event(
        id=f"budget/{app}/{workflow}/{tx.now}",
        name=WARNING_EVENT,
        data=msgspec.json.encode(data).decode(),
        ts=tx.now,
        caller=BUDGET,
    )
    record_event(tx, engine, slot, event, place, "", held=False)
