"""Which workflows' runs wait at the project slot for their group alone."""

import sqlite3
from collections.abc import Callable

import msgspec

from duraton_api.view.flow.schema import PROJECT
from duraton_schemas.errors import OptionsError
from duraton_schemas.options import AppOptions, read_app
from duraton_schemas.records import journal as j

_GROUPED = (
    "SELECT app, name FROM workflows"
    " WHERE active = 1 AND json_extract(options, '$.together.group') IS NOT NULL"
)


class Groups:
    """The registrations as far as the facts have been folded, read at the first question.

    Gate keys that change are reviewed by every partition after the fact that it applies
    the change, so what stands there is told anew by then.

    Args:
        db: Gives the writer's connection.
    """

    def __init__(self, db: Callable[[], sqlite3.Connection]) -> None:
        self._db = db
        self.clear()

    def clear(self) -> None:
        """Forget what is not written; it is read again."""
        self._read = False
        self._later: list[j.RegistryChanged | j.RegistrationApplied] = []
        self._versions: dict[tuple[str, str], int] = {}
        self._grouped: set[tuple[str, str]] = set()
        self._ceiling = 0

    def alone(self, app: str, workflow: str) -> bool:
        """Whether a workflow's runs wait for places of their group and for no ceiling."""
        if not self._read:
            self._load()
        for fact in self._later:
            self._take(fact)
        self._later.clear()
        return not self._ceiling and (app, workflow) in self._grouped

    def applied(self, fact: j.RegistryChanged | j.RegistrationApplied) -> None:
        """The registry has another entry."""
        if fact.kind in ("app", PROJECT):
            self._later.append(fact)

    def _load(self) -> None:
        db = self._db()
        self._grouped = {(app, name) for app, name in db.execute(_GROUPED)}
        for name, version in db.execute("SELECT name, version FROM apps"):
            self._versions["app", name] = version
        query = "SELECT key, version, body FROM registry WHERE kind = ?"
        for key, version, body in db.execute(query, (PROJECT,)):
            self._versions[PROJECT, key] = version
            self._ceiling = _ceiling(body)
        self._read = True

    def _take(self, fact: j.RegistryChanged | j.RegistrationApplied) -> None:
        of = (fact.kind, fact.key)
        if fact.version <= self._versions.get(of, 0):
            return
        self._versions[of] = fact.version
        if fact.kind == PROJECT:
            self._ceiling = _ceiling(fact.body)
            return
        self._grouped = {home for home in self._grouped if home[0] != fact.key}
        options = _app(fact.body)
        for workflow in options.workflows if options is not None else ():
            together = workflow.read_controls().together
            if together is not None and together.group is not None:
                self._grouped.add((fact.key, workflow.name))


def _app(body: str | None) -> AppOptions | None:
    try:
        return None if body is None else read_app(body)
    except OptionsError:
        return None  # accepted by another version of this program


def _ceiling(body: str | None) -> int:
    found = None if body is None else msgspec.json.decode(body)
    limit = found.get("ceiling") if isinstance(found, dict) else None
    return limit if isinstance(limit, int) else 0
