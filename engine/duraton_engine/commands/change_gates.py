"""Gate keys have changed: what executes is counted by the new ones (DESIGN 4, gates)."""

from collections import Counter

from duraton_engine.commands.fire_window import firing_gates
from duraton_engine.commands.release import tell_project
from duraton_engine.context import EngineContext
from duraton_engine.controls.look import look_at
from duraton_engine.controls.project import keys_of
from duraton_engine.state import tables
from duraton_engine.state.flow import PROJECT, UNSEEN
from duraton_engine.state.reading import workflows_in
from duraton_schemas.records import journal as facts
from duraton_schemas.records import messages
from duraton_schemas.slots import PROJECT_SLOT
from duraton_streams.partition.machine import Transition
from duraton_streams.partition.transition import first_slot
from duraton_streams.state.table import scan_all

RUNS_A_FACT = 500


def change_gates(tx: Transition, engine: EngineContext, version: int) -> None:
    """At every partition, in the transition that applies the change; in this order.

    0. What this transition has given back is told first: it is not counted any more.
    1. Executing runs get the keys under which they count from here on; none is stopped.
    2. The project slot is told all of them, in order with this partition's asks and releases.
    3. Asks that are not answered no longer count.
    4. Lanes that wait for places, or for a gate that is gone, are looked at; so are firings
       that are held, which ask anew.
    """
    # 0
    tell_project(tx, engine)
    own = first_slot(tx.partition, tx.partitions)
    counts: Counter[tuple[str, str, tuple[str, ...]]] = Counter()
    changed: dict[int, list[facts.RunGates]] = {}
    # 1
    for key, _ in scan_all(tx.state, tables.LIVE):
        slot = int(key[0])
        run = tx.state.get(tables.RUNS, key)
        assert run is not None, "an executing run exists"
        keys = keys_of(look_at(tx, engine, slot, run))
        if keys:
            counts[run.app, run.workflow, keys] += 1
        if keys != run.gates:
            changed.setdefault(slot, []).append(facts.RunGates(run=run.id, gates=list(keys)))
    for slot, runs in changed.items():
        for first in range(0, len(runs), RUNS_A_FACT):
            tx.emit(slot, facts.RunsRegated(runs=runs[first : first + RUNS_A_FACT]))
    # 2
    held = [
        messages.Holding(app=app, workflow=workflow, keys=list(keys), count=count)
        for (app, workflow, keys), count in sorted(counts.items())
    ]
    most = engine.settings.holdings_max
    parts = [held[first : first + most] for first in range(0, len(held), most)] or [[]]
    for number, part in enumerate(parts, 1):
        told = messages.HoldingTold(
            reporter=tx.partition,
            version=version,
            held=part,
            first=number == 1,
            last=number == len(parts),
        )
        tx.send(PROJECT_SLOT, told, source=own)
    # 3
    for of in workflows_in(tx.state, tables.ASKED):
        tx.emit(int(of[0]), facts.AsksDropped(app=str(of[1]), workflow=str(of[2])))
    # 4
    for of, _ in scan_all(tx.state, tables.WAITING):
        if tx.state.scan(tables.LINES, (*of, PROJECT), 1):
            tx.emit(int(of[0]), facts.LanesReviewed(app=str(of[1]), workflow=str(of[2])))
            engine.opened(of, UNSEEN)
    for of in workflows_in(tx.state, tables.FIRINGS):
        engine.opened(of, *firing_gates(tx, of))
