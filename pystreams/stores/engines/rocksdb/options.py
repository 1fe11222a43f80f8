"""The options of our databases; the package's text says why they are as they are."""

from __future__ import annotations

import os
from typing import Any

from rocksdict import BlockBasedOptions, DBCompactionStyle, DBCompressionType, Options

from pystreams.errors import ConfigError
from pystreams.stores.engines.rocksdb.memory import MEMORY

WRITE_BUFFER_BYTES = 4 << 20
"""Size of a memtable; the package's text says why it is small."""
_OFFSETS_WRITE_BUFFER_BYTES = 1 << 20
WRITE_BUFFERS = 3
"""Memtables that may wait for their flush; with more, writes wait."""
_BLOOM_BITS_PER_KEY = 10

_OWN_MEMORY = frozenset(
    {
        "set_cuckoo_table_factory",
        "set_db_write_buffer_size",
        "set_plain_table_factory",
        "set_row_cache",
        "set_write_buffer_manager",
    }
)
"""Options that would give a store memory beside the shared totals."""


class StoreOptions:
    """What `rocksdb.config.setter` is given: RocksDB's options, all but the shared memory.

    Every method of `rocksdict.Options` is there. A table format of the user's own
    (`set_block_based_table_factory`) is taken, over the shared block cache and with index and
    filter blocks in it. What would take memory beside the shared totals is refused, and what the
    safety after a crash rests on is set afterwards (`crash_safe`).

    Args:
        store_name: The store's name, for messages.
        options: The options that the store opens with.

    Differs from Kafka: there the table format can't be replaced, only changed in place, and each
    store has a cache of its own unless the setter gives it another.
    """

    __slots__ = ("_options", "_store_name")

    def __init__(self, store_name: str, options: Options) -> None:
        self._store_name = store_name
        self._options = options

    def set_block_based_table_factory(self, table: BlockBasedOptions) -> None:
        """Use a table format; its block cache is the shared one, whatever it was."""
        self._options.set_block_based_table_factory(_over_shared_cache(table))

    def __getattr__(self, name: str) -> Any:
        if name in _OWN_MEMORY:
            raise ConfigError(
                f"rocksdb.config.setter: {name} would give state store {self._store_name!r} memory "
                "beside what all stores share: set statestore.rocksdb.block.cache.bytes or "
                "statestore.rocksdb.write.buffer.bytes instead"
            )
        return getattr(self._options, name)


def store_options() -> Options:
    """Return the data's options, before the user's hook. Spec: Kafka RocksDBStore.openDB."""
    table = BlockBasedOptions()
    table.set_block_size(4 << 10)
    table.set_bloom_filter(_BLOOM_BITS_PER_KEY, block_based=False)
    table.set_pin_l0_filter_and_index_blocks_in_cache(True)
    options = Options(raw_mode=True)
    options.set_block_based_table_factory(_over_shared_cache(table))
    options.set_write_buffer_manager(MEMORY.write_buffer_manager)
    options.set_write_buffer_size(WRITE_BUFFER_BYTES)
    options.set_max_write_buffer_number(WRITE_BUFFERS)
    options.set_compaction_style(DBCompactionStyle.universal())
    options.set_compression_type(DBCompressionType.none())
    options.increase_parallelism(max(os.cpu_count() or 1, 2))
    options.set_keep_log_file_num(1)
    return options


def offsets_options() -> Options:
    """Return the options of the `offsets` family: little data, written often."""
    options = Options(raw_mode=True)
    options.set_block_based_table_factory(_over_shared_cache(BlockBasedOptions()))
    options.set_compression_type(DBCompressionType.none())
    options.set_write_buffer_size(_OFFSETS_WRITE_BUFFER_BYTES)
    return options


def crash_safe(options: Options) -> None:
    """Set what correctness rests on, after the user's hook.

    RocksDB writes no statistics into its log now and then: it looks at dropped column families as
    well, and one that a reader still has an iterator over ends the process (rocksdict 0.3.29;
    facebook/rocksdb pull request 13900).
    """
    options.create_if_missing(True)
    options.create_missing_column_families(True)
    options.set_atomic_flush(True)
    options.set_stats_dump_period_sec(0)


def _over_shared_cache(table: BlockBasedOptions) -> BlockBasedOptions:
    """Let a table format keep its blocks, index and filter blocks included, in the shared cache."""
    table.set_block_cache(MEMORY.cache)
    table.set_cache_index_and_filter_blocks(True)
    return table
