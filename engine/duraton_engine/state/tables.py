"""The tables of the engine's state; numbers are never reused. Keys begin with the slot."""

from duraton_engine.state import objects
from duraton_streams.state.table import Key, Table

RUNS = Table("runs", 10, objects.RunState)
"""(slot, run)"""
INPUTS = Table("inputs", 11, objects.RunInput)
"""(slot, run)"""
OUTPUTS = Table("outputs", 12, objects.Output)
"""(slot, run, number)"""
QUEUE = Table("queue", 13, objects.Queued)
"""(slot, app, workflow, sort key, seq)"""
WAITING = Table("waiting", 14, objects.Waiting)
"""(slot, app, workflow)"""
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
HELD_POSTS = Table("held_posts", 31, objects.Count)
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
)

SORT_BIAS = 1 << 62
"""Sort keys may be negative (shiftMs); keys of tables may not."""


def run_key(slot: int, run: str) -> Key:
    """A run's key in `RUNS`, `INPUTS` and `LIVE`."""
    return (slot, run)
