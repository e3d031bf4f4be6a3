"""Appliers of what is carried for replays, and what a replayed run begins with."""

from duraton_engine.state import acts, objects, tables
from duraton_engine.state.objects import RunState, StepState, step_key
from duraton_schemas.records import acts as facts
from duraton_schemas.records.public import Event
from duraton_schemas.values import text_bytes
from duraton_streams.state.table import StateWriter, scan_all


def part_bytes(events: list[facts.CarriedEvent], steps: list[facts.CarriedStep]) -> int:
    """About how much a part holds; the same measure as a run's own."""
    held = sum(text_bytes(each.event.data) for each in events)
    return held + sum(text_bytes(step.output) for step in steps)


def run_carried(state: StateWriter, fact: facts.RunCarried) -> None:
    """The part waits for its act; all parts go together when the first one's time is over."""
    slot = fact.slot
    key = (slot, fact.request)
    old = state.get(acts.CARRIES, key) or acts.Carry(0, 0, 0, fact.due)
    if not old.parts:
        state.set_timer(fact.due, (slot, "carry", fact.request))
    new = acts.Carry(
        parts=old.parts + 1,
        results=old.results + len(fact.steps),
        bytes=old.bytes + part_bytes(fact.events, fact.steps),
        due=old.due,
    )
    state.put(acts.CARRIES, key, new)
    part = acts.CarriedPart(fact.events, fact.steps)
    state.put(acts.CARRIED, (slot, fact.request, fact.part), part)


def carry_dropped(state: StateWriter, fact: facts.CarryDropped) -> None:
    """Nothing of it is needed any more."""
    _drop(state, fact.slot, fact.request)


def _drop(state: StateWriter, slot: int, request: str) -> None:
    held = state.get(acts.CARRIES, (slot, request))
    if held is None:
        return
    for part in range(held.parts):
        state.delete(acts.CARRIED, (slot, request, part))
    state.delete(acts.CARRIES, (slot, request))
    state.clear_timer(held.due, (slot, "carry", request))


def carried_events(state: StateWriter, slot: int, request: str) -> list[Event]:
    """The events that were carried, in order."""
    parts = scan_all(state, acts.CARRIED, (slot, request), page=10)
    return [each.event for _, part in parts for each in part.events]


def take_over(state: StateWriter, slot: int, run: RunState, replay: facts.Replay) -> None:
    """Give a new run the steps that were carried for it; what its request held is done with."""
    steps: dict[str, StepState] = {}
    for _, part in scan_all(state, acts.CARRIED, (slot, replay.request), page=10):
        for carried in part.steps:
            number = len(steps) + 1
            key = step_key(carried.step, carried.n)
            steps[key] = StepState(
                kind=carried.kind,
                status=objects.DONE,
                attempt=carried.attempt,
                number=number,
                seen=carried.seen,
            )
            run.bytes += text_bytes(carried.output)
            output = objects.Output(key, carried.output)
            state.insert(tables.OUTPUTS, (slot, run.id, number), output)
    run.steps, run.results = steps, len(steps)
    _drop(state, slot, replay.request)
    if replay.job is not None:
        state.delete(acts.REPLAYS_WANTED, (slot, replay.job, replay.of))
    if replay.dedupe_id is not None and replay.expires_at is not None:
        claim = acts.ReplayClaim(run.id, replay.expires_at)
        state.put(acts.REPLAY_CLAIMS, (slot, replay.of, replay.dedupe_id), claim)
        state.set_timer(replay.expires_at, (slot, "replay", replay.of, replay.dedupe_id))


def replay_deduped(state: StateWriter, fact: facts.ReplayDeduped) -> None:
    """The same dedupe id makes a run again from here on."""
    slot = fact.slot
    key = (slot, fact.of, fact.dedupe_id)
    claim = state.get(acts.REPLAY_CLAIMS, key)
    if claim is not None:
        state.delete(acts.REPLAY_CLAIMS, key)
        state.clear_timer(claim.expires_at, (slot, "replay", fact.of, fact.dedupe_id))


def replay_wanted(state: StateWriter, fact: facts.ReplayWanted) -> None:
    """It is to be done, whatever happens to who fetches what the run had."""
    key = (fact.slot, fact.job, fact.of)
    state.put(acts.REPLAYS_WANTED, key, acts.Wanted(fact.caller))


def replay_refused(state: StateWriter, fact: facts.ReplayRefused) -> None:
    """It is not to be done."""
    state.delete(acts.REPLAYS_WANTED, (fact.slot, fact.job, fact.of))
