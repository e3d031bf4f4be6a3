"""Random workflows, events, acts and crashes against the reference model (DESIGN 11.2)."""

import os

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scenarios import actions, run_scenario, stops, workflow_sets

EXAMPLES = int(os.environ.get("DURATON_TEST_EXAMPLES", "60"))
"""Scenarios of each test; `make soak` sets more."""

thorough = settings(
    max_examples=EXAMPLES,
    deadline=None,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)


@thorough
@given(workflow_sets(), st.lists(actions(), max_size=12), st.sampled_from((1, 3, 12)))
def test_scenarios_end_as_the_model_says(workflows, given, partitions):
    run_scenario(workflows, given, partitions)


@thorough
@given(workflow_sets(), st.lists(actions(), max_size=8), st.sampled_from((1, 3)), stops)
def test_scenarios_end_so_whatever_point_the_engine_dies_at(workflows, given, partitions, stop):
    run_scenario(workflows, given, partitions, stop)
