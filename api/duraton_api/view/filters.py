"""Which runs and events a list is asked for, and its pages."""

from dataclasses import dataclass
from typing import Any

from duraton_api.view.search import match_text

STATUSES = ("queued", "running", "waiting", "paused", "completed", "failed", "cancelled")
PAGE_DEFAULT = 50
PAGE_MAX = 500


@dataclass(frozen=True)
class RunFilter:
    """Which runs are asked for; None means all.

    Attributes:
        statuses: Words of `STATUSES`.
        workflow: The workflow's name.
        app: The app's name.
        since: Created at or after it, milliseconds since 1970 UTC.
        until: Created before it.
        q: Words to be found in id, workflow, error or the event's data.
        kind: `main` or `onFailure`.
        limit: The most runs of a page.
        cursor: The last page's cursor.
    """

    statuses: tuple[str, ...] = ()
    workflow: str | None = None
    app: str | None = None
    since: int | None = None
    until: int | None = None
    q: str | None = None
    kind: str | None = "main"
    limit: int = PAGE_DEFAULT
    cursor: str | None = None


@dataclass(frozen=True)
class EventFilter:
    """Which events are asked for; as `RunFilter`, by the time they were recorded."""

    name: str | None = None
    id: str | None = None
    since: int | None = None
    until: int | None = None
    limit: int = PAGE_DEFAULT
    cursor: str | None = None


def run_conditions(wanted: RunFilter) -> tuple[list[str], list[Any]]:
    """A filter's conditions on `run_rows r`, its statuses aside, and their values."""
    where: list[str] = []
    values: list[Any] = []
    for condition, value in (
        ("r.workflow = ?", wanted.workflow),
        ("r.app = ?", wanted.app),
        ("r.created_at >= ?", wanted.since),
        ("r.created_at < ?", wanted.until),
        ("r.kind = ?", wanted.kind),
    ):
        if value is not None:
            where.append(condition)
            values.append(value)
    if wanted.q:
        where.append("r.num IN (SELECT abs(rowid) FROM search WHERE search MATCH ?)")
        values.append(match_text(wanted.q))
    return where, values
