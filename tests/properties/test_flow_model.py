"""Flow control held against a model written from the seeds (DESIGN 11.2).

One seed makes one program: workflows with random controls, events, acts, redeploys,
ceilings, time, and crashes. While it goes, no limit may be exceeded, nothing lost, nothing
done twice, and nobody may wait whom nothing holds; the replay shadow is on. Without crashes
at one partition all answers, starts and ends are those of the model. A failure names its
seed: `WAYS[way].make(seed)` makes the program again, and `flow_shrink.py` makes it small.
"""

import logging
import os

import pytest
from flow_ways import WAYS

SEEDS = int(os.environ.get("DURATON_TEST_EXAMPLES", "40"))
A_TEST = 10
"""Programs of one test."""
CHECKED = ("exact", "one", "twelve", "serve")


@pytest.mark.parametrize("first", range(0, SEEDS, A_TEST))
@pytest.mark.parametrize("way", CHECKED)
@pytest.mark.timeout(600)
async def test_programs_of_flow_control(way, first, caplog):
    caplog.set_level(logging.ERROR)
    for seed in range(first, first + A_TEST):
        program = WAYS[way].make(seed)
        try:
            await WAYS[way].carry_out(program)
        except BaseException as error:
            error.add_note(f"{way}, seed {seed}, profile {program.profile}")
            raise
