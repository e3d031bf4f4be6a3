"""Wait shapes: which pairs of event name and field runs wait by (DESIGN 4).

An event is passed on to where runs may wait only by shapes that exist. A shape is
made at the project slot when a run first waits by it, and is ready once every
partition knows it. From time to time it is looked at whether anybody still waits by
it; if not, it is retired, and made again when somebody does.

Retiring loses no wait. A partition that has applied it tells wherever a wait is placed
with it from then on, and the wait's run asks anew (`wait_for_event.wait_placed`).
"""

from duraton_engine.commands.register_app import change_registry
from duraton_engine.context import EngineContext
from duraton_engine.errors import SHAPES_TOO_MANY
from duraton_engine.registrations import ASKED, READY, RETIRING, SHAPE, shape_key, split_shape
from duraton_engine.state import tables
from duraton_engine.state.objects import RegistryHead
from duraton_schemas.ids import run_slot
from duraton_schemas.records import journal as facts
from duraton_schemas.records import messages
from duraton_schemas.records.common import ErrorInfo
from duraton_streams.partition.machine import Transition
from duraton_streams.state.table import scan_all


def shape_asked(
    tx: Transition, engine: EngineContext, slot: int, message: messages.ShapeAsked
) -> None:
    """At the project slot: a run waits by a shape; answered once every partition knows it."""
    key = shape_key(message.name, message.path)
    row = tx.state.get(tables.REGISTRY, (slot, SHAPE, key))
    if row is not None and row.body == READY:
        _tell(tx, slot, message.run, message.step, message.n)
        return
    if row is None:
        head = tx.state.get(tables.REGISTRY_HEAD, (slot,)) or RegistryHead()
        if head.shapes >= engine.settings.shapes_max:
            _refuse_shape(tx, engine, slot, message)
            return
    if row is None or row.body == RETIRING:
        change_registry(tx, SHAPE, key, ASKED)
    requested = facts.ShapeRequested(
        name=message.name, path=message.path, run=message.run, step=message.step, n=message.n
    )
    tx.emit(slot, requested)


def _refuse_shape(
    tx: Transition, engine: EngineContext, slot: int, message: messages.ShapeAsked
) -> None:
    error = ErrorInfo(
        message=(
            f"runs wait by {engine.settings.shapes_max} pairs of event name and field already, "
            f"so none can wait by {message.name!r} and {message.path!r}; use fixed event names "
            "and match a field instead of making names at run time"
        ),
        name="ShapesTooManyError",
        code=SHAPES_TOO_MANY,
        final=True,
    )
    refused = messages.ShapeRefused(run=message.run, step=message.step, n=message.n, error=error)
    tx.send(run_slot(message.run), refused, source=slot)


def _tell(tx: Transition, slot: int, run: str, step: str, n: int) -> None:
    tx.send(run_slot(run), messages.ShapeReady(run=run, step=step, n=n), source=slot)


def registry_reported(
    tx: Transition, engine: EngineContext, slot: int, message: messages.RegistryReported
) -> None:
    """At the project slot: a partition has applied a shape; with the last one it is ready."""
    reported = facts.PartitionReported(reporter=message.reporter, version=message.version)
    tx.emit(slot, reported)
    rows = tx.state.scan(tables.REPORTED, (slot,), tx.partitions)
    if len(rows) < tx.partitions:
        return
    everywhere = min(row.version for _, row in rows)
    for key, asked in scan_all(tx.state, tables.PENDING_SHAPES, (slot,)):
        if asked.version <= everywhere:
            _make_ready(tx, engine, slot, str(key[1]))


def _make_ready(tx: Transition, engine: EngineContext, slot: int, key: str) -> None:
    name, path = split_shape(key)
    for _, waiter in scan_all(tx.state, tables.SHAPE_WAITERS, (slot, name, path)):
        _tell(tx, slot, waiter.run, waiter.step, waiter.n)
    tx.emit(slot, facts.ShapeAnswered(name=name, path=path))
    _keep(tx, engine, key)


def _keep(tx: Transition, engine: EngineContext, key: str) -> None:
    due = tx.now + engine.settings.shape_check_ms
    change_registry(tx, SHAPE, key, READY, due)


def check_shape(tx: Transition, engine: EngineContext, key: str) -> None:
    """At the project slot: a shape's time is over; ask every partition whether it is needed."""
    change_registry(tx, SHAPE, key, RETIRING)


def shape_reported(
    tx: Transition, engine: EngineContext, slot: int, message: messages.ShapeReported
) -> None:
    """At the project slot: with the last partition that does not need it a shape is gone."""
    row = tx.state.get(tables.REGISTRY, (slot, SHAPE, message.key))
    if row is None or row.body != RETIRING or row.version != message.version:
        return
    if message.waits:
        _keep(tx, engine, message.key)
        return
    idle = facts.ShapeIdle(key=message.key, reporter=message.reporter, version=message.version)
    tx.emit(slot, idle)
    rows = tx.state.scan(tables.IDLE_SHAPES, (slot, message.key), tx.partitions)
    if len(rows) == tx.partitions:
        change_registry(tx, SHAPE, message.key, None)
