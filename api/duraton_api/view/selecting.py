"""Which runs a filter means, for an act on all of them (P57)."""

import sqlite3
from typing import Any

from duraton_api.view import shapes
from duraton_api.view.filters import RunFilter, run_conditions
from duraton_api.view.flow.holds import status_conditions
from duraton_api.view.flow.reasons import Gates
from duraton_api.view.reads import Reads, run_item

SELECT_TIME_LIMIT_S = 60.0
"""How long the choice may take; a million runs take about five seconds."""
SAMPLE_MAX = 10


def select_ids(reads: Reads, wanted: RunFilter) -> list[str]:
    """The ids of all runs that a filter means, from one state of the view.

    Runs that have ended come in the order in which they did, others in the order of
    their creation.

    Args:
        reads: The view's reads.
        wanted: The filter, with statuses of one of the two kinds.
    """
    with reads.reading(SELECT_TIME_LIMIT_S) as db:
        where, values = _conditions(db, wanted)
        query = f"SELECT r.id FROM run_rows r WHERE {where} ORDER BY {_ORDER}"  # noqa: S608 - our own text
        return [run for (run,) in db.execute(query, values)]


def sample_runs(reads: Reads, wanted: RunFilter) -> tuple[int, list[shapes.RunItem]]:
    """How many runs a filter means, and the first of them."""
    with reads.reading(SELECT_TIME_LIMIT_S) as db:
        where, values = _conditions(db, wanted)
        count = f"SELECT count(*) FROM run_rows r WHERE {where}"  # noqa: S608 - our own text
        query = (
            "SELECT r.status, r.detail, e.name FROM run_rows r"  # noqa: S608 - our own text
            f" LEFT JOIN events e ON e.num = r.event WHERE {where} ORDER BY {_ORDER}"
            f" LIMIT {SAMPLE_MAX}"
        )
        (total,) = db.execute(count, values).fetchone()
        gates = Gates(db, reads.stated)
        runs = [run_item(row, gates) for row in db.execute(query, values)]
    return total, runs


_ORDER = "ifnull(json_extract(r.detail, '$.endedAt'), r.created_at), r.num"


def _conditions(db: sqlite3.Connection, wanted: RunFilter) -> tuple[str, list[Any]]:
    where, values = run_conditions(wanted)
    any_of = [each for status in wanted.statuses for each in status_conditions(db, status)]
    where.append(f"({' OR '.join(any_of)})")
    return " AND ".join(where), values
