"""A state against a plain dictionary, under random writes, savepoints, flushes and drops."""

from random import Random

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from duraton_streams.state import level, window
from duraton_streams.state.memory import MemoryStore
from duraton_streams.state.overlay import CacheSettings, State
from duraton_streams.state.rocksdb import RocksStore
from duraton_streams.state.table import Table


class Row(msgspec.Struct):
    n: int
    text: str = ""


ROWS = Table("rows", 5, Row)
OTHERS = Table("others", 9, Row)
TABLES = (ROWS, OTHERS)

part = st.sampled_from(["a", "b", "a\x00", 1, 2, 300])
key = st.lists(part, min_size=1, max_size=3).map(tuple)
prefix = st.lists(part, max_size=2).map(tuple)
table = st.sampled_from(TABLES)
number = st.integers(0, 5)
operation = st.one_of(
    st.tuples(st.just("put"), table, key, number),
    st.tuples(st.just("put"), table, key, number),
    st.tuples(st.just("edit"), table, key, number),
    st.tuples(st.just("delete"), table, key),
    st.tuples(st.just("get"), table, key),
    st.tuples(st.just("scan"), table, prefix, st.integers(0, 6), st.none() | key),
    st.tuples(st.just("keys"), table, prefix, st.integers(0, 6), st.none() | key, st.none() | key),
    st.tuples(st.just("set_timer"), number, key),
    st.tuples(st.just("clear_timer"), number, key),
    st.tuples(st.just("due"), number, st.integers(0, 6)),
    st.tuples(st.sampled_from(["begin", "commit", "rollback", "flush", "drop", "dump"])),
)


def order(key):
    return [
        (isinstance(p, str), p if isinstance(p, str) else "", p if isinstance(p, int) else 0)
        for p in key
    ]


class Model:
    """What a state is, said as simply as can be."""

    def __init__(self):
        self.now, self.flushed, self.saved, self.position = {}, {}, None, None

    def rows(self, table, prefix, limit, after, below=None):
        found = sorted(
            (key for name, key in self.now if name == table and key[: len(prefix)] == prefix),
            key=order,
        )
        if after is not None:
            found = [key for key in found if order(key) > order(after)]
        if below is not None:
            found = [key for key in found if order(key) < order(below)]
        return found[:limit]


class Pair:
    """A state and its model, taken through the same operations."""

    def __init__(self, store, cache):
        self.store, self.model = store, Model()
        self.state = State(store, TABLES, cache)
        self.flushes = 0

    def do(self, name, *args):
        getattr(self, name)(*args)

    def put(self, table, key, n):
        self.state.put(table, key, Row(n))
        self.model.now[table.name, key] = Row(n)
        self.touch(table.name, key)

    def edit(self, table, key, n):
        if (table.name, key) not in self.model.now:
            with pytest.raises(KeyError):
                self.state.edit(table, key)
            return
        before = self.state.get(table, key)
        row = self.state.edit(table, key)
        assert self.state.edit(table, key) is row
        if self.model.saved is not None and (table.name, key) not in self.model.touched:
            assert row is not before
        row.text += str(n)
        self.model.now[table.name, key] = Row(row.n, row.text)
        self.touch(table.name, key)

    def touch(self, name, key):
        if self.model.saved is not None:
            self.model.touched.add((name, key))

    def delete(self, table, key):
        self.state.delete(table, key)
        self.model.now.pop((table.name, key), None)

    def get(self, table, key):
        assert self.state.get(table, key) == self.model.now.get((table.name, key))

    def scan(self, table, prefix, limit, after):
        want = [
            (k, self.model.now[table.name, k])
            for k in self.model.rows(table.name, prefix, limit, after)
        ]
        assert self.state.scan(table, prefix, limit, after) == want

    def keys(self, table, prefix, limit, after, below):
        assert self.state.keys(table, prefix, limit, after, below) == self.model.rows(
            table.name, prefix, limit, after, below
        )

    def set_timer(self, due, target):
        self.state.set_timer(due, target)
        self.model.now["timers", (due, *target)] = None

    def clear_timer(self, due, target):
        self.state.clear_timer(due, target)
        self.model.now.pop(("timers", (due, *target)), None)

    def due(self, now, limit):
        timers = self.model.rows("timers", (), 1000, None)
        assert self.state.timers.next_due() == (timers[0][0] if timers else None)
        want = [(t[0], t[1:]) for t in timers if t[0] <= now][:limit]
        assert self.state.timers.due(now, limit) == want

    def begin(self):
        if self.model.saved is None:
            self.state.begin()
            self.model.saved, self.model.touched = dict(self.model.now), set()

    def commit(self):
        self.state.commit_transition()
        self.model.saved = None

    def rollback(self):
        if self.model.saved is not None:
            self.state.rollback()
            self.model.now, self.model.saved = self.model.saved, None

    def flush(self):
        self.commit()
        self.flushes += 1
        self.state.flush({"position": self.flushes})
        self.model.flushed, self.model.position = copied(self.model.now), self.flushes
        assert self.state.size.entries == 0

    def drop(self):
        self.state.drop()
        self.model.now, self.model.saved = copied(self.model.flushed), None
        assert self.state.meta("position") == self.model.position

    def dump(self):
        numbers = {"timers": 1, "rows": 5, "others": 9}
        want = sorted(self.model.now, key=lambda row: (numbers[row[0]], order(row[1])))
        rows = list(self.state.dump())
        assert [(name, key) for name, key, _ in rows] == want
        for name, key, value in rows:
            assert name == "timers" or value == self.model.now[name, key]


def copied(rows):
    return {key: row and Row(row.n, row.text) for key, row in rows.items()}


def run(store, operations, cache):
    pair = Pair(store, cache)
    for step in operations:
        pair.do(*step)
    pair.dump()
    for name in TABLES:
        pair.scan(name, (), 1000, None)
    pair.flush()
    pair.drop()
    pair.dump()
    pair.due(5, 1000)
    return pair


@pytest.fixture(params=["as shipped", "tiny"])
def windows(request, monkeypatch):
    """Windows as they are, and so small that they run short, are cut and let go all the time."""
    if request.param == "tiny":
        monkeypatch.setattr(level, "READ_AHEAD", 1)
        monkeypatch.setattr(level, "WINDOW_SCAN_MAX", 3)
        monkeypatch.setattr(level, "WINDOWS_MAX", 3)
        monkeypatch.setattr(level, "WINDOWS_KEYS_MAX", 6)
        monkeypatch.setattr(level, "WINDOW_KEYS_MAX", 4)
        monkeypatch.setattr(window, "WINDOW_KEYS_MAX", 4)
        monkeypatch.setattr(level, "DUMP_ROWS", 2)


caches = st.sampled_from(
    [CacheSettings(), CacheSettings(objects=3), CacheSettings(objects=0, bytes=0)]
)


fixed = settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.mark.usefixtures("windows")
@fixed
@given(st.lists(operation, max_size=60), caches)
def test_state_over_memory_behaves_as_a_dictionary(operations, cache):
    run(MemoryStore(), operations, cache)


@pytest.mark.usefixtures("windows")
@settings(fixed, max_examples=40)
@given(st.lists(operation, max_size=60), caches)
def test_state_over_rocksdb_behaves_as_a_dictionary(tmp_path_factory, operations, cache):
    store = RocksStore(tmp_path_factory.mktemp("rocks"))
    run(store, operations, cache)
    store.destroy()


def long_life(seed):
    """Two hundred operations, weighted so that rows, windows and savepoints meet."""
    random = Random(seed)
    parts = ["a", "b", "a\x00", 1, 2, 300]

    def some(low, high):
        return tuple(random.choice(parts) for _ in range(random.randint(low, high)))

    def maybe():
        return some(1, 3) if random.random() < 0.5 else None

    makers = {
        "put": (6, lambda t: (t, some(1, 3), random.randint(0, 5))),
        "edit": (3, lambda t: (t, some(1, 3), random.randint(0, 5))),
        "delete": (4, lambda t: (t, some(1, 3))),
        "get": (2, lambda t: (t, some(1, 3))),
        "scan": (6, lambda t: (t, some(0, 2), random.randint(0, 6), maybe())),
        "keys": (4, lambda t: (t, some(0, 2), random.randint(0, 6), maybe(), maybe())),
        "set_timer": (3, lambda t: (random.randint(0, 5), some(1, 3))),
        "clear_timer": (3, lambda t: (random.randint(0, 5), some(1, 3))),
        "due": (3, lambda t: (random.randint(0, 5), random.randint(0, 6))),
        "begin": (2, lambda t: ()),
        "commit": (2, lambda t: ()),
        "rollback": (2, lambda t: ()),
        "flush": (1, lambda t: ()),
        "drop": (0.2, lambda t: ()),
        "dump": (0.3, lambda t: ()),
    }
    weights = [weight for weight, _ in makers.values()]
    for name in random.choices(list(makers), weights, k=200):
        yield name, *makers[name][1](random.choice(TABLES))


@pytest.mark.usefixtures("windows")
@pytest.mark.parametrize("objects", [0, 3, 20, 10_000])
def test_long_lives_end_as_a_dictionary_does(objects):
    for seed in range(50):
        run(MemoryStore(), long_life(seed), CacheSettings(objects=objects))
