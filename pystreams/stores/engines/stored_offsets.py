"""Reads how far a store on the disk is, without opening it for use: nothing of it changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pystreams.stores.engines.rocksdb.metadata import read_metadata
from pystreams.stores.files.metadata import CHANGELOG_ID, OFFSET_UNKNOWN, unpack_long

if TYPE_CHECKING:
    from pathlib import Path

    from pystreams.ids import TopicPartition


def stored_offset(
    task_directory: Path, store: str, changelog: TopicPartition
) -> tuple[int | None, bytes | None]:
    """Return the offset of the last changelog record in a RocksDB store, and its topic's identity.

    None for what is not known.

    Args:
        task_directory: The task's directory, which nobody has open.

    Raises:
        StateStoreError: It can't be read, or is damaged.
    """
    directory = task_directory / "rocksdb" / store
    metadata = read_metadata(store, directory)
    packed = metadata.get(str(changelog).encode())
    offset = OFFSET_UNKNOWN if packed is None else int(unpack_long(packed)[0])
    return None if offset == OFFSET_UNKNOWN else offset, metadata.get(CHANGELOG_ID)
