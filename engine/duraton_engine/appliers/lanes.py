"""Appliers of waiting: runs in their lanes, lanes before their gates."""

from duraton_engine.state import objects, tables
from duraton_engine.state.flow import RUNNER, UNSEEN, GateTimer, Lane, Standing
from duraton_engine.state.lanes import lane_of
from duraton_engine.state.objects import RunState
from duraton_schemas.records import journal as facts
from duraton_streams.state.table import Key, StateWriter, Table, scan_all


def enqueue(
    state: StateWriter,
    slot: int,
    run: RunState,
    gate: str = UNSEEN,
    due: int | None = None,
) -> None:
    """Put a run into its lane, unless it is paused.

    Runs of equal sort keys stand in the order in which they were created.

    Args:
        state: The state.
        slot: The run's slot.
        run: The run.
        gate: What holds it back, where it is the lane's only run.
        due: When that opens by itself, or None.
    """
    run.status = objects.QUEUED
    if run.paused:
        return
    run.queued, run.lane = True, lane_of(run)
    state.insert(tables.QUEUE, tables.queue_key(slot, run), objects.Queued(run.id))
    count_by(state, tables.WAITING, (slot, run.app, run.workflow), 1)
    key = tables.lane_key(slot, run)
    if state.get(tables.LANES, key) is None:
        lane = Lane(gate, run.sort_at, run.seq, run.id, 1)
        state.put(tables.LANES, key, lane)
        _stand(state, key, lane, due)
        return
    lane = state.edit(tables.LANES, key)
    lane.count += 1
    head = state.get(tables.RUNS, (slot, lane.head))
    assert head is not None, "a lane's first run exists"
    if (run.sort_at, run.seq) < (head.sort_at, head.seq):
        _leave(state, key, lane)
        lane.sort, lane.seq, lane.head = run.sort_at, run.seq, run.id
        _stand(state, key, lane, None)


def dequeue(state: StateWriter, slot: int, run: RunState) -> None:
    """Take a run out of its lane, where it is in one."""
    if not run.queued:
        return
    state.delete(tables.QUEUE, tables.queue_key(slot, run))
    run.queued = False
    count_by(state, tables.WAITING, (slot, run.app, run.workflow), -1)
    key = tables.lane_key(slot, run)
    lane = state.edit(tables.LANES, key)
    lane.count -= 1
    if lane.count == 0:
        _leave(state, key, lane)
        state.delete(tables.LANES, key)
        _disarm_empty(state, key, lane.gate)
    elif lane.head == run.id:
        _leave(state, key, lane)
        head_key, head = state.scan(tables.QUEUE, key, 1)[0]
        # The queue's key ends in the sort key and the seq.
        lane.sort, lane.seq = int(head_key[4]) - tables.SORT_BIAS, int(head_key[5])
        lane.head = head.run
        _stand(state, key, lane, None)


def _stand(state: StateWriter, key: Key, lane: Lane, due: int | None) -> None:
    state.insert(tables.LINES, tables.line_key(key, lane), Standing(str(key[3])))
    if lane.gate == RUNNER:
        count_by(state, tables.AT_RUNNER, key[:3], 1)
    if due is not None:
        arm(state, (*key[:3], lane.gate), due)


def _leave(state: StateWriter, key: Key, lane: Lane) -> None:
    state.delete(tables.LINES, tables.line_key(key, lane))
    if lane.gate == RUNNER:
        count_by(state, tables.AT_RUNNER, key[:3], -1)


def _disarm_empty(state: StateWriter, key: Key, gate: str) -> None:
    """Take back the timer of a gate before which no lane stands any more."""
    of = (*key[:3], gate)
    if state.get(tables.GATES, of) is not None and not state.scan(tables.LINES, of, 1):
        disarm(state, of)


def arm(state: StateWriter, of: Key, due: int) -> None:
    """Let a gate be looked at when it opens by itself."""
    old = state.get(tables.GATES, of)
    target = (of[0], "gate", *of[1:])
    if old is not None:
        if old.due == due:
            return
        state.clear_timer(old.due, target)
    state.put(tables.GATES, of, GateTimer(due))
    state.set_timer(due, target)


def disarm(state: StateWriter, of: Key) -> None:
    """No time opens a gate, or nobody stands before it."""
    old = state.get(tables.GATES, of)
    if old is not None:
        state.clear_timer(old.due, (of[0], "gate", *of[1:]))
        state.delete(tables.GATES, of)


def rearm(state: StateWriter, slot: int, run: RunState, gate: str, due: int) -> None:
    """A start has moved the time at which a gate opens: who still stands there waits for it."""
    of = (slot, run.app, run.workflow, gate)
    if state.scan(tables.LINES, of, 1):
        arm(state, of, due)
    else:
        disarm(state, of)


def lane_moved(state: StateWriter, fact: facts.LaneMoved) -> None:
    """The lane leaves one line and stands in another."""
    key = (fact.slot, fact.app, fact.workflow, fact.lane)
    lane = state.edit(tables.LANES, key)
    before = lane.gate
    _leave(state, key, lane)
    lane.gate, lane.sort = fact.gate, fact.sort
    _stand(state, key, lane, fact.due)
    if before != lane.gate:
        _disarm_empty(state, key, before)


def gate_armed(state: StateWriter, fact: facts.GateArmed) -> None:
    """The gate's timer moves, or goes."""
    of = (fact.slot, fact.app, fact.workflow, fact.gate)
    if fact.due is None:
        disarm(state, of)
    else:
        arm(state, of, fact.due)


def lanes_reviewed(state: StateWriter, fact: facts.LanesReviewed) -> None:
    """Every lane of the workflow stands where lanes are looked at."""
    of = (fact.slot, fact.app, fact.workflow)
    for key, _ in scan_all(state, tables.LANES, of):
        lane = state.edit(tables.LANES, key)
        _leave(state, key, lane)
        lane.gate = UNSEEN
        _stand(state, key, lane, None)
    for gate, _ in scan_all(state, tables.GATES, of):
        disarm(state, gate)


def count_by(state: StateWriter, table: Table[objects.Count], key: Key, change: int) -> None:
    """Change a count; at 0 its row goes."""
    old = state.get(table, key)
    total = (old.count if old else 0) + change
    if total > 0:
        state.put(table, key, objects.Count(total))
    else:
        state.delete(table, key)
