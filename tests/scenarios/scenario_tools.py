"""What several scenarios need."""

from duraton_schemas.slots import home_slot, partition_of
from duraton_streams.logs.base import REGISTRY


def began(engine, step, run=None):
    """When a step's code began, in seconds."""
    return [at for id, name, _, at in engine.executions if name == step and run in (None, id)]


async def start(engine, name="w", data=None):
    """Send an event that starts one run; its id."""
    [answer] = await engine.send(name, data or {})
    return answer.run_id


async def shown(engine, *runs):
    """(status, output) of runs."""
    found = [await engine.run(run) for run in runs]
    return [(run.status, run.output) for run in found]


def partition(engine, workflow, app="test"):
    """The partition of a workflow's home."""
    return partition_of(home_slot(app, workflow), engine.core.log.partitions)


class Behind:
    """Keeps a partition from reading the registry, as a slow fetch from a broker does."""

    def __init__(self, engine, number):
        self.tail = engine.core.processors[number]._intake._tails[REGISTRY]
        self.take = self.tail.take
        self.tail.take = lambda *_: []

    def end(self):
        self.tail.take = self.take
