"""The registry: made at the project slot, applied at every partition (DESIGN 4)."""

from duraton_engine.commands.change_gates import change_gates
from duraton_engine.commands.fire_cron import arm_schedules
from duraton_engine.commands.grant_place import serve_all
from duraton_engine.commands.review_flow import review_flows
from duraton_engine.context import EngineContext
from duraton_engine.controls.project import gates_applied
from duraton_engine.effects import RegistryMoved, Reply
from duraton_engine.registrations import (
    APP,
    ASKED,
    PROJECT,
    RETIRING,
    SHAPE,
    registered_apps,
    split_shape,
)
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
from duraton_streams.state.table import StateReader

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
        before = read_app(old.body) if old is not None and old.body is not None else None
        gated = _group_keys(before) != _group_keys(app)
        version = change_registry(tx, APP, app.name, body, gated=gated)
    warnings = _warnings(app, tx.state)
    tx.effect(Reply(command.id, ok=True, version=version, warnings=warnings))


def _warnings(app: AppOptions, state: StateReader) -> tuple[str, ...]:
    """What works otherwise than its author may think."""
    found: list[str] = []
    groups = _groups(app.name, state)
    for workflow in app.workflows:
        controls = workflow.read_controls()
        debounce, once = controls.debounce, controls.idempotency
        if debounce is not None and once is not None and debounce.key == once.key:
            found.append(
                f"{workflow.name}: debounce and idempotency have the same key, so within "
                f"{once.period_ms} ms only the first event of a burst counts (P8)"
            )
        together = controls.together
        if together is not None and together.group is not None:
            other = groups.get(together.group)
            if other is not None and other[1] != together.max:
                found.append(
                    f"{workflow.name}: the group {together.group!r} has max {other[1]} in app "
                    f"{other[0]}; the newest registration sets it, now {together.max} (P24)"
                )
    return tuple(found)


def _groups(app: str, state: StateReader) -> dict[str, tuple[str, int]]:
    """The groups that other apps state: an app of each and its `max`."""
    found: dict[str, tuple[str, int]] = {}
    for other in registered_apps(state):
        if other.name == app:
            continue
        for workflow in other.workflows:
            together = workflow.read_controls().together
            if together is not None and together.group is not None:
                found[together.group] = (other.name, together.max)
    return found


def _group_keys(app: AppOptions | None) -> dict[str, tuple[str, str | None]]:
    """The group and the key of each workflow that is counted in one."""
    found: dict[str, tuple[str, str | None]] = {}
    for workflow in app.workflows if app is not None else ():
        controls = workflow.read_controls()
        if controls.together is not None and controls.together.group is not None:
            found[workflow.name] = (controls.together.group, controls.key)
    return found


def change_registry(
    tx: Transition,
    kind: str,
    key: str,
    body: str | None,
    due: int | None = None,
    *,
    gated: bool = False,
) -> int:
    """Give the registry a new version, at the project slot.

    Args:
        tx: The transition.
        kind: As in `RegistryEntry`.
        key: As in `RegistryEntry`.
        body: As in `RegistryEntry`.
        due: When a wait shape is looked at again, or None.
        gated: Whether the keys change by which runs are counted across workflows.

    Returns:
        The version.
    """
    head = tx.state.get(tables.REGISTRY_HEAD, (PROJECT_SLOT,)) or RegistryHead()
    version = head.version + 1
    gates = version if gated else head.gates
    changed = facts.RegistryChanged(
        version=version, kind=kind, key=key, body=body, gates=gates, due=due
    )
    tx.emit(PROJECT_SLOT, changed)
    entry = RegistryEntry(version=version, kind=kind, key=key, body=body, gates=gates)
    name = f"{kind}:{key}".encode()
    tx.publish(NewRecord(REGISTRY, 0, _codec.encode(entry), name, timestamp_ms=tx.now))
    return version


def apply_entry(tx: Transition, engine: EngineContext, entry: RegistryEntry) -> None:
    """At every partition: decide by this version from here on."""
    if entry.version <= tx.registry:
        return
    slot = first_slot(tx.partition, tx.partitions)
    counted = gates_applied(tx)
    applied = facts.RegistrationApplied(
        version=entry.version, kind=entry.kind, key=entry.key, body=entry.body, gates=entry.gates
    )
    tx.emit(slot, applied)
    tx.registry_moved(entry.version)
    before = engine.registrations.flows()
    engine.registrations.applied(tx.state, entry)
    if entry.kind == APP:
        arm_schedules(tx, engine)
        review_flows(tx, engine, before)
    if entry.gates > counted:
        change_gates(tx, engine, entry.gates)
    if entry.kind in (APP, PROJECT):
        serve_all(tx, engine)
    if entry.kind == SHAPE:
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
