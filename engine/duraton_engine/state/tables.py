"""The tables of the engine's state; numbers are never reused. Keys begin with the slot."""

from duraton_engine.state import acts, objects
from duraton_schemas.records.common import Place
from duraton_streams.state.table import Key, Table

RUNS = Table("runs", 10, objects.RunState)
"""(slot, run)"""
INPUTS = Table("inputs", 11, objects.RunInput)
"""(slot, run)"""
OUTPUTS = Table("outputs", 12, objects.Output)
"""(slot, run, number)"""
QUEUE = Table("queue", 13, objects.Queued)
"""(slot, app, workflow, sort key, seq)"""
WAITING = Table("waiting", 14, objects.Count)
"""(slot, app, workflow): how many runs stand in its queue"""
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
    *acts.TABLES,
)

SORT_BIAS = 1 << 62
"""Sort keys may be negative (shiftMs); keys of tables may not."""


def queue_key(slot: int, run: objects.RunState) -> Key:
    """A queued run's key in `QUEUE`."""
    return (slot, run.app, run.workflow, SORT_BIAS + run.sort_at, run.queue)


def held_key(slot: int, place: Place) -> Key:
    """A held event's key in `HELD`."""
    return (slot, place.topic, place.partition, place.offset)


def post_key(slot: int, post: str) -> Key:
    """The key in `HELD_POSTS` of the POST of an event's `id/n`."""
    return (slot, post_id(post))


def post_id(post: str) -> str:
    """The POST of an event's `id/n`."""
    return post.rpartition("/")[0]
