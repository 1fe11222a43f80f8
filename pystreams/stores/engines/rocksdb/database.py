"""One open RocksDB directory: what the engines of this package do alike.

A `Database` owns what is native: the `Rdict`, the metadata in `offsets`, the open iterators. It
opens with the families its engine names, gives errors their cause and cure, and closes without
leaving anything behind; the package's text has the traps. Which families there are, and which key
goes into which, is the engine's affair.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rocksdict import (
    IngestExternalFileOptions,
    Rdict,
    ReadOptions,
    SstFileWriter,
    WriteBatch,
)

from pystreams.errors import StateStoreCorruptedError, StateStoreError, StoreNotAvailableError
from pystreams.kernel.changes import apply_changes
from pystreams.kernel.loggers import get_logger
from pystreams.stores.engines.rocksdb.closing import lift_stalls
from pystreams.stores.engines.rocksdb.errors import cause_and_cure, is_damage
from pystreams.stores.engines.rocksdb.forking import keep_in_children
from pystreams.stores.engines.rocksdb.idle_memtables import IDLE_MEMTABLES
from pystreams.stores.engines.rocksdb.iterator import RocksDBIterator, read_if_few
from pystreams.stores.engines.rocksdb.options import (
    StoreOptions,
    crash_safe,
    offsets_options,
    store_options,
)
from pystreams.stores.engines.rocksdb.writing import fill, write, write_options

if TYPE_CHECKING:
    from rocksdict import Options

    from pystreams.stores.contracts.key_value import RocksDBConfigSetter

DEFAULT_CF = "default"
OFFSETS_CF = "offsets"

_RUN_FILE = "run.unfinished"
"""A sorted file until it is ingested; the name is none of RocksDB's."""

_log = get_logger(__name__)


class Database:
    """A directory with column families beside `offsets`. Its engine is its only user.

    Threads: its owner opens, writes and closes; any thread iterates, and lets it flush.

    Args:
        name: The store's name, for error messages and the config hook.

    Attributes:
        directory: Where the files are; known after `present_families`.
        native: The open database, which is its `default` family as well; None while closed.
        iterators: Those that are in use.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self.directory = Path()
        self.native: Rdict | None = None
        self._metadata: dict[bytes, bytes] = {}
        self._offsets_handle: Any = None
        self._options: Options | None = None
        self._own_options = False
        self.iterators: weakref.WeakSet[RocksDBIterator] = weakref.WeakSet()
        self._damage: str | None = None
        self._write_options = write_options()
        # Held while another thread lets it flush, and while it closes.
        self._in_use = threading.Lock()

    def present_families(self, directory: Path) -> list[str]:
        """Make the directory, and return the families on disk; none when it is new.

        Raises:
            StateStoreError: Not writable, or not to be read.
        """
        self.directory = directory
        if directory.is_symlink() and not directory.exists():
            raise StateStoreError(
                self._name,
                f"can't be opened: {directory} is a link to {directory.readlink()}, which is not "
                "there; mount that disk or delete the link, then start again",
            )
        try:
            directory.mkdir(parents=True, exist_ok=True)
            if not (directory / "CURRENT").exists():
                # RocksDB would take it for new, and delete what lies there.
                if next(directory.glob("*.sst"), None) is not None:
                    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), "CURRENT")
                return []
        except OSError as error:
            raise self.error("can't be opened", error) from error
        try:
            return list(Rdict.list_cf(str(directory)))
        except Exception as error:
            raise self.error("can't be opened", error) from error

    def refuse_foreign(self, foreign: Iterable[str], known: str) -> None:
        """Refuse families that another kind of store wrote.

        Args:
            known: What is known, for the message.

        Raises:
            StateStoreError: There are such families.
        """
        names = ", ".join(repr(name) for name in sorted(foreign))
        if names:
            raise StateStoreError(
                self._name,
                f"{self.directory} holds the unknown column family {names} (known here: "
                f"{known}): it was written by another kind of store or a newer version. Use the "
                "kind of store that wrote it, or delete the directory; the store is then "
                "restored from its changelog",
            )

    def open(
        self, families: Sequence[str], rocksdb_config_setter: RocksDBConfigSetter | None
    ) -> Rdict:
        """Open or create the database with `default`, `offsets` and these families.

        Raises:
            StateStoreError: Not writable, held by another process, or corrupt.
        """
        options = store_options()
        if rocksdb_config_setter is not None:
            rocksdb_config_setter(self._name, StoreOptions(self._name, options))
        crash_safe(options)
        by_family = dict.fromkeys(families, options)
        by_family[OFFSETS_CF] = offsets_options()
        try:
            native = Rdict(str(self.directory), options, by_family)
        except Exception as error:
            raise self.error("can't be opened", error) from error
        self.native = native
        self._options, self._own_options = options, rocksdb_config_setter is not None
        self._damage = None
        offsets = native.get_column_family(OFFSETS_CF)
        try:
            self._metadata = dict(self.iterate(offsets))
        except StateStoreError:
            self.close((offsets,))
            raise
        try:
            offsets.close()
        except Exception as error:  # What a merge of files has met already.
            self.close(())
            raise self.error("can't be opened", error) from error
        self._offsets_handle = native.get_column_family_handle(OFFSETS_CF)
        return native

    def create_family(self, name: str) -> Rdict:
        """Add a column family, with the options of the others; durable at once.

        Raises:
            StateStoreError: The disk is full or gone.
        """
        assert self._options is not None
        try:
            return self.opened().create_column_family(name, self._options)
        except Exception as error:
            raise self.error("can't be written", error) from error

    def opened(self) -> Rdict:
        """Return the open database.

        Raises:
            StoreNotAvailableError: It is closed.
        """
        if self.native is None:
            raise self.closed_error()
        return self.native

    def iterate(
        self,
        family: Rdict,
        start: bytes | None = None,
        end: bytes | None = None,
        *,
        reverse: bool = False,
    ) -> RocksDBIterator:
        """Iterate over a snapshot of a family, from `start` (inclusive) to `end` (exclusive)."""
        options = ReadOptions()
        if end is not None:
            options.set_iterate_upper_bound(end)
        native = None
        try:
            native = family.iter(options)
            if reverse:
                native.seek_to_last()
            elif start is None:
                native.seek_to_first()
            else:
                native.seek(start)
        except Exception as error:
            native = None  # The error's traceback must not keep the database open.
            raise self.read_error(error) from error
        iterator = RocksDBIterator(self, native, options, start, reverse=reverse)
        self.iterators.add(iterator)
        if self.native is None:  # Closed meanwhile by its owner, who may not have seen this one.
            native = None
            iterator.release()
            raise self.closed_error()
        return iterator

    def entries_if_few(
        self, family: Rdict, start: bytes, end: bytes
    ) -> list[tuple[bytes, bytes]] | None:
        """Return what `iterate` gives, read at once; None if that is more than a few entries."""
        try:
            return read_if_few(family, start, end)
        except Exception as error:
            del family  # The traceback must not keep the database open.
            raise self.read_error(error) from error

    def apply(
        self, fill_data: Callable[[WriteBatch], None], metadata: Mapping[bytes, bytes | None]
    ) -> None:
        """Write data, and `offsets` in the same batch.

        Args:
            fill_data: Puts the data into a batch; called again when the write is tried again.
            metadata: Changes of `offsets`; None deletes.

        Raises:
            StateStoreError: The disk is full or gone; nothing of the batch is applied.
            StateStoreCorruptedError: Likewise; it is damaged, as this write or a read found, of
                another thread perhaps, or one whose error the user's code kept to itself.
        """
        native = self.opened()
        if self._damage is not None:
            raise StateStoreCorruptedError(self._name, self._damage)

        def make_batch() -> WriteBatch:
            batch = WriteBatch(raw_mode=True)
            fill_data(batch)
            fill(batch, metadata, self._offsets_handle)
            return batch

        IDLE_MEMTABLES.make_room(self)
        try:
            write(native, make_batch, self._write_options)
        except Exception as error:
            raise self.error("can't be written", error) from error
        apply_changes(self._metadata, metadata)

    def ingest(self, family: Rdict, entries: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Add entries to a family as one sorted file; durable when this returns.

        Args:
            family: The family, open.
            entries: One or more, in strictly ascending order of keys; None deletes.

        Raises:
            StateStoreError: The disk is full or gone; nothing of it is applied.
        """
        assert self._options is not None
        file = self.directory / _RUN_FILE
        how = IngestExternalFileOptions()
        how.set_move_files(True)
        try:
            writer = SstFileWriter(self._options)
            writer.open(str(file))
            for key, value in entries:
                if value is None:
                    del writer[key]
                else:
                    writer[key] = value
            writer.finish()
            family.ingest_external_file([str(file)], how)
        except Exception as error:
            raise self.error("can't be written", error) from error
        finally:
            with contextlib.suppress(OSError):
                file.unlink()

    def ingest_metadata(self, metadata: Mapping[bytes, bytes]) -> None:
        """Add to `offsets` as a sorted file; for a database that has nothing unflushed in it.

        Raises:
            StateStoreError: The disk is full or gone; nothing of it is applied.
        """
        offsets = self.opened().get_column_family(OFFSETS_CF)
        self.ingest(offsets, sorted(metadata.items()))
        self._metadata.update(metadata)

    def flush_if_memory_is_short(self) -> bool:
        """Let RocksDB flush all families together, if it is short of memory; False when closed."""
        # What is wrong with this database, its next commit is told.
        with self._in_use, contextlib.suppress(Exception):
            if self.native is None:
                return False
            self.native.write(WriteBatch(raw_mode=True), self._write_options)
        return True

    def metadata(self) -> dict[bytes, bytes]:
        """Return everything in the `offsets` column family."""
        self.opened()
        return dict(self._metadata)

    def close(self, families: Iterable[Rdict]) -> None:
        """Flush and release the families, then the rest; the caller has let go of their handles.

        When the flush fails (a full disk), the store falls back to its last flushed commit, data
        and offset together, and the difference is restored at the next start: logged, not raised.
        """
        native = self.native
        if native is None:
            return
        IDLE_MEMTABLES.forget(self)
        with self._in_use:
            self.native = self._offsets_handle = None
        for iterator in list(self.iterators):  # One that is made from now on lets go by itself.
            iterator.release()
        for family in (*families, native):  # Data first, offsets last: see the package.
            lift_stalls(family, own_options=self._own_options)
            try:
                family.close()
            except Exception as error:  # noqa: BLE001 - rocksdict raises plain Exceptions
                _log.warning("store.close_flush_failed", store=self._name, error=str(error))

    def closed_error(self) -> StoreNotAvailableError:
        """Return what readers of a closed store get."""
        return StoreNotAvailableError(
            f"state store {self._name!r} is closed: its task moved or stopped; ask again"
        )

    def read_error(self, error: Exception) -> Exception:
        """Return what a failed read raises; a reader overtaken by `close` is told so."""
        if self.native is None:
            return self.closed_error()
        return self.error("can't be read", error)

    def error(self, what: str, error: Exception) -> StateStoreError:
        """Return an error that says what failed, why, and what to do."""
        text = str(error)
        message = f"{what}: {cause_and_cure(text, self.directory)}"
        if not is_damage(text, self.directory):
            return StateStoreError(self._name, message)
        self._damage = message
        return StateStoreCorruptedError(self._name, message)


class DatabaseEngine:
    """What engines over one database have in common.

    Args:
        name: The store's name, for error messages and the config hook.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._database = Database(name)
        keep_in_children(self)

    @property
    def persistent(self) -> bool:
        """Return True."""
        return True

    def ingest_metadata(self, metadata: Mapping[bytes, bytes]) -> None:
        """Apply metadata as a sorted file, durably.

        Raises:
            StateStoreError: The disk is full or gone; nothing of it is applied.
        """
        self._database.ingest_metadata(metadata)

    def metadata(self) -> dict[bytes, bytes]:
        """Return everything in the `offsets` column family."""
        return self._database.metadata()

    def natives(self) -> list[object]:
        """Return what holds the database, beside this."""
        return list(self._database.iterators)
