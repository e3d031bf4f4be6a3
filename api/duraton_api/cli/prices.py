"""`duraton prices`: what tokens of each model cost."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from duraton_api.cli import show
from duraton_api.cli.options import URL_DEFAULT, ApiKey, Json, Url, usage
from duraton_api.cli.remote import Remote

STDIN = Path("-")
_FIELDS = ("input", "cachedInput", "cacheWrite", "output")

app = typer.Typer(no_args_is_help=True, help="What tokens of each model cost.")


@app.command("get")
def get(url: Url = URL_DEFAULT, api_key: ApiKey = None, as_json: Json = False) -> None:
    """Show the price table in force; with --json in the form that `put` takes."""
    with Remote(url, api_key) as engine:
        table = engine.get("/prices")
    if as_json:
        show.data(table)
        return
    rows = [_row(model, price) for model, price in sorted(table["models"].items())]
    show.table(("model", "input", "cached", "written", "output"), rows, "no models")
    show.note(f"version {table['version']}; dollars per million tokens")


@app.command("put")
def put(
    file: Annotated[
        Path, typer.Argument(help="The table as JSON; - reads it from stdin.", metavar="FILE")
    ],
    url: Url = URL_DEFAULT,
    api_key: ApiKey = None,
    as_json: Json = False,
) -> None:
    """Put a price table in the place of the one in force."""
    raw = _read(file)
    with Remote(url, api_key) as engine:
        answer = engine.put("/prices", raw)
    if as_json:
        show.data(answer)
    elif answer["pending"]:
        show.note(f"recorded; it is not known yet whether {answer['version']} is in force")
    else:
        show.note(f"{answer['version']} is in force")


def _row(model: str, price: dict[str, Any]) -> tuple[str, ...]:
    return model, *("" if price.get(f) is None else f"{price[f]:g}" for f in _FIELDS)


def _read(file: Path) -> bytes:
    if file == STDIN:
        return sys.stdin.buffer.read()
    try:
        return file.read_bytes()
    except OSError as error:
        raise usage(f"cannot read {file}: {error.strerror}") from error
