"""Appliers of steps and of the places where runs wait for events."""

from msgspec.structs import replace

from duraton_engine.appliers.budget import spend
from duraton_engine.appliers.places import drain_bucket
from duraton_engine.state import objects, tables
from duraton_engine.state.objects import RunState, StepState, step_key
from duraton_schemas.records import journal as facts
from duraton_schemas.records.common import add_spend
from duraton_schemas.values import text_bytes
from duraton_streams.state.table import Key, StateWriter


def _answered(run: RunState) -> None:
    """Any well-formed answer gives the three invokes back (P38)."""
    run.losses, run.lost_since = 0, None


def _set(run: RunState, step: str, n: int, new: StepState) -> None:
    run.steps = {**run.steps, step_key(step, n): new}


def _stop_timer(state: StateWriter, slot: int, run: RunState, step: str, n: int) -> None:
    old = run.steps.get(step_key(step, n))
    if old is not None and old.due is not None:
        state.clear_timer(old.due, (slot, "step", run.id, step, n))


def _spend(
    state: StateWriter,
    run: RunState,
    fact: "facts.StepCompleted | facts.StepFailed | facts.StepDiscarded",
) -> None:
    """What the step used counts for its run, its bucket and its workflow."""
    used = fact.spend
    if used is None:
        return
    run.spend = add_spend(run.spend, used)
    scope = run.scopes.token_throttle if run.scopes is not None else None
    _count(state, (fact.slot, run.app, run.workflow), run, scope, fact)


def _count(
    state: StateWriter,
    of: Key,
    run: RunState | None,
    scope: str | None,
    fact: "facts.StepCompleted | facts.StepFailed | facts.StepDiscarded",
) -> None:
    used = fact.spend
    if fact.drained is not None and scope is not None:
        drain_bucket(state, of, scope, fact.drained)
    if used is not None and (used.tokens or used.cost):
        spend(state, of, run, used, fact.at, fact.budget_at)


def step_called(state: StateWriter, fact: facts.StepCalled) -> None:
    """The engine brings the step to its end; its timer is armed."""
    slot = fact.slot
    run = state.edit(tables.RUNS, (slot, fact.run))
    _answered(run)
    step = StepState(
        kind=fact.kind,
        status=objects.PENDING,
        attempt=fact.attempt,
        seen=fact.seen,
        due=fact.due,
        retry=fact.retry,
        event=fact.event,
        path=fact.path,
        value=fact.value,
        app=fact.app,
        workflow=fact.workflow,
        data=fact.data,
    )
    _set(run, fact.step, fact.n, step)
    run.bytes += text_bytes(fact.data or "")
    if fact.due is not None:
        state.set_timer(fact.due, (slot, "step", run.id, fact.step, fact.n))


def step_completed(state: StateWriter, fact: facts.StepCompleted) -> None:
    """The step has its result, for ever."""
    slot = fact.slot
    run = state.edit(tables.RUNS, (slot, fact.run))
    _answered(run)
    _stop_timer(state, slot, run, fact.step, fact.n)
    done = StepState(
        kind=fact.kind,
        status=objects.DONE,
        attempt=fact.attempt,
        number=fact.number,
        seen=fact.seen,
    )
    _set(run, fact.step, fact.n, done)
    run.results = fact.number
    run.bytes += text_bytes(fact.output)
    _spend(state, run, fact)
    output = objects.Output(step_key(fact.step, fact.n), fact.output)
    state.insert(tables.OUTPUTS, (slot, run.id, fact.number), output)


def step_failed(state: StateWriter, fact: facts.StepFailed) -> None:
    """An attempt failed; the next one has its time, or there is none."""
    slot = fact.slot
    run = state.edit(tables.RUNS, (slot, fact.run))
    _answered(run)
    _spend(state, run, fact)
    if fact.retry_at is None:
        return
    _stop_timer(state, slot, run, fact.step, fact.n)
    old = run.steps.get(step_key(fact.step, fact.n))
    step = StepState(
        kind=fact.kind,
        status=objects.BACKOFF,
        attempt=fact.attempt + 1,
        seen=old.seen if old is not None else fact.seen,
        due=fact.retry_at,
        retry=fact.retry,
        app=old.app if old is not None else None,
        workflow=old.workflow if old is not None else None,
        data=old.data if old is not None else None,
    )
    _set(run, fact.step, fact.n, step)
    state.set_timer(fact.retry_at, (slot, "step", run.id, fact.step, fact.n))


def step_due(state: StateWriter, fact: facts.StepDue) -> None:
    """The backoff is over: the runner tries again, or for a child the engine does.

    A paused run's child stays due until it is asked for, which is this fact again.
    """
    slot = fact.slot
    run = state.edit(tables.RUNS, (slot, fact.run))
    _stop_timer(state, slot, run, fact.step, fact.n)
    old = run.steps[step_key(fact.step, fact.n)]
    asked = old.kind == "invoke" and not run.paused
    status = objects.PENDING if asked else objects.DUE
    new = replace(old, status=status, attempt=fact.attempt, due=None)
    _set(run, fact.step, fact.n, new)


def step_discarded(state: StateWriter, fact: facts.StepDiscarded) -> None:
    """The answer changes nothing; its spend still counts, for a while after the run's end too."""
    slot = fact.slot
    if fact.spend is None:
        return
    if state.get(tables.RUNS, (slot, fact.run)) is not None:
        _spend(state, state.edit(tables.RUNS, (slot, fact.run)), fact)
        return
    late = state.get(tables.LATE, (slot, fact.run))
    if late is not None:
        _count(state, (slot, late.app, late.workflow), None, late.scope, fact)


def wait_acknowledged(state: StateWriter, fact: facts.WaitAcknowledged) -> None:
    """One of the two things that make a wait stand is known, or its shape was retired."""
    run = state.edit(tables.RUNS, (fact.slot, fact.run))
    old = run.steps[step_key(fact.step, fact.n)]
    if fact.part == "placed":
        new = replace(old, placed=True)
    else:
        new = replace(old, ready=fact.part == "ready")
    _set(run, fact.step, fact.n, new)


def child_known(state: StateWriter, fact: facts.ChildKnown) -> None:
    """The step's child has its id."""
    run = state.edit(tables.RUNS, (fact.slot, fact.run))
    old = run.steps[step_key(fact.step, fact.n)]
    _set(run, fact.step, fact.n, replace(old, child=fact.child, joined=fact.joined))


def wait_stood(state: StateWriter, fact: facts.WaitStood) -> None:
    """A wait stands at its place."""
    key = (fact.slot, fact.name, fact.path, fact.value, fact.run, fact.step, fact.n)
    state.insert(tables.WAITS, key, objects.Wait(fact.run, fact.step, fact.n))


def wait_gone(state: StateWriter, fact: facts.WaitGone) -> None:
    """A wait left its place."""
    key = (fact.slot, fact.name, fact.path, fact.value, fact.run, fact.step, fact.n)
    state.delete(tables.WAITS, key)
