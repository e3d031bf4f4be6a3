"""What is registered, indexed for matching; it follows the version that a partition applies."""

from bisect import insort
from collections.abc import Iterator

import msgspec

from duraton_engine.controls.flow import Flow
from duraton_engine.state import tables
from duraton_schemas.controls import Together
from duraton_schemas.default_prices import DEFAULT_PRICES
from duraton_schemas.options import AppOptions, ProjectOptions, WorkflowOptions
from duraton_schemas.prices import PriceTable
from duraton_schemas.records.public import RegistryEntry
from duraton_streams.state.table import StateReader, scan_all

APP, SHAPE, PROJECT, PRICES = "app", "shape", "project", "prices"
ASKED, READY, RETIRING = '"asked"', '"ready"', '"retiring"'
"""Bodies of a wait shape's entries: made known, known everywhere, about to be taken away."""


class Registrations:
    """The workflows, triggers, wait shapes and prices that a partition decides by.

    Args:
        together: What holds where a workflow states no `together`, or None (P22).

    Attributes:
        ceiling: How many runs execute at once in the whole project; 0 for no limit.
        prices: What tokens of each model cost.
    """

    def __init__(self, together: Together | None = None) -> None:
        self._version = -1
        self._together = together
        self._flows: dict[tuple[str, str], Flow] = {}
        self._workflows: dict[tuple[str, str], WorkflowOptions] = {}
        self._by_name: dict[str, list[tuple[str, str]]] = {}
        self._prefixes: list[tuple[str, tuple[str, str]]] = []
        self._groups: dict[str, tuple[int, int]] = {}
        self.ceiling = 0
        self._shapes: dict[str, list[str]] = {}
        self._ready: set[tuple[str, str]] = set()
        self.prices = DEFAULT_PRICES

    def refresh(self, state: StateReader, version: int) -> None:
        """Index the registry at a version, unless that is what is indexed."""
        if version == self._version:
            return
        self._index_apps(state)
        project = state.get(tables.APPLIED, (PROJECT, PROJECT))
        self._index_project(project.body if project is not None else None)
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
        elif entry.kind == PROJECT:
            self._index_project(entry.body)
        elif entry.kind == SHAPE:
            self._index_shape(entry.key, entry.body)
        elif entry.kind == PRICES:
            self._index_prices(state)
        self._version = entry.version

    def _index_apps(self, state: StateReader) -> None:
        self._workflows, self._by_name, self._prefixes = {}, {}, []
        self._flows, self._groups = {}, {}
        for version, app in _apps(state):
            for workflow in app.workflows:
                home = (app.name, workflow.name)
                self._workflows[home] = workflow
                flow = self._flows[home] = Flow(app.name, workflow, self._together)
                together = flow.controls.together
                if together is not None and together.group is not None:
                    # Across apps the newest registration sets a group's `max` (P24).
                    newest = (version, together.max)
                    old = self._groups.get(together.group, newest)
                    self._groups[together.group] = max(old, newest)
                for trigger in workflow.event_names():
                    if trigger.endswith("*"):
                        self._prefixes.append((trigger[:-1], home))
                    else:
                        self._by_name.setdefault(trigger, []).append(home)

    def _index_project(self, body: str | None) -> None:
        self.ceiling = msgspec.json.decode(body, type=ProjectOptions).ceiling if body else 0

    def group_max(self, group: str) -> int | None:
        """How many runs of a group work at once for a key; None where nobody states it."""
        found = self._groups.get(group)
        return found[1] if found is not None else None

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

    def flow(self, app: str, workflow: str) -> Flow | None:
        """A workflow with its controls, or None where it is not registered."""
        return self._flows.get((app, workflow))

    def flows(self) -> dict[tuple[str, str], Flow]:
        """Every registered workflow, by app and name."""
        return self._flows

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
    for _, app in _apps(state):
        yield app


def _apps(state: StateReader) -> Iterator[tuple[int, AppOptions]]:
    for _, row in scan_all(state, tables.APPLIED, (APP,), page=100):
        if row.body is not None:
            yield row.version, msgspec.json.decode(row.body, type=AppOptions)


def shape_key(name: str, path: str) -> str:
    """A wait shape's key in the registry."""
    return f"{name}\0{path}"


def split_shape(key: str) -> tuple[str, str]:
    """The event name and the field's path that a shape's key names."""
    name, _, path = key.partition("\0")
    return name, path
