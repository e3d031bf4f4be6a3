"""Full-text search over runs: id, workflow, error, and the data of the event that started them.

An index costs more than everything else that is written for a run, and most
engines are never searched. So it is built at the first search and kept up from
then on. The index has no content of its own (`content=''`), which means that
rows are only ever added: a run's own text stands at its number, the text of
its error at the negative of it.
"""

import sqlite3
from collections.abc import Iterable

from duraton_api.view.runfold import RunFold
from duraton_api.view.schema import SEARCH

TEXT_CHARS_MAX = 10_000
"""Characters of an event's data, or of an error, that can be found."""
WORDS_MAX = 20
"""Words of a query that are looked at."""

_ADD = "INSERT INTO search (rowid, text) VALUES (?, ?)"


def build(db: sqlite3.Connection) -> None:
    """Index every run that the view has."""
    db.execute("DROP TABLE IF EXISTS search")
    db.execute(SEARCH)
    db.execute(
        "INSERT INTO search (rowid, text) SELECT r.num, r.id || ' ' || r.workflow || ' '"
        " || ifnull(e.name, '') || ' ' || substr(ifnull(e.data, ''), 1, ?)"
        " FROM run_rows r LEFT JOIN events e ON e.num = r.event",
        (TEXT_CHARS_MAX,),
    )
    db.execute(
        "INSERT INTO search (rowid, text) SELECT -num,"
        " substr(json_extract(detail, '$.error.name') || ' '"
        " || json_extract(detail, '$.error.message'), 1, ?)"
        " FROM run_rows WHERE json_extract(detail, '$.error') IS NOT NULL AND num > 0",
        (TEXT_CHARS_MAX,),
    )


def index_runs(db: sqlite3.Connection, runs: Iterable[RunFold]) -> None:
    """Add what a batch brought: new runs, and the errors of those that failed in it."""
    rows: list[tuple[int, str]] = []
    for run in runs:
        state = run.state
        if run.fresh:
            row = db.execute(
                "SELECT ifnull(e.name, '') || ' ' || substr(ifnull(e.data, ''), 1, ?)"
                " FROM run_rows r LEFT JOIN events e ON e.num = r.event WHERE r.num = ?",
                (TEXT_CHARS_MAX, state.num),
            ).fetchone()
            rows.append((state.num, f"{state.id} {state.workflow} {row[0]}"))
        if run.ended_now and state.error is not None:
            text = f"{state.error.name} {state.error.message}"[:TEXT_CHARS_MAX]
            rows.append((-state.num, text))
    db.executemany(_ADD, rows)


def match_text(query: str) -> str:
    """A query as people type it, in the form that the index takes: every word, by its beginning."""
    words = query.replace("\0", " ").split()[:WORDS_MAX]  # SQLite ends a text there
    return " ".join('"' + word.replace('"', '""') + '"*' for word in words)
