"""What every store does, and what RocksDB does besides: it outlives kills and refuses two owners."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duraton_streams.errors import StateError, StoreInUseError, StoreMismatchError
from duraton_streams.state.memory import MemoryStore
from duraton_streams.state.rocksdb import RocksMemory, RocksSettings, RocksStore
from duraton_streams.state.store import SCAN_BYTES_MAX, reached_end


@pytest.fixture(params=["memory", "rocksdb"])
def store(request, tmp_path):
    store = MemoryStore() if request.param == "memory" else RocksStore(tmp_path / "store")
    yield store
    store.close()


def test_what_was_written_is_read_in_key_order(store):
    store.write([(b"b", b"2"), (b"a", b"1"), (b"c", b"3"), (b"b\x00", b"4")], [])
    assert store.get(b"b") == b"2"
    assert store.get(b"x") is None
    assert store.scan(b"a", b"c", 10) == [(b"a", b"1"), (b"b", b"2"), (b"b\x00", b"4")]
    assert store.scan(b"aa", b"\xff", 2) == [(b"b", b"2"), (b"b\x00", b"4")]
    assert store.scan(b"c", b"b", 10) == store.scan(b"a", b"c", 0) == []


def test_a_batch_replaces_and_removes(store):
    store.write([(b"a", b"1"), (b"b", b"2")], [])
    store.write([(b"b", b"3")], [b"a", b"never"])
    assert store.scan(b"", b"\xff", 10) == [(b"b", b"3")]


def test_an_empty_value_is_a_value(store):
    store.write([(b"a", b"")], [])
    assert store.get(b"a") == b""
    assert store.scan(b"", b"\xff", 10) == [(b"a", b"")]


def test_a_scan_of_large_values_stops_early_and_says_so(store):
    large = bytes(SCAN_BYTES_MAX // 2)
    store.write([(bytes((n,)), large) for n in range(5)], [])
    rows = store.scan(b"", b"\xff", 100)
    assert [key for key, _ in rows] == [b"\x00", b"\x01"]
    assert not reached_end(rows, 100)
    assert reached_end(store.scan(b"\x04", b"\xff", 100), 100)


def test_a_destroyed_store_holds_nothing(store):
    store.write([(b"a", b"1")], [])
    store.destroy()
    if isinstance(store, RocksStore):
        assert not store.path.exists()
        again = RocksStore(store.path)
        assert again.get(b"a") is None
        again.close()
    else:
        assert store.get(b"a") is None


small = st.binary(min_size=1, max_size=3)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.dictionaries(small, st.binary(max_size=4), max_size=6), st.sets(small, max_size=4)
        ),
        max_size=8,
    ),
    small,
    small,
)
def test_rocksdb_answers_as_memory_does(tmp_path_factory, batches, low, high):
    rocks, memory = RocksStore(tmp_path_factory.mktemp("rocks")), MemoryStore()
    for puts, deletes in batches:
        for one in (rocks, memory):
            one.write(puts.items(), deletes - puts.keys())
    assert rocks.scan(low, high, 5) == memory.scan(low, high, 5)
    assert rocks.scan(b"", b"\xff\xff\xff\xff", 100) == memory.scan(b"", b"\xff\xff\xff\xff", 100)
    assert [rocks.get(key) for key in (low, high)] == [memory.get(key) for key in (low, high)]
    rocks.destroy()


def test_a_closed_store_keeps_everything(tmp_path):
    store = RocksStore(tmp_path / "s")
    store.write([(b"a", b"1")], [])
    store.close()
    store.close()
    again = RocksStore(tmp_path / "s")
    assert again.get(b"a") == b"1"
    again.close()


def test_a_store_that_is_opened_again_reads_through_the_shared_cache(tmp_path):
    RocksStore(tmp_path).close()
    memory = RocksMemory()
    again = RocksStore(tmp_path, memory)
    again.write([(b"%d" % n, bytes(1_000)) for n in range(1_000)], [])
    again.close()
    before = memory.cache.get_usage()
    again = RocksStore(tmp_path, memory)
    assert [row for n in range(1_000) if (row := again.get(b"%d" % n)) is None] == []
    assert memory.cache.get_usage() > before
    again.close()


def test_a_store_has_one_owner(tmp_path):
    store = RocksStore(tmp_path / "s")
    with pytest.raises(StoreInUseError) as refused:
        RocksStore(tmp_path / "s")
    assert refused.value.code == "store-in-use"
    held = "from pathlib import Path; from duraton_streams.state.rocksdb import RocksStore; RocksStore(Path(%r))"
    other = child(held % str(tmp_path / "s"))
    assert "StoreInUseError" in other.stderr
    store.close()


def test_what_is_no_store_is_told_apart(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(StateError, match="cannot be opened"):
        RocksStore(tmp_path / "file")
    store = RocksStore(tmp_path / "s")
    store.close()
    (tmp_path / "s" / "CURRENT").write_text("MANIFEST-nonsense\n")
    with pytest.raises(StoreMismatchError):
        RocksStore(tmp_path / "s")


def test_a_store_that_cannot_be_closed_hides_nothing(tmp_path, caplog):
    store = RocksStore(tmp_path / "s")
    rows, store._rows = store._rows, None
    store.close()
    assert "not closed cleanly" in caplog.text
    rows.close()


def test_a_store_that_cannot_be_read_says_so(tmp_path):
    store = RocksStore(tmp_path / "s")
    store._rows.close()
    with pytest.raises(StateError, match="cannot be read"):
        store.get(b"k")
    with pytest.raises(StateError, match="cannot be read"):
        store.scan(b"a", b"b", 10)


KILLED = """
import os, signal
from pathlib import Path
from duraton_streams.state.rocksdb import RocksMemory, RocksSettings, RocksStore
store = RocksStore(Path({path!r}), RocksMemory(RocksSettings(buffer_bytes=65536, wal={wal})))
for n in range(1, 2001):
    rows = [(b"a" + bytes([n % 50]), n.to_bytes(4, "big") + bytes(100)), (b"b" + bytes([n % 7]), n.to_bytes(4, "big"))]
    store.write([*rows, (b"position", n.to_bytes(4, "big"))], [b"a" + bytes([(n + 25) % 50])])
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("wal", [False, True])
def test_after_a_kill_the_store_is_that_of_some_batch(tmp_path, wal):
    died = child(KILLED.format(path=str(tmp_path / "s"), wal=wal))
    assert died.returncode == -signal.SIGKILL
    store = RocksStore(tmp_path / "s", RocksMemory(RocksSettings(buffer_bytes=65536)))
    position = int.from_bytes(store.get(b"position") or b"", "big")
    assert position == 2000 if wal else position > 500
    want = {}
    for n in range(1, position + 1):
        want[b"a" + bytes([n % 50])] = want[b"b" + bytes([n % 7])] = n
        want.pop(b"a" + bytes([(n + 25) % 50]), None)
    rows = store.scan(b"a", b"c", 1000)
    assert {key: int.from_bytes(value[:4], "big") for key, value in rows} == want
    store.close()


def child(program):
    root = Path(__file__).parents[2]
    path = os.pathsep.join(str(root / name) for name in ("schemas", "streams"))
    return subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
