"""Lanes and the scopes before which they stand, as the engine has them.

The facts name the gate of a run only where it opens a lane; whoever joins it waits for what
the lane waits for. So lanes are followed fact by fact, and a run only names its lane. Who
holds a scope is brought up to date once a batch.
"""

from duraton_api.view.flow.file import FlowFile
from duraton_api.view.flow.groups import Groups
from duraton_api.view.flow.rows import (
    EXECUTING,
    TURN,
    WAITING,
    Counts,
    Lane,
    Place,
    Scope,
    ScopeKey,
    place_of,
)
from duraton_api.view.runfold import RunFold
from duraton_api.view.states import RunState
from duraton_engine.state.flow import PROJECT, Bucket
from duraton_engine.state.lanes import (
    CONCURRENCY,
    SINGLETON,
    THROTTLE,
    TOGETHER,
    TOKEN_THROTTLE,
    lane_name,
    split_gate,
)
from duraton_schemas.records import journal as j
from duraton_schemas.records.common import Drained, Throttled

KEPT_MAX = 20_000
"""Lanes and scopes that are kept in memory between writes."""


class Lanes:
    """The lanes and scopes that the facts folded since the last write have changed.

    Args:
        file: Where those are read from that are not in memory.
        counts: The workflows' counts.

    Attributes:
        groups: Which workflows wait for their group alone.
        dirty: Lanes to be written.
        gone: Lanes that are empty, to be deleted.
        scopes: Scopes to be written, or deleted where they say nothing.
        held: (scope, run) pairs of runs that hold a scope from now on.
        freed: Those that hold it no more.
        swept: Scopes that ended by this time and that nobody needs are to be deleted.
    """

    def __init__(self, file: FlowFile, counts: Counts) -> None:
        self._file = file
        self._counts = counts
        self.groups = Groups(file.db)
        self.clear()

    def clear(self) -> None:
        """Forget everything."""
        self.groups.clear()
        self._lanes: dict[tuple[str, str, str], Lane] = {}
        self._lane_of: dict[int, Lane] = {}
        self._scopes: dict[ScopeKey, Scope] = {}
        self._scope_of: dict[int, Scope] = {}
        self._reset()

    def _reset(self) -> None:
        self.dirty: dict[int, Lane] = {}
        self.gone: dict[int, Lane] = {}
        self.scopes: dict[int, Scope] = {}
        self.held: list[tuple[int, int]] = []
        self.freed: list[tuple[int, int]] = []
        self.swept = 0

    def written(self) -> None:
        """All of it stands in the file."""
        if self.swept or len(self._lanes) + len(self._scopes) > KEPT_MAX:
            self.clear()
            return
        for scope in self.scopes.values():
            if scope.idle and not scope.until:
                del self._scopes[scope.key], self._scope_of[scope.num]
        for lane in self.dirty.values():
            lane.written(lane.first())
        self._reset()

    # Scopes -----------------------------------------------------------------------

    def find(self, key: ScopeKey) -> Scope | None:
        """A scope, or None where nothing is known of it."""
        scope = self._scopes.get(key)
        if scope is None:
            scope = self._file.load_scope(key)
            if scope is not None:
                self._keep(scope)
        return scope

    def scope(self, key: ScopeKey) -> Scope:
        """A scope that is about to be changed."""
        scope = self.find(key)
        if scope is None:
            scope = Scope(num=self._file.new_scope(), key=key)
            self._keep(scope)
        self.scopes[scope.num] = scope
        return scope

    def _keep(self, scope: Scope) -> None:
        self._scopes[scope.key] = scope
        self._scope_of[scope.num] = scope

    def _numbered(self, num: int) -> Scope | None:
        scope = self._scope_of.get(num)
        if scope is None:
            scope = self._file.load_numbered(num)
            if scope is not None:
                self._keep(scope)
        return scope

    def gate(self, app: str, workflow: str, gate: str) -> Scope:
        """The scope that a gate is, about to be changed."""
        control, scope = split_gate(gate)
        return self.scope(ScopeKey(app, workflow, control or TURN, scope))

    def _gate(self, app: str, workflow: str, gate: str, together: str | None) -> Scope:
        """The scope before which a lane stands; its group's where that is all it waits for."""
        if gate == PROJECT and together is not None and self.groups.alone(app, workflow):
            return self.scope(ScopeKey(app, workflow, TOGETHER, together))
        return self.gate(app, workflow, gate)

    # Lanes ------------------------------------------------------------------------

    def stand(self, run: RunState, gate: str, due: int | None) -> None:
        """A run is put into its lane.

        Args:
            run: The run.
            gate: What holds it back, where it is the lane's only run.
            due: When that opens by itself, or None.
        """
        first = run.started_at is None
        name = lane_name(
            run.scopes,
            kind=run.kind,
            first=first,
            exempt=run.exempt,
            waits=run.replay_of is not None,
        )
        lane = self._lane(run.app, run.workflow, name)
        if lane is None:
            scopes = run.scopes if run.kind == "main" else None
            together = scopes.together if scopes is not None else None
            scope = self._gate(run.app, run.workflow, gate, together)
            named = (run.app, run.workflow, name)
            lane = Lane(self._file.new_lane(), named, scope, None, self._file.places)
            lane.together = together
            self._lanes[named] = self._lane_of[lane.num] = lane
            scope.lanes += 1
            if due is not None:
                scope.due = due
        lane.stand(place_of(run))
        self._wait(lane.scope, 1)
        self.dirty[lane.num] = lane
        run.lane = lane.num

    def leave(self, run: RunState) -> None:
        """A run is taken out of its lane."""
        lane = self._lane_of.get(run.lane) if run.lane is not None else None
        if lane is None and run.lane is not None:
            lane = self._loaded(self._file.load_lane(run.lane, self._numbered))
        run.lane = None
        if lane is None:
            return
        lane.leave(place_of(run))
        self._wait(lane.scope, -1)
        self.dirty[lane.num] = lane
        if lane.count <= 0:
            del self._lanes[lane.name], self._lane_of[lane.num], self.dirty[lane.num]
            self.gone[lane.num] = lane
            self._go(lane.scope)

    def _wait(self, scope: Scope, by: int) -> None:
        scope.waiting += by
        self.scopes[scope.num] = scope
        key = scope.key
        self._counts.add(key.app, key.workflow, WAITING, by, key.control)

    def _go(self, scope: Scope) -> None:
        """A lane leaves a scope's line."""
        scope.lanes -= 1
        if scope.lanes <= 0:
            scope.due = None

    def _lane(self, app: str, workflow: str, name: str) -> Lane | None:
        lane = self._lanes.get((app, workflow, name))
        if lane is None:
            lane = self._loaded(self._file.find_lane(app, workflow, name, self._numbered))
        return lane

    def _loaded(self, lane: Lane | None) -> Lane | None:
        if lane is None or lane.num in self.gone:
            return None
        known = self._lane_of.get(lane.num)
        if known is None:
            known = self._lanes[lane.name] = self._lane_of[lane.num] = lane
        return known

    def moved(self, fact: j.LaneMoved) -> None:
        """A lane stands before another gate."""
        lane = self._lane(fact.app, fact.workflow, fact.lane)
        if lane is None:
            return
        new = self._gate(fact.app, fact.workflow, fact.gate, lane.together)
        self._move(lane, new)
        first = lane.first()
        lane.over = None if first is None else Place(fact.sort, first.run)
        if fact.due is not None:
            new.due = fact.due

    def _move(self, lane: Lane, new: Scope) -> None:
        old = lane.scope
        self.dirty[lane.num] = lane
        if old is new:
            return
        self._wait(old, -lane.count)
        self._go(old)
        lane.scope = new
        new.lanes += 1
        self._wait(new, lane.count)

    def reviewed(self, app: str, workflow: str) -> None:
        """All lanes of a workflow are to be looked at anew (P20)."""
        for lane in self._file.lanes_of(app, workflow, self._numbered):
            self._loaded(lane)
        turn = self.gate(app, workflow, "")
        for lane in list(self._lanes.values()):
            if lane.name[:2] == (app, workflow):
                self._move(lane, turn)
        for scope in list(self._scopes.values()):
            if scope.key[:2] == (app, workflow) and scope.due is not None:
                scope.due = None
                self.scopes[scope.num] = scope

    def armed(self, fact: j.GateArmed) -> None:
        """A gate opens at another time."""
        control, scope = split_gate(fact.gate)
        found = self.find(ScopeKey(fact.app, fact.workflow, control or TURN, scope))
        if found is not None and found.lanes:
            found.due = fact.due
            self.scopes[found.num] = found

    # What runs take ---------------------------------------------------------------

    def throttled(self, run: RunState, taken: Throttled) -> None:
        """A first start moves the time of the next."""
        if run.scopes is None or run.scopes.throttle is None:
            return
        scope = self.scope(ScopeKey(run.app, run.workflow, THROTTLE, run.scopes.throttle))
        scope.next_at = scope.until = taken.next
        if scope.lanes:
            scope.due = taken.next

    def drained(self, run: RunState, bucket: Drained) -> None:
        """AI tokens were used (P32)."""
        if run.scopes is None or run.scopes.token_throttle is None:
            return
        key = ScopeKey(run.app, run.workflow, TOKEN_THROTTLE, run.scopes.token_throttle)
        _fill(self.scope(key), Bucket(bucket.empty_at, bucket.tokens, bucket.per_ms))

    def rated(self, fact: j.BucketsRated) -> None:
        """A rate has changed; levels are kept, up to the new capacity (P32)."""
        for key in self._file.scopes_of(fact.app, fact.workflow, TOKEN_THROTTLE):
            self.find(key)
        for scope in list(self._scopes.values()):
            key = scope.key
            if key[:3] != (fact.app, fact.workflow, TOKEN_THROTTLE) or scope.empty_at is None:
                continue
            assert scope.tokens is not None and scope.per_ms is not None, "a bucket has its rate"  # noqa: PT018 - both are one invariant
            old = Bucket(scope.empty_at, scope.tokens, scope.per_ms)
            _fill(scope, old.rated(fact.tokens, fact.per_ms, fact.at))
            self.scopes[scope.num] = scope

    def settle(self, run: RunFold) -> None:
        """Bring what a run holds, and whether it executes, up to date with its state."""
        state = run.state
        executes = state.phase == "running"
        if executes != run.executes:
            run.executes = executes
            self._counts.add(state.app, state.workflow, EXECUTING, 1 if executes else -1)
        holds = holds_of(state)
        if holds == run.holds:
            return
        for each in run.holds:
            if each not in holds:
                self._hold(state, each, -1)
        for each in holds:
            if each not in run.holds:
                self._hold(state, each, 1)
        run.holds = holds

    def _hold(self, run: RunState, of: tuple[str, str], by: int) -> None:
        scope = self.scope(ScopeKey(run.app, run.workflow, *of))
        scope.holding += by
        pair = (scope.num, run.num)
        (self.held if by > 0 else self.freed).append(pair)


def _fill(scope: Scope, bucket: Bucket) -> None:
    scope.empty_at, scope.tokens, scope.per_ms = bucket.empty_at, bucket.tokens, bucket.per_ms
    scope.until = bucket.full_at


def holds_of(run: RunState) -> tuple[tuple[str, str], ...]:
    """The (control, scope) pairs that a run holds: while it executes, and while it lives."""
    scopes = run.scopes
    if scopes is None or run.ended:
        return ()
    executes = run.phase == "running"
    pairs = (
        (CONCURRENCY, scopes.concurrency if executes else None),
        (TOGETHER, scopes.together if executes else None),
        (SINGLETON, scopes.singleton),
    )
    return tuple((control, scope) for control, scope in pairs if scope is not None)
