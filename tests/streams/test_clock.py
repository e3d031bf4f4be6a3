"""The engine's time: what a change of the reference does to it, and what it never does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duraton_streams.partition.clock import EngineClock, ManualClock, boot_ms, wall_ms

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
NOON = 1_700_000_000_000


class World:
    """Elapsed time and a reference that tests move by hand."""

    def __init__(self, reference=NOON):
        self.elapsed, self.offset, self.known, self.looks = 5_000, reference - 5_000, True, 0

    def reference(self):
        self.looks += 1
        return self.elapsed + self.offset if self.known else None

    def clock(self, newest=0):
        return EngineClock(newest, self.reference, lambda: self.elapsed)

    def run(self, clock, ms, step=MINUTE):
        """Go on, asking as a processor does; the last answer."""
        now = clock.now_ms()
        while ms > 0:
            self.elapsed += min(ms, step)
            ms -= step
            now = clock.now_ms()
        return now

    @property
    def truth(self):
        return self.elapsed + self.offset


def test_it_begins_at_the_reference_and_goes_on_with_elapsed_time():
    world = World()
    clock = world.clock(newest=NOON - DAY)
    assert clock.now_ms() == NOON
    world.elapsed += 1_234
    assert clock.now_ms() == NOON + 1_234


def test_it_begins_at_the_newest_fact_where_the_reference_is_behind():
    world = World(NOON)
    assert world.clock(newest=NOON + 500).now_ms() == NOON + 500


def test_the_reference_is_looked_at_once_a_minute():
    world = World()
    clock = world.clock()
    world.run(clock, 59_999, step=1_000)
    assert world.looks == 1
    world.run(clock, 10 * MINUTE, step=1_000)
    assert world.looks == 11


def test_a_clock_set_back_by_an_hour_freezes_nothing():
    world = World()
    clock = world.clock()
    world.offset -= HOUR - 2 * MINUTE
    world.run(clock, MINUTE)
    before = clock.now_ms()
    after = world.run(clock, 10 * MINUTE)
    assert after - before == 10 * MINUTE * 95 // 100


def test_a_small_set_back_is_drawn_in_and_then_time_is_the_references():
    world = World()
    clock = world.clock()
    world.offset -= 6_000
    now = world.run(clock, 4 * MINUTE)
    assert now == world.truth
    assert world.run(clock, MINUTE) == world.truth


def test_a_clock_set_forward_fires_nothing_early():
    world = World()
    clock = world.clock()
    world.offset += DAY
    world.run(clock, MINUTE)
    before = clock.now_ms()
    assert world.run(clock, 10 * MINUTE) - before == 10 * MINUTE * 105 // 100


def test_a_machine_that_comes_up_in_1970_steps_forward_once_it_knows_the_time():
    world = World(reference=0)
    clock = world.clock(newest=NOON)
    assert clock.now_ms() == NOON
    assert clock.reference_ignored
    assert world.run(clock, 3 * MINUTE) == NOON + 3 * MINUTE
    world.offset = NOON + DAY - world.elapsed
    assert world.run(clock, MINUTE) == world.truth == NOON + DAY + MINUTE
    assert not clock.reference_ignored
    # from here on it is not stepped again
    world.offset += HOUR
    assert world.run(clock, 2 * MINUTE) < world.truth - HOUR + 4 * MINUTE


def test_a_reference_more_than_an_hour_behind_is_ignored_and_reported():
    world = World()
    clock = world.clock()
    world.offset -= 2 * HOUR
    now = clock.now_ms()
    assert world.run(clock, 10 * MINUTE) == now + 10 * MINUTE
    assert clock.reference_ignored
    assert clock.behind_ms == 2 * HOUR
    world.offset += 2 * HOUR
    world.run(clock, MINUTE)
    assert not clock.reference_ignored
    assert clock.behind_ms == 0


def test_a_reference_that_is_not_known_changes_nothing():
    world = World()
    clock = world.clock()
    world.known = False
    now = clock.now_ms()
    assert world.run(clock, 10 * MINUTE) == now + 10 * MINUTE


def test_suspend_counts():
    world = World()
    clock = world.clock()
    world.elapsed += 8 * HOUR
    assert clock.now_ms() == NOON + 8 * HOUR


changes = st.lists(
    st.tuples(st.integers(0, 3 * MINUTE), st.integers(-3 * HOUR, 3 * HOUR), st.booleans()),
    max_size=30,
)


@given(st.integers(-DAY, DAY), changes)
def test_it_never_goes_back_and_is_never_more_than_5_per_cent_off_once_reached(newest, moves):
    world = World()
    clock = world.clock(NOON + newest)
    reached = newest <= 0
    before = clock.now_ms()
    for elapsed, shift, known in moves:
        world.elapsed += elapsed
        world.offset += shift
        world.known = known
        now = clock.now_ms()
        assert now >= before
        assert now - before >= elapsed * 95 // 100 - 1
        if reached:
            assert now - before <= elapsed * 105 // 100 + 1
        before = now


def test_virtual_time_stands_until_it_is_moved():
    clock = ManualClock(NOON)
    assert clock.now_ms() == clock.now_ms() == NOON
    clock.advance(5)
    clock.set(NOON + 7)
    assert clock.now_ms() == NOON + 7
    with pytest.raises(ValueError, match="does not go back"):
        clock.set(NOON)


def test_the_systems_sources_answer_milliseconds():
    assert boot_ms() <= boot_ms()
    assert wall_ms() > NOON
