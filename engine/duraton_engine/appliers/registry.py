"""Appliers of the registry: at the project slot, and at every partition."""

from duraton_engine.registrations import ASKED, SHAPE
from duraton_engine.state import objects, tables
from duraton_schemas.records import journal as facts
from duraton_streams.state.table import StateWriter, scan_all


def registry_changed(state: StateWriter, fact: facts.RegistryChanged) -> None:
    """The project slot keeps each entry's newest version."""
    slot = fact.slot
    key = (slot, fact.kind, fact.key)
    head = state.get(tables.REGISTRY_HEAD, (slot,)) or objects.RegistryHead()
    shapes = head.shapes
    if fact.kind == SHAPE:
        shapes += _shape_changed(state, slot, fact)
    if fact.kind == SHAPE and fact.body is None:
        state.delete(tables.REGISTRY, key)
    else:
        row = objects.RegistryRow(version=fact.version, body=fact.body, due=fact.due)
        state.put(tables.REGISTRY, key, row)
    new = objects.RegistryHead(version=fact.version, gates=fact.gates, shapes=shapes)
    state.put(tables.REGISTRY_HEAD, (slot,), new)


def _shape_changed(state: StateWriter, slot: int, fact: facts.RegistryChanged) -> int:
    """Keep what stands beside a shape's entry; answers how many shapes more there are."""
    key = fact.key
    old = state.get(tables.REGISTRY, (slot, SHAPE, key))
    if old is not None and old.due is not None:
        state.clear_timer(old.due, (slot, "shape", key))
    if fact.due is not None:
        state.set_timer(fact.due, (slot, "shape", key))
    if fact.body == ASKED:
        state.put(tables.PENDING_SHAPES, (slot, key), objects.Reported(fact.version))
    else:
        state.delete(tables.PENDING_SHAPES, (slot, key))
    for idle, _ in scan_all(state, tables.IDLE_SHAPES, (slot, key)):
        state.delete(tables.IDLE_SHAPES, idle)
    return (fact.body is not None) - (old is not None)


def shape_idle(state: StateWriter, fact: facts.ShapeIdle) -> None:
    """One more partition has nobody that waits by a retiring shape."""
    key = (fact.slot, fact.key, fact.reporter)
    state.put(tables.IDLE_SHAPES, key, objects.Reported(fact.version))


def registration_applied(state: StateWriter, fact: facts.RegistrationApplied) -> None:
    """Options are state: what is decided from here on follows them."""
    key = (fact.kind, fact.key)
    if fact.body is None:
        state.delete(tables.APPLIED, key)
    else:
        row = objects.RegistryRow(version=fact.version, body=fact.body)
        state.put(tables.APPLIED, key, row)
    if fact.gates:
        reported = objects.Reported(version=fact.gates)
        state.put(tables.GATES_APPLIED, (fact.slot,), reported)


def partition_reported(state: StateWriter, fact: facts.PartitionReported) -> None:
    """The project slot counts who has applied what."""
    reported = objects.Reported(version=fact.version)
    state.put(tables.REPORTED, (fact.slot, fact.reporter), reported)


def shape_requested(state: StateWriter, fact: facts.ShapeRequested) -> None:
    """Who asked is answered once the shape is ready."""
    key = (fact.slot, fact.name, fact.path, fact.run, fact.step, fact.n)
    waiter = objects.ShapeWaiter(run=fact.run, step=fact.step, n=fact.n)
    state.put(tables.SHAPE_WAITERS, key, waiter)


def shape_answered(state: StateWriter, fact: facts.ShapeAnswered) -> None:
    """All who asked have been told."""
    for key, _ in scan_all(state, tables.SHAPE_WAITERS, (fact.slot, fact.name, fact.path)):
        state.delete(tables.SHAPE_WAITERS, key)
