"""`duraton runs`: lists, one run, and acts on runs."""

from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from duraton_api.cli import show
from duraton_api.cli.options import (
    URL_DEFAULT,
    ApiKey,
    AppName,
    Json,
    Query,
    Since,
    Until,
    Url,
    Workflow,
    usage,
)
from duraton_api.cli.remote import Remote, path_of
from duraton_api.cli.timeline import print_run, reason_of, span
from duraton_schemas.duration import to_ms
from duraton_schemas.errors import DurationError

PAGE_MAX = 500
"""What the API gives in one page."""
LIMIT_DEFAULT = 50
LIMIT_MAX = 100_000

app = typer.Typer(no_args_is_help=True, help="List, inspect and steer runs.")

RunIds = Annotated[list[str], typer.Argument(help="Runs' ids.", metavar="ID...")]


NOTE_LENGTH_MAX = 160
"""A reason with its key, limit and time has to be seen whole."""


@app.command("list")
def list_runs(
    status: Annotated[
        str | None,
        typer.Option(
            "--status",
            help="queued, running, waiting, paused, completed, failed, cancelled; with commas.",
        ),
    ] = None,
    workflow: Workflow = None,
    app_name: AppName = None,
    since: Since = None,
    until: Until = None,
    query: Query = None,
    kind: Annotated[str | None, typer.Option("--kind", help="main, onFailure or all.")] = None,
    limit: Annotated[
        int, typer.Option("--limit", min=1, max=LIMIT_MAX, help="The most runs.")
    ] = LIMIT_DEFAULT,
    url: Url = URL_DEFAULT,
    api_key: ApiKey = None,
    as_json: Json = False,
) -> None:
    """List runs, newest first."""
    asked = {
        "status": status,
        "workflow": workflow,
        "app": app_name,
        "since": moment(since, "--since"),
        "until": moment(until, "--until"),
        "q": query,
        "kind": kind,
    }
    params = {name: value for name, value in asked.items() if value}
    with Remote(url, api_key) as engine:
        found, cursor = _pages(engine, params, limit)
    if as_json:
        show.data({"runs": found, "cursor": cursor})
        return
    columns = ("id", "workflow", "status", "created", "took", "note")
    show.table(columns, [row_of(run) for run in found], "no runs")
    if cursor:
        show.note(f"the newest {len(found)}; --limit shows more")


@app.command("get")
def get_run(
    run_id: Annotated[str, typer.Argument(help="The run's id.", metavar="ID")],
    url: Url = URL_DEFAULT,
    api_key: ApiKey = None,
    as_json: Json = False,
) -> None:
    """Show one run: its status, why it waits, and what happened when."""
    with Remote(url, api_key) as engine:
        found = engine.get(path_of("runs", run_id))
    if as_json:
        show.data(found)
    else:
        print_run(found)


@app.command("cancel")
def cancel(
    run_ids: RunIds,
    reason: Annotated[str | None, typer.Option("--reason", help="Why, for people.")] = None,
    url: Url = URL_DEFAULT,
    api_key: ApiKey = None,
    as_json: Json = False,
) -> None:
    """End runs as cancelled."""
    body = {"reason": reason} if reason is not None else None
    _act("cancel", run_ids, body, Remote(url, api_key), as_json=as_json)


@app.command("pause")
def pause(
    run_ids: RunIds, url: Url = URL_DEFAULT, api_key: ApiKey = None, as_json: Json = False
) -> None:
    """Let runs begin nothing until they are resumed."""
    _act("pause", run_ids, None, Remote(url, api_key), as_json=as_json)


@app.command("resume")
def resume(
    run_ids: RunIds, url: Url = URL_DEFAULT, api_key: ApiKey = None, as_json: Json = False
) -> None:
    """Let paused runs go on."""
    _act("resume", run_ids, None, Remote(url, api_key), as_json=as_json)


def _act(
    act: str, run_ids: list[str], body: dict[str, str] | None, engine: Remote, *, as_json: bool
) -> None:
    """Act on runs one after the other; the first that is refused ends the command."""
    answers = []
    with engine:
        for run in run_ids:
            answer = engine.post(path_of("runs", run, act), body)
            answers.append(answer)
            if not as_json:
                state = "recorded, not done yet" if answer.get("pending") else answer.get("status")
                show.line(f"{answer['runId']}  {state}")
    if as_json:
        show.data(answers if len(answers) > 1 else answers[0])


def _pages(
    engine: Remote, params: dict[str, str], limit: int
) -> tuple[list[dict[str, Any]], str | None]:
    found: list[dict[str, Any]] = []
    cursor: str | None = None
    while len(found) < limit:
        page = {**params, "limit": str(min(limit - len(found), PAGE_MAX))}
        if cursor is not None:
            page["cursor"] = cursor
        answer = engine.get("/runs", page)
        found += answer["runs"]
        cursor = answer["cursor"]
        if cursor is None:
            break
    return found, cursor


def moment(text: str | None, option: str) -> str | None:
    """A moment as the API takes it; a duration is that long ago."""
    if text is None or text.isdecimal() or not text[-1:].isalpha() or text[-1:] in "Zz":
        return text
    try:
        ago_ms = to_ms(text)
    except DurationError as error:
        raise usage(
            f"{option}: {text!r} is no moment", "Write ISO-8601, or 30m, 2h, 1d."
        ) from error
    return str(int(datetime.now(UTC).timestamp() * 1000) - ago_ms)


def row_of(run: dict[str, Any]) -> tuple[str | show.Cell, ...]:
    """A run as a row of a list."""
    took = span(run["durationMs"]) if run["durationMs"] is not None else ""
    return (
        run["id"],
        f"{run['app']}/{run['workflow']}" + (" (onFailure)" if run["kind"] == "onFailure" else ""),
        (run["status"], show.STATUS_STYLES.get(run["status"], "")),
        run["createdAt"][:19].replace("T", " "),
        took,
        show.short(reason_of(run), NOTE_LENGTH_MAX),
    )
