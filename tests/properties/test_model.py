"""Random workflows, events, acts and crashes against the reference model (DESIGN 11.2)."""

import asyncio
import os
from collections import defaultdict

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from model import GRAIN, Gather, Invoke, Policy, Run, Sleep, Wait, Workflow
from scenarios import NAMES, actions, run_scenario, stops, workflow_sets

from duraton import define_workflow
from duraton.testing import Engine

EXAMPLES = int(os.environ.get("DURATON_TEST_EXAMPLES", "30"))
"""Scenarios of each test."""

thorough = settings(
    max_examples=EXAMPLES,
    deadline=None,
    print_blob=True,
    # Scenarios are large, and what they cost is the engine's time.
    suppress_health_check=list(HealthCheck),
)
acts = st.lists(actions(), max_size=12)


@thorough
@given(workflow_sets(), acts, st.sampled_from((1, 3, 12)))
def test_scenarios_end_as_the_model_says(workflows, given, partitions):
    run_scenario(workflows, given, partitions)


@thorough
@given(workflow_sets(), acts, st.sampled_from((1, 3)), stops)
def test_scenarios_end_so_whatever_point_the_engine_dies_at(workflows, given, partitions, stop):
    run_scenario(workflows, given, partitions, stop)


@settings(thorough, max_examples=max(EXAMPLES // 2, 1))
@given(workflow_sets(), st.lists(actions(), max_size=8), st.randoms(use_true_random=False))
def test_scenarios_end_so_in_whatever_order_partitions_take_their_turns(workflows, given, order):
    run_scenario(workflows, given, 12, order=order)


def test_the_model_sees_what_it_is_for():
    """The scenarios that the model must tell apart, so that it is not content with anything."""
    body = (
        Run("a", failures=1, takes=3 * GRAIN, policy=Policy(3, "linear", 500, 30_000)),
        Gather(((Sleep("b", 20 * GRAIN),), (Wait("c", 1, 50 * GRAIN),))),
        Invoke("d", "leaf"),
    )
    workflows = (
        Workflow("leaf", (Sleep("l", GRAIN),)),
        Workflow("red", body, None, (Run("f"),)),
        Workflow("green", (Run("g", failures=9),), Policy(2, "fixed", 1_000, 30_000), (Run("f"),)),
    )
    acts = [
        ("post", 0, ("red", "green"), 1),
        ("post", 0, ("red", "green"), 1),
        ("signal", 10 * GRAIN, 1),
        ("crash", 0, 7 * GRAIN, False),
        ("signal", 10 * GRAIN, 1),
    ]
    run = run_scenario(workflows, acts, 3).model
    red, green = run.runs["red:0"], run.runs["green:1"]
    assert (red.status, red.output) == ("completed", ["a", [[None], [1]], [None]])
    # Its second attempt, from 800 to 1100, ends while the engine is away, from 1003 to 1703.
    assert red.steps["a"] == (2, 1_703)
    assert run.executions["red:0", "a", 2, 0.8] == 1
    assert (green.status, green.error) == ("failed", "g fails in attempt 2")
    assert run.runs["green:1!failure"].status == "completed"
    assert len(run.runs) == 4  # the second POST repeats the first one's dedupe ids


@thorough
@given(
    st.lists(st.tuples(st.sampled_from(NAMES), st.integers(0, 3)), min_size=1, max_size=30),
    st.integers(1, 3),
    st.sampled_from((1, 12)),
    st.lists(st.integers(0, 29), max_size=3),
)
@example([("red", 1), ("green", 1), ("red", 0)], 1, 12, [1])
def test_a_workflows_runs_start_in_the_order_in_which_they_came(sent, capacity, partitions, dies):
    """Whatever room there is at the runner, and however often the engine dies."""
    asyncio.run(_queue(sent, capacity, partitions, set(dies)))


async def _queue(sent, capacity, partitions, dies):
    async def work(ctx):
        await ctx.step.run("a", lambda: engine.clock.sleep(ctx.event.data["takes"] / 10))

    workflows = [define_workflow(name, work) for name in NAMES]
    wanted = defaultdict(list)
    async with Engine(*workflows, partitions=partitions, capacity=capacity, shadow=True) as engine:
        for number, (name, takes) in enumerate(sent):
            [answer] = await engine.send(name, {"takes": takes})
            wanted[name].append(answer.run_id)
            assert len(await engine.runs("running")) <= capacity
            if number in dies:
                await engine.crash()
        await engine.advance("60s")
        started = defaultdict(list)
        for name, run, _ in engine.started:
            started[name].append(run)
        assert started == wanted
        assert len(engine.executions) == len(sent)
        assert len(await engine.runs("completed")) == len(sent)


def test_a_paused_run_asks_for_no_child():
    """Found by a reader, so kept as a scenario of its own (P44)."""
    workflows = (
        Workflow("leaf", (Run("l", failures=9),)),
        Workflow("red", (Invoke("a", "leaf", Policy(3, "fixed", 1_000, 30_000)),)),
    )
    acts = [
        ("post", 5 * GRAIN, ("red",), None),
        ("pause", 50 * GRAIN, 0),
        ("crash", 0, 0, False),
        ("resume", 5 * GRAIN, 0),
        ("pause", 5 * GRAIN, 0),
    ]
    for partitions in (1, 12):
        run = run_scenario(workflows, acts, partitions).model
        assert run.runs["leaf of red:0/a/2"].ended == 5503
        assert run.runs["red:0"].status == "failed"


def test_a_resumed_run_begins_nothing_new_until_what_executes_has_ended():
    """Its runner was told to hand it back by then, so parallel steps wait too (P44)."""
    parallel = Gather(((Run("a", takes=3 * GRAIN),), (Wait("b", 0, GRAIN), Run("c"))))
    workflows = (Workflow("red", (parallel,)),)
    acts = [("post", 0, ("red",), None), ("pause", 0, 0), ("resume", 0, 0)]
    for partitions in (1, 12):
        run = run_scenario(workflows, acts, partitions).model
        assert run.runs["red:0"].steps == {"b": (1, 100), "a": (1, 300), "c": (1, 300)}
        assert run.runs["red:0"].ended == 300
