"""Reads of a database that is not opened for use: no lock, no flush, no new file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pystreams.stores.dirty_map.opening import first_entry
from pystreams.stores.engines.rocksdb.database import OFFSETS_CF, Database
from pystreams.stores.engines.rocksdb.inspection import opened_to_read

if TYPE_CHECKING:
    from pathlib import Path


def read_metadata(name: str, directory: Path) -> dict[bytes, bytes]:
    """Return what is in the column family `offsets`; nothing where there is no database.

    Raises:
        StateStoreError: It can't be read, or is damaged.
    """
    database = Database(name)
    families = _families(database, directory)
    if OFFSETS_CF not in families:
        return {}
    with opened_to_read(database, families) as native:
        return dict(database.iterate(native.get_column_family(OFFSETS_CF)))


def holds_entries(name: str, directory: Path) -> bool:
    """Return whether there is anything in the other column families.

    Raises:
        StateStoreError: It can't be read, or is damaged.
    """
    database = Database(name)
    families = _families(database, directory)
    if not families:
        return False
    with opened_to_read(database, families) as native:
        return any(
            first_entry(database.iterate(native.get_column_family(family))) is not None
            for family in families
            if family != OFFSETS_CF
        )


def _families(database: Database, directory: Path) -> list[str]:
    is_there = directory.exists() or directory.is_symlink()
    return database.present_families(directory) if is_there else []
