"""Flow control held against a model written from the seeds (DESIGN 11.2).

One seed makes one program: workflows with random controls, events, acts, redeploys,
ceilings, AI spend, time, and crashes. While it goes, no limit may be exceeded, nothing
lost, nothing done twice, and nobody may wait whom nothing holds; the replay shadow is on.
Without crashes at one partition all answers, starts and ends are those of the model. A
failure names its seed: `WAYS[way].make(seed)` makes the program again, and
`flow_shrink.py` makes it small.
"""

import logging
import os
from collections import Counter

import pytest
from flow_ways import WAYS

SEEDS = int(os.environ.get("DURATON_TEST_EXAMPLES", "40"))
A_TEST = 10
"""Programs of one test."""
SHARES = {
    "exact": 1,
    "exact-serve": 2,
    "one": 2,
    "stops": 4,
    "twelve": 2,
    "turns": 4,
    "serve": 4,
    "sqlite": 4,
}
"""One in so many of the seeds is tried in each way."""
A_KAFKA = max(SEEDS // 100, 3)
REACHED = {
    # Where random programs have to come to, and how many of the sampled ones at least.
    "as many asks as may be": 1,
    "started by a grant": 5,
    "started by a grant for another": 1,
    "ask returned": 1,
    "ask withdrawn": 1,
    "asks dropped": 1,
    "ended: StoppedError": 1,
    "ended: ReplacedError": 1,
    "refused": 2,
    "skipped": 2,
    "deduped": 2,
    "dropped": 2,
    "joined": 3,
    "held firing let go": 3,
    "superseded": 1,
    "held by its budget": 5,
    "held while runs execute": 2,
    "released by its budget": 5,
    "warned": 5,
    "exempt": 2,
    "attempt paid for that failed": 3,
    "ended: BudgetError": 2,
    "held by the token throttle": 2,
}
SAMPLED = {"spend": 12, "join": 5, "held": 8, "gates": 19, "crowd": 4}
"""Programs of each profile, by their first seeds."""


def programs():
    for way, share in SHARES.items():
        for first in range(0, SEEDS, A_TEST * share):
            yield pytest.param(
                way, range(first, first + A_TEST * share, share), id=f"{way}-{first}"
            )


async def carry_out(way, seeds, profile=None):
    """What the programs reached, each counted by how many did."""
    reached = Counter()
    for seed in seeds:
        program = WAYS[way].make(seed, profile)
        try:
            carrying, _ = await WAYS[way].carry_out(program)
        except BaseException as error:
            error.add_note(f"{way}, seed {seed}, profile {program.profile}")
            raise
        reached.update(name for name, count in carrying.checks.reached.items() if count)
    return reached


@pytest.mark.parametrize(("way", "seeds"), list(programs()))
@pytest.mark.timeout(600)
async def test_programs_of_flow_control(way, seeds, caplog):
    caplog.set_level(logging.ERROR)
    await carry_out(way, seeds)


@pytest.mark.kafka
@pytest.mark.timeout(600)
async def test_programs_of_flow_control_on_a_broker(kafka_bootstrap, monkeypatch, caplog):
    caplog.set_level(logging.ERROR)
    monkeypatch.setenv("DURATON_TEST_KAFKA", kafka_bootstrap)
    await carry_out("kafka", range(A_KAFKA))


@pytest.mark.timeout(600)
async def test_programs_reach_what_is_to_be_tried(caplog):
    caplog.set_level(logging.ERROR)
    reached = Counter()
    for profile, count in SAMPLED.items():
        reached += await carry_out("exact", range(count), profile)
    short = {name: reached[name] for name, least in REACHED.items() if reached[name] < least}
    assert not short, f"too few programs reach {short}"
