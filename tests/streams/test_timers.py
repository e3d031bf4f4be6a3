"""Timers: order, bounds, savepoints, and that firing many walks over none twice."""

import pytest

from duraton_streams.state.memory import MemoryStore
from duraton_streams.state.overlay import State
from duraton_streams.state.window import WINDOW_KEYS_MAX

NOON = 1_700_000_000_000


class CountingStore(MemoryStore):
    """Counts the rows that scans answer, and where they began."""

    def __init__(self):
        super().__init__()
        self.rows, self.lows = 0, []

    def scan(self, low, high, limit):
        rows = super().scan(low, high, limit)
        self.rows += len(rows)
        self.lows.append(low)
        return rows


@pytest.fixture
def state():
    return State(MemoryStore(), ())


def fire(state, now, limit=512):
    """Take due timers as a processor does: their facts clear them, the batch is flushed."""
    fired = state.timers.due(now, limit)
    for due, target in fired:
        state.begin()
        state.clear_timer(due, target)
        state.commit_transition()
    state.flush({})
    return fired


def test_no_timer_is_due_where_there_is_none(state):
    assert state.timers.next_due() is None
    assert state.timers.due(NOON, 10) == []


def test_timers_come_in_order_of_due_time_then_target(state):
    for due, target in [
        (5, ("b",)),
        (3, ("z", 1)),
        (5, ("a", 2)),
        (5, ("a",)),
        (9, (7,)),
        (5, (9,)),
    ]:
        state.set_timer(due, target)
    assert state.timers.next_due() == 3
    assert state.timers.due(5, 10) == [
        (3, ("z", 1)),
        (5, (9,)),
        (5, ("a",)),
        (5, ("a", 2)),
        (5, ("b",)),
    ]
    assert state.timers.due(5, 2) == [(3, ("z", 1)), (5, (9,))]
    assert state.timers.due(2, 10) == []


def test_a_due_timer_stays_until_it_is_cleared(state):
    state.set_timer(5, ("a",))
    assert state.timers.due(5, 10) == state.timers.due(6, 10) == [(5, ("a",))]
    state.clear_timer(5, ("a",))
    assert state.timers.due(6, 10) == []
    state.clear_timer(5, ("a",))
    assert state.timers.next_due() is None


def test_a_timer_set_twice_is_one(state):
    state.set_timer(5, ("a",))
    state.set_timer(5, ("a",))
    assert state.timers.due(5, 10) == [(5, ("a",))]


@pytest.mark.parametrize("flushed", [False, True])
def test_a_rollback_brings_back_cleared_timers_and_takes_set_ones(state, flushed):
    for due in (1, 2, 3):
        state.set_timer(due, ("t", due))
    if flushed:
        state.flush({})
        state.drop()
    state.begin()
    state.clear_timer(1, ("t", 1))
    state.set_timer(0, ("new",))
    state.clear_timer(3, ("t", 3))
    assert state.timers.next_due() == 0
    assert state.timers.due(9, 9) == [(0, ("new",)), (2, ("t", 2))]
    state.rollback()
    assert state.timers.next_due() == 1
    assert [due for due, _ in state.timers.due(9, 9)] == [1, 2, 3]


def test_a_drop_leaves_what_was_flushed(state):
    state.set_timer(5, ("kept",))
    state.flush({})
    state.set_timer(1, ("lost",))
    state.clear_timer(5, ("kept",))
    assert state.timers.next_due() is None or state.timers.next_due() == 1
    state.drop()
    assert state.timers.due(9, 9) == [(5, ("kept",))]


def test_a_timer_set_and_cleared_within_a_batch_leaves_no_mark_in_the_store():
    class Deletes(MemoryStore):
        seen = ()

        def write(self, puts, deletes):
            self.seen += tuple(deletes)
            super().write(puts, deletes)

    store = Deletes()
    state = State(store, ())
    assert state.timers.next_due() is None
    state.set_timer(5, ("a",))
    state.clear_timer(5, ("a",))
    state.flush({})
    assert store.seen == ()


def test_ten_thousand_timers_fire_once_in_order_and_each_row_is_read_once():
    store = CountingStore()
    state = State(store, ())
    count = 10_000
    for number in range(count):
        state.set_timer(NOON + number * 7_919 % count, ("sleep", number))
    state.flush({})
    state.drop()
    store.rows, store.lows = 0, []
    fired = []
    while got := fire(state, NOON + count):
        fired += got
    assert [due for due, _ in fired] == [NOON + number for number in range(count)]
    assert len({target for _, target in fired}) == count
    # rows are read in pieces that end where the next begins
    assert store.rows <= count + 64
    assert store.lows == sorted(store.lows)


def test_what_is_kept_in_memory_is_bounded_while_timers_grow():
    state = State(MemoryStore(), ())
    assert state.timers.next_due() is None
    for number in range(3 * WINDOW_KEYS_MAX):
        state.set_timer(NOON - number, ("t", number))
    (window,) = state.timers._level.windows.values()
    assert len(window.raws) <= WINDOW_KEYS_MAX
    assert state.timers.next_due() == NOON - 3 * WINDOW_KEYS_MAX + 1
    assert len(state.timers.due(NOON, 10 * WINDOW_KEYS_MAX)) == 3 * WINDOW_KEYS_MAX


def test_earlier_timers_set_while_later_ones_fire_come_first():
    state = State(MemoryStore(), ())
    for number in range(2_000):
        state.set_timer(NOON + number, ("t", number))
    state.flush({})
    assert len(fire(state, NOON + 99, limit=512)) == 100
    state.set_timer(NOON, ("late",))
    state.set_timer(NOON + 1_500, ("a",))
    assert state.timers.next_due() == NOON
    assert fire(state, NOON + 100) == [(NOON, ("late",)), (NOON + 100, ("t", 100))]
    rest = []
    while got := fire(state, NOON + 5_000):
        rest += got
    assert len(rest) == 1_900
    assert rest == sorted(rest)
