"""A workflow's controls have changed: who waits is looked at by the new ones (P20)."""

from collections.abc import Mapping

from duraton_engine.commands.ask_firing import firing_that_asks, withdraw
from duraton_engine.commands.fire_window import (
    fire_window,
    firing_gates,
    flush_buffer,
    rescope_firings,
)
from duraton_engine.commands.tick_budget import tick_budget
from duraton_engine.commands.withdraw_ask import withdraw_ask
from duraton_engine.context import EngineContext
from duraton_engine.controls.flow import Flow
from duraton_engine.state import tables
from duraton_engine.state.flow import UNSEEN
from duraton_engine.state.reading import input_of, unended_run
from duraton_schemas.records import journal as facts
from duraton_schemas.slots import home_slot, partition_of
from duraton_streams.partition.machine import Transition
from duraton_streams.state.table import Key, scan_all

RUNS_A_FACT = 500
"""Runs that one fact gives new scopes; it stays far below what a record may hold."""

Home = tuple[str, str]


def review_flows(tx: Transition, engine: EngineContext, before: Mapping[Home, Flow]) -> None:
    """After a registration: look at every workflow whose controls are others than before.

    Limits and periods are read anew by every decision. What has to be done here is, in order:

    1. Buckets keep their levels under the new rate (P32), and what starts and admissions
       have used counts for the new periods, however long.
    2. Where keys changed, all unended runs are counted by the new ones; executing ones are
       never stopped.
    3. All lanes are looked at; they ask anew where another word says what becomes of a start.
    4. Firings that are held are looked at, each one where keys changed.
    5. Windows and buffers whose control is gone fire.
    6. A budget that changed is looked at (P30).
    """
    after = engine.registrations.flows()
    for home in {**before, **after}:
        old, new = before.get(home), after.get(home)
        app, workflow = home
        slot = home_slot(app, workflow)
        if partition_of(slot, tx.partitions) != tx.partition:
            continue
        if new is None:
            continue  # its app may come back; until then its runs wait, counted as they were
        if old is not None and old.controls == new.controls:
            continue
        of = (slot, app, workflow)
        # 1
        _rate_buckets(tx, of, old, new)
        _stretch_periods(tx, of, old, new)
        # 2
        if old is None or old.keys != new.keys:
            _rescope(tx, of, new)
        # 3
        if tx.state.get(tables.WAITING, of) is not None:
            tx.emit(slot, facts.LanesReviewed(app=app, workflow=workflow))
            engine.opened(of, UNSEEN)
        if old is not None and _then(old) != _then(new):
            for key, _ in scan_all(tx.state, tables.ASKED, of):
                number = firing_that_asks(str(key[3]))
                if number is not None:
                    withdraw(tx, of, number)
                else:
                    withdraw_ask(tx, engine, unended_run(tx.state, slot, str(key[3])))
        # 4
        if old is None or old.keys != new.keys:
            rescope_firings(tx, engine, of)
        for gate in firing_gates(tx, of):
            engine.opened(of, gate)
        # 5
        _fire_gone(tx, engine, of, new)
        # 6
        budget = old.controls.budget if old is not None else None
        if budget != new.controls.budget and tx.state.get(tables.SPENDING, of) is not None:
            tick_budget(tx, engine, of)


def _then(flow: Flow) -> str | None:
    together = flow.controls.together
    return None if together is None else together.then


def _rate_buckets(tx: Transition, of: Key, old: Flow | None, new: Flow) -> None:
    control = new.controls.token_throttle
    if control is None or not tx.state.scan(tables.BUCKETS, of, 1):
        return
    before = old.controls.token_throttle if old is not None else None
    if before is None or (before.tokens, before.per_ms) != (control.tokens, control.per_ms):
        rated = facts.BucketsRated(
            app=str(of[1]), workflow=str(of[2]), tokens=control.tokens, per_ms=control.per_ms
        )
        tx.emit(int(of[0]), rated)


def _stretch_periods(tx: Transition, of: Key, old: Flow | None, new: Flow) -> None:
    """Rows are kept for as long as they count, which the new periods may change."""
    throttle, rate = new.controls.throttle, new.controls.rate_limit
    before = old.controls if old is not None else None
    same = before is not None and (before.throttle, before.rate_limit) == (throttle, rate)
    counted = bool(tx.state.scan(tables.THROTTLES, of, 1)) or bool(
        tx.state.scan(tables.RATES, of, 1)
    )
    if same or not counted:
        return
    changed = facts.PeriodsChanged(
        app=str(of[1]),
        workflow=str(of[2]),
        throttle_ms=-(-throttle.per_ms // throttle.limit) if throttle is not None else None,
        rate_ms=rate.per_ms if rate is not None else None,
    )
    tx.emit(int(of[0]), changed)


def _rescope(tx: Transition, of: Key, flow: Flow) -> None:
    slot, app, workflow = int(of[0]), str(of[1]), str(of[2])
    changed: list[facts.RunScopes] = []
    for key, run in scan_all(tx.state, tables.RUNS, (slot,)):
        if run.app != app or run.workflow != workflow or run.kind != "main":
            continue
        given = input_of(tx.state, slot, str(key[1]))
        event = given.events[0] if given.events else None
        scopes = flow.scopes(event)
        if scopes != run.scopes:
            changed.append(facts.RunScopes(run=run.id, scopes=scopes))
    for first in range(0, len(changed), RUNS_A_FACT):
        part = changed[first : first + RUNS_A_FACT]
        tx.emit(slot, facts.RunsRescoped(app=app, workflow=workflow, runs=part))


def _fire_gone(tx: Transition, engine: EngineContext, of: Key, flow: Flow) -> None:
    """A control that was removed lets go what it gathered."""
    if flow.controls.debounce is None:
        for key, _ in scan_all(tx.state, tables.WINDOWS, of):
            fire_window(tx, engine, of, str(key[3]))
    if flow.controls.batch is None:
        for key, _ in scan_all(tx.state, tables.BUFFERS, of):
            flush_buffer(tx, engine, of, str(key[3]), "removed")
