"""Holds what the engine made of a program against what the model says."""

from flow_engine import Carrying
from flow_model import Model

FLAGS = ("dropped", "deduped", "skipped", "joined", "buffered")


def predict(program, acts, *, serve=False):
    """Run the model; `acts` tells which runs the acts named."""
    model = Model(program, serve=serve)
    acts = iter(acts)
    answers = []
    for gap, action in program.actions:
        if action[0] == "post":
            answers.append(model.post(*action[1:]))
        elif action[0] == "act":
            named = next(acts)
            if named is not None:
                act, label, taken = named
                agrees = label in model.runs and model.act(act, label) == taken
                if model.ties:
                    return model, answers
                assert agrees, f"{act} of {label}, of {list(model.runs)}, is taken: {taken}"
        elif action[0] == "deploy":
            model.deploy(action[2])
        elif action[0] == "ceiling":
            model.set_ceiling(action[1])
        model.advance(model.now + gap)
    for run in list(model.runs.values()):
        if run.paused and run.status is None:
            model.act("resume", run.label)
    model.advance(model.now + 3_600_000)
    return model, answers


def compare(carrying):
    """Raise where the engine and the model differ.

    Returns:
        The model; where it has `ties` nothing was compared.
    """
    checks, start = carrying.checks, carrying.engine.clock.start_ms
    model, answers = predict(carrying.program, carrying.acts, serve=carrying.serve)
    if model.ties:
        return model
    wanted = {label: told(run) for label, run in model.runs.items()}
    found = {run.label: seen(run, start) for run in checks.runs.values()}
    wrong = [label for label in {**wanted, **found} if found.get(label) != wanted.get(label)]
    if wrong:
        label = min(wrong, key=lambda each: parting(found.get(each), wanted.get(each)))
        raise AssertionError(f"{label}: {found.get(label)}, not {wanted.get(label)}")
    declined = sorted((*each[:3], each[3] - start) for each in checks.declined)
    assert declined == sorted(model.declined), f"declined {declined}, not {model.declined}"
    warnings = sorted((home, at - start) for home, at in checks.warnings)
    assert warnings == sorted(model.warnings), f"warned {warnings}, not {model.warnings}"
    labels = {run.id: run.label for run in checks.runs.values()}
    for post, expected in zip(carrying.answers, answers, strict=True):
        if post is None:
            continue
        for event, each in zip(post, expected, strict=True):
            got = {(a.app, a.workflow): outcome(a, labels) for a in event}
            assert got == each, f"answered {got}, not {each}"
    return model


def outcome(answer, labels):
    flag = next((flag for flag in FLAGS if getattr(answer, flag)), None)
    if answer.refused:
        flag = "refused"
    if flag == "skipped":
        return flag, labels[answer.blocked_by]
    run = answer.run_id
    return flag or "run", labels[run] if run is not None else None


def parting(one, other):
    """When the lives of a run part."""
    moments = [
        {*(each[3]), each[2], each[5]} - {None} if each is not None else set()
        for each in (one, other)
    ]
    return min(moments[0] ^ moments[1] or moments[0] | moments[1])


def told(run):
    labels = [event.label for event in run.events]
    starts = before_end(run.starts, run.status, run.ended)
    return (run.home, labels, run.created, starts, run.status, run.ended, run.spent)


def seen(run, start):
    status, ended = (run.ended[0], run.ended[1] - start) if run.ended else (None, None)
    starts = before_end([at - start for at in run.starts], status, ended)
    labels = [event.label for event in run.events]
    return (run.home, labels, run.created - start, starts, status, ended, run.spent)


def before_end(starts, status, ended):
    """Who is cancelled in the instant of a start may be so before it, or after it."""
    return [at for at in starts if status != "cancelled" or at != ended]


async def both(program, **options):
    """Carry a program out and compare it with the model."""
    carrying = await Carrying(program, **options).go()
    return carrying, compare(carrying)
