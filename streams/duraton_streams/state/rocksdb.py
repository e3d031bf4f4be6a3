"""A store in RocksDB: one directory a partition.

Writes go to RocksDB's own log, unsynced: the journal is what is durable, and a
killed process finds what it wrote. Without it a kill would lose whatever stood in
write buffers, and where runs end soon those fill so slowly that hours would have to
be replayed. (Measured: 0.6 µs a row and 15 to 45 µs a batch; batches are seldom.)
After a power cut the store is the state at some earlier batch, and the journal is
applied from there.
"""

import logging
import re
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from rocksdict import (
    BlockBasedIndexType,
    BlockBasedOptions,
    Cache,
    DBCompressionType,
    Options,
    Rdict,
    ReadOptions,
    WriteBatch,
    WriteBufferManager,
    WriteOptions,
)

from duraton_streams.errors import StateError, StoreInUseError, StoreMismatchError
from duraton_streams.state.store import SCAN_BYTES_MAX, Row

_log = logging.getLogger("duraton.state")

_LOCKED = re.compile(r"lock hold by|lock file", re.IGNORECASE)
_FOREIGN = re.compile(r"corruption|invalid argument|not supported", re.IGNORECASE)
_LOG_BYTES_MAX = 1 << 20
_LOG_FILES = 2
_INDEX_BLOCK_BYTES = 4096


@dataclass(frozen=True)
class RocksSettings:
    """How a RocksDB store uses memory and disk.

    Attributes:
        cache_bytes: Blocks, indexes and filters in memory, for all stores together.
        buffers_bytes: Write buffers in memory, for all stores together.
        buffer_bytes: One write buffer, written out when full; a store has up to two.
        bloom_bits: Bits a key of the filters that spare look-ups of absent keys.
        open_files: Files that one store keeps open.
        background_jobs: Threads that write out and compact.
        wal: Whether RocksDB keeps its own log as well (not synced). The journal could
            give everything back, but a killed process would lose what stood in write
            buffers, and runs that end soon write so little that this may be hours.
    """

    cache_bytes: int = 32 << 20
    buffers_bytes: int = 48 << 20
    buffer_bytes: int = 8 << 20
    bloom_bits: int = 10
    open_files: int = 256
    background_jobs: int = 2
    wal: bool = True


class RocksMemory:
    """What the stores of one process share: their cache and the bound on their buffers."""

    def __init__(self, settings: RocksSettings | None = None) -> None:
        self.settings = settings or RocksSettings()
        self.cache = Cache(self.settings.cache_bytes)
        self.buffers = WriteBufferManager(self.settings.buffers_bytes, allow_stall=False)

    def options(self) -> Options:
        """The options of one store."""
        settings = self.settings
        blocks = BlockBasedOptions()
        blocks.set_block_cache(self.cache)
        blocks.set_cache_index_and_filter_blocks(True)
        blocks.set_pin_l0_filter_and_index_blocks_in_cache(True)
        blocks.set_bloom_filter(settings.bloom_bits, False)
        # In one piece, the index of a file of 64 MB would not fit the cache's share for
        # one block and be read and unpacked again for every row (measured: 140 µs a row, not 10).
        blocks.set_index_type(BlockBasedIndexType.two_level_index_search())
        blocks.set_partition_filters(True)
        blocks.set_metadata_block_size(_INDEX_BLOCK_BYTES)
        blocks.set_pin_top_level_index_and_filter(True)
        options = Options(raw_mode=True)
        options.create_if_missing(True)
        options.set_block_based_table_factory(blocks)
        options.set_write_buffer_manager(self.buffers)
        options.set_write_buffer_size(settings.buffer_bytes)
        options.set_max_write_buffer_number(2)
        options.set_compression_type(DBCompressionType.lz4())
        options.set_max_open_files(settings.open_files)
        options.set_max_background_jobs(settings.background_jobs)
        options.set_max_log_file_size(_LOG_BYTES_MAX)
        options.set_keep_log_file_num(_LOG_FILES)
        options.set_stats_dump_period_sec(0)
        return options


class RocksStore:
    """Rows in a RocksDB directory; one owner at a time.

    Args:
        path: The directory; made where it is not there.
        memory: What it shares with other stores of this process.

    Raises:
        StoreInUseError: Another process, or another store of this one, holds it.
        StoreMismatchError: What is there is damaged or no store of ours.
        StateError: The directory cannot be used.
    """

    def __init__(self, path: Path, memory: RocksMemory | None = None) -> None:
        self.path = path
        shared = memory or RocksMemory()
        try:
            path.mkdir(parents=True, exist_ok=True)
            options = shared.options()
            # For a store that is there, only a family's own options count: those given
            # for the whole would be ignored in favour of what the files remember, which
            # is neither cache nor filter.
            self._rows = Rdict(str(path), options, column_families={"default": options})
        except Exception as error:  # rocksdict raises bare Exceptions, told apart by their text
            raise _opening_error(path, str(error)) from error
        self._write = WriteOptions()
        self._write.disable_wal = not shared.settings.wal  # type: ignore[method-assign, assignment]  # a property that its stub calls a method
        self._closed = False

    def get(self, key: bytes) -> bytes | None:
        try:
            value: bytes | None = self._rows.get(key)
        except Exception as error:  # as above
            raise self._unreadable(error) from error
        return value

    def scan(self, low: bytes, high: bytes, limit: int) -> list[Row]:
        rows: list[Row] = []
        if limit <= 0 or low >= high:
            return rows
        bounds = ReadOptions()
        bounds.set_iterate_upper_bound(high)
        size = 0
        try:
            found = cast("Iterator[Row]", self._rows.items(from_key=low, read_opt=bounds))
            for row in found:
                rows.append(row)
                size += len(row[1])
                if len(rows) >= limit or size >= SCAN_BYTES_MAX:
                    break
        except Exception as error:  # as above
            raise self._unreadable(error) from error
        return rows

    def write(self, puts: Iterable[Row], deletes: Iterable[bytes]) -> None:
        batch = WriteBatch(raw_mode=True)
        put, delete = batch.put, batch.delete
        for key, value in puts:
            put(key, value)
        for key in deletes:
            delete(key)
        try:
            self._rows.write(batch, self._write)
        except Exception as error:  # as above
            raise StateError(f"the store {self.path} cannot be written: {error}") from error

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            try:
                self._rows.close()
            except Exception as error:  # noqa: BLE001 - as above; a full disk, for example
                # The log has it all; why the engine ends must not be hidden by this.
                _log.warning("the store %s was not closed cleanly: %s", self.path, error)

    def _unreadable(self, error: Exception) -> StateError:
        return StateError(f"the store {self.path} cannot be read: {error}")

    def destroy(self) -> None:
        self.close()
        shutil.rmtree(self.path, ignore_errors=True)


def _opening_error(path: Path, text: str) -> StateError:
    if _LOCKED.search(text):
        return StoreInUseError(f"the store {path} is held by another engine")
    if _FOREIGN.search(text):
        return StoreMismatchError(f"the store {path} cannot be read: {text}")
    return StateError(f"the store {path} cannot be opened: {text}")
