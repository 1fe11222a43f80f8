"""Reads how far a store on the disk is, without opening it for use: nothing of it changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pystreams.stores.dirty_map.opening import check_status
from pystreams.stores.engines.rocksdb.metadata import read_metadata
from pystreams.stores.files.metadata import CHANGELOG_ID, OFFSET_UNKNOWN, unpack_long

if TYPE_CHECKING:
    from pathlib import Path

    from pystreams.ids import TopicPartition


def stored_offset(
    task_directory: Path, store: str, changelog: TopicPartition, *, exactly_once: bool
) -> tuple[int | None, bytes | None]:
    """Return the offset of the last changelog record in a RocksDB store, and its topic's identity.

    None for what is not known.

    Args:
        task_directory: The task's directory, which nobody has open.
        exactly_once: Whether what is not committed must leave no trace.

    Raises:
        StateStoreError: It can't be read, or is damaged; or was not closed, which can't be trusted
            under exactly-once.
    """
    directory = task_directory / "rocksdb" / store
    metadata = read_metadata(store, directory)
    if exactly_once:
        check_status(store, metadata)
    packed = metadata.get(str(changelog).encode())
    offset = OFFSET_UNKNOWN if packed is None else int(unpack_long(packed)[0])
    return None if offset == OFFSET_UNKNOWN else offset, metadata.get(CHANGELOG_ID)
