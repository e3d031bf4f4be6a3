"""Debounce windows, batch buffers, and what starts led to where that is not simply a run.

An event that was buffered names its window; what becomes of the window is told there, once,
however many events came into it.
"""

from typing import NamedTuple

from duraton_api.view.flow.file import FlowFile
from duraton_api.view.flow.lanes import Lanes
from duraton_api.view.flow.rows import (
    BATCH,
    BUFFERED,
    BUFFERS,
    DEBOUNCE,
    HELD,
    OPEN,
    OVER,
    STARTS,
    WINDOWS,
    Counts,
    Window,
)
from duraton_api.view.schema import num_place, place_num, run_num
from duraton_schemas.ids import run_id
from duraton_schemas.records import journal as j

KEPT_MAX = 20_000
"""Windows and buffers that are kept in memory between writes."""

Home = tuple[str, str]
Slid = j.WindowSlid | j.BufferFilled


class Start(NamedTuple):
    """What an event led to at a workflow.

    Attributes:
        outcome: `buffered`, `joined`, `deduped`, `dropped`, `skipped`, `refused` or
            `superseded`.
        run: The run that it joined, or None.
        blocked_by: The run in the way, or None.
        first: The event that opened the window or buffer which took it, or None.
    """

    outcome: str
    run: str | None = None
    blocked_by: str | None = None
    first: int | None = None


class Windows:
    """The windows and starts that the facts folded since the last write have changed.

    Args:
        file: Where those are read from that are not in memory.
        lanes: The scopes at which firings are held.
        counts: The workflows' counts.

    Attributes:
        dirty: Windows and buffers to be written.
        starts: What events led to, by (event, app, workflow).
    """

    def __init__(self, file: FlowFile, lanes: Lanes, counts: Counts) -> None:
        self._file = file
        self._lanes = lanes
        self._counts = counts
        self.clear()

    def clear(self) -> None:
        """Forget everything."""
        self._known: dict[tuple[int, str, str], Window] = {}
        self._open: dict[tuple[str, str, str, str], Window] = {}
        self._held: dict[tuple[int, int], Window] = {}
        self._reset()

    def _reset(self) -> None:
        self.dirty: dict[tuple[int, str, str], Window] = {}
        self.starts: dict[tuple[int, str, str], Start] = {}

    def written(self) -> None:
        """All of it stands in the file; the open ones are kept for their next event."""
        for key, window in self.dirty.items():
            if window.status != OPEN:
                self._known.pop(key, None)
        self._held.clear()
        self._reset()
        if len(self._known) > KEPT_MAX:
            self.clear()

    # Events that are taken --------------------------------------------------------

    def slid(self, fact: Slid) -> None:
        """An event came into a window or a buffer, or opened it."""
        event = place_num(fact.place)
        if event is None:
            return
        kind = DEBOUNCE if isinstance(fact, j.WindowSlid) else BATCH
        size = fact.bytes if isinstance(fact, j.BufferFilled) else 0
        app, workflow = fact.app, fact.workflow
        if fact.opened:
            window = Window(
                event, app, workflow, kind, fact.scope, fact.at, fact.due, event, bytes=size
            )
            self._keep(window)
            self._count(window, 1)
        else:
            found = self._open_in(app, workflow, kind, fact.scope)
            if found is None:
                return
            window = found
            window.due, window.last = fact.due, event
            window.count += 1
            window.bytes += size
            if kind == BATCH:
                self._counts.add(app, workflow, BUFFERED, 1)
        self._touch(window)
        self.starts[event, app, workflow] = Start(BUFFERED, first=window.first)

    def _keep(self, window: Window) -> None:
        self._known[window.first, window.app, window.workflow] = window
        if window.status == OPEN:
            self._open[window.app, window.workflow, window.kind, window.scope] = window

    def _touch(self, window: Window) -> None:
        self.dirty[window.first, window.app, window.workflow] = window

    def _count(self, window: Window, by: int) -> None:
        add = self._counts.add
        if window.kind == DEBOUNCE:
            add(window.app, window.workflow, WINDOWS, by)
        else:
            add(window.app, window.workflow, BUFFERS, by)
            add(window.app, window.workflow, BUFFERED, by * window.count)

    def _known_as(self, found: Window | None) -> Window | None:
        """A window of the file, as the batch has it."""
        if found is None:
            return None
        known = self._known.get((found.first, found.app, found.workflow))
        if known is None:
            self._keep(found)
        return known or found

    def _open_in(self, app: str, workflow: str, kind: str, scope: str) -> Window | None:
        window = self._open.get((app, workflow, kind, scope))
        if window is None:
            window = self._known_as(self._file.open_window(app, workflow, kind, scope))
        return window if window is not None and window.status == OPEN else None

    # Firings ----------------------------------------------------------------------

    def closed(self, partition: int, fact: j.WindowFired | j.BufferFlushed) -> None:
        """A window fired, or a buffer was flushed; it goes on or is held."""
        kind = DEBOUNCE if isinstance(fact, j.WindowFired) else BATCH
        window = self._open_in(fact.app, fact.workflow, kind, fact.scope)
        if window is None:
            return
        self._open.pop((fact.app, fact.workflow, kind, fact.scope), None)
        if fact.held is not None:
            self._hold(window, fact.held, run_num(partition, fact.seq))
        else:
            self._end(window, fact.slot)

    def _hold(self, window: Window, gate: str, number: int) -> None:
        scope = self._lanes.gate(window.app, window.workflow, gate)
        scope.firings += 1
        window.status, window.held, window.hold = HELD, scope.num, number
        self._held[scope.num, number] = window
        self._touch(window)

    def _end(self, window: Window, slot: int) -> None:
        """It goes on: the run that it becomes is known, unless a start is declined or joins."""
        window.status, window.held, window.hold = OVER, None, None
        window.outcome = "run"
        origin = f"event:{num_place(window.first)}"
        window.run = run_id(slot, origin, window.app, window.workflow)
        self._count(window, -1)
        self._touch(window)

    def released(self, partition: int, fact: j.FiringReleased) -> None:
        """A held firing goes on, or is given up."""
        scope = self._lanes.gate(fact.app, fact.workflow, fact.gate)
        number = run_num(partition, fact.number)
        window = self._held.pop((scope.num, number), None)
        if window is None:
            window = self._known_as(self._file.held_window(scope.num, number))
        if window is None:
            return
        scope.firings -= 1
        self._end(window, fact.slot)

    def held(self, partition: int, fact: j.FiringHeld) -> None:
        """A firing that was released is held elsewhere."""
        first = place_num(fact.first)
        window = None if first is None else self._find(first, fact.app, fact.workflow)
        if window is None:
            return
        window.outcome = window.run = None
        self._count(window, 1)
        self._hold(window, fact.gate, run_num(partition, fact.seq))

    def _find(self, first: int, app: str, workflow: str) -> Window | None:
        window = self._known.get((first, app, workflow))
        if window is None:
            window = self._known_as(self._file.load_window(first, app, workflow))
        return window

    # Starts that led to no run of their own ---------------------------------------

    def declined(self, fact: j.StartDeclined) -> None:
        """A start led to no run; nothing is told of a run that its fact does not name (P26)."""
        self._counts.add(fact.app, fact.workflow, STARTS, 1, fact.outcome)
        if fact.parent is None:
            self._led_to(fact, Start(fact.outcome, blocked_by=fact.blocker))

    def joined(self, fact: j.StartJoined) -> None:
        """A start joined a run."""
        self._counts.add(fact.app, fact.workflow, STARTS, 1, "joined")
        if fact.parent is None:
            self._led_to(fact, Start("joined", run=fact.run))

    def _led_to(self, fact: j.StartDeclined | j.StartJoined, start: Start) -> None:
        window = None if fact.post else self._fired(fact)
        if window is not None:
            window.outcome, window.run = start.outcome, start.run
            window.blocked_by = start.blocked_by
            self._touch(window)
            return
        for place in fact.places:
            event = place_num(place)
            if event is not None:
                self.starts[event, fact.app, fact.workflow] = start

    def _fired(self, fact: j.StartDeclined | j.StartJoined) -> Window | None:
        """The window or buffer whose firing asked for the start, or None.

        A firing answers no POST; its events are those that its window took.
        """
        event = place_num(fact.places[0]) if fact.places else None
        if event is None:
            return None
        start = self.starts.get((event, fact.app, fact.workflow))
        first = start.first if start is not None else None
        if start is None:
            first = self._file.opened_by(event, fact.app, fact.workflow)
        return None if first is None else self._find(first, fact.app, fact.workflow)
