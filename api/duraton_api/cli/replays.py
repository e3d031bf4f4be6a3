"""`duraton runs replay`, `retry-from-step`, `bulk-replay`, `bulk-cancel`."""

import json
import sys
from typing import Annotated, Any

import typer

from duraton_api.cli import show
from duraton_api.cli.jobs import print_job
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
from duraton_api.cli.runs import RunIds, moment, row_of
from duraton_api.cli.send import STDIN

BULK_S = 300.0
"""How long the acceptance of an act on many runs may take: their ids are chosen and written."""

DedupeId = Annotated[
    str | None,
    typer.Option("--dedupe-id", help="The same again within 24 hours makes no further run."),
]
Status = Annotated[str | None, typer.Option("--status", help="Statuses, with commas.")]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Only say how many runs it would be, and the first.")
]


def add_to(app: typer.Typer) -> None:
    """Add the commands to those of `duraton runs`."""
    app.command("replay")(replay)
    app.command("retry-from-step")(retry_from_step)
    app.command("bulk-replay")(bulk_replay)
    app.command("bulk-cancel")(bulk_cancel)


def replay(
    run_ids: RunIds,
    dedupe_id: DedupeId = None,
    url: Url = URL_DEFAULT,
    api_key: ApiKey = None,
    as_json: Json = False,
) -> None:
    """Make fresh runs of the same triggers, from the first step."""
    body = {"dedupeId": dedupe_id} if dedupe_id is not None else None
    answers = []
    with Remote(url, api_key) as engine:
        for run in run_ids:
            answer = engine.post(path_of("runs", run, "replay"), body)
            answers.append(answer)
            if not as_json:
                _print_made(answer)
    if as_json:
        show.data(answers if len(answers) > 1 else answers[0])


def retry_from_step(
    run_id: Annotated[str, typer.Argument(help="The run's id.", metavar="ID")],
    step: Annotated[
        str, typer.Argument(help="The step's id, or as it is shown: name:1.", metavar="STEP")
    ],
    n: Annotated[int | None, typer.Option("--n", min=0, help="Which use of the id.")] = None,
    input: Annotated[
        str | None,
        typer.Option("--input", help="What the step is given instead, as JSON; - reads stdin."),
    ] = None,
    dedupe_id: DedupeId = None,
    url: Url = URL_DEFAULT,
    api_key: ApiKey = None,
    as_json: Json = False,
) -> None:
    """Make a fresh run that carries the completed steps before the chosen one."""
    given = {"step": step, "n": n, "input": _input(input), "dedupeId": dedupe_id}
    body = {name: value for name, value in given.items() if value is not None}
    with Remote(url, api_key) as engine:
        answer = engine.post(path_of("runs", run_id, "retry-from-step"), body)
    if as_json:
        show.data(answer)
    else:
        _print_made(answer)


def bulk_replay(
    status: Status = None,
    workflow: Workflow = None,
    app_name: AppName = None,
    since: Since = None,
    until: Until = None,
    query: Query = None,
    dry_run: DryRun = False,
    url: Url = URL_DEFAULT,
    api_key: ApiKey = None,
    as_json: Json = False,
) -> None:
    """Replay every run that a filter means; failed ones where no status is given."""
    body = _filter(status, workflow, app_name, since, until, query)
    _bulk("bulk-replay", body, Remote(url, api_key), dry_run=dry_run, as_json=as_json)


def bulk_cancel(
    status: Status = None,
    workflow: Workflow = None,
    app_name: AppName = None,
    since: Since = None,
    until: Until = None,
    query: Query = None,
    reason: Annotated[str | None, typer.Option("--reason", help="Why, for people.")] = None,
    dry_run: DryRun = False,
    url: Url = URL_DEFAULT,
    api_key: ApiKey = None,
    as_json: Json = False,
) -> None:
    """Cancel every run that a filter means and that has not ended."""
    body = _filter(status, workflow, app_name, since, until, query)
    if reason is not None:
        body["reason"] = reason
    _bulk("bulk-cancel", body, Remote(url, api_key), dry_run=dry_run, as_json=as_json)


def _input(text: str | None) -> Any:
    if text is None:
        return None
    if text == STDIN:
        text = sys.stdin.read()
    try:
        return json.loads(text)
    except ValueError as error:
        raise usage(
            f"--input: it is no JSON: {error}", "Quote it: '[7, \"EUR\"]' or '{\"orderId\": 7}'."
        ) from error


def _filter(
    status: str | None,
    workflow: str | None,
    app_name: str | None,
    since: str | None,
    until: str | None,
    query: str | None,
) -> dict[str, str]:
    given = {
        "status": status,
        "workflow": workflow,
        "app": app_name,
        "since": moment(since, "--since"),
        "until": moment(until, "--until"),
        "q": query,
    }
    found = {name: value for name, value in given.items() if value}
    if not found:
        raise usage(
            "an act on many runs needs a filter",
            "Give at least one of --status, --workflow, --app, --since, --until, --query.",
        )
    return found


def _bulk(act: str, body: dict[str, str], engine: Remote, *, dry_run: bool, as_json: bool) -> None:
    params = {"dryRun": "true"} if dry_run else None
    with engine:
        answer = engine.post(path_of("runs", act), body, params=params, timeout_s=BULK_S)
    if as_json:
        show.data(answer)
    elif dry_run:
        columns = ("id", "workflow", "status", "created", "took", "note")
        show.table(columns, [row_of(run) for run in answer["sample"]], "no runs")
        show.note(f"{answer['total']} runs; the first {len(answer['sample'])} are shown")
    elif answer.get("pending"):
        show.line(f"{answer['id']}  recorded, not begun yet")
    else:
        print_job(answer)
        show.note(f"follow it with `duraton jobs get {answer['id']}`")


def _print_made(answer: dict[str, Any]) -> None:
    if answer.get("pending"):
        show.line(f"recorded, not done yet; see `duraton runs get {answer['replayOf']}`")
        return
    again = ", as an earlier request made it" if answer.get("repeated") else ""
    show.line(f"{answer['runId']}  {answer['status']}  replays {answer['replayOf']}{again}")
