"""Text charts of what happened when: a line for each row, a column for each slice of time."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

Span = tuple[int, int]
"""From a moment until before another, in milliseconds."""


@dataclass(frozen=True)
class Row:
    """A line of a chart.

    Attributes:
        label: What stands before it.
        at: Moments, in milliseconds; a column says how many fall into it.
        spans: Instead, what lasts; a column says the most that went on at once.
        style: For a terminal.
    """

    label: str
    at: Sequence[int] = ()
    spans: Sequence[Span] = field(default=())
    style: str = ""

    def moments(self) -> list[int]:
        return [*self.at, *(moment for span in self.spans for moment in span)]

    def says(self) -> str:
        """What stands behind it."""
        return f"at most {peak(self.spans)}" if self.spans else str(len(self.at))


def peak(spans: Sequence[Span]) -> int:
    """How many went on at once at most; what begins as another ends does not overlap it."""
    return max((level(spans, begin) for begin, _ in spans), default=0)


def level(spans: Sequence[Span], moment: int) -> int:
    return sum(begin <= moment < max(end, begin + 1) for begin, end in spans)


def draw(rows: Sequence[Row], width: int) -> Iterator[tuple[str, str]]:
    """The lines of a chart, each with its style; the last is the axis.

    Args:
        rows: What is shown.
        width: How many columns of time there are.
    """
    moments = [moment for row in rows for moment in row.moments()]
    begin, end = min(moments, default=0), max(moments, default=0)
    slice_ms = (end - begin + 1) / width
    indent = max(len(row.label) for row in rows)
    for row in rows:
        cells = "".join(map(_cell, _counts(row, begin, slice_ms, width)))
        yield f"{row.label:>{indent}} |{cells}| {row.says()}", row.style
    last = f"{(end - begin) / 1000:.1f} s"
    yield f"{'':{indent}}  0 s{last:>{width - 3}}", "dim"


def _counts(row: Row, begin: int, slice_ms: float, width: int) -> list[int]:
    counts = [0] * width
    for moment in row.at:
        counts[int((moment - begin) / slice_ms)] += 1
    for column in range(width if row.spans else 0):
        first = begin + column * slice_ms
        inside = [b for b, _ in row.spans if first <= b < first + slice_ms]
        counts[column] = max(level(row.spans, moment) for moment in (int(first), *inside))
    return counts


def _cell(count: int) -> str:
    if count == 0:
        return " "
    return str(count) if count < 10 else "+"
