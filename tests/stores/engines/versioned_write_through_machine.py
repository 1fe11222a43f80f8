"""Random lives of versioned stores that write through, under exactly-once.

A put has several rows, and a batch may end between two of them: here after each. So what has
reached the engine is nothing a rollback could stop at: the store is wiped then, and restored from
its changelog.
"""

from __future__ import annotations

from copy import deepcopy

from hypothesis.stateful import rule

from pystreams import IsolationLevel, StateStoreCorruptedError, StoreEngine
from tests.stores.engines.write_through_machine import SmallBatches
from tests.stores.kinds.test_versioned_store_state_machine import Model, VersionedStoreMachine

_RESTORED_TOGETHER = 5


class WriteThroughVersionedMachine(SmallBatches, VersionedStoreMachine):
    """Readers at either level see all that is written."""

    transactional = False
    exactly_once = True
    batch_records = 1

    def open(self) -> None:
        try:
            super().open()
        except StateStoreCorruptedError:
            self.shop.store.destroy()
            super().open()
            self.shop.offset = self.flushed_offset = -1
            self.flushed = Model()

    def seen_by(self, level: IsolationLevel) -> Model:
        return self.current

    def ahead(self) -> bool:
        """Whether the engine may hold what is not committed."""
        return self.current.puts != self.committed.puts

    @rule()
    def roll_back(self) -> None:
        ahead = self.ahead()
        super().roll_back()
        if ahead:
            self.rebuild(_RESTORED_TOGETHER)

    @rule()
    def close_ahead_of_the_commit(self) -> None:
        """A store that was closed like that is not trusted when it is opened again."""
        if not self.ahead() or not self.shop.store.persistent:
            return
        self.shop.home.changelog.records.clear()
        self.current = deepcopy(self.committed)
        self.shop.store.close()
        self.flushed, self.flushed_offset = deepcopy(self.committed), self.shop.offset
        self.open()
        self.restore_rest(_RESTORED_TOGETHER)


class RocksDBWriteThroughVersionedMachine(WriteThroughVersionedMachine):
    engine = StoreEngine.ROCKSDB


VERSIONED = (WriteThroughVersionedMachine, RocksDBWriteThroughVersionedMachine)
