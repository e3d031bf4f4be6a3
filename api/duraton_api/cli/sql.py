"""`duraton sql`: a person's own query over the view."""

from typing import Annotated

import typer

from duraton_api.cli import show
from duraton_api.cli.errors import CommandFailedError
from duraton_api.cli.options import DATA_DEFAULT, KAFKA_FOLDER, Data, Json
from duraton_api.node.defaults import VIEW_FILE

LIMIT_DEFAULT = 1_000
LIMIT_MAX = 10_000


def sql(
    query: Annotated[
        str,
        typer.Argument(
            help="One SELECT; docs/reference/view-tables.md has the tables.", metavar="QUERY"
        ),
    ],
    limit: Annotated[
        int, typer.Option("--limit", min=1, max=LIMIT_MAX, help="The most rows.")
    ] = LIMIT_DEFAULT,
    data: Data = DATA_DEFAULT,
    as_json: Json = False,
) -> None:
    """Query the view, read-only, whether or not the engine runs."""
    from duraton_api.view.sql import run_sql  # noqa: PLC0415 other commands need no SQLite

    path = data / VIEW_FILE
    if not path.is_file() and (data / KAFKA_FOLDER / VIEW_FILE).is_file():
        path = data / KAFKA_FOLDER / VIEW_FILE
    if not path.is_file():
        raise CommandFailedError(
            "data-missing",
            f"there is no view in {data}",
            "Name the engine's directory with --data.",
        )
    answer = run_sql(str(path), query, limit)
    if as_json:
        named = [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]
        show.data({"rows": named, "truncated": answer.truncated})
        return
    rows = [
        ["" if value is None else show.short(value, 200) for value in row] for row in answer.rows
    ]
    show.table(answer.columns, rows, "no rows")
    if answer.truncated:
        show.note(f"the first {limit} rows; --limit shows more")
