"""Each numbered point, each commit: the end is that of a run without a crash (DESIGN 11.3).

A part of a program's points, which differs from program to program, is stopped at, one run
each; all of them with DURATON_TEST_POINTS=all. `make soak` draws others.
"""

import os

import pytest
from crash_points import DOUBTS, KILLS, OPENS, Stop, check, go
from flow_programs_of_crashes import FLOW_PROGRAMS
from programs import PROGRAMS as PLAIN

PROGRAMS = {**PLAIN, **FLOW_PROGRAMS}
ALL = os.environ.get("DURATON_TEST_POINTS") == "all"
SHARE = 1 if ALL else 71
"""One in so many points is stopped at."""


def chosen(stops, salt):
    return [stop for place, stop in enumerate(stops) if (place + salt) % SHARE == 0]


WITHOUT = {}


async def undisturbed(name, **options):
    """The end of a program that nothing happens to; each is run once."""
    key = (name, *options.items())
    if key not in WITHOUT:
        WITHOUT[key] = await go(PROGRAMS[name], **options)
    return WITHOUT[key]


async def stop_at_each(name, points, salt, *, again=(None,), runner=False, **options):
    program = PROGRAMS[name]
    end, counted = await undisturbed(name, **options)
    stops = [
        Stop(point, k, runner, second)
        for point in points
        for k in range(1, counted.counts[point] + 1)
        for second in again
    ]
    for stop in chosen(stops, salt):
        try:
            await check(name, program, end, stop, **options)
        except BaseException as error:
            error.add_note(f"{name}, stopped at {stop}, {options}")
            raise


names = pytest.mark.parametrize(("name", "salt"), [(n, i) for i, n in enumerate(PROGRAMS)])


@names
@pytest.mark.timeout(900)
async def test_the_engine_dies_and_its_runner_lives(name, salt):
    await stop_at_each(name, KILLS, salt)


@names
@pytest.mark.timeout(900)
async def test_both_die(name, salt):
    await stop_at_each(name, KILLS, salt + 5, runner=True)


@names
@pytest.mark.timeout(900)
async def test_a_commit_ends_in_doubt(name, salt):
    await stop_at_each(name, DOUBTS, salt + 9)


@names
@pytest.mark.timeout(900)
async def test_it_dies_again_while_it_recovers(name, salt):
    points = ("commit:after", "finish:committed", "doubt:after")
    await stop_at_each(name, points, salt + 13, again=OPENS)


@names
@pytest.mark.timeout(900)
async def test_with_several_partitions(name, salt):
    await stop_at_each(name, (*KILLS, *DOUBTS), salt + 17, partitions=3)


@names
@pytest.mark.timeout(900)
async def test_with_a_state_that_was_not_written_for_long(name, salt):
    await stop_at_each(name, KILLS, salt + 19, keep=10_000)
