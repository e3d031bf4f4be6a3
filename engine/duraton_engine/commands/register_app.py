"""The registry: made at the project slot, applied at every partition (DESIGN 4)."""

from duraton_engine.commands.fire_cron import arm_schedules
from duraton_engine.context import EngineContext
from duraton_engine.effects import RegistryMoved, Reply
from duraton_engine.errors import SHAPES_TOO_MANY
from duraton_engine.registrations import APP, ASKED, READY, SHAPE
from duraton_engine.schedule import next_tick
from duraton_engine.state import tables
from duraton_engine.state.objects import RegistryHead
from duraton_schemas.codec import Codec
from duraton_schemas.errors import OptionsError
from duraton_schemas.ids import run_slot
from duraton_schemas.options import AppOptions, read_app, write_app
from duraton_schemas.records import commands, messages
from duraton_schemas.records import journal as facts
from duraton_schemas.records.common import ErrorInfo
from duraton_schemas.records.public import RegistryEntry
from duraton_schemas.slots import PROJECT_SLOT
from duraton_streams.logs.base import REGISTRY, NewRecord
from duraton_streams.partition.machine import Transition
from duraton_streams.partition.transition import first_slot

_codec = Codec()
_SCAN = 1_000
_READY, _ASKED = f'"{READY}"', f'"{ASKED}"'


def register_app(tx: Transition, engine: EngineContext, command: commands.RegisterApp) -> None:
    """Register an app's workflows, all or nothing; the same again changes nothing."""
    try:
        app = read_app(command.body, command.app)
        for workflow in app.workflows:
            if workflow.cron is not None:
                next_tick(workflow.cron, tx.now)
    except OptionsError as error:
        tx.effect(Reply(command.id, ok=False, code=error.code, message=str(error)))
        return
    body = write_app(app)
    old = tx.state.get(tables.REGISTRY, (PROJECT_SLOT, APP, app.name))
    if old is not None and old.body == body:
        version = old.version
    else:
        version = _change(tx, APP, app.name, body)
    warnings = _warnings(app)
    tx.effect(Reply(command.id, ok=True, version=version, warnings=warnings))


def _warnings(app: AppOptions) -> tuple[str, ...]:
    found = []
    for workflow in app.workflows:
        controls = workflow.controls()
        if controls:
            names = ", ".join(sorted(controls))
            found.append(f"{workflow.name}: recorded, but not enforced by this version: {names}")
    return tuple(found)


def _change(tx: Transition, kind: str, key: str, body: str | None) -> int:
    head = tx.state.get(tables.REGISTRY_HEAD, (PROJECT_SLOT,)) or RegistryHead()
    version = head.version + 1
    changed = facts.RegistryChanged(
        version=version, kind=kind, key=key, body=body, gates=head.gates
    )
    tx.emit(PROJECT_SLOT, changed)
    entry = RegistryEntry(version=version, kind=kind, key=key, body=body, gates=head.gates)
    name = f"{kind}:{key}".encode()
    tx.publish(NewRecord(REGISTRY, 0, _codec.encode(entry), name, timestamp_ms=tx.now))
    return version


def apply_entry(tx: Transition, engine: EngineContext, entry: RegistryEntry) -> None:
    """At every partition: decide by this version from here on."""
    if entry.version <= tx.registry:
        return
    slot = first_slot(tx.partition, tx.partitions)
    applied = facts.RegistrationApplied(
        version=entry.version, kind=entry.kind, key=entry.key, body=entry.body, gates=entry.gates
    )
    tx.emit(slot, applied)
    tx.registry_moved(entry.version)
    engine.registrations.refresh(tx.state, entry.version)
    if entry.kind == APP:
        arm_schedules(tx, engine)
    elif entry.kind == SHAPE and entry.body == _ASKED:
        report = messages.RegistryReported(reporter=tx.partition, version=entry.version)
        tx.send(PROJECT_SLOT, report, source=slot)
    tx.effect(RegistryMoved(tx.partition, entry.version))


def shape_asked(
    tx: Transition, engine: EngineContext, slot: int, message: messages.ShapeAsked
) -> None:
    """At the project slot: a run waits by a shape; answered once every partition knows it."""
    key = f"{message.name}\0{message.path}"
    row = tx.state.get(tables.REGISTRY, (slot, SHAPE, key))
    if row is not None and row.body == _READY:
        _tell(tx, slot, message.run, message.step, message.n)
        return
    if row is None:
        head = tx.state.get(tables.REGISTRY_HEAD, (slot,)) or RegistryHead()
        if head.shapes >= engine.settings.shapes_max:
            _refuse_shape(tx, engine, slot, message)
            return
        _change(tx, SHAPE, key, _ASKED)
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
    after = None
    while True:
        shapes = tx.state.scan(tables.REGISTRY, (slot, SHAPE), _SCAN, after)
        for key, row in shapes:
            if row.body == _ASKED and row.version <= everywhere:
                _make_ready(tx, slot, str(key[2]))
        if len(shapes) < _SCAN:
            return
        after = shapes[-1][0]


def _make_ready(tx: Transition, slot: int, key: str) -> None:
    name, _, path = key.partition("\0")
    after = None
    while True:
        waiters = tx.state.scan(tables.SHAPE_WAITERS, (slot, name, path), _SCAN, after)
        for _, waiter in waiters:
            _tell(tx, slot, waiter.run, waiter.step, waiter.n)
        if len(waiters) < _SCAN:
            break
        after = waiters[-1][0]
    tx.emit(slot, facts.ShapeAnswered(name=name, path=path))
    _change(tx, SHAPE, key, _READY)
