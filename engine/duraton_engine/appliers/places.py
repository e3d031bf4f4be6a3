"""Appliers of what a run takes and gives back: places while it executes, keys while it lives."""

from typing import Any

from duraton_engine.appliers.lanes import count_by, rearm
from duraton_engine.state import flow, tables
from duraton_engine.state.lanes import CONCURRENCY, SINGLETON, THROTTLE, TOGETHER, gate_of
from duraton_engine.state.objects import RunState
from duraton_schemas.records import journal as facts
from duraton_schemas.records.common import Claimed, Drained, Rated, Scopes, Throttled
from duraton_streams.state.table import Key, StateWriter, Table, scan_all

SWEEP_MS = 60_000
"""Sweeps are that far apart: what has expired counts no more, swept or not (P17)."""


def take_places(state: StateWriter, slot: int, run: RunState, at: int) -> None:
    """A run executes from here on."""
    run.since = at
    scopes = run.scopes
    if scopes is None:
        return
    of = (slot, run.app, run.workflow)
    if scopes.concurrency is not None:
        count_by(state, tables.COUNTS, (*of, CONCURRENCY, scopes.concurrency), 1)
    if scopes.together is not None:
        count_by(state, tables.COUNTS, (*of, TOGETHER, scopes.together), 1)
        state.insert(tables.WORKING, (*of, scopes.together, run.id), flow.MARK)


def give_places(state: StateWriter, slot: int, run: RunState, at: int) -> None:
    """A run's token ends: it executes no more."""
    run.worked_ms += at - run.since
    run.since = 0
    scopes = run.scopes
    if scopes is None:
        return
    of = (slot, run.app, run.workflow)
    if scopes.concurrency is not None:
        count_by(state, tables.COUNTS, (*of, CONCURRENCY, scopes.concurrency), -1)
    if scopes.together is not None:
        count_by(state, tables.COUNTS, (*of, TOGETHER, scopes.together), -1)
        state.delete(tables.WORKING, (*of, scopes.together, run.id))


def open_keys(state: StateWriter, slot: int, run: RunState) -> None:
    """An unended run can be found by its keys."""
    for control, scope in _keys(run.scopes):
        key = tables.open_key(slot, run, control, scope)
        state.insert(tables.OPEN, key, flow.RunRef(run.id))
        count_by(state, tables.OPEN_COUNTS, key[:5], 1)


def close_keys(state: StateWriter, slot: int, run: RunState) -> None:
    """A run that ended is found no more."""
    for control, scope in _keys(run.scopes):
        key = tables.open_key(slot, run, control, scope)
        state.delete(tables.OPEN, key)
        count_by(state, tables.OPEN_COUNTS, key[:5], -1)


def _keys(scopes: Scopes | None) -> list[tuple[str, str]]:
    if scopes is None:
        return []
    pairs = ((SINGLETON, scopes.singleton), (TOGETHER, scopes.together))
    return [(control, scope) for control, scope in pairs if scope is not None]


def take_throttle(state: StateWriter, slot: int, run: RunState, taken: Throttled) -> None:
    """A first start moves the next one's time."""
    scope = run.scopes.throttle if run.scopes is not None else None
    assert scope is not None, "a throttle counts it"
    key = (slot, run.app, run.workflow, scope)
    if scope and state.get(tables.THROTTLES, key) is None:
        expire(state, tables.THROTTLES, key, taken.next)
    state.put(tables.THROTTLES, key, flow.Throttle(taken.last, taken.next))
    rearm(state, slot, run, gate_of(THROTTLE, scope), taken.next)


def drain_bucket(state: StateWriter, of: Key, scope: str, bucket: Drained) -> None:
    """AI tokens were used by a run of a workflow: the level of its bucket sinks (P32)."""
    key = (*of, scope)
    new = flow.Bucket(bucket.empty_at, bucket.tokens, bucket.per_ms)
    if scope and state.get(tables.BUCKETS, key) is None:
        expire(state, tables.BUCKETS, key, new.full_at)
    state.put(tables.BUCKETS, key, new)


def claim_start(
    state: StateWriter,
    of: Key,
    seq: int,
    at: int,
    idempotency: Claimed | None,
    rate: Rated | None,
) -> None:
    """An event was taken: its idempotency key is claimed, its admission counted.

    Args:
        state: The state.
        of: The slot, the app, the workflow.
        seq: The seq of the fact that says so.
        at: Its time.
        idempotency: The claim.
        rate: The admission.
    """
    if idempotency is not None:
        key = (*of, idempotency.scope)
        if state.get(tables.KEYS, key) is None:
            expire(state, tables.KEYS, key, idempotency.until)
        state.put(tables.KEYS, key, flow.KeyClaim(idempotency.until))
    if rate is not None:
        _admit(state, (*of, rate.scope), seq, at, rate)


def _admit(state: StateWriter, key: Key, seq: int, at: int, rate: Rated) -> None:
    old = state.get(tables.RATES, key)
    count = old.count if old is not None else 0
    if old is None:
        expire(state, tables.RATES, key, rate.until)
    while count:
        rows = state.scan(tables.ADMISSIONS, key, 100)
        gone = [row for row, _ in rows if int(row[4]) <= rate.floor]
        for row in gone:
            state.delete(tables.ADMISSIONS, row)
        count -= len(gone)
        if len(gone) < 100:
            break
    state.insert(tables.ADMISSIONS, (*key, at, seq), flow.MARK)
    state.put(tables.RATES, key, flow.Rate(count + 1, rate.until))


LATE_MS = 3_600_000
"""For how long a run that ended while it executed may still report what it used."""


def expect_late(state: StateWriter, slot: int, run: RunState, at: int) -> None:
    """A run ends while it executes: what its runner still reports as used counts (DESIGN 8)."""
    scope = run.scopes.token_throttle if run.scopes is not None else None
    key, until = (slot, run.id), at + LATE_MS
    state.put(tables.LATE, key, flow.Late(run.app, run.workflow, scope, until))
    expire(state, tables.LATE, key, until)


# Expiry -----------------------------------------------------------------------


def expire(state: StateWriter, table: Table[Any], key: Key, when: int) -> None:
    """Let a sweep look at a row once a time is over."""
    slot = int(key[0])
    state.put(tables.EXPIRING, (slot, when, table.number, *key[1:]), flow.MARK)
    if state.get(tables.SWEEPS, (slot,)) is None:
        _next_sweep(state, slot, (when // SWEEP_MS + 1) * SWEEP_MS)


def _next_sweep(state: StateWriter, slot: int, due: int | None) -> None:
    old = state.get(tables.SWEEPS, (slot,))
    if old is not None:
        state.clear_timer(old.due, (slot, "sweep"))
        state.delete(tables.SWEEPS, (slot,))
    if due is not None:
        state.put(tables.SWEEPS, (slot,), flow.GateTimer(due))
        state.set_timer(due, (slot, "sweep"))


def keys_expired(state: StateWriter, fact: facts.KeysExpired) -> None:
    """Rows whose time is over go; those that were used again meanwhile get a later look."""
    slot = fact.slot
    for row, _ in state.scan(tables.EXPIRING, (slot,), fact.most):
        when, number, key = int(row[1]), int(row[2]), (slot, *row[3:])
        if when > fact.until:
            break
        state.delete(tables.EXPIRING, row)
        until = _live_until(state, number, key)
        if until is None:
            continue
        if until > fact.until:
            state.put(tables.EXPIRING, (slot, until, number, *row[3:]), flow.MARK)
        else:
            _forget(state, number, key)
    rest = state.scan(tables.EXPIRING, (slot,), 1)
    if not rest:
        _next_sweep(state, slot, None)
    else:
        # What is left over from a full sweep goes at once, the rest in its minute.
        when = int(rest[0][0][1])
        due = (when // SWEEP_MS + 1) * SWEEP_MS
        _next_sweep(state, slot, due if when > fact.until else fact.at)


def _live_until(state: StateWriter, number: int, key: Key) -> int | None:
    """Until when a row counts, or None where it is gone."""
    if number == tables.THROTTLES.number:
        throttle = state.get(tables.THROTTLES, key)
        return None if throttle is None else max(throttle.next, throttle.keep)
    if number == tables.BUCKETS.number:
        bucket = state.get(tables.BUCKETS, key)
        return None if bucket is None else bucket.full_at
    if number == tables.RATES.number:
        rate = state.get(tables.RATES, key)
        return None if rate is None else rate.until
    if number == tables.LATE.number:
        late = state.get(tables.LATE, key)
        return None if late is None else late.until
    claim = state.get(tables.KEYS, key)
    return None if claim is None else claim.until


def _forget(state: StateWriter, number: int, key: Key) -> None:
    swept: tuple[Table[Any], ...] = (
        tables.THROTTLES,
        tables.BUCKETS,
        tables.RATES,
        tables.KEYS,
        tables.LATE,
    )
    for table in swept:
        if table.number == number:
            state.delete(table, key)
    if number == tables.RATES.number:
        for row, _ in scan_all(state, tables.ADMISSIONS, key):
            state.delete(tables.ADMISSIONS, row)


def periods_changed(state: StateWriter, fact: facts.PeriodsChanged) -> None:
    """Starts and admissions that were counted are kept for as long as they count now."""
    of = (fact.slot, fact.app, fact.workflow)
    if fact.throttle_ms is not None:
        for key, _ in scan_all(state, tables.THROTTLES, of):
            throttle = state.edit(tables.THROTTLES, key)
            throttle.keep = throttle.last // flow.NS_PER_MS + fact.throttle_ms + 1
    if fact.rate_ms is not None:
        for key, _ in scan_all(state, tables.RATES, of):
            newest = 0
            for row, _ in scan_all(state, tables.ADMISSIONS, key):
                newest = int(row[4])
            state.edit(tables.RATES, key).until = newest + fact.rate_ms


def buckets_rated(state: StateWriter, fact: facts.BucketsRated) -> None:
    """Levels are kept, up to the new capacity; the new rate fills them from here on."""
    of = (fact.slot, fact.app, fact.workflow)
    for key, bucket in scan_all(state, tables.BUCKETS, of):
        state.put(tables.BUCKETS, key, bucket.rated(fact.tokens, fact.per_ms, fact.at))
