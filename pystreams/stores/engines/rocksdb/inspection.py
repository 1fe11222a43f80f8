"""Looks at a database that may be open in another process, and changes nothing of it.

`linked_copy` makes a directory that opens as a database of its own: files of data never change, so
links to them will do, and the rest is small. What the other process has only in memory is not in
it: the copy is as of the last flush, of all column families together.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Protocol, TypeVar

from rocksdict import AccessType, Options, Rdict

from pystreams.errors import StateStoreCorruptedError, StateStoreError
from pystreams.stores.engines.rocksdb.database import Database
from pystreams.stores.engines.rocksdb.iterator import RocksDBIterator

_DATA_SUFFIX = ".sst"
_LEFT_OUT = ("LOCK", "LOG", "MANIFEST-")
_MANIFEST = re.compile(rb"(MANIFEST-\d+)\n")
_COPIES_MAX = 5


class _Opened(Protocol):
    def close(self) -> None: ...


C = TypeVar("C", bound=_Opened)


def linked_copy(source: Path, target: Path) -> None:
    """Make a directory that can be opened in the place of a database.

    Args:
        target: Does not exist yet.

    Raises:
        PermissionError: A file of the source may not be read.
        OSError: The other process has moved on meanwhile; or the source can't be read.
    """
    target.mkdir(parents=True)
    current = (source / "CURRENT").read_bytes()
    # The manifest first: all that it names was there before it, and is there until it says so.
    if named := _MANIFEST.fullmatch(current):  # Else RocksDB says what is wrong with it.
        manifest = named[1].decode()
        shutil.copyfile(source / manifest, target / manifest)
    for entry in source.iterdir():
        if entry.name.startswith(_LEFT_OUT) or not entry.is_file() or entry.name == "CURRENT":
            continue
        if entry.suffix == _DATA_SUFFIX:
            entry.open("rb").close()  # What may not be read is told by its own name.
            (target / entry.name).symlink_to(entry.absolute())
        else:
            shutil.copyfile(entry, target / entry.name)
    (target / "CURRENT").write_bytes(current)


@contextmanager
def opened_copy(name: str, directory: Path, open_copy: Callable[[Path], C]) -> Iterator[C]:
    """Open a copy of a store whose files are links; it goes when the block ends.

    Args:
        name: The store's name, for messages.
        directory: The store's, in `<task>/rocksdb`.
        open_copy: Opens the directory of a copy, which stands in such directories as well; called
            again where the application that has the store open has moved on in the middle of it.

    Raises:
        StateStoreError: It can't be read, or is damaged; told of the store's own files.
    """
    with tempfile.TemporaryDirectory(prefix="pystreams-state-") as place:
        for attempt in range(1, _COPIES_MAX + 1):
            task_directory = Path(place, str(attempt))
            copy = task_directory / directory.parent.name / directory.name
            try:
                linked_copy(directory, copy)
                opened = open_copy(copy)
                break
            except (OSError, StateStoreError) as error:
                if attempt == _COPIES_MAX or isinstance(error, PermissionError):
                    raise _unread(name, directory, task_directory, error) from None
        with closing(opened):
            try:
                yield opened
            except StateStoreError as error:
                raise _unread(name, directory, task_directory, error) from None


def verified(name: str, directory: Path) -> dict[str, int]:
    """Read all of a database, and with it the checksum of each block.

    Args:
        name: The store's name, for messages.
        directory: As `opened_copy`.

    Returns:
        How many entries each column family has.

    Raises:
        StateStoreError: As `opened_copy`; says what RocksDB met.
    """
    with opened_copy(name, directory, lambda copy: OpenedToRead(name, copy)) as opened:
        return {
            family: sum(1 for _ in opened.entries(family)) for family in sorted(opened.families)
        }


class OpenedToRead:
    """A database whose directory is opened to read; RocksDB changes nothing in it.

    Only rocksdict does, which writes a file of its own anew: what another process may have open, or
    this one may not write, is opened as an `opened_copy`.

    Args:
        name: The store's name, for messages.

    Attributes:
        families: The column families that are there; none where there is no database.

    Raises:
        StateStoreError: It can't be read, or is damaged; says what RocksDB met.
    """

    def __init__(self, name: str, directory: Path) -> None:
        self._database = Database(name)
        is_there = directory.exists() or directory.is_symlink()
        self.families = self._database.present_families(directory) if is_there else []
        if not self.families:
            return
        options = Options(raw_mode=True)
        try:
            # Where `native` is set, what can't be read is not told to be closed.
            self._database.native = Rdict(
                str(directory),
                options,
                dict.fromkeys(self.families, options),
                access_type=AccessType.read_only(error_if_log_file_exist=False),
            )
        except Exception as error:
            raise self._database.error("can't be read", error) from error

    def entries(self, family: str) -> RocksDBIterator:
        """Iterate over a family.

        Raises:
            StateStoreError: It can't be read, or is damaged; says what RocksDB met.
        """
        database = self._database
        try:
            column_family = database.opened().get_column_family(family)
        except StateStoreError:
            raise
        except Exception as error:
            raise database.error("can't be read", error) from error
        return database.iterate(column_family)

    def close(self) -> None:
        """Let go of it."""
        native, self._database.native = self._database.native, None
        if native is not None:
            with suppress(Exception):  # Nothing was written.
                native.close()


def _unread(
    name: str, directory: Path, copied_to: Path, error: OSError | StateStoreError
) -> StateStoreError:
    """Return what is told of a store that can't be read: of its files, not of the copy."""
    if isinstance(error, PermissionError):
        return StateStoreError(
            name,
            f"can't be read: this process may not read {error.filename}; run it as a user who may, "
            "or correct the owner and mode of that file",
        )
    if isinstance(error, OSError):
        database = Database(name)
        database.directory = directory
        error = database.error("can't be read", error)
    message = error.message.replace(str(copied_to), str(directory.parent.parent))
    kind = (
        StateStoreCorruptedError if isinstance(error, StateStoreCorruptedError) else StateStoreError
    )
    return kind(name, message)
