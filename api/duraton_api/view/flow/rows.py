"""The rows of flow control, in memory while facts are folded."""

from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from typing import NamedTuple

import msgspec

from duraton_api.view.states import RunState

TURN = "turn"
"""What the gate is called at which lanes stand until they are looked at."""
DEBOUNCE, BATCH = "debounce", "batch"
OPEN, HELD, OVER = "open", "held", "over"


class ScopeKey(NamedTuple):
    """A control of a workflow in one of its scopes."""

    app: str
    workflow: str
    control: str
    scope: str


class Scope(msgspec.Struct):
    """A control's scope: who holds it, who waits there, and until when.

    Attributes:
        num: Its number in the view.
        key: What it is.
        holding: Runs that hold it: executing ones, for a singleton unended ones.
        lanes: Lanes that stand before it.
        waiting: Runs in them.
        firings: Firings that are held there (P15).
        due: When it opens by itself, as the engine's timer has it, or None.
        next_at: From when a throttle allows the next start, as its last start left it.
        empty_at: When a bucket of AI tokens has the level 0, nanoseconds since 1970 UTC.
        tokens: The bucket's capacity, which fills in `per_ms`.
        per_ms: See `tokens`.
        until: From when on it says nothing any more, unless somebody holds it or waits; 0
            where that is now.
    """

    num: int
    key: ScopeKey
    holding: int = 0
    lanes: int = 0
    waiting: int = 0
    firings: int = 0
    due: int | None = None
    next_at: int | None = None
    empty_at: int | None = None
    tokens: int | None = None
    per_ms: int | None = None
    until: int = 0

    @property
    def idle(self) -> bool:
        """Whether nobody holds it and nobody waits there."""
        return not (self.holding or self.lanes or self.firings)


class Place(NamedTuple):
    """A queued run's place in its lane: its sort key (P14), then its number."""

    sort: int
    run: int


class Lane:
    """A lane: queued runs that no gate tells apart, as far as this batch changes it.

    Args:
        num: Its number in the view.
        name: Its app, its workflow, and its name in the engine.
        scope: What it stands before.
        stored: Its first run in the file, or None where the file does not have it.
        rows: Reads its runs of the file, in order, after a place.

    Attributes:
        count: How many runs it has.
        over: The lane's place in its line while that run is its first, where that is
            another than the run's own (P14); or None.
        together: The scope in which `together` counts its runs, or None.
        added: Places that the file does not have.
        removed: Places of the file that are gone; one may be in both.
    """

    __slots__ = (
        "_ahead",
        "_heap",
        "_rows",
        "added",
        "count",
        "name",
        "num",
        "over",
        "removed",
        "scope",
        "stored",
        "together",
    )

    def __init__(
        self,
        num: int,
        name: tuple[str, str, str],
        scope: Scope,
        stored: Place | None,
        rows: Callable[[int, Place], Iterator[Place]],
    ) -> None:
        self.num = num
        self.name = name
        self.scope = scope
        self.count = 0
        self.over: Place | None = None
        self.together: str | None = None
        self._rows = rows
        self.written(stored)

    def written(self, first: Place | None) -> None:
        """The file has the lane as it is."""
        self.stored = first
        self.added: set[Place] = set()
        self.removed: set[Place] = set()
        self._heap: list[Place] = []
        self._ahead: Iterator[Place] | None = None

    def stand(self, place: Place) -> None:
        """A run joins the lane."""
        self.count += 1
        self.added.add(place)
        heappush(self._heap, place)

    def leave(self, place: Place) -> None:
        """A run leaves the lane."""
        self.count -= 1
        if place in self.added:
            self.added.remove(place)
        else:
            self.removed.add(place)

    def first(self) -> Place | None:
        """Its first run; None only where the journal lacks what put it there."""
        heap = self._heap
        while heap and heap[0] not in self.added:
            heappop(heap)
        # What is gone from the file stays gone until it is written, so this only moves on.
        while self.stored is not None and self.stored in self.removed:
            if self._ahead is None:
                self._ahead = self._rows(self.num, self.stored)
            self.stored = next(self._ahead, None)
        if heap and (self.stored is None or heap[0] < self.stored):
            return heap[0]
        return self.stored

    def sort(self, first: Place) -> int:
        """Its place in the line that it stands in."""
        if self.over is not None and self.over.run == first.run:
            return self.over.sort
        return first.sort


class Window(msgspec.Struct):
    """A debounce window or a batch buffer.

    Attributes:
        first: The place of the event that opened it, as a number.
        app: Its app.
        workflow: Its workflow.
        kind: `debounce` or `batch`.
        scope: Its scope.
        opened_at: When it was opened, milliseconds since 1970 UTC.
        due: When it fires, or is flushed at the latest.
        last: The place of its newest event.
        status: `open`, `held` (P15) or `over`.
        count: How many events came into it.
        bytes: How much a buffer holds.
        held: The number of the scope at which it is held, or None.
        hold: The number of its firing there, or None.
        outcome: What it led to, once it is over: `run`, `joined` and others.
        run: The run that it became or joined, or None.
        blocked_by: The run in the way, or None.
    """

    first: int
    app: str
    workflow: str
    kind: str
    scope: str
    opened_at: int
    due: int
    last: int
    status: str = OPEN
    count: int = 1
    bytes: int = 0
    held: int | None = None
    hold: int | None = None
    outcome: str | None = None
    run: str | None = None
    blocked_by: str | None = None


class Counts:
    """How a batch changes the counts of a workflow."""

    __slots__ = ("changes",)

    def __init__(self) -> None:
        self.changes: dict[tuple[str, str, str, str], int] = {}

    def add(self, app: str, workflow: str, kind: str, by: int, of: str = "") -> None:
        """Change one by a number."""
        key = (app, workflow, kind, of)
        self.changes[key] = self.changes.get(key, 0) + by


EXECUTING, WAITING, WINDOWS, BUFFERS = "executing", "waiting", "windows", "buffers"
BUFFERED, STARTS = "buffered", "starts"
"""What is counted: executing runs; waiting runs, of each control; windows; buffers; events in
buffers; starts that led to no run of their own, of each outcome."""


def place_of(run: RunState) -> Place:
    """A run's place in any lane."""
    return Place(run.created_at if run.sort_at is None else run.sort_at, run.num)
