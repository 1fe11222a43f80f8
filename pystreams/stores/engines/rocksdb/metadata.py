"""Reads the `offsets` of a database that is not opened for use: no lock, no flush, no new file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pystreams.stores.engines.rocksdb.database import OFFSETS_CF, Database
from pystreams.stores.engines.rocksdb.inspection import opened_to_read

if TYPE_CHECKING:
    from pathlib import Path


def read_metadata(name: str, directory: Path) -> dict[bytes, bytes]:
    """Return what is in the column family `offsets`; nothing where there is no database.

    Raises:
        StateStoreError: It can't be read, or is damaged.
    """
    if not (directory / "CURRENT").exists():
        return {}
    database = Database(name)
    families = database.present_families(directory)
    if OFFSETS_CF not in families:
        return {}
    with opened_to_read(database, families) as native:
        return dict(database.iterate(native.get_column_family(OFFSETS_CF)))
