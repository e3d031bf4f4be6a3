"""What was carried for a replay, in the view: kept until the new run's creating fact."""

import sqlite3
from collections.abc import Callable
from typing import Any

import msgspec

from duraton_api.view.runfold import RunFold
from duraton_api.view.states import StepState, Stored
from duraton_schemas.records import acts

CARRIED_SEQ = -(1 << 24)
"""Steps of one carried part have one fact, and need keys of their own that sort before the
seqs of facts: this plus the number of their result."""

_encode = msgspec.json.Encoder().encode


class Part(Stored, kw_only=True):
    """A part of what was carried: its fact's place, and its steps."""

    part: int
    offset: int
    steps: list[acts.CarriedStep] = []


_decoder = msgspec.json.Decoder(Part)


class Carried:
    """The parts that wait for their run.

    Args:
        load: Reads the parts of a request that are written already.
    """

    def __init__(self, load: Callable[[str], list[Part]]) -> None:
        self._load = load
        self.parts: dict[str, list[Part]] = {}
        self.gone: set[str] = set()

    def keep(self, offset: int, fact: acts.RunCarried) -> None:
        """A part has come."""
        part = Part(part=fact.part, offset=offset, steps=fact.steps)
        self.parts.setdefault(fact.request, []).append(part)

    def drop(self, request: str) -> None:
        """A request's parts are done with."""
        self.parts.pop(request, None)
        self.gone.add(request)

    def give(self, run: RunFold, request: str, at: int) -> None:
        """Give a new run the steps that were carried for it."""
        written = [] if request in self.gone else self._load(request)
        parts = [*written, *self.parts.get(request, ())]
        parts.sort(key=lambda part: part.part)
        run.offsets.extend(part.offset for part in parts)
        for part in parts:
            give_steps(run, part.steps, at)
        self.drop(request)


def give_steps(run: RunFold, steps: list[acts.CarriedStep], at: int) -> None:
    """Show carried steps in the run that began with them."""
    for carried in steps:
        run.state.steps += 1
        number = run.state.steps
        step = StepState(
            seq=CARRIED_SEQ + number,
            step=carried.step,
            n=carried.n,
            kind=carried.kind,
            status="completed",
            attempts=carried.attempt,
            number=number,
            seen=carried.seen,
            called_at=at,
            ended_at=at,
            output=msgspec.Raw(carried.output),
            carried=True,
        )
        run.dirty_steps[step.seq] = step


def load_parts(db: sqlite3.Connection, request: str) -> list[Part]:
    """The parts of a request that are written."""
    rows = db.execute("SELECT detail FROM carried WHERE request = ?", (request,))
    return [_decoder.decode(detail) for (detail,) in rows]


def write_carried(db: sqlite3.Connection, carried: Carried) -> None:
    """Remove what a batch used, write what it brought."""
    rows: list[tuple[Any, ...]] = [
        (request, part.part, _encode(part).decode())
        for request, parts in carried.parts.items()
        for part in parts
    ]
    db.executemany("DELETE FROM carried WHERE request = ?", [(each,) for each in carried.gone])
    db.executemany("INSERT INTO carried VALUES (?, ?, ?) ON CONFLICT DO NOTHING", rows)
