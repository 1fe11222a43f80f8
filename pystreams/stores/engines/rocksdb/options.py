"""The options of our databases; the package's text says why they are as they are."""

from __future__ import annotations

import os

from rocksdict import BlockBasedOptions, DBCompactionStyle, DBCompressionType, Options

from pystreams.stores.engines.rocksdb.memory import MEMORY

WRITE_BUFFER_BYTES = 4 << 20
"""Size of a memtable; the package's text says why it is small."""
_OFFSETS_WRITE_BUFFER_BYTES = 1 << 20
_WRITE_BUFFERS = 3
_BLOOM_BITS_PER_KEY = 10


def store_options() -> Options:
    """Return the data's options, before the user's hook. Spec: Kafka RocksDBStore.openDB."""
    table = BlockBasedOptions()
    table.set_block_cache(MEMORY.cache)
    table.set_block_size(4 << 10)
    table.set_bloom_filter(_BLOOM_BITS_PER_KEY, block_based=False)
    table.set_cache_index_and_filter_blocks(True)
    table.set_pin_l0_filter_and_index_blocks_in_cache(True)
    options = Options(raw_mode=True)
    options.set_block_based_table_factory(table)
    options.set_write_buffer_manager(MEMORY.write_buffer_manager)
    options.set_write_buffer_size(WRITE_BUFFER_BYTES)
    options.set_max_write_buffer_number(_WRITE_BUFFERS)
    options.set_compaction_style(DBCompactionStyle.universal())
    options.set_compression_type(DBCompressionType.none())
    options.increase_parallelism(max(os.cpu_count() or 1, 2))
    options.set_keep_log_file_num(1)
    return options


def offsets_options() -> Options:
    """Return the options of the `offsets` family: little data, written often."""
    options = Options(raw_mode=True)
    options.set_compression_type(DBCompressionType.none())
    options.set_write_buffer_size(_OFFSETS_WRITE_BUFFER_BYTES)
    return options


def crash_safe(options: Options) -> None:
    """Set what correctness rests on, after the user's hook."""
    options.create_if_missing(True)
    options.create_missing_column_families(True)
    options.set_atomic_flush(True)
