"""What is registered, indexed for matching; rebuilt when the applied version moves."""

from collections.abc import Iterator

import msgspec

from duraton_engine.state import tables
from duraton_schemas.options import AppOptions, WorkflowOptions
from duraton_streams.state.table import StateReader

APP, SHAPE = "app", "shape"
ASKED, READY, RETIRING = '"asked"', '"ready"', '"retiring"'
"""Bodies of a wait shape's entries: made known, known everywhere, about to be taken away."""


class Registrations:
    """The workflows, triggers and wait shapes that a partition decides by."""

    def __init__(self) -> None:
        self._version = -1
        self._workflows: dict[tuple[str, str], WorkflowOptions] = {}
        self._by_name: dict[str, list[tuple[str, str]]] = {}
        self._prefixes: list[tuple[str, tuple[str, str]]] = []
        self._shapes: dict[str, list[str]] = {}
        self._ready: set[tuple[str, str]] = set()
        self._urls: dict[str, str] = {}

    def refresh(self, state: StateReader, version: int) -> None:
        """Index the registry at a version, unless that is what is indexed."""
        if version == self._version:
            return
        self.__init__()  # type: ignore[misc]  # starts over with empty indexes
        for app in registered_apps(state):
            self._add(app)
        after = None
        while True:
            rows = state.scan(tables.APPLIED, (SHAPE,), 1_000, after)
            for key, row in rows:
                name, _, path = str(key[1]).partition("\0")
                self._shapes.setdefault(name, []).append(path)
                if row.body == READY:
                    self._ready.add((name, path))
            if len(rows) < 1_000:
                break
            after = rows[-1][0]
        self._version = version

    def _add(self, app: AppOptions) -> None:
        for workflow in app.workflows:
            home = (app.name, workflow.name)
            self._workflows[home] = workflow
            for trigger in workflow.event_names():
                if trigger.endswith("*"):
                    self._prefixes.append((trigger[:-1], home))
                else:
                    self._by_name.setdefault(trigger, []).append(home)

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


def registered_apps(state: StateReader) -> Iterator[AppOptions]:
    """Every app that a partition has applied."""
    after = None
    while True:
        rows = state.scan(tables.APPLIED, (APP,), 100, after)
        for _, row in rows:
            if row.body is not None:
                yield msgspec.json.decode(row.body, type=AppOptions)
        if len(rows) < 100:
            return
        after = rows[-1][0]
