"""At the project slot: count what executes under each gate key, and grant places (DESIGN 4).

An ask stands before the first of its keys that has no room, in the order of sort keys. While
partitions report their counts by a newer version of the gate keys, nothing is granted or
answered: asks stand in a line of their own until all have.
"""

from heapq import heapify, heappop, heappush

from duraton_engine.calls import PlacesFreed
from duraton_engine.context import EngineContext
from duraton_engine.controls.project import CEILING, group_of
from duraton_engine.state import tables
from duraton_engine.state.flow import Ask, RunRef
from duraton_engine.state.objects import RegistryHead
from duraton_schemas.records import journal as facts
from duraton_schemas.records import messages
from duraton_schemas.slots import PROJECT_SLOT, partition_of
from duraton_streams.partition.machine import Transition
from duraton_streams.state.table import Key, Table

UNSETTLED = ""
"""The line of asks that wait until all partitions count by the newest gate keys."""


def place_asked(
    tx: Transition, engine: EngineContext, slot: int, message: messages.PlaceAsked
) -> None:
    """A run or a start asks for places."""
    assert message.envelope is not None, "a message that was sent has its envelope"
    home = message.envelope.source
    name = message.run or f"{home}/{message.number}"
    ask = Ask(
        app=message.app,
        workflow=message.workflow,
        lane=message.lane,
        home=home,
        partition=message.envelope.partition,
        keys=tuple(message.keys),
        line=UNSETTLED,
        sort=message.sort,
        seq=tx.next_seq,
        version=message.version,
        then=message.then,
        claim=message.claim,
        number=message.number,
    )
    if not settled(tx):
        _stand(tx, name, ask, UNSETTLED)
        return
    line = _line_before(tx, engine, ask)
    # By the ceiling no start is refused, and no firing held (P28).
    weighed = ask.then == "refuse" or (ask.then == "hold" and line == CEILING)
    if line is None or weighed:
        _weigh(tx, engine, name, ask, stands=False)
        return
    _stand(tx, name, ask, line)
    _serve(tx, engine, message.keys)


def _line_before(tx: Transition, engine: EngineContext, ask: Ask) -> str | None:
    """The key under which places are free and that somebody waits for who came earlier.

    There is one only between a return and what its home asks for, or where a transition's
    share was used up.
    """
    place = (tables.SORT_BIAS + ask.sort, ask.seq)
    for key in ask.keys:
        if any(head < place for head, _, _ in _head(tx, key)) and _room(tx, engine, key):
            return key
    return None


def ask_withdrawn(
    tx: Transition, engine: EngineContext, slot: int, message: messages.AskWithdrawn
) -> None:
    """An ask is taken back; if it was granted meanwhile, its lane takes or returns the place."""
    if tx.state.get(tables.ASKS, (PROJECT_SLOT, message.run)) is not None:
        tx.emit(PROJECT_SLOT, facts.AskGone(run=message.run))


def settled(tx: Transition) -> bool:
    """Whether every partition counts by the newest version of the gate keys."""
    head = tx.state.get(tables.REGISTRY_HEAD, (PROJECT_SLOT,)) or RegistryHead()
    rows = tx.state.scan(tables.HOLDINGS, (PROJECT_SLOT,), tx.partitions)
    return len(rows) == tx.partitions and all(row.version >= head.gates for _, row in rows)


def _room(tx: Transition, engine: EngineContext, key: str) -> bool:
    if key == CEILING:
        limit: int | None = engine.registrations.ceiling or None
    else:
        limit = engine.registrations.group_max(group_of(key) or "")
    if limit is None:
        return True
    count = tx.state.get(tables.PLACES, (PROJECT_SLOT, key))
    return (count.count if count is not None else 0) < limit


def _weigh(tx: Transition, engine: EngineContext, name: str, ask: Ask, *, stands: bool) -> bool:
    """Answer an ask if that can be done now; otherwise it stands where there is no room.

    Returns:
        Whether it was answered.
    """
    full = next((key for key in ask.keys if not _room(tx, engine, key)), None)
    if ask.then == "refuse" or (ask.then == "hold" and full in (None, CEILING)):
        _answer_probe(tx, engine, name, ask, full, stands=stands)
        return True
    if full is None:
        _grant(tx, engine, name, ask)
        return True
    if ask.then == "stop" and full != CEILING and _holds(tx, ask, full):
        if stands:
            tx.emit(PROJECT_SLOT, facts.AskGone(run=name))
        _answer(tx, name, ask, "full")
        return True
    if not stands:
        _stand(tx, name, ask, full)
    elif ask.line != full:
        tx.emit(PROJECT_SLOT, facts.AskMoved(run=name, line=full))
    return False


def _holds(tx: Transition, ask: Ask, key: str) -> bool:
    """Whether the asking workflow itself holds a place under a key (P24)."""
    holder = (PROJECT_SLOT, ask.partition, key, ask.app, ask.workflow)
    return tx.state.get(tables.HOLDERS, holder) is not None


def _let_stop(tx: Transition, engine: EngineContext, key: str, share: int) -> None:
    """A group is full: starts that stop a run of their own flow wait for nothing more (P24).

    Wherever they stand: whom they stop leaves them its places under all its keys.
    """
    after = None
    while share > 0:
        rows = tx.state.scan(tables.STOPPERS, (PROJECT_SLOT, key), 1, after)
        if not rows:
            return
        name = rows[0][1].run
        ask = tx.state.get(tables.ASKS, (PROJECT_SLOT, name))
        assert ask is not None, "an ask that stands in a line is kept"
        if not _holds(tx, ask, key):
            # Nor do the others of its flow.
            after = (PROJECT_SLOT, key, ask.app, ask.workflow, (1 << 64) - 1)
            continue
        tx.emit(PROJECT_SLOT, facts.AskGone(run=name))
        _answer(tx, name, ask, "full")
        share -= 1
    tx.call_at(tx.now, PlacesFreed((key,)))


def _answer_probe(
    tx: Transition, engine: EngineContext, name: str, ask: Ask, full: str | None, *, stands: bool
) -> None:
    """A start that may be refused, or held: by the group's count, not by the ceiling's (P28)."""
    if full is None and ask.claim and _line_before(tx, engine, ask) is None:
        _grant(tx, engine, name, ask)
        return
    if stands:
        tx.emit(PROJECT_SLOT, facts.AskGone(run=name))
    _answer(tx, name, ask, "room" if full in (None, CEILING) else "full")


def _stand(tx: Transition, name: str, ask: Ask, line: str) -> None:
    stood = facts.AskStood(
        run=name,
        app=ask.app,
        workflow=ask.workflow,
        lane=ask.lane,
        home=ask.home,
        partition=ask.partition,
        keys=list(ask.keys),
        line=line,
        sort=ask.sort,
        version=ask.version,
        then=ask.then,
        claim=ask.claim,
        number=ask.number,
    )
    tx.emit(PROJECT_SLOT, stood)


def _grant(tx: Transition, engine: EngineContext, name: str, ask: Ask) -> None:
    granted = facts.PlaceGranted(
        run=name,
        app=ask.app,
        workflow=ask.workflow,
        partition=ask.partition,
        keys=list(ask.keys),
    )
    tx.emit(PROJECT_SLOT, granted)
    _answer(tx, name, ask, "grant")
    key = ask.keys[0]
    if group_of(key) is not None and not _room(tx, engine, key):
        _let_stop(tx, engine, key, engine.settings.starts_max)


def _answer(tx: Transition, name: str, ask: Ask, answer: str) -> None:
    answered = messages.PlaceAnswered(
        run="" if ask.then in ("refuse", "hold") else name,
        app=ask.app,
        workflow=ask.workflow,
        lane=ask.lane,
        keys=list(ask.keys),
        version=ask.version,
        answer=answer,
        number=ask.number,
    )
    tx.send(ask.home, answered, source=PROJECT_SLOT)


def place_returned(
    tx: Transition, engine: EngineContext, slot: int, message: messages.PlaceReturned
) -> None:
    """A run no longer executes, or nobody could use a grant."""
    assert message.envelope is not None, "a message that was sent has its envelope"
    released = facts.PlacesReleased(
        app=message.app,
        workflow=message.workflow,
        partition=message.envelope.partition,
        keys=message.keys,
    )
    tx.emit(PROJECT_SLOT, released)
    if message.serve:
        _serve(tx, engine, message.keys)


def places_free(
    tx: Transition, engine: EngineContext, slot: int, message: messages.PlacesFree
) -> None:
    """What was returned before has its turn."""
    _serve(tx, engine, message.keys)


def holding_told(
    tx: Transition, engine: EngineContext, slot: int, message: messages.HoldingTold
) -> None:
    """A partition counts by a newer version; with the last one, all that waited is weighed."""
    reported = facts.HoldingReported(
        partition=message.reporter,
        version=message.version,
        held=[
            facts.Held(app=each.app, workflow=each.workflow, keys=each.keys, count=each.count)
            for each in message.held
        ],
        first=message.first,
        last=message.last,
    )
    tx.emit(PROJECT_SLOT, reported)
    serve_all(tx, engine)


def places_freed(tx: Transition, engine: EngineContext, call: PlacesFreed) -> None:
    """There may be room under some keys, or under any: after a start or a used up share."""
    if call.keys is None:
        serve_all(tx, engine)
        return
    for key in call.keys:
        if group_of(key) is not None and not _room(tx, engine, key) and settled(tx):
            _let_stop(tx, engine, key, engine.settings.starts_max)
    _serve(tx, engine, list(call.keys))


def serve_all(tx: Transition, engine: EngineContext) -> None:
    """Weigh what waits before every key, for example since a limit was raised."""
    if partition_of(PROJECT_SLOT, tx.partitions) != tx.partition or not settled(tx):
        return
    _serve(tx, engine, _names(tx, tables.ASK_LINES, (1 << 64) - 1))
    for key in _names(tx, tables.STOPPERS, "\U0010ffff"):
        if not _room(tx, engine, key):
            _let_stop(tx, engine, key, engine.settings.starts_max)


def _names(tx: Transition, table: Table[RunRef], last: int | str) -> list[str]:
    """The keys before which asks stand, each once; `last` is above what follows a key."""
    found: list[str] = []
    after: Key | None = None
    while rows := tx.state.scan(table, (PROJECT_SLOT,), 1, after):
        found.append(str(rows[0][0][1]))
        after = (PROJECT_SLOT, found[-1], last)
    return found


def _serve(tx: Transition, engine: EngineContext, lines: list[str]) -> None:
    """Weigh what stands before some keys, as long as there is room.

    In one order for all of them, since an ask that stands before one key may need the others.
    """
    if not settled(tx):
        return
    heads = [head for line in lines for head in _head(tx, line)]
    heapify(heads)
    for _ in range(engine.settings.starts_max):
        line, name = _pop(tx, engine, heads)
        if not name:
            return
        ask = tx.state.get(tables.ASKS, (PROJECT_SLOT, name))
        assert ask is not None, "an ask that stands in a line is kept"
        _weigh(tx, engine, name, ask, stands=True)
        for head in _head(tx, line):
            heappush(heads, head)
    if heads:
        tx.call_at(tx.now, PlacesFreed(tuple(line for _, line, _ in heads)))


def _pop(
    tx: Transition, engine: EngineContext, heads: list[tuple[Key, str, str]]
) -> tuple[str, str]:
    """The line and the name of the first ask before whose key there is room, or empty texts."""
    while heads:
        _, line, name = heappop(heads)
        if line == UNSETTLED or _room(tx, engine, line):
            return line, name
    return "", ""


def _head(tx: Transition, line: str) -> list[tuple[Key, str, str]]:
    """The first ask of a line, by its place there, or none."""
    rows = tx.state.scan(tables.ASK_LINES, (PROJECT_SLOT, line), 1)
    return [(key[2:], line, row.run) for key, row in rows]
