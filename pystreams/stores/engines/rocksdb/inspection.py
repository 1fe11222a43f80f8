"""Looks at a database that may be open in another process, and changes nothing of it.

`linked_copy` makes a directory that opens as a database of its own: files of data never change, so
links to them will do, and the rest is small. What the other process has only in memory is not in
it: the copy is as of the last flush, of all column families together.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rocksdict import AccessType, Options, Rdict

from pystreams.errors import StateStoreError
from pystreams.stores.engines.rocksdb.database import Database

_DATA_SUFFIX = ".sst"
_LEFT_OUT = ("LOCK", "LOG", "MANIFEST-")


def linked_copy(source: Path, target: Path) -> None:
    """Make a directory that can be opened in the place of a database.

    Args:
        target: Does not exist yet.

    Raises:
        OSError: The other process has moved on meanwhile; or the source can't be read.
    """
    target.mkdir(parents=True)
    current = (source / "CURRENT").read_text()
    # The manifest first: all that it names was there before it, and is there until it says so.
    manifest = current.strip()
    shutil.copyfile(source / manifest, target / manifest)
    for entry in source.iterdir():
        if entry.name.startswith(_LEFT_OUT) or not entry.is_file() or entry.name == "CURRENT":
            continue
        if entry.suffix == _DATA_SUFFIX:
            (target / entry.name).symlink_to(entry.absolute())
        else:
            shutil.copyfile(entry, target / entry.name)
    (target / "CURRENT").write_text(current)


def verified(name: str, directory: Path) -> dict[str, int]:
    """Read all of a database, and with it the checksum of each block.

    Args:
        name: The store's name, for messages.

    Returns:
        How many entries each column family has.

    Raises:
        StateStoreError: It can't be read, or is damaged; says what RocksDB met.
    """
    database = Database(name)
    families = database.present_families(directory)
    with opened_to_read(database, families) as native:
        return {
            family: sum(1 for _ in database.iterate(native.get_column_family(family)))
            for family in sorted(families)
        }


@contextmanager
def opened_to_read(database: Database, families: Iterable[str]) -> Iterator[Rdict]:
    """Open what is in a database's directory; nothing of it changes.

    Args:
        families: The column families that are there.

    Raises:
        StateStoreError: It can't be read, or is damaged; says what RocksDB met.
    """
    options = Options(raw_mode=True)
    try:
        native = Rdict(
            str(database.directory),
            options,
            dict.fromkeys(families, options),
            access_type=AccessType.read_only(error_if_log_file_exist=False),
        )
        database.native = native  # Else what can't be read is told to be closed.
        yield native
        native.close()
    except StateStoreError:
        raise
    except Exception as error:
        raise database.error("can't be read", error) from error
    finally:
        database.native = None
