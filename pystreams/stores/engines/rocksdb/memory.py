"""What all RocksDB stores of a process hold together: one block cache, one memtable budget."""

from __future__ import annotations

from typing import NamedTuple

from rocksdict import Cache, WriteBufferManager


class MemoryUsage(NamedTuple):
    """What all RocksDB stores of the process hold now, and may hold, in bytes.

    Attributes:
        block_cache: Blocks, indexes and filters in the cache.
        pinned: The part of them that is in use.
        block_cache_capacity: Limit of the cache.
        write_buffers: Memtables.
        write_buffers_capacity: What they are flushed for when they grow beyond it.
    """

    block_cache: int
    pinned: int
    block_cache_capacity: int
    write_buffers: int
    write_buffers_capacity: int


class RocksDBMemory:
    """The memory all RocksDB stores of a process share: one block cache, one memtable budget.

    There is one object a process, `MEMORY`; the runtime sets its totals at start. Both totals can
    change while databases are open. Index and filter blocks live in the block cache, so the two
    totals bound what RocksDB holds, up to the block each open iterator pins.

    Attributes:
        write_buffer_bytes: Memtables of all stores together; beyond it, memtables are flushed.
    """

    def __init__(self, block_cache_bytes: int, write_buffer_bytes: int) -> None:
        self.block_cache_bytes = block_cache_bytes
        self.write_buffer_bytes = write_buffer_bytes
        self.cache = Cache(block_cache_bytes)
        # Never stall writers: exceeding the budget by what a commit adds is better than waiting.
        self.write_buffer_manager = WriteBufferManager(write_buffer_bytes, allow_stall=False)

    def configure(self, block_cache_bytes: int, write_buffer_bytes: int) -> None:
        """Set both totals, in bytes; called by the runtime at start, also while stores are open.

        Several clients in one process share the memory: the one started last decides.
        """
        self.block_cache_bytes = block_cache_bytes
        self.write_buffer_bytes = write_buffer_bytes
        self.cache.set_capacity(block_cache_bytes)
        self.write_buffer_manager.set_buffer_size(write_buffer_bytes)

    def used_bytes(self) -> int:
        """Return what the block cache and the memtables hold now."""
        return self.cache.get_usage() + self.write_buffer_manager.get_usage()

    def memtables_are_short(self) -> bool:
        """Return whether RocksDB may flush memtables before they are full (WriteBufferManager)."""
        return self.write_buffer_manager.get_usage() > self.write_buffer_bytes * 7 // 8

    def usage(self) -> MemoryUsage:
        """Return what is held now, part by part; any thread may ask."""
        return MemoryUsage(
            block_cache=self.cache.get_usage(),
            pinned=self.cache.get_pinned_usage(),
            block_cache_capacity=self.block_cache_bytes,
            write_buffers=self.write_buffer_manager.get_usage(),
            write_buffers_capacity=self.write_buffer_bytes,
        )


MEMORY = RocksDBMemory(block_cache_bytes=128 << 20, write_buffer_bytes=64 << 20)
"""The one owner of RocksDB's memory in this process."""
