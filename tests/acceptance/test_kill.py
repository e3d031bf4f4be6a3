"""The kill programs in short; the whole of them is `python tests/acceptance/kill_*.py`."""

import pytest
from kill_engine import kill_engine
from kill_worker import kill_worker

RUNS, KILLS = 300, 5


@pytest.mark.timeout(240)  # real processes, each of which takes seconds on a busy machine
@pytest.mark.parametrize("kill", [kill_engine, kill_worker])
def test_nothing_is_lost_and_nothing_recorded_runs_again(kill, tmp_path):
    found = kill(tmp_path / "load", RUNS, KILLS, seed=7)
    assert found["ok"], found
    assert found["completed"] == RUNS
    assert found["acknowledgedDuplicates"] == 0
    # A kill that meets a recovery makes no owner.
    owners = found["verify"]["owners"]
    assert 1 < owners <= KILLS + 1 if kill is kill_engine else owners == 1
