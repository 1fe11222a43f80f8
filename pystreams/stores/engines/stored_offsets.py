"""Reads how far a store on the disk is, without opening it for use: nothing of it changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pystreams.stores.contracts.state_store import identity_noted
from pystreams.stores.dirty_map.opening import was_left_open
from pystreams.stores.engines.rocksdb.metadata import holds_entries, read_metadata
from pystreams.stores.files.metadata import (
    CHANGELOG_ID,
    OFFSET_UNKNOWN,
    tells_of_data,
    unpack_long,
)

if TYPE_CHECKING:
    from pathlib import Path

    from pystreams.ids import TopicPartition


class StoredState(NamedTuple):
    """What a RocksDB store on the disk says of itself; of one that is not there, nothing.

    Attributes:
        offset: The offset of the last changelog record in its data; None if that is not known.
        topic: The identity of that changelog's topic; None if that is not known.
        holds_entries: Whether there are data in it.
        holds_nothing: Whether it holds nothing, and never did.
        was_left_open: Whether it writes through and was not closed after its last use.
    """

    offset: int | None
    topic: bytes | None
    holds_entries: bool
    holds_nothing: bool
    was_left_open: bool


def stored_state(task_directory: Path, store: str, changelog: TopicPartition) -> StoredState:
    """Return what a RocksDB store says of itself.

    Args:
        task_directory: The task's directory, which nobody has open.

    Raises:
        StateStoreError: It can't be read, or is damaged.
    """
    directory = task_directory / "rocksdb" / store
    metadata = read_metadata(store, directory)
    packed = metadata.get(str(changelog).encode())
    offset = OFFSET_UNKNOWN if packed is None else int(unpack_long(packed)[0])
    filled = holds_entries(store, directory)
    return StoredState(
        offset if offset >= 0 else None,
        identity_noted(metadata.get(CHANGELOG_ID)),
        filled,
        not filled and not tells_of_data(metadata),
        was_left_open(metadata),
    )
