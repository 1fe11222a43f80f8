"""Makes room in the shared memtables by letting stores that are idle flush theirs.

When all memtables together come near their budget, RocksDB flushes the database that is being
written to, however little it holds: it does not look at the others. Idle stores keep what they
hold; a busy one is flushed with every commit, a few files each time. Measured: 49 idle stores with
1.5 MB each, 200 small commits to the fiftieth: 581 files and 34 ms a commit.

An empty write to an idle store is a write as well, which RocksDB answers by flushing that store,
all its families together, as it always does: the flush is the one that its next commit would have
met. So before a commit, when memory is short, the stores written longest ago get such a write; the
busy one keeps its memtable. In the same measurement: 27 files, 1 ms a commit.

Threads: all share one list, as they share the budget: the idle stores of one thread would starve
the busy ones of another (9 idle stores, 60 small commits of another thread: 164 files instead of
none). So a thread may let the database of another one flush, which that one can't close meanwhile.
"""

from __future__ import annotations

import threading
from itertools import islice
from typing import Protocol

from pystreams.stores.engines.rocksdb.memory import MEMORY

_AT_ONCE = 4
"""Stores that are asked before one commit; some may hold nothing."""


class Flushable(Protocol):
    """A database that can be asked to flush its memtables."""

    def flush_if_memory_is_short(self) -> bool:
        """Let RocksDB decide; return False when the database is closed."""


class IdleMemtables:
    """The databases that were written to, that written longest ago first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._databases: dict[Flushable, None] = {}

    def make_room(self, writing: Flushable) -> None:
        """Let idle databases flush if memory is short; called before `writing` is written to."""
        with self._lock:
            self._databases.pop(writing, None)
            self._databases[writing] = None
            if not MEMORY.memtables_are_short():
                return
            asked = list(islice(self._databases, min(_AT_ONCE, len(self._databases) - 1)))
            for database in asked:  # Who asks next asks others.
                self._databases[database] = self._databases.pop(database)
        for database in asked:
            if not database.flush_if_memory_is_short():
                self.forget(database)

    def forget(self, database: Flushable) -> None:
        """Forget a database that closes."""
        with self._lock:
            self._databases.pop(database, None)


IDLE_MEMTABLES = IdleMemtables()
"""Those of this process."""
