"""Ordered reads of a store's owner: the dirty map merged with the engine.

`merged_range` goes along with what the owner writes meanwhile, however much there is to read;
`merged_entries` takes what there is now, at a third of the cost for a few entries.

The dirty map is not copied. What has been deleted is walked over once, and then known as a gap, as
far as reads meet it first: see `known_gap`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pystreams.stores.contracts.key_value import KeyValueIterator
    from pystreams.stores.dirty_map.known_gap import KnownGap
    from pystreams.stores.dirty_map.sorted_keys import SortedKeys

Entries = Generator[tuple[bytes, bytes], None, None]


class MergedStore(Protocol):
    """What is read: see `BufferedKeyValueStore` for each of these."""

    dirty: dict[bytes, bytes | None]
    gap: KnownGap
    generation: int
    sorted_keys: SortedKeys

    def engine_range(
        self, start: bytes | None, end: bytes | None, *, reverse: bool = False
    ) -> KeyValueIterator[bytes, bytes]:
        """Iterate over committed bytes."""


def merged_range(
    store: MergedStore,
    start: bytes | None,
    end: bytes | None,
    *,
    reverse: bool,
    none_committed: bool = False,
) -> Entries:
    """Iterate from `start` (inclusive) to `end` (exclusive), in or against key order.

    The owner may write, commit and roll back while the iterator is open: what lies ahead of it is
    then read as it is now.

    Args:
        start: Where to begin; None for the first key.
        end: Where to end; None for behind the last key.
        reverse: Whether to go against key order.
        none_committed: The engine is left out, as far as it goes now: the caller knows that it has
            nothing of what is wanted. It may have something else in the range, so that a stretch in
            which nothing was written is no gap.
    """
    dirty, gap = store.dirty, store.gap
    asked_start, skipped = start, 0
    generation = store.generation if none_committed else -1
    first = not reverse and not none_committed
    committed: Iterator[tuple[bytes, bytes]] = iter(())
    head: tuple[bytes, bytes] | None = None
    start, is_empty = gap.start_behind(start, end)
    if is_empty:
        return
    while True:
        if generation != store.generation:
            generation = store.generation
            committed = store.engine_range(start, end, reverse=reverse)
            head = next(committed, None)
        known = len(dirty)
        dirty_keys = store.sorted_keys.walk(start, end, reverse=reverse)
        dirty_key = next(dirty_keys, None)
        while True:
            if head is not None and (
                dirty_key is None or (head[0] > dirty_key if reverse else head[0] < dirty_key)
            ):
                key, value = head
                head = next(committed, None)
            elif dirty_key is None:
                if first:
                    gap.found(asked_start, end, skipped)
                return
            else:
                key, written = dirty_key, dirty[dirty_key]
                dirty_key = next(dirty_keys, None)
                if head is not None and head[0] == key:
                    head = next(committed, None)
                if written is None:
                    skipped += 1
                    continue
                value = written
            if first:
                gap.found(asked_start, key, skipped)
                first = False
            yield key, value
            if known != len(dirty) or generation != store.generation:
                break
        # The owner wrote another key, committed or rolled back: look anew at what lies ahead.
        start, end = (start, key) if reverse else (key + b"\x00", end)


def merged_entries(
    store: MergedStore, start: bytes, end: bytes | None
) -> list[tuple[bytes, bytes]]:
    """Return what there is now from `start` (inclusive) to `end` (exclusive), in key order.

    Args:
        end: Where to end; None for behind the last key.
    """
    gap = store.gap
    begin, is_empty = gap.start_behind(start, end)
    if is_empty:
        return []
    committed = list(store.engine_range(begin, end))
    written = store.sorted_keys.between(begin, end)
    if not written:
        entries = committed
    else:
        dirty = store.dirty
        merged: dict[bytes, bytes | None] = dict(committed)
        for key in written:
            merged[key] = dirty[key]
        entries = [(key, value) for key, value in merged.items() if value is not None]
        if committed:
            entries.sort()
    first = entries[0][0] if entries else end
    gap.found(start, first, len(written) if first is None else bisect_left(written, first))
    return entries
