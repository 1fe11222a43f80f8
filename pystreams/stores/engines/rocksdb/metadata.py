"""Reads the `offsets` of a database that is not opened for use: no lock, no flush, no new file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocksdict import AccessType, Options, Rdict

from pystreams.stores.engines.rocksdb.database import OFFSETS_CF, Database

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
    families = dict.fromkeys(database.present_families(directory), Options(raw_mode=True))
    if OFFSETS_CF not in families:
        return {}
    try:
        native = Rdict(
            str(directory),
            Options(raw_mode=True),
            families,
            access_type=AccessType.read_only(error_if_log_file_exist=False),
        )
        entries = database.iterate(native.get_column_family(OFFSETS_CF))
        found = dict(entries)
        native.close()
    except Exception as error:
        raise database.error("can't be read", error) from error
    return found
