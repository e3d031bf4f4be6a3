"""`duraton send`: an event from the command line."""

import json
import sys
from typing import Annotated, Any

import typer

from duraton_api.cli import show
from duraton_api.cli.errors import EXIT_FAILED
from duraton_api.cli.options import URL_DEFAULT, ApiKey, Json, Url, usage
from duraton_api.cli.remote import Remote

STDIN = "-"


def send(
    name: Annotated[str, typer.Argument(help="The event's name.", metavar="NAME")],
    data: Annotated[
        str, typer.Argument(help="Its data, a JSON object; - reads it from stdin.", metavar="DATA")
    ] = "{}",
    id: Annotated[str | None, typer.Option("--id", help="The event's id.")] = None,
    dedupe_id: Annotated[
        str | None,
        typer.Option("--dedupe-id", help="A repeat of it within 24 hours leads to nothing."),
    ] = None,
    subject: Annotated[str | None, typer.Option("--subject", help="What it is about.")] = None,
    ts: Annotated[
        str | None, typer.Option("--ts", help="When it happened, ISO-8601 or milliseconds.")
    ] = None,
    url: Url = URL_DEFAULT,
    api_key: ApiKey = None,
    as_json: Json = False,
) -> None:
    """Send an event, and show what each workflow made of it."""
    event: dict[str, Any] = {"name": name, "data": _data(data)}
    given = {"id": id, "dedupeId": dedupe_id, "subject": subject, "ts": _moment(ts)}
    event.update({field: value for field, value in given.items() if value is not None})
    with Remote(url, api_key) as engine:
        answer = engine.post("/events", event)
    if as_json:
        show.data(answer)
    else:
        _show(answer)
    if any(each.get("error") for each in answer.get("answers", ())):
        raise typer.Exit(EXIT_FAILED)


def _data(text: str) -> Any:
    if text == STDIN:
        text = sys.stdin.read()
    try:
        found = json.loads(text, parse_constant=_no_number)
    except ValueError as error:
        raise usage(f"the data is no JSON: {error}", "Quote it: '{\"orderId\": 7}'.") from error
    if not isinstance(found, dict):
        raise usage("the data is no JSON object", "Quote it: '{\"orderId\": 7}'.")
    return found


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is no JSON")


def _moment(text: str | None) -> str | int | None:
    return int(text) if text is not None and text.isdecimal() else text


def _show(answer: dict[str, Any]) -> None:
    if answer.get("duplicateOf"):
        show.note(f"a repeat: the event {answer['duplicateOf']} came first; nothing follows")
        return
    rows = [_row(each) for each in answer.get("answers", ())]
    rows += [
        (f"{each['app']}/{each['workflow']}", "pending", "") for each in answer.get("pending", ())
    ]
    if rows:
        show.table(("workflow", "outcome", "run"), rows, "")
    elif answer.get("recorded", True):
        show.note("recorded; no workflow is started by an event of this name")
    show.note(f"event {answer['eventId']}")


def _row(each: dict[str, Any]) -> tuple[str, str, str]:
    where = f"{each['app']}/{each['workflow']}"
    if each.get("error"):
        outcome = "refused" if each.get("refused") else "failed"
        return where, f"{outcome}: {each['error']}", ""
    if each.get("blockedBy"):
        return where, f"skipped: {each['blockedBy']} has not ended", ""
    said = [word for word in ("dropped", "deduped", "skipped", "refused", "joined", "buffered")
            if each.get(word)]  # fmt: skip
    return where, ", ".join(said) or "run", each.get("runId") or ""
