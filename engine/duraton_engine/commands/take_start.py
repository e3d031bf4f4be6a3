"""A start is asked for: whether and how it leads to a run (P1, 2 to 6)."""

from dataclasses import dataclass
from hashlib import blake2b

import msgspec

from duraton_engine.commands.end_run import CANCELLED, end_run
from duraton_engine.commands.start_run import create_run
from duraton_engine.context import EngineContext
from duraton_engine.controls import singleton, together
from duraton_engine.controls.admission import admit
from duraton_engine.controls.flow import Flow
from duraton_engine.controls.look import Block, Look
from duraton_engine.controls.project import gates_applied, keys_of
from duraton_engine.errors import RUN_REPLACED
from duraton_engine.state.flow import PROJECT, ProbedStart, Taken
from duraton_engine.state.objects import RunState
from duraton_engine.state.reading import input_of
from duraton_schemas.ids import run_id
from duraton_schemas.records import journal as facts
from duraton_schemas.records import messages
from duraton_schemas.records.common import Caller, Claimed, ErrorInfo, Rated
from duraton_schemas.slots import PROJECT_SLOT
from duraton_streams.partition.machine import Transition

DEDUPED, DROPPED, SKIPPED, REFUSED = "deduped", "dropped", "skipped", "refused"
JOINED, BUFFERED, PROBED, STARTED = "joined", "buffered", "probed", "run"


@dataclass(frozen=True)
class Start:
    """A start that is asked for.

    Attributes:
        flow: The workflow.
        events: The events that it would have, in order.
        near: Whether the journal has their data in this transaction.
        caller: Who asks.
        origin: What its run's id is made from.
        post: The POST that is answered, as `id/n`.
        parent: The run whose step asks, or None.
        step: That step's id.
        n: Which use of that id.
        attempt: That step's attempt.
        tick: The cron tick, or None.
        at: When its event was recorded, milliseconds since 1970 UTC; 0 for now. By it windows
            and buffers count, so that a home that comes to it late merges no two bursts (P11).
        word: What its group has said to it: `room`, `full`, or empty where it was not asked.
        granted: The gate keys under which it has a place already, or None.
    """

    flow: Flow
    events: tuple[Taken, ...]
    near: bool
    caller: Caller
    origin: str
    post: str = ""
    parent: str | None = None
    step: str | None = None
    n: int = 0
    attempt: int = 0
    tick: int | None = None
    at: int = 0
    word: str = ""
    granted: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Outcome:
    """What became of it.

    Attributes:
        kind: `run`, `joined`, `buffered`, `deduped`, `dropped`, `skipped`, `refused`, or
            `probed` where its group is asked first.
        run: The run that it made or joined, or None.
        blocker: The run in the way, or None.
        placed: Whether the run started by the place that was granted.
    """

    kind: str
    run: str | None = None
    blocker: str | None = None
    placed: bool = False


def look_for(tx: Transition, engine: EngineContext, slot: int, start: Start) -> Look:
    """A look at the run that a start would make; its keys are those of the first event (P12)."""
    flow = start.flow
    scopes = flow.scopes(start.events[0].event if start.events else None)
    return Look(tx, engine, slot, flow.app, flow.name, scopes=scopes)


def held_at(look: Look) -> str | None:
    """The gate at which a firing is held instead of being skipped or refused (P15, P27)."""
    flow = look.flow
    if flow is None:
        return None
    control = flow.controls.singleton
    if control is not None and control.mode == "skip" and singleton.check(look) is not None:
        return singleton.gate(look).gate
    whole = flow.controls.together
    if whole is not None and whole.then == "refuse" and together.full(look):
        return together.gate(look).gate
    return None


def begin_run(
    look: Look, start: Start, idempotency: Claimed | None = None, rate: Rated | None = None
) -> Outcome:
    """P1 from (6) on, in this order; all is checked before anything is claimed.

    1. Singleton: a start is skipped, or with `cancel` the live run is to end.
    2. Together: a start is refused or joins, where the flow says so.
    3. The live run ends.
    4. The run is created; what may hold back its start is looked at there.
    """
    tx, engine, slot, flow = look.tx, look.engine, look.slot, start.flow
    # 1
    control = flow.controls.singleton
    blocker = singleton.check(look)
    if blocker is not None and control is not None and control.mode == "skip":
        return declined(look, start, SKIPPED, blocker.id)
    # 2
    answer = _together(look, start, blocker)
    if answer is not None:
        return answer
    # 3
    granted = start.granted
    if blocker is not None:
        # With the same gate keys the place passes on; otherwise it goes back (P15).
        passes = granted is None and bool(blocker.gates) and keys_of(look) == blocker.gates
        granted = blocker.gates if passes else granted
        end_run(tx, engine, slot, blocker, CANCELLED, error=replaced(), keep_gates=passes)
    # 4
    run = run_id(slot, start.origin, flow.app, flow.name)
    created = facts.RunCreated(
        app=flow.app,
        workflow=flow.name,
        origin=start.origin,
        triggers=[
            facts.Trigger(
                event=None if start.near else taken.event,
                event_id=taken.event.id,
                place=taken.place,
            )
            for taken in start.events
        ],
        caller=start.caller,
        ready_at=tx.now,
        sort_at=tx.now - flow.shift_ms,
        parent=start.parent,
        parent_step=start.step,
        parent_n=start.n,
        parent_attempt=start.attempt,
        tick=start.tick,
        post=start.post,
        scopes=look.scopes,
        idempotency=idempotency,
        rate=rate,
    )
    started = create_run(tx, engine, slot, run, created, granted)
    if granted is not None and granted is not start.granted and not started:
        # The place that was to pass on has nobody to take it.
        engine.give_back(look.of, granted)
    return Outcome(STARTED, run, placed=started and start.granted is not None)


def replaced() -> ErrorInfo:
    """The error of a run that a newer start of its singleton key ended (P15)."""
    return ErrorInfo(
        message="replaced by a newer start of its singleton key",
        name="ReplacedError",
        code=RUN_REPLACED,
    )


def _together(look: Look, start: Start, blocker: RunState | None) -> Outcome | None:
    control = start.flow.controls.together
    if control is None:
        return None
    if control.then == "refuse":
        if control.group is not None:
            if start.word == "full":
                return declined(look, start, REFUSED, None)
            if blocker is not None and blocker.gates and blocker.gates == keys_of(look):
                return None  # it leaves its place to this start
            return None if start.word else _probe(look, start)
        if together.full(look, without=blocker):
            return declined(look, start, REFUSED, None)
    if control.then == "join":
        run = together.joinable(look)
        if run is not None:
            return _join(look, start, run)
    return None


def _probe(look: Look, start: Start) -> Outcome:
    """Ask the group; one that could start at once takes the place that is found."""
    tx = look.tx
    kept = ProbedStart(
        events=list(start.events),
        caller=start.caller,
        origin=start.origin,
        post=start.post,
        parent=start.parent,
        step=start.step,
        n=start.n,
        attempt=start.attempt,
        tick=start.tick,
    )
    held = admit(look)
    number = tx.next_seq
    probed = facts.StartProbed(
        app=look.app, workflow=look.workflow, start=msgspec.msgpack.encode(kept)
    )
    tx.emit(look.slot, probed)
    message = messages.PlaceAsked(
        run="",
        app=look.app,
        workflow=look.workflow,
        lane="",
        keys=list(keys_of(look)),
        sort=tx.now - start.flow.shift_ms,
        version=gates_applied(tx),
        then="refuse",
        claim=isinstance(held, Block) and held.gate == PROJECT,
        number=number,
    )
    tx.send(PROJECT_SLOT, message, source=look.slot, reply_to=look.slot)
    return Outcome(PROBED)


def _join(look: Look, start: Start, run: RunState) -> Outcome:
    """Only the same caller joins, or the system; to others nothing of the run is told (P26).

    A run's own step does not join it: it would wait for itself for ever.
    """
    owner = input_of(look.tx.state, look.slot, run.id).caller.root
    root = start.caller.root
    foreign = root != owner and not root.startswith("system:")
    if foreign or run.id == start.parent:
        return declined(look, start, REFUSED, None)
    text = "\0".join(taken.event.data for taken in start.events)
    joined = facts.StartJoined(
        app=run.app,
        workflow=run.workflow,
        run=run.id,
        event_ids=[taken.event.id for taken in start.events],
        places=[taken.place for taken in start.events],
        post=start.post,
        caller=start.caller,
        input_hash=blake2b(text.encode(), digest_size=16).hexdigest(),
        parent=start.parent,
        parent_step=start.step,
        parent_n=start.n,
        parent_attempt=start.attempt,
    )
    look.tx.emit(look.slot, joined)
    return Outcome(JOINED, run.id)


def declined(look: Look, start: Start, kind: str, blocker: str | None) -> Outcome:
    """Record that a start led to no run."""
    fact = facts.StartDeclined(
        app=look.app,
        workflow=look.workflow,
        outcome=kind,
        event_ids=[taken.event.id for taken in start.events],
        places=[taken.place for taken in start.events],
        post=start.post,
        blocker=blocker,
        parent=start.parent,
    )
    look.tx.emit(look.slot, fact)
    return Outcome(kind, blocker=blocker)
