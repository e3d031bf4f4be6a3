"""`duraton jobs`: acts on many runs, followed and stopped."""

from typing import Annotated, Any

import typer

from duraton_api.cli import show
from duraton_api.cli.options import URL_DEFAULT, ApiKey, Json, Url
from duraton_api.cli.remote import Remote, path_of
from duraton_api.view.times import iso

LIMIT_DEFAULT = 50
PAGE_MAX = 500

app = typer.Typer(no_args_is_help=True, help="Follow and stop acts on many runs.")

JobId = Annotated[str, typer.Argument(help="The job's id.", metavar="ID")]


@app.command("list")
def list_jobs(
    status: Annotated[
        str | None,
        typer.Option("--status", help="running, stopping, completed, stopped; with commas."),
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", min=1, max=PAGE_MAX, help="The most jobs.")
    ] = LIMIT_DEFAULT,
    url: Url = URL_DEFAULT,
    api_key: ApiKey = None,
    as_json: Json = False,
) -> None:
    """List jobs, newest first."""
    params = {"limit": str(limit)}
    if status is not None:
        params["status"] = status
    with Remote(url, api_key) as engine:
        answer = engine.get("/jobs", params)
    if as_json:
        show.data(answer)
        return
    columns = ("id", "act", "status", "created", "done", "refused", "total")
    show.table(columns, [_row(job) for job in answer["jobs"]], "no jobs")
    if answer["cursor"]:
        show.note(f"the newest {len(answer['jobs'])}; --limit shows more")


@app.command("get")
def get_job(
    job_id: JobId, url: Url = URL_DEFAULT, api_key: ApiKey = None, as_json: Json = False
) -> None:
    """Show one job: how far it is, and which runs it could not act on."""
    with Remote(url, api_key) as engine:
        found = engine.get(path_of("jobs", job_id))
    if as_json:
        show.data(found)
    else:
        print_job(found)


@app.command("stop")
def stop_job(
    job_id: JobId, url: Url = URL_DEFAULT, api_key: ApiKey = None, as_json: Json = False
) -> None:
    """Let a job begin no further batch; what it has done stays done."""
    with Remote(url, api_key) as engine:
        answer = engine.post(path_of("jobs", job_id, "stop"))
    if as_json:
        show.data(answer)
    elif answer.get("pending"):
        show.line(f"{answer['id']}  recorded, not stopped yet")
    else:
        print_job(answer)


def print_job(job: dict[str, Any]) -> None:
    """Print a job: what it is, how far it is, and what it could not act on."""
    show.styled(f"{job['id']}  {job['act']}  {job['status']}", _style(job["status"]))
    chosen = ", ".join(f"{name} {_chosen(name, value)}" for name, value in job["filter"].items())
    show.line(f"  runs      {job['done']} of {job['total']} done, {job['refused']} refused")
    show.line(f"  filter    {chosen}")
    show.line(f"  created   {job['createdAt']}")
    if job["endedAt"]:
        show.line(f"  ended     {job['endedAt']}")
    if job["reason"]:
        show.line(f"  reason    {job['reason']}")
    for refusal in job["refusals"]:
        show.line(f"  refused   {refusal['run']}: {refusal['message']} ({refusal['code']})")
    more = job["refused"] - len(job["refusals"])
    if more:
        show.line(f"  refused   {more} more")


def _chosen(name: str, value: Any) -> str:
    if name in ("since", "until") and str(value).isdecimal():
        return iso(int(value))
    return show.short(value)


def _row(job: dict[str, Any]) -> tuple[str | show.Cell, ...]:
    return (
        job["id"],
        job["act"],
        (job["status"], _style(job["status"])),
        job["createdAt"][:19].replace("T", " "),
        str(job["done"]),
        str(job["refused"]),
        str(job["total"]),
    )


def _style(status: str) -> str:
    return {"stopping": "yellow", "stopped": "yellow"}.get(
        status, show.STATUS_STYLES.get(status, "")
    )
