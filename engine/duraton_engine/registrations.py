"""What is registered, indexed for matching; it follows the version that a partition applies."""

from bisect import insort
from collections.abc import Iterator

import msgspec

from duraton_engine.state import tables
from duraton_schemas.default_prices import DEFAULT_PRICES
from duraton_schemas.options import AppOptions, WorkflowOptions
from duraton_schemas.prices import PriceTable
from duraton_schemas.records.public import RegistryEntry
from duraton_streams.state.table import StateReader, scan_all

APP, SHAPE, PRICES = "app", "shape", "prices"
ASKED, READY, RETIRING = '"asked"', '"ready"', '"retiring"'
"""Bodies of a wait shape's entries: made known, known everywhere, about to be taken away."""


class Registrations:
    """The workflows, triggers, wait shapes and prices that a partition decides by.

    Attributes:
        prices: What tokens of each model cost.
    """

    def __init__(self) -> None:
        self._version = -1
        self._workflows: dict[tuple[str, str], WorkflowOptions] = {}
        self._by_name: dict[str, list[tuple[str, str]]] = {}
        self._prefixes: list[tuple[str, tuple[str, str]]] = []
        self._shapes: dict[str, list[str]] = {}
        self._ready: set[tuple[str, str]] = set()
        self.prices = DEFAULT_PRICES

    def refresh(self, state: StateReader, version: int) -> None:
        """Index the registry at a version, unless that is what is indexed."""
        if version == self._version:
            return
        self._index_apps(state)
        self._shapes, self._ready = {}, set()
        for key, row in scan_all(state, tables.APPLIED, (SHAPE,)):
            self._index_shape(str(key[1]), row.body)
        self._index_prices(state)
        self._version = version

    def applied(self, state: StateReader, entry: RegistryEntry) -> None:
        """One more entry is in the state, the version before it being indexed.

        There may be thousands of shapes, each of some versions, so none is looked at
        but the entry's own.
        """
        if entry.kind == APP:
            self._index_apps(state)
        elif entry.kind == SHAPE:
            self._index_shape(entry.key, entry.body)
        elif entry.kind == PRICES:
            self._index_prices(state)
        self._version = entry.version

    def _index_apps(self, state: StateReader) -> None:
        self._workflows, self._by_name, self._prefixes = {}, {}, []
        for app in registered_apps(state):
            for workflow in app.workflows:
                home = (app.name, workflow.name)
                self._workflows[home] = workflow
                for trigger in workflow.event_names():
                    if trigger.endswith("*"):
                        self._prefixes.append((trigger[:-1], home))
                    else:
                        self._by_name.setdefault(trigger, []).append(home)

    def _index_shape(self, key: str, body: str | None) -> None:
        name, path = split_shape(key)
        paths = self._shapes.setdefault(name, [])
        if body is None:
            if path in paths:
                paths.remove(path)
            if not paths:
                del self._shapes[name]
        elif path not in paths:
            insort(paths, path)
        if body == READY:
            self._ready.add((name, path))
        else:
            self._ready.discard((name, path))

    def _index_prices(self, state: StateReader) -> None:
        row = state.get(tables.APPLIED, (PRICES, PRICES))
        found = None if row is None else row.body
        self.prices = DEFAULT_PRICES if found is None else decode_prices(found)

    def match(self, event: str) -> list[tuple[str, str]]:
        """The workflows that an event of that name starts, each once, in a fixed order."""
        homes = list(self._by_name.get(event, ()))
        if self._prefixes:
            homes.extend(home for prefix, home in self._prefixes if event.startswith(prefix))
            homes = sorted(set(homes))
        return homes

    def workflow(self, app: str, workflow: str) -> WorkflowOptions | None:
        """A workflow's options, or None where it is not registered."""
        return self._workflows.get((app, workflow))

    def workflows(self) -> Iterator[tuple[str, WorkflowOptions]]:
        """Every registered workflow with its app."""
        for (app, _), options in self._workflows.items():
            yield app, options

    def paths(self, event: str) -> list[str]:
        """The paths by which runs wait for events of that name."""
        return self._shapes.get(event, [])

    def ready(self, event: str, path: str) -> bool:
        """Whether every partition sends events of that shape."""
        return (event, path) in self._ready


def decode_prices(body: str) -> PriceTable:
    """A price table that was checked when it was accepted."""
    return msgspec.json.decode(body, type=PriceTable)


def registered_apps(state: StateReader) -> Iterator[AppOptions]:
    """Every app that a partition has applied."""
    for _, row in scan_all(state, tables.APPLIED, (APP,), page=100):
        if row.body is not None:
            yield msgspec.json.decode(row.body, type=AppOptions)


def shape_key(name: str, path: str) -> str:
    """A wait shape's key in the registry."""
    return f"{name}\0{path}"


def split_shape(key: str) -> tuple[str, str]:
    """The event name and the field's path that a shape's key names."""
    name, _, path = key.partition("\0")
    return name, path
