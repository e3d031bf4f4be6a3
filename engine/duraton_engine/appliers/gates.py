"""Appliers of what is counted across workflows: at the homes, and at the project slot."""

from duraton_engine.appliers.lanes import count_by
from duraton_engine.state import flow, objects, tables
from duraton_schemas.records import journal as facts
from duraton_streams.state.table import StateWriter, scan_all


def places_asked(state: StateWriter, fact: facts.PlacesAsked) -> None:
    """The runs ask no second time until they are answered."""
    for run in fact.runs:
        state.insert(tables.ASKED, (fact.slot, fact.app, fact.workflow, run), flow.MARK)


def ask_closed(state: StateWriter, fact: facts.AskClosed) -> None:
    """The run may ask again."""
    state.delete(tables.ASKED, (fact.slot, fact.app, fact.workflow, fact.run))


def asks_dropped(state: StateWriter, fact: facts.AsksDropped) -> None:
    """Nothing that was asked counts any more."""
    for key, _ in scan_all(state, tables.ASKED, (fact.slot, fact.app, fact.workflow)):
        state.delete(tables.ASKED, key)


def runs_regated(state: StateWriter, fact: facts.RunsRegated) -> None:
    """Executing runs are counted by other keys."""
    for each in fact.runs:
        state.edit(tables.RUNS, (fact.slot, each.run)).gates = tuple(each.gates)


def start_probed(state: StateWriter, fact: facts.StartProbed) -> None:
    """The start waits for its answer."""
    key = (fact.slot, fact.app, fact.workflow, fact.seq)
    state.insert(tables.PROBES, key, flow.Probe(fact.start))


def probe_answered(state: StateWriter, fact: facts.ProbeAnswered) -> None:
    """The start no longer waits."""
    state.delete(tables.PROBES, (fact.slot, fact.app, fact.workflow, fact.number))


def ask_stood(state: StateWriter, fact: facts.AskStood) -> None:
    """The ask waits in its line."""
    ask = flow.Ask(
        app=fact.app,
        workflow=fact.workflow,
        lane=fact.lane,
        home=fact.home,
        partition=fact.partition,
        keys=tuple(fact.keys),
        line=fact.line,
        sort=fact.sort,
        seq=fact.seq,
        version=fact.version,
        then=fact.then,
        claim=fact.claim,
        number=fact.number,
    )
    state.put(tables.ASKS, (fact.slot, fact.run), ask)
    state.insert(tables.ASK_LINES, tables.ask_key(fact.slot, ask), flow.RunRef(fact.run))
    if ask.then == "stop":
        state.insert(tables.STOPPERS, tables.stopper_key(fact.slot, ask), flow.RunRef(fact.run))


def ask_moved(state: StateWriter, fact: facts.AskMoved) -> None:
    """The ask leaves one line for another, and keeps its order."""
    ask = state.edit(tables.ASKS, (fact.slot, fact.run))
    state.delete(tables.ASK_LINES, tables.ask_key(fact.slot, ask))
    ask.line = fact.line
    state.insert(tables.ASK_LINES, tables.ask_key(fact.slot, ask), flow.RunRef(fact.run))


def ask_gone(state: StateWriter, fact: facts.AskGone) -> None:
    """The ask waits no more."""
    _forget(state, fact.slot, fact.run)


def _forget(state: StateWriter, slot: int, run: str) -> None:
    ask = state.get(tables.ASKS, (slot, run))
    if ask is not None:
        state.delete(tables.ASK_LINES, tables.ask_key(slot, ask))
        state.delete(tables.ASKS, (slot, run))
        if ask.then == "stop":
            state.delete(tables.STOPPERS, tables.stopper_key(slot, ask))


def place_granted(state: StateWriter, fact: facts.PlaceGranted) -> None:
    """A place is counted under each key."""
    if fact.run:
        _forget(state, fact.slot, fact.run)
    for key in fact.keys:
        count_by(state, tables.PLACES, (fact.slot, key), 1)
        holder = (fact.slot, fact.partition, key, fact.app, fact.workflow)
        count_by(state, tables.HOLDERS, holder, 1)


def places_released(state: StateWriter, fact: facts.PlacesReleased) -> None:
    """A place under each key is free."""
    for key in fact.keys:
        count_by(state, tables.PLACES, (fact.slot, key), -1)
        holder = (fact.slot, fact.partition, key, fact.app, fact.workflow)
        count_by(state, tables.HOLDERS, holder, -1)


def holding_reported(state: StateWriter, fact: facts.HoldingReported) -> None:
    """What a partition holds is counted anew; its older asks are gone."""
    slot = fact.slot
    if fact.first:
        _uncount(state, fact)
    for held in fact.held:
        for key in held.keys:
            count_by(state, tables.PLACES, (slot, key), held.count)
            holder = (slot, fact.partition, key, held.app, held.workflow)
            count_by(state, tables.HOLDERS, holder, held.count)
    if fact.last:
        reported = objects.Reported(version=fact.version)
        state.put(tables.HOLDINGS, (slot, fact.partition), reported)


def _uncount(state: StateWriter, fact: facts.HoldingReported) -> None:
    slot = fact.slot
    for holder, old in scan_all(state, tables.HOLDERS, (slot, fact.partition)):
        count_by(state, tables.PLACES, (slot, holder[2]), -old.count)
        state.delete(tables.HOLDERS, holder)
    for asked, ask in scan_all(state, tables.ASKS, (slot,)):
        if ask.partition == fact.partition and ask.version < fact.version:
            _forget(state, slot, str(asked[1]))
