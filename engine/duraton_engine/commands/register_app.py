"""The registry: made at the project slot, applied at every partition (DESIGN 4)."""

from duraton_engine.commands.fire_cron import arm_schedules
from duraton_engine.context import EngineContext
from duraton_engine.effects import RegistryMoved, Reply
from duraton_engine.registrations import APP, ASKED, RETIRING, SHAPE, split_shape
from duraton_engine.schedule import next_tick
from duraton_engine.state import tables
from duraton_engine.state.objects import RegistryHead
from duraton_schemas.codec import Codec
from duraton_schemas.errors import OptionsError
from duraton_schemas.options import AppOptions, read_app, write_app
from duraton_schemas.records import commands, messages
from duraton_schemas.records import journal as facts
from duraton_schemas.records.public import RegistryEntry
from duraton_schemas.slots import PROJECT_SLOT, slots_of
from duraton_streams.logs.base import REGISTRY, NewRecord
from duraton_streams.partition.machine import Transition
from duraton_streams.partition.transition import first_slot

_codec = Codec()


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
        version = change_registry(tx, APP, app.name, body)
    warnings = _warnings(app)
    tx.effect(Reply(command.id, ok=True, version=version, warnings=warnings))


_ENFORCED = frozenset(("cap",))
"""Controls that are carried out; the others are recorded only."""


def _warnings(app: AppOptions) -> tuple[str, ...]:
    found = []
    for workflow in app.workflows:
        controls = set(workflow.controls()) - _ENFORCED
        if controls:
            names = ", ".join(sorted(controls))
            found.append(f"{workflow.name}: recorded, but not enforced by this version: {names}")
    return tuple(found)


def change_registry(
    tx: Transition, kind: str, key: str, body: str | None, due: int | None = None
) -> int:
    """Give the registry a new version, at the project slot; answers it."""
    head = tx.state.get(tables.REGISTRY_HEAD, (PROJECT_SLOT,)) or RegistryHead()
    version = head.version + 1
    changed = facts.RegistryChanged(
        version=version, kind=kind, key=key, body=body, gates=head.gates, due=due
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
    engine.registrations.applied(tx.state, entry)
    if entry.kind == APP:
        arm_schedules(tx, engine)
    elif entry.kind == SHAPE:
        _report_shape(tx, slot, entry)
    tx.effect(RegistryMoved(tx.partition, entry.version))


def _report_shape(tx: Transition, slot: int, entry: RegistryEntry) -> None:
    """Tell the project slot what it waits for before a shape is ready, or gone."""
    if entry.body == ASKED:
        known = messages.RegistryReported(reporter=tx.partition, version=entry.version)
        tx.send(PROJECT_SLOT, known, source=slot)
    elif entry.body == RETIRING:
        name, path = split_shape(entry.key)
        waits = any(
            tx.state.scan(tables.WAITS, (own, name, path), 1)
            for own in slots_of(tx.partition, tx.partitions)
        )
        report = messages.ShapeReported(
            key=entry.key, reporter=tx.partition, version=entry.version, waits=waits
        )
        tx.send(PROJECT_SLOT, report, source=slot)
