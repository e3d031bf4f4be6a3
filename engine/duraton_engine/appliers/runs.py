"""Appliers of a run's life: created, queued, started, suspended, paused, ended."""

from duraton_engine.appliers.lanes import dequeue, enqueue
from duraton_engine.appliers.places import (
    claim_start,
    close_keys,
    expect_late,
    give_places,
    open_keys,
    take_places,
    take_throttle,
)
from duraton_engine.appliers.replays import carried_events, take_over
from duraton_engine.state import objects, tables
from duraton_engine.state.objects import RunInput, RunState
from duraton_schemas.records import journal as facts
from duraton_schemas.records.common import Fact
from duraton_schemas.records.public import Event
from duraton_schemas.values import text_bytes
from duraton_streams.state.table import Key, StateWriter, scan_all


def _create(state: StateWriter, fact: Fact, run: str, made: facts.RunCreated) -> RunState:
    slot, at = fact.slot, fact.at
    replay = made.replay
    events: list[Event] = [] if replay is None else carried_events(state, slot, replay.request)
    origin = state.get(tables.INPUTS, (slot, made.failed_run)) if made.failed_run else None
    for number, trigger in enumerate(made.triggers if replay is None else ()):
        event = trigger.event
        if event is None:
            event = origin.events[number] if origin else state.scratch[str(trigger.place)]
        events.append(event)
    created = RunState(
        id=run,
        app=made.app,
        workflow=made.workflow,
        kind=made.kind,
        created_at=at,
        ready_at=made.ready_at,
        sort_at=made.sort_at,
        bytes=sum(text_bytes(event.data) for event in events),
        seq=fact.seq,
        scopes=made.scopes,
        waits=made.replay is not None,
    )
    state.insert(tables.RUNS, (slot, run), created)
    given = RunInput(
        caller=made.caller,
        events=events,
        parent=made.parent,
        parent_step=made.parent_step,
        parent_n=made.parent_n,
        parent_attempt=made.parent_attempt,
        failed_run=made.failed_run,
        error=made.error,
        replay=replay,
    )
    state.insert(tables.INPUTS, (slot, run), given)
    if replay is not None:
        take_over(state, slot, created, replay)
    if made.scopes is not None:
        open_keys(state, slot, created)
    if made.idempotency is not None or made.rate is not None:
        of = (slot, made.app, made.workflow)
        claim_start(state, of, fact.seq, at, made.idempotency, made.rate)
    return created


def _stop_retry(state: StateWriter, slot: int, run: RunState) -> None:
    if run.retry_at is not None:
        state.clear_timer(run.retry_at, (slot, "run", run.id))
        run.retry_at = None


def _end_token(state: StateWriter, slot: int, run: RunState, at: int) -> None:
    if run.epoch:
        give_places(state, slot, run, at)
        run.epoch, run.number, run.boot, run.gates = 0, 0, "", ()
        state.delete(tables.LIVE, (slot, run.id))


def run_queued(state: StateWriter, fact: facts.RunQueued) -> None:
    """The run exists and waits for its start."""
    slot = fact.slot
    run = _create(state, fact, fact.run, fact.created)
    enqueue(state, slot, run, fact.gate, fact.due)


def run_started(state: StateWriter, fact: facts.RunStarted) -> None:
    """The run executes under a new token."""
    slot = fact.slot
    if fact.created is not None:
        run = _create(state, fact, fact.run, fact.created)
    else:
        run = state.edit(tables.RUNS, (slot, fact.run))
        dequeue(state, slot, run)
        _stop_retry(state, slot, run)
    if run.started_at is None:
        run.started_at = fact.at
    run.status = objects.RUNNING
    run.epoch, run.number, run.boot = fact.token_epoch, fact.token_number, fact.boot
    run.attempt = fact.attempt
    run.gates = tuple(fact.gates)
    if fact.ready_at is not None:
        run.sort_at += fact.ready_at - run.ready_at
        run.ready_at = fact.ready_at
    if fact.granted is not None:
        asked = (slot, run.app, run.workflow, fact.granted)
        state.delete(tables.ASKED, asked)
    take_places(state, slot, run, fact.at)
    if fact.throttled is not None:
        take_throttle(state, slot, run, fact.throttled)
    state.insert(tables.LIVE, (slot, fact.run), objects.Live(fact.boot, fact.runner))


def run_suspended(state: StateWriter, fact: facts.RunSuspended) -> None:
    """The token ends; the run waits. Where something fell due it goes on by the next fact."""
    slot = fact.slot
    run = state.edit(tables.RUNS, (slot, fact.run))
    run.losses, run.lost_since = 0, None
    _end_token(state, slot, run, fact.at)
    run.status = objects.WAITING


def run_ready(state: StateWriter, fact: facts.RunReady) -> None:
    """The run queues, in its original order (P19)."""
    slot = fact.slot
    run = state.edit(tables.RUNS, (slot, fact.run))
    _stop_retry(state, slot, run)
    enqueue(state, slot, run, fact.gate, fact.due)


def run_attempt_failed(state: StateWriter, fact: facts.RunAttemptFailed) -> None:
    """The token ends; the handler is invoked again at its time."""
    slot = fact.slot
    run = state.edit(tables.RUNS, (slot, fact.run))
    _end_token(state, slot, run, fact.at)
    run.losses, run.lost_since = 0, None
    run.status = objects.WAITING
    run.attempt = fact.attempt + 1
    run.retry_at = fact.retry_at
    state.set_timer(fact.retry_at, (slot, "run", run.id))


def invoke_failed(state: StateWriter, fact: facts.InvokeFailed) -> None:
    """The token ends; the run is invoked again at its time, or without one waits to be queued."""
    slot = fact.slot
    run = state.edit(tables.RUNS, (slot, fact.run))
    _end_token(state, slot, run, fact.at)
    run.status = objects.WAITING
    if fact.counts:
        run.losses = fact.invoke
        run.lost_since = run.lost_since or fact.at
    if fact.retry_at is not None:
        run.retry_at = fact.retry_at
        state.set_timer(fact.retry_at, (slot, "run", run.id))


def run_paused(state: StateWriter, fact: facts.RunPaused) -> None:
    """The run begins nothing; what it has in hand goes on."""
    _pause(state, fact, fact.run, fact.reason)


def run_quarantined(state: StateWriter, fact: facts.RunQuarantined) -> None:
    """The run is set apart with what it has; resuming invokes it again.

    Its timers rest, so that one whose decision raises does not fire for ever.
    """
    run = _pause(state, fact, fact.run, "quarantine")
    slot = fact.slot
    for due, target in _timers(slot, run):
        state.clear_timer(due, target)
    if run.epoch:
        _end_token(state, slot, run, fact.at)
        run.status = objects.QUEUED


def _timers(slot: int, run: RunState) -> list[tuple[int, Key]]:
    found: list[tuple[int, Key]] = []
    if run.retry_at is not None:
        found.append((run.retry_at, (slot, "run", run.id)))
    for key, step in run.steps.items():
        if step.due is not None:
            found.append((step.due, (slot, "step", run.id, *objects.split_step_key(key))))
    return found


def _pause(state: StateWriter, fact: Fact, run_id: str, reason: str) -> RunState:
    slot = fact.slot
    run = state.edit(tables.RUNS, (slot, run_id))
    dequeue(state, slot, run)
    if reason not in run.paused:
        run.paused = (*run.paused, reason)
    return run


def run_resumed(state: StateWriter, fact: facts.RunResumed) -> None:
    """All reasons are taken away; a run that was to start queues again."""
    slot = fact.slot
    run = state.edit(tables.RUNS, (slot, fact.run))
    if "quarantine" in run.paused:
        for due, target in _timers(slot, run):
            state.set_timer(due, target)
    run.paused = ()
    dequeue(state, slot, run)
    run.exempt = run.exempt or fact.exempt
    if run.status == objects.QUEUED:
        enqueue(state, slot, run)


def run_ended(state: StateWriter, fact: facts.RunEnded) -> None:
    """The run leaves the state with all it held; its onFailure execution begins to exist."""
    slot = fact.slot
    run = state.edit(tables.RUNS, (slot, fact.run))
    if fact.failure is not None and fact.failure_run is not None:
        failure = _create(state, fact, fact.failure_run, fact.failure)
        enqueue(state, slot, failure)
    dequeue(state, slot, run)
    for due, target in _timers(slot, run):
        state.clear_timer(due, target)
    if fact.late:
        expect_late(state, slot, run, fact.at)
    _end_token(state, slot, run, fact.at)
    close_keys(state, slot, run)
    if run.joined:
        for joined, _ in scan_all(state, tables.JOINED, (slot, run.id)):
            state.delete(tables.JOINED, joined)
    for number in range(1, run.results + 1):
        state.delete(tables.OUTPUTS, (slot, run.id, number))
    state.delete(tables.INPUTS, (slot, run.id))
    state.delete(tables.RUNS, (slot, run.id))
