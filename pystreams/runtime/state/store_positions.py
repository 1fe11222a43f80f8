"""What input the stores of one task reflect: kept once a run of records, not once a record.

The task says after each run how far it has come; a `Position` is made of that when somebody asks.
Where a store stood when the task started comes from two sources: a store that was restored from
its changelog reflects the input up to the group's committed offsets; one without a changelog
reflects what it says itself.

Invariants, at any moment and for readers of any thread:
- `_processed` is not ahead of what the owner's stores hold, committed or not: it moves after a run.
- `_forwarded` is not ahead of what has left the record caches: a store fed by another store has
  seen no more than that.
- `_committed` is not ahead of any store's committed data: it moves after all stores have committed.
So whoever reads a position first and the store second finds at least what the position says. Only
a rollback in between takes something away, which is what reading uncommitted data means.

Threads: the task's thread writes; others read each dict as a whole, in one atomic copy.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pystreams.config.guarantee import IsolationLevel
from pystreams.ids import TopicPartition
from pystreams.stores.contracts.position import Position


class StorePositions:
    """Positions of the stores of one task.

    Args:
        logged: Stores that have a changelog.
        fed_by_stores: Stores that hear of some input only through other stores of the task.
    """

    __slots__ = (
        "_committed",
        "_fed_by_stores",
        "_forwarded",
        "_logged",
        "_processed",
        "_starts",
        "_told",
    )

    def __init__(self, logged: Collection[str], fed_by_stores: Collection[str]) -> None:
        self._logged = logged
        self._fed_by_stores = fed_by_stores
        self._starts: dict[str, Position] = {}
        self._processed: dict[TopicPartition, int] = {}
        self._forwarded: dict[TopicPartition, int] = {}
        self._committed: dict[TopicPartition, int] = {}
        # Of each store, what was told of which commit behind which start.
        self._told: dict[str, tuple[object, object, Position]] = {}

    def open(self, found: Mapping[str, Position]) -> None:
        """Take note of what the stores say of themselves, before they are restored."""
        self._starts = dict(found)

    def start(self, next_offsets: Mapping[TopicPartition, int]) -> None:
        """Take note that all changelogs are restored to their ends, and begin anew.

        Args:
            next_offsets: The group's committed offsets: the next ones to read.
        """
        restored = Position({key: offset - 1 for key, offset in next_offsets.items() if offset})
        self._starts = {
            name: restored if name in self._logged else self.committed_of(name)
            for name in self._starts
        }
        self._processed, self._forwarded, self._committed = {}, {}, {}

    def processed(self, partition: TopicPartition, next_offset: int, *, forwarded: bool) -> None:
        """Take note of a run.

        Args:
            partition: What was read.
            next_offset: The offset of the first record that was not processed.
            forwarded: Whether no record cache of the task holds anything back.
        """
        self._processed[partition] = next_offset - 1
        if forwarded:
            self._forwarded[partition] = next_offset - 1

    def flushed(self) -> None:
        """Take note that all record caches were flushed."""
        self._forwarded.update(self._processed)

    def committed(self) -> None:
        """Take note that all stores have committed what was processed."""
        self._committed = self._processed.copy()

    def rolled_back(self) -> None:
        """Take note that all stores are back at the last commit."""
        self._processed = self._committed.copy()
        self._forwarded = self._committed.copy()

    def of(self, store: str, isolation_level: IsolationLevel) -> Position:
        """Return what a store reflects, as a reader at an isolation level sees it; any thread."""
        if isolation_level is IsolationLevel.READ_COMMITTED:
            return self.committed_of(store)
        return self.uncommitted_of(store)

    def committed_of(self, store: str) -> Position:
        """Return what a store's committed data reflects, at least; any thread.

        Of one commit it is told again and again: that costs next to nothing.
        """
        committed, starts = self._committed, self._starts
        told = self._told.get(store)
        if told is not None and told[0] is committed and told[1] is starts:
            return told[2]
        position = _moved(starts.get(store), committed)
        self._told[store] = committed, starts, position
        return position

    def uncommitted_of(self, store: str) -> Position:
        """Return what a store reflects, committed or not, at least; any thread."""
        behind_caches = store in self._fed_by_stores
        moved = self._forwarded if behind_caches else self._processed
        return _moved(self._starts.get(store), moved)


def _moved(start: Position | None, since_start: dict[TopicPartition, int]) -> Position:
    moved = Position(since_start)
    return moved if start is None else start.merge(moved)
