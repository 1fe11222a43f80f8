"""The memory that all RocksDB stores of this process share: set at start, read by metrics."""

from __future__ import annotations

from pystreams.stores.engines.rocksdb import MEMORY
from pystreams.stores.engines.rocksdb.memory import MemoryUsage


def configure_shared_memory(*, block_cache_bytes: int, write_buffer_bytes: int) -> None:
    """Set what all RocksDB stores of this process may hold together, in bytes.

    Called by the runtime at start; may be called again while stores are open. Several clients in
    one process share the memory too: the one started last decides.
    """
    MEMORY.configure(block_cache_bytes, write_buffer_bytes)


def shared_memory_usage() -> MemoryUsage:
    """Return what all RocksDB stores of this process hold now; any thread may ask."""
    return MEMORY.usage()
