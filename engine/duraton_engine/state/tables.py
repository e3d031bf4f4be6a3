"""The tables of the engine's state; numbers are never reused. Keys begin with the slot."""

from duraton_engine.state import acts, flow, objects
from duraton_schemas.records.common import Place
from duraton_streams.state.table import Key, Table

RUNS = Table("runs", 10, objects.RunState)
"""(slot, run)"""
INPUTS = Table("inputs", 11, objects.RunInput)
"""(slot, run)"""
OUTPUTS = Table("outputs", 12, objects.Output)
"""(slot, run, number)"""
QUEUE = Table("queue", 13, objects.Queued)
"""(slot, app, workflow, lane, sort key, seq)"""
WAITING = Table("waiting", 14, objects.Count)
"""(slot, app, workflow): how many runs stand in its lanes"""
LIVE = Table("live", 15, objects.Live)
"""(slot, run)"""
APPLIED = Table("applied", 20, objects.RegistryRow)
"""(kind, key): the registry as this partition applies it"""
REGISTRY = Table("registry", 21, objects.RegistryRow)
"""(slot, kind, key): the registry as the project slot made it"""
REGISTRY_HEAD = Table("registry_head", 22, objects.RegistryHead)
"""(slot,)"""
REPORTED = Table("reported", 23, objects.Reported)
"""(slot, partition)"""
SHAPE_WAITERS = Table("shape_waiters", 24, objects.ShapeWaiter)
"""(slot, name, path, run, step, n)"""
PENDING_SHAPES = Table("pending_shapes", 25, objects.Reported)
"""(slot, shape): shapes that not every partition knows yet"""
IDLE_SHAPES = Table("idle_shapes", 26, objects.Reported)
"""(slot, shape, partition): who has said that nobody waits by a retiring shape"""
HELD = Table("held", 30, objects.HeldEvent)
"""(slot, topic, partition, offset)"""
HELD_POSTS = Table("held_posts", 31, objects.HeldPost)
"""(slot, post)"""
CLAIMS = Table("claims", 32, objects.Claim)
"""(slot, dedupe id)"""
WAITS = Table("waits", 33, objects.Wait)
"""(slot, name, path, value, run, step, n)"""
CRON = Table("cron", 34, objects.Armed)
"""(slot, app, workflow)"""
LANES = Table("lanes", 40, flow.Lane)
"""(slot, app, workflow, lane)"""
LINES = Table("lines", 41, flow.Standing)
"""(slot, app, workflow, gate, sort key, seq): lanes before a gate, in order"""
AT_RUNNER = Table("at_runner", 42, objects.Count)
"""(slot, app, workflow): how many lanes wait for room at a runner"""
GATES = Table("gates", 43, flow.GateTimer)
"""(slot, app, workflow, gate): gates that lanes stand before and that a time opens"""
COUNTS = Table("counts", 44, objects.Count)
"""(slot, app, workflow, control, scope): how many runs execute there"""
WORKING = Table("working", 45, flow.Mark)
"""(slot, app, workflow, scope, run): who executes, where `together` counts"""
OPEN = Table("open", 46, flow.RunRef)
"""(slot, app, workflow, control, scope, newest first): unended runs by key"""
OPEN_COUNTS = Table("open_counts", 76, objects.Count)
"""(slot, app, workflow, control, scope): how many they are; most keys have none"""
THROTTLES = Table("throttles", 47, flow.Throttle)
"""(slot, app, workflow, scope)"""
BUCKETS = Table("buckets", 48, flow.Bucket)
"""(slot, app, workflow, scope)"""
RATES = Table("rates", 49, flow.Rate)
"""(slot, app, workflow, scope)"""
ADMISSIONS = Table("admissions", 50, flow.Mark)
"""(slot, app, workflow, scope, at, seq)"""
KEYS = Table("keys", 51, flow.KeyClaim)
"""(slot, app, workflow, scope): idempotency keys that are taken"""
WINDOWS = Table("windows", 52, flow.Window)
"""(slot, app, workflow, scope)"""
BUFFERS = Table("buffers", 53, flow.Buffer)
"""(slot, app, workflow, scope)"""
BUFFERED = Table("buffered", 54, flow.Taken)
"""(slot, app, workflow, scope, seq)"""
FIRINGS = Table("firings", 55, flow.Firing)
"""(slot, app, workflow, gate, seq): held firings, in order"""
HELD_WINDOWS = Table("held_windows", 56, flow.Number)
"""(slot, app, workflow, scope): where a scope's held debounce firing stands"""
JOINED = Table("joined", 57, flow.Parent)
"""(slot, run, seq): steps that wait for a run that they joined"""
EXPIRING = Table("expiring", 58, flow.Mark)
"""(slot, when, table's number, app, workflow, scope): what a sweep looks at"""
SWEEPS = Table("sweeps", 59, flow.GateTimer)
"""(slot,): the next sweep"""
ASKED = Table("asked", 60, flow.Mark)
"""(slot, app, workflow, run): runs whose ask for a place is not answered"""
PROBES = Table("probes", 61, flow.Probe)
"""(slot, app, workflow, seq)"""
GATES_APPLIED = Table("gates_applied", 62, objects.Reported)
"""(slot,): the version of gate keys that this partition counts by"""
PLACES = Table("places", 63, objects.Count)
"""(slot, key): at the project slot, how many runs are counted under a gate key"""
HOLDERS = Table("holders", 64, objects.Count)
"""(slot, partition, key, app, workflow): whose they are"""
ASKS = Table("asks", 65, flow.Ask)
"""(slot, run): asks that wait at the project slot"""
ASK_LINES = Table("ask_lines", 66, flow.RunRef)
"""(slot, line, sort key, seq)"""
HOLDINGS = Table("holdings", 67, objects.Reported)
"""(slot, partition): the version of gate keys that a partition counts by"""
STOPPERS = Table("stoppers", 78, flow.RunRef)
"""(slot, group key, app, workflow, sort key, seq): asks that stop a run of their own flow"""

SPENT = Table("spent", 68, flow.Spent)
"""(slot, app, workflow, second): of an hour's row its last second"""
SPENDING = Table("spending", 69, flow.Spending)
"""(slot, app, workflow)"""

LATE = Table("late", 77, flow.Late)
"""(slot, run): runs that ended while they executed, whose spend may still be reported"""

MarkTable = Table[flow.Mark]

TABLES = (
    RUNS,
    INPUTS,
    OUTPUTS,
    QUEUE,
    WAITING,
    LIVE,
    APPLIED,
    REGISTRY,
    REGISTRY_HEAD,
    REPORTED,
    SHAPE_WAITERS,
    PENDING_SHAPES,
    IDLE_SHAPES,
    HELD,
    HELD_POSTS,
    CLAIMS,
    WAITS,
    CRON,
    LANES,
    LINES,
    AT_RUNNER,
    GATES,
    COUNTS,
    WORKING,
    OPEN,
    OPEN_COUNTS,
    THROTTLES,
    BUCKETS,
    RATES,
    ADMISSIONS,
    KEYS,
    WINDOWS,
    BUFFERS,
    BUFFERED,
    FIRINGS,
    HELD_WINDOWS,
    JOINED,
    EXPIRING,
    SWEEPS,
    ASKED,
    PROBES,
    GATES_APPLIED,
    PLACES,
    HOLDERS,
    ASKS,
    ASK_LINES,
    HOLDINGS,
    STOPPERS,
    SPENT,
    SPENDING,
    LATE,
    *acts.TABLES,
)

SORT_BIAS = 1 << 62
"""Sort keys may be negative (shiftMs); keys of tables may not."""


def queue_key(slot: int, run: objects.RunState) -> Key:
    """A queued run's key in `QUEUE`."""
    return (slot, run.app, run.workflow, run.lane, SORT_BIAS + run.sort_at, run.seq)


def lane_key(slot: int, run: objects.RunState) -> Key:
    """A queued run's lane's key in `LANES`."""
    return (slot, run.app, run.workflow, run.lane)


def line_key(of: Key, lane: flow.Lane) -> Key:
    """A lane's key in `LINES`, from its key in `LANES`."""
    return (of[0], of[1], of[2], lane.gate, SORT_BIAS + lane.sort, lane.seq)


def ask_key(slot: int, ask: flow.Ask) -> Key:
    """A waiting ask's key in `ASK_LINES`."""
    return (slot, ask.line, SORT_BIAS + ask.sort, ask.seq)


def stopper_key(slot: int, ask: flow.Ask) -> Key:
    """A key in `STOPPERS` of a waiting ask; the group's is the first of its keys."""
    return (slot, ask.keys[0], ask.app, ask.workflow, SORT_BIAS + ask.sort, ask.seq)


def open_key(slot: int, run: objects.RunState, control: str, scope: str) -> Key:
    """An unended run's key in `OPEN`; the newest run of a scope comes first."""
    return (slot, run.app, run.workflow, control, scope, SORT_BIAS - run.seq)


def held_key(slot: int, place: Place) -> Key:
    """A held event's key in `HELD`."""
    return (slot, place.topic, place.partition, place.offset)


def post_key(slot: int, post: str) -> Key:
    """The key in `HELD_POSTS` of the POST of an event's `id/n`."""
    return (slot, post_id(post))


def post_id(post: str) -> str:
    """The POST of an event's `id/n`."""
    return post.rpartition("/")[0]
