"""What several cases need: counting executions, workflows that fail so and so often."""

from duraton import define_workflow


def runs_of(engine, step, run=None):
    """When a step's code began, in seconds; of one run or of all."""
    return [at for id, name, _, at in engine.executions if name == step and run in (None, id)]


def attempts_of(engine, step, run=None):
    """The attempt numbers with which a step's code began."""
    return [n for id, name, n, _ in engine.executions if name == step and run in (None, id)]


async def send(engine, name, data=None, **more):
    """Send an event that starts one run; its id."""
    [answer] = await engine.send(name, data or {}, **more)
    assert answer.run_id is not None
    return answer.run_id


async def status(engine, run):
    return (await engine.run(run)).status


class Flaky:
    """Step code that raises the first so many times."""

    def __init__(self, failures, answer="ok", error=None):
        self.failures = failures
        self.answer = answer
        self.error = error or (lambda n: ValueError(f"failure {n}"))
        self.calls = 0

    async def __call__(self):
        self.calls += 1
        if self.calls <= self.failures:
            raise self.error(self.calls)
        return self.answer


ALWAYS = 1_000_000


def one_step(code, name="w", step="work", **options):
    """A workflow of one step."""

    async def handle(ctx):
        return await ctx.step.run(step, code)

    return define_workflow(name, handle, **options)


def raising(make):
    """Step code that always raises what `make` gives."""

    async def code():
        raise make()

    return code
