"""Reads of a database that is not opened for use: no lock, no flush."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from pystreams.stores.dirty_map.opening import first_entry
from pystreams.stores.engines.rocksdb.database import OFFSETS_CF
from pystreams.stores.engines.rocksdb.inspection import OpenedToRead, opened_copy

if TYPE_CHECKING:
    from pathlib import Path


def read_metadata(name: str, directory: Path) -> dict[bytes, bytes]:
    """Return what is in the column family `offsets`; nothing where there is no database.

    Args:
        directory: One of which this process is the only user; it may write there.

    Raises:
        StateStoreError: It can't be read, or is damaged.
    """
    with closing(OpenedToRead(name, directory)) as opened:
        return _metadata_of(opened)


def read_metadata_of_copy(name: str, directory: Path) -> dict[bytes, bytes]:
    """Return the same of a database that may be open elsewhere; nothing in its directory changes.

    Args:
        directory: As `opened_copy`.

    Raises:
        StateStoreError: It can't be read, or is damaged.
    """
    with opened_copy(name, directory, lambda copy: OpenedToRead(name, copy)) as opened:
        return _metadata_of(opened)


def holds_entries(name: str, directory: Path) -> bool:
    """Return whether there is anything in the other column families.

    Args:
        directory: As `read_metadata`.

    Raises:
        StateStoreError: It can't be read, or is damaged.
    """
    with closing(OpenedToRead(name, directory)) as opened:
        return any(
            first_entry(opened.entries(family)) is not None
            for family in opened.families
            if family != OFFSETS_CF
        )


def _metadata_of(opened: OpenedToRead) -> dict[bytes, bytes]:
    return dict(opened.entries(OFFSETS_CF)) if OFFSETS_CF in opened.families else {}
