"""What commands print: data on stdout, everything else on stderr."""

import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

PROGRESS_AFTER_S = 1.0
"""Work that is over sooner shows no progress."""
PROGRESS_LINE_S = 5.0
"""How often a line is written where stderr is no terminal."""
CELL_LENGTH_MAX = 60
"""Letters of a value within a line."""

Cell = tuple[str, str]
"""A text and its style; the style is dropped where stdout is no terminal."""

STATUS_STYLES = {
    "completed": "green",
    "failed": "red",
    "cancelled": "yellow",
    "paused": "yellow",
    "running": "cyan",
    "waiting": "blue",
    "queued": "",
}


def note(text: str = "") -> None:
    """A line for people, on stderr."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def failure(message: str, code: str, advice: str) -> None:
    """An error: what happened and its code, then what to do."""
    note(f"error: {message} ({code})")
    if advice:
        note(f"  {advice}")


def line(text: str = "") -> None:
    """A line of data, on stdout."""
    sys.stdout.write(clean(text) + "\n")
    sys.stdout.flush()


def data(value: Any) -> None:
    """A value as JSON, on stdout: indented for a terminal, one line otherwise."""
    indent = 2 if sys.stdout.isatty() else None
    sys.stdout.write(json.dumps(value, indent=indent, ensure_ascii=False) + "\n")
    sys.stdout.flush()


def data_line(value: Any) -> None:
    """A value as JSON in one line, on stdout."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False) + "\n")
    sys.stdout.flush()


def table(columns: Sequence[str], rows: Sequence[Sequence[str | Cell]], empty: str) -> None:
    """Rows of data.

    Args:
        columns: The columns' names.
        rows: Texts, or texts with a style.
        empty: What to say on stderr where there are no rows.
    """
    if not rows:
        note(empty)
        return
    if not sys.stdout.isatty():
        _plain_table(columns, rows)
        return
    shown = Table(box=None, header_style="bold", pad_edge=False)
    for number, column in enumerate(columns):
        shown.add_column(column, no_wrap=number == 0, overflow="fold")
    for row in rows:
        shown.add_row(*(_styled(cell) for cell in row))
    Console(highlight=False).print(shown)


def styled(text: str, style: str) -> None:
    """A line of data with a style."""
    if style and sys.stdout.isatty():
        Console(highlight=False).print(clean(text), style=style, markup=False, soft_wrap=True)
    else:
        line(text)


def clean(text: str) -> str:
    """A text without control characters, so that data cannot steer the terminal."""
    return "".join(
        letter if letter.isprintable() or letter in "\n\t" else "\ufffd" for letter in text
    )


def short(value: Any, length: int = CELL_LENGTH_MAX) -> str:
    """A value in one line, cut to a length."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = " ".join(clean(text).split())
    return text if len(text) <= length else text[: length - 1] + "…"


def width() -> int:
    """Letters of a line: the terminal's, or no bound to speak of."""
    if not sys.stdout.isatty():
        return 10_000
    return Console().width


@contextmanager
def progress(what: str) -> Iterator["Meter"]:
    """Show how far a long work is, from its second second on.

    Args:
        what: What is being done, for people.
    """
    meter = Meter(what)
    try:
        yield meter
    finally:
        meter.close()


class Meter:
    """Adds up how far several parts are.

    Args:
        what: What is being done.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._parts: dict[int, tuple[int, int]] = {}
        self._began = self._said = time.monotonic()
        self._bar: Progress | None = None

    def __call__(self, part: int, reached: int, end: int) -> None:
        """A part has come so far."""
        self._parts[part] = (reached, end)
        now = time.monotonic()
        if now - self._began < PROGRESS_AFTER_S:
            return
        done = sum(reached for reached, _ in self._parts.values())
        total = max(sum(end for _, end in self._parts.values()), 1)
        if sys.stderr.isatty():
            self._draw(done, total)
        elif now - self._said >= PROGRESS_LINE_S:
            self._said = now
            note(f"{self._what}: {done:,} of {total:,} ({100 * done // total} %)")

    def one(self, reached: int, end: int) -> None:
        """The only part has come so far."""
        self(0, reached, end)

    def _draw(self, done: int, total: int) -> None:
        if self._bar is None:
            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self._bar.add_task(self._what, total=total)
            self._bar.start()
        task = self._bar.tasks[0]
        self._bar.update(task.id, completed=done, total=total)

    def close(self) -> None:
        """Take the display away."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


def silence_stdout() -> None:
    """After the reader of a pipe has gone: let the interpreter flush into nothing."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _styled(cell: str | Cell) -> Any:
    from rich.text import Text  # noqa: PLC0415 only terminals need it

    text, style = (cell, "") if isinstance(cell, str) else cell
    return Text(clean(text), style=style)


def _plain_table(columns: Sequence[str], rows: Sequence[Sequence[str | Cell]]) -> None:
    texts = [[clean(cell if isinstance(cell, str) else cell[0]) for cell in row] for row in rows]
    lines = [[column.upper() for column in columns], *texts]
    widths = [max(len(line[number]) for line in lines) for number in range(len(columns))]
    for each in lines:
        cells = (cell.ljust(size) for cell, size in zip(each, widths, strict=True))
        sys.stdout.write("  ".join(cells).rstrip() + "\n")
    sys.stdout.flush()
