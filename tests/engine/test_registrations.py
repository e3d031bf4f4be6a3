"""Registrations: following the registry entry by entry gives what indexing it anew gives."""

import random

from duraton_engine.registrations import (
    APP,
    ASKED,
    READY,
    RETIRING,
    SHAPE,
    Registrations,
    shape_key,
)
from duraton_engine.state import objects, tables
from duraton_schemas.options import AppOptions, WorkflowOptions, write_app
from duraton_schemas.records.public import RegistryEntry
from duraton_streams.state.memory import MemoryStore
from duraton_streams.state.overlay import State

EVENTS = ("order.created", "order.paid", "user.left")
PATHS = ("", "orderId", "user.id")


def entry_at(version, rng):
    if rng.random() < 0.3:
        names = rng.sample(EVENTS, rng.randint(0, len(EVENTS)))
        options = [WorkflowOptions(name=f"on-{n}", triggers=(n, "order.*")) for n in names]
        app = AppOptions(name=rng.choice(("a", "b")), workflows=tuple(options))
        return RegistryEntry(version=version, kind=APP, key=app.name, body=write_app(app))
    key = shape_key(rng.choice(EVENTS), rng.choice(PATHS))
    body = rng.choice((ASKED, READY, RETIRING, None))
    return RegistryEntry(version=version, kind=SHAPE, key=key, body=body)


def answers(registrations):
    return (
        sorted((app, options.name) for app, options in registrations.workflows()),
        [registrations.match(event) for event in EVENTS],
        [registrations.paths(event) for event in EVENTS],
        [registrations.ready(event, path) for event in EVENTS for path in PATHS],
    )


def test_following_entries_gives_what_indexing_anew_gives():
    rng = random.Random(7)
    state = State(MemoryStore(), tables.TABLES)
    followed = Registrations()
    followed.refresh(state, 0)
    for version in range(1, 200):
        entry = entry_at(version, rng)
        key = (entry.kind, entry.key)
        if entry.body is None:
            state.delete(tables.APPLIED, key)
        else:
            state.put(tables.APPLIED, key, objects.RegistryRow(version, entry.body))
        followed.applied(state, entry)
        anew = Registrations()
        anew.refresh(state, version)
        assert answers(followed) == answers(anew), entry
