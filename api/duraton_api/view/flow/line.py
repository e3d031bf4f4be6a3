"""Who waits before a gate, in the order in which they would start."""

import sqlite3
from collections.abc import Iterator
from heapq import heappop, heappush
from typing import NamedTuple

from duraton_api.errors import BadParameterError

CHUNK = 50
"""Runs that are read of a lane at a time."""


class Turn(NamedTuple):
    """A run's turn in a line.

    A lane whose gate opened by time has its first run's turn then (P14). Those behind it
    that were ready before follow it at once, so they share that turn.

    Attributes:
        sort: The sort key by which its lane has its turn.
        first: The number of the run that gave the lane that turn.
        own: Its own sort key.
        run: Its own number.
    """

    sort: int
    first: int
    own: int
    run: int

    @classmethod
    def read(cls, texts: list[str]) -> "Turn":
        """A turn that a cursor names.

        Raises:
            BadParameterError: The cursor is none of a line.
        """
        try:
            turn = cls(*(int(text) for text in texts))
        except (TypeError, ValueError) as error:
            raise BadParameterError("the cursor is none of this list") from error
        if any(abs(part) >= 1 << 63 for part in turn):
            raise BadParameterError("the cursor is none of this list")
        return turn


START = Turn(-(1 << 62), -1, -(1 << 62), -1)
"""Before every turn."""

_Heap = list[tuple[Turn, int, Iterator[Turn]]]


def line(db: sqlite3.Connection, scope: int, after: Turn = START) -> Iterator[Turn]:
    """The runs that wait in a scope behind a turn, read as far as they are asked for.

    Lanes stand in the line by their first runs, so no more lanes are opened than runs are
    taken; a page far behind the first one passes over the lanes before it.
    """
    lanes = db.execute(
        "SELECT num, sort, first_run FROM lanes WHERE scope = ?"
        " AND (count > 1 OR (sort, first_run) >= (?, ?)) ORDER BY sort, first_run",
        (scope, after.sort, after.first),
    )
    heap: _Heap = []
    ahead = next(lanes, None)
    while True:
        while ahead is not None and (not heap or (ahead[1], ahead[2]) <= heap[0][0][:2]):
            _advance(heap, ahead[0], _runs(db, ahead[0], ahead[1], ahead[2], after))
            ahead = next(lanes, None)
        if not heap:
            return
        turn, lane, rest = heappop(heap)
        yield turn
        _advance(heap, lane, rest)


def _advance(heap: _Heap, lane: int, runs: Iterator[Turn]) -> None:
    turn = next(runs, None)
    if turn is not None:
        heappush(heap, (turn, lane, runs))


def _runs(db: sqlite3.Connection, lane: int, sort: int, first: int, after: Turn) -> Iterator[Turn]:
    """A lane's runs behind a turn."""
    place = (START.own, START.run)
    if after[:2] == (sort, first):
        place = after[2:]
    elif after[:2] > (sort, first):
        place = after[:2]
    while True:
        rows = db.execute(
            "SELECT sort, run FROM queued WHERE lane = ? AND (sort, run) > (?, ?)"
            " ORDER BY sort, run LIMIT ?",
            (lane, *place, CHUNK),
        ).fetchall()
        for own, run in rows:
            turn = Turn(*max((own, run), (sort, first)), own, run)
            if turn > after:
                yield turn
        if len(rows) < CHUNK:
            return
        place = (rows[-1][0], rows[-1][1])
