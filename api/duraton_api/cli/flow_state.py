"""`duraton flow-state`: what flow control holds back, whole or scope by scope."""

from typing import Annotated, Any

import typer

from duraton_api.cli import show
from duraton_api.cli.options import URL_DEFAULT, ApiKey, Json, Url, Workflow, usage
from duraton_api.cli.remote import Remote
from duraton_api.cli.timeline import span

PAGE_MAX = 500
"""What the API gives in one page."""
LIMIT_DEFAULT = 50
LIMIT_MAX = 100_000


def flow_state(
    workflow: Workflow = None,
    detail: Annotated[
        bool, typer.Option("--detail", help="Scope by scope: who holds it, who waits and why.")
    ] = False,
    app_name: Annotated[
        str | None, typer.Option("--app", help="An app's name; with --detail.")
    ] = None,
    control: Annotated[
        str | None,
        typer.Option("--control", help="concurrency, throttle, debounce, ...; with --detail."),
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", min=1, max=LIMIT_MAX, help="The most scopes; with --detail.")
    ] = LIMIT_DEFAULT,
    url: Url = URL_DEFAULT,
    api_key: ApiKey = None,
    as_json: Json = False,
) -> None:
    """Show what waits in windows and buffers and how many runs execute."""
    if not detail and (app_name is not None or control is not None):
        raise usage("--app and --control go with --detail")
    asked = {"workflow": workflow, "app": app_name, "control": control}
    params = {name: value for name, value in asked.items() if value is not None}
    with Remote(url, api_key) as engine:
        found = _scopes(engine, params, limit) if detail else engine.get("/flow-state", params)
    if as_json:
        show.data(found)
    elif detail:
        _show_detail(found)
    else:
        _show_state(found)


def _scopes(engine: Remote, params: dict[str, str], limit: int) -> dict[str, Any]:
    """Pages of scopes as one."""
    found: dict[str, Any] = {"scopes": [], "starts": [], "cursor": None}
    while len(found["scopes"]) < limit:
        page = {**params, "limit": str(min(limit - len(found["scopes"]), PAGE_MAX))}
        if found["cursor"] is not None:
            page["cursor"] = found["cursor"]
        answer = engine.get("/flow-state/detail", page)
        found["scopes"] += answer["scopes"]
        found["starts"] += answer["starts"]
        found["cursor"] = answer["cursor"]
        if found["cursor"] is None:
            break
    return found


def _show_state(state: dict[str, Any]) -> None:
    project = state["concurrency"]
    most = f" of {project['limit']}" if project["limit"] else ""
    one = project["inUse"] == 1 and not most
    show.line("1 run executes" if one else f"{project['inUse']}{most} runs execute")
    rows = []
    for each in state["debounce"]:
        fires = f"the next fires {each['nextFireAt']}" if each["nextFireAt"] else "all are held"
        rows.append((_name(each), "debounce", _count(each["pending"], "window"), fires))
    rows += [
        (_name(each), "batch", _count(each["buffered"], "event"), _oldest(each))
        for each in state["batch"]
    ]
    if rows:
        show.line()
        show.table(("workflow", "control", "holds", "when"), rows, "")


def _oldest(row: dict[str, Any]) -> str:
    return f"the oldest since {row['oldestAt']}" if row["oldestAt"] else ""


def _show_detail(found: dict[str, Any]) -> None:
    columns = ("workflow", "control", "key", "holds", "waits", "why", "when")
    rows = [_row(scope) for scope in found["scopes"]]
    show.table(columns, rows, "nothing holds back, and nothing is held back")
    for each in found["starts"]:
        counted = [f"{each[word]} {word}" for word in each if isinstance(each[word], int)]
        told = [text for text in counted if not text.startswith("0 ")]
        if told:
            show.line()
            show.line(f"{_name(each)} starts: {', '.join(told)}")
    if found["cursor"] is not None:
        show.note(f"the first {len(rows)}; --limit shows more")


def _name(row: dict[str, Any]) -> str:
    return f"{row['app']}/{row['workflow']}"


def _row(scope: dict[str, Any]) -> tuple[str, ...]:
    key = scope.get("key") or ""
    if "value" in scope:
        key = show.short(f"{key}={scope['value']}" if key else scope["value"])
    elif key:
        key = f"{key} (none)"
    return (
        _name(scope),
        scope["control"],
        key,
        _some(scope.get("inUse", len(scope.get("holders", ()))), scope.get("holders", ())),
        _waits(scope),
        scope.get("why", ""),
        _when(scope),
    )


def _waits(scope: dict[str, Any]) -> str:
    if "count" in scope:
        return _count(scope["count"], "event")
    told = _some(scope.get("waiting", 0), scope.get("line", ()))
    held = scope.get("firings", 0)
    return f"{told} and {held} held" if told and held else f"{held} held" if held else told


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _some(count: int, runs: Any) -> str:
    """A number, and the first of the runs."""
    if not count:
        return ""
    return f"{count} ({runs[0]['id']}{', …' if count > 1 else ''})" if runs else str(count)


def _when(scope: dict[str, Any]) -> str:
    if "dueAt" in scope:
        return f"due {scope['dueAt']}, open for {span(scope['ageMs'])}"
    return f"next start {scope['nextStartAt']}" if "nextStartAt" in scope else ""
