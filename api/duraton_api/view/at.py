"""A run as it stood at one of its facts: the same folding, without the file."""

from collections.abc import Iterable

from duraton_api.view.carried import give_steps
from duraton_api.view.runfold import RUN_FACTS, RunFold, new_run
from duraton_api.view.states import RunState
from duraton_schemas.records import acts
from duraton_schemas.records import journal as j
from duraton_schemas.records.common import Fact


def run_at(facts: Iterable[Fact], now: RunState, seq: int) -> tuple[RunFold, str | None] | None:
    """Fold a run's facts up to one of them.

    Args:
        facts: The run's facts in order.
        now: The run as it is now; its number and its events never change.
        seq: The last fact that counts.

    Returns:
        The run and its output then, or None where it did not exist yet.
    """
    run: RunFold | None = None
    carried: list[acts.CarriedStep] = []
    for fact in facts:
        header = fact.header
        assert header is not None, "a fact of the journal has its header"
        if header.seq > seq:
            break
        if run is None:
            if isinstance(fact, acts.RunCarried):
                carried.extend(fact.steps)
            run = _created(fact, now)
            if run is None:
                continue
            give_steps(run, carried, fact.at)
            if isinstance(fact, j.RunEnded):
                # That is the end of the run whose failure this one handles.
                continue
        handler = RUN_FACTS.get(type(fact))
        if handler is not None:
            handler(run, fact)
        run.seq = header.seq
    return None if run is None else (run, run.output)


def _created(fact: Fact, now: RunState) -> RunFold | None:
    created: j.RunCreated | None = None
    if isinstance(fact, (j.RunStarted, j.RunQueued)):
        created = fact.created
    elif isinstance(fact, j.RunEnded) and fact.failure_run == now.id:
        created = fact.failure
    if created is None:
        return None
    run = new_run(now.num, now.id, created, fact.at)
    run.state.triggers = now.triggers
    return run
