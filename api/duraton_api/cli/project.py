"""`duraton project`: what holds for the whole project."""

from typing import Annotated

import msgspec
import typer

from duraton_api.cli import show
from duraton_api.cli.options import URL_DEFAULT, ApiKey, Json, Url
from duraton_api.cli.remote import Remote

app = typer.Typer(no_args_is_help=True, help="What holds for the whole project.")


@app.command("get")
def get(url: Url = URL_DEFAULT, api_key: ApiKey = None, as_json: Json = False) -> None:
    """Show the project's ceiling: how many runs execute at once, whatever their workflow."""
    with Remote(url, api_key) as engine:
        project = engine.get("/project")
    if as_json:
        show.data(project)
    else:
        show.line(f"ceiling {_words(project['ceiling'])}")


@app.command("set")
def put(
    ceiling: Annotated[
        int, typer.Option("--ceiling", help="Runs that execute at once; 0: no limit.", metavar="N")
    ],
    url: Url = URL_DEFAULT,
    api_key: ApiKey = None,
    as_json: Json = False,
) -> None:
    """Set the project's ceiling."""
    with Remote(url, api_key) as engine:
        answer = engine.put("/project", msgspec.json.encode({"ceiling": ceiling}))
    if as_json:
        show.data(answer)
    elif answer["pending"]:
        show.note(f"recorded; it is not in force everywhere yet: ceiling {_words(ceiling)}")
    else:
        show.note(f"ceiling {_words(ceiling)} is in force")


def _words(ceiling: int) -> str:
    return f"{ceiling:,}" if ceiling else "0 (no limit)"
