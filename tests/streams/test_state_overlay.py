"""What a state promises beyond being a dictionary: batches, savepoints, bounds, refusals."""

import msgspec
import pytest

from duraton_streams.errors import StoreMismatchError
from duraton_streams.state.memory import MemoryStore
from duraton_streams.state.overlay import CacheSettings, State
from duraton_streams.state.table import Table


class Row(msgspec.Struct):
    n: int
    text: str = ""


ROWS = Table("rows", 5, Row)
OTHERS = Table("others", 9, Row)


class Watched(MemoryStore):
    """Notes what is asked of it."""

    def __init__(self):
        super().__init__()
        self.gets, self.puts, self.deletes, self.batches = 0, [], [], 0

    def get(self, key):
        self.gets += 1
        return super().get(key)

    def write(self, puts, deletes):
        self.batches += 1
        self.puts, self.deletes = list(puts), list(deletes)
        super().write(self.puts, self.deletes)


@pytest.fixture
def store():
    return Watched()


@pytest.fixture
def state(store):
    return State(store, (ROWS, OTHERS))


def test_many_changes_of_a_key_are_one_row_of_one_batch(state, store):
    for n in range(10):
        state.put(ROWS, ("a",), Row(n))
        state.edit(ROWS, ("a",)).text = str(n)
    state.put(OTHERS, ("a",), Row(1))
    assert state.size.entries == 2
    assert state.size.bytes > 0
    state.flush({"position": 17})
    assert store.batches == 1
    assert len(store.puts) == 3
    assert state.size.entries == 0
    again = State(store, (ROWS, OTHERS))
    assert again.get(ROWS, ("a",)) == Row(9, "9")
    assert again.meta("position") == 17
    assert again.meta("never") is None


def test_a_key_known_to_be_absent_is_not_deleted_from_the_store(state, store):
    assert state.get(ROWS, ("a",)) is None
    state.put(ROWS, ("a",), Row(1))
    state.delete(ROWS, ("a",))
    state.delete(ROWS, ("a",))
    state.flush({})
    assert store.puts == store.deletes == []
    state.put(ROWS, ("a",), Row(1))
    state.flush({})
    state.delete(ROWS, ("a",))
    state.flush({})
    assert len(store.deletes) == 1


@pytest.mark.parametrize("opened", [True, False])
def test_what_is_inserted_and_deleted_between_two_flushes_leaves_no_trace(state, store, opened):
    def transition(action):
        if opened:
            state.begin()
        action()
        if opened:
            state.commit_transition()

    for n in range(3):
        transition(lambda n=n: state.insert(ROWS, (n,), Row(n)))
        transition(lambda n=n: state.edit(ROWS, (n,)))
        transition(lambda n=n: state.delete(ROWS, (n,)))
    assert state.size.entries == 0
    assert state.kept() == []
    state.flush({})
    assert store.puts == store.deletes == []
    assert state.get(ROWS, (1,)) is None
    assert state.scan(ROWS, (), 10) == []


def test_a_rollback_brings_back_what_would_have_left_no_trace(state, store):
    state.begin()
    state.insert(ROWS, ("a",), Row(1))
    state.commit_transition()
    state.begin()
    state.delete(ROWS, ("a",))
    state.rollback()
    assert state.get(ROWS, ("a",)) == Row(1)
    state.begin()
    state.delete(ROWS, ("a",))
    state.insert(ROWS, ("a",), Row(2))
    state.commit_transition()
    state.flush({})
    assert len(store.puts) == 1
    assert State(store, (ROWS, OTHERS)).get(ROWS, ("a",)) == Row(2)


def test_what_was_flushed_meanwhile_is_deleted_from_the_store(state, store):
    state.insert(ROWS, ("a",), Row(1))
    state.flush({})
    state.delete(ROWS, ("a",))
    state.insert(ROWS, ("a",), Row(2))
    state.delete(ROWS, ("a",))
    state.flush({})
    assert len(store.deletes) == 1
    assert State(store, (ROWS, OTHERS)).get(ROWS, ("a",)) is None


def test_what_is_known_is_not_asked_of_the_store_again(state, store):
    assert state.get(ROWS, ("a",)) is None
    assert state.get(ROWS, ("a",)) is None
    assert store.gets == 1
    state.put(ROWS, ("b",), Row(1))
    state.flush({})
    state.delete(ROWS, ("b",))
    state.flush({})
    assert state.get(ROWS, ("b",)) is None
    assert store.gets == 1


def test_edit_copies_once_a_transition_and_the_copy_before_is_unharmed(state):
    state.put(ROWS, ("a",), Row(1))
    before = state.get(ROWS, ("a",))
    state.begin()
    row = state.edit(ROWS, ("a",))
    row.n = 2
    assert before.n == 1
    assert state.edit(ROWS, ("a",)) is row is state.get(ROWS, ("a",))
    state.rollback()
    assert state.get(ROWS, ("a",)) is before
    state.begin()
    state.edit(ROWS, ("a",)).n = 3
    state.commit_transition()
    assert state.get(ROWS, ("a",)) == Row(3)
    with pytest.raises(KeyError):
        state.edit(ROWS, ("none",))


def test_a_rollback_undoes_one_transition_and_no_more(state):
    state.begin()
    state.put(ROWS, ("a",), Row(1))
    state.commit_transition()
    state.begin()
    state.put(ROWS, ("a",), Row(2))
    state.delete(ROWS, ("a",))
    state.put(ROWS, ("b",), Row(3))
    state.scratch["x"] = 1
    state.rollback()
    assert state.scan(ROWS, (), 10) == [(("a",), Row(1))]
    assert state.scratch == {}
    assert state.size.entries == 1


def test_transitions_do_not_nest_and_are_not_flushed_half(state):
    state.begin()
    with pytest.raises(RuntimeError):
        state.begin()
    with pytest.raises(RuntimeError):
        state.flush({})


def test_a_write_that_fails_leaves_the_changes_to_be_written(state, store, monkeypatch):
    def full(_puts, _deletes):
        raise OSError("no space left")

    state.put(ROWS, ("a",), Row(1))
    with monkeypatch.context() as patch:
        patch.setattr(store, "write", full)
        with pytest.raises(OSError, match="no space left"):
            state.flush({"position": 1})
    assert state.size.entries == 1
    assert state.meta("position") is None
    state.flush({"position": 1})
    assert State(store, (ROWS, OTHERS)).get(ROWS, ("a",)) == Row(1)


def test_a_scan_pages_through_any_number_of_rows(state):
    for n in range(3_000):
        state.put(ROWS, ("q", n), Row(n))
        if n % 1_000 == 500:
            state.flush({})
    for size in (7, 100, 600, 5_000):
        found, after = [], None
        while page := state.scan(ROWS, ("q",), size, after):
            found += page
            after = page[-1][0]
        assert [row.n for _, row in found] == list(range(3_000))


def test_the_head_of_a_queue_is_read_once_however_many_leave_it(state, store):
    for n in range(1_000):
        state.put(ROWS, ("q", n), Row(n))
    state.flush({})
    state.drop()
    low = []
    scan = store.scan
    store.scan = lambda a, b, limit: low.append(a) or scan(a, b, limit)
    for n in range(1_000):
        ((key, row),) = state.scan(ROWS, ("q",), 1)
        assert row.n == n
        state.delete(ROWS, key)
        state.flush({})
    assert state.scan(ROWS, ("q",), 1) == []
    assert len(low) < 25
    assert low == sorted(low)


def test_memory_is_bounded_whatever_is_read_and_written(store):
    state = State(store, (ROWS, OTHERS), CacheSettings(objects=100))
    for n in range(2_000):
        state.begin()
        state.put(ROWS, (n,), Row(n))
        state.commit_transition()
        state.flush({})
    for n in range(2_000):
        assert state.get(ROWS, (n,)) == Row(n)
    held = state._levels[ROWS]
    assert len(held.live) + len(held.aged) <= 300
    large = State(MemoryStore(), (ROWS,), CacheSettings(bytes=10_000))
    for n in range(100):
        large.put(ROWS, (n,), Row(n, "x" * 1_000))
        large.flush({})
    assert len(large._levels[ROWS].live) + len(large._levels[ROWS].aged) <= 25


def test_an_object_in_use_survives_the_turn_of_the_cache(store):
    state = State(store, (ROWS,), CacheSettings(objects=10))
    state.put(ROWS, ("hot",), Row(0))
    for n in range(500):
        state.begin()
        state.edit(ROWS, ("hot",)).n += 1
        state.put(ROWS, (n,), Row(n))
        state.commit_transition()
        state.flush({})
    assert store.gets == 0
    assert state.get(ROWS, ("hot",)) == Row(500)


def test_dump_is_everything_in_order_as_it_would_be_read_back(state):
    state.put(OTHERS, ("z",), Row(1))
    state.put(ROWS, ("b",), Row(2))
    state.flush({"position": 3})
    state.put(ROWS, ("a",), Row(3))
    state.delete(OTHERS, ("z",))
    state.set_timer(7, ("t",))
    rows = list(state.dump())
    assert [(name, key) for name, key, _ in rows] == [
        ("timers", (7, "t")),
        ("rows", ("a",)),
        ("rows", ("b",)),
    ]
    assert rows[1][2] == Row(3)
    state.flush({})
    assert list(state.dump()) == rows


def test_a_store_with_a_table_that_is_not_known_is_refused(state, store):
    state.put(OTHERS, ("a",), Row(1))
    state.flush({"position": 1})
    with pytest.raises(StoreMismatchError, match="table 9") as refused:
        State(store, (ROWS,))
    assert "rebuild" in refused.value.advice
    with pytest.raises(StoreMismatchError, match="table 9"):
        State(store, (ROWS, Table("above", 10, Row)))


def test_two_tables_cannot_share_a_number():
    with pytest.raises(ValueError, match="number of its own"):
        State(MemoryStore(), (ROWS, Table("again", 5, Row)))
    with pytest.raises(ValueError, match="number of its own"):
        State(MemoryStore(), (Table("timers too", 1, Row),))


def test_a_replayed_edit_of_a_row_that_the_cache_lets_go_at_once_is_written(store):
    state = State(store, (ROWS,), CacheSettings(objects=0, bytes=0))
    state.put(ROWS, ("a",), Row(1))
    state.flush({})
    state.drop()
    state.edit(ROWS, ("a",)).n = 2
    state.flush({})
    assert State(store, (ROWS,)).get(ROWS, ("a",)) == Row(2)
