"""Offsets of stores that do not manage their own: kept here, and in a file a store on the disk.

`<task directory>/.checkpoint_<store>` says how far the store's data goes at least. A crash finds
the file older than the data, which the guarantees treat differently:

- at-least-once: the file is written when the store is made, then after every 10,000 changelog
  records, and at the close. What came after it is restored again over what is there.
- exactly-once: data beyond the last commit must not survive, and nobody knows which it is. So the
  file is deleted when the store is opened and written only when it was closed in order. A store
  without it, where there was state before, is not trusted: it is wiped and restored.

A store that does not persist has no file, and its offset is kept for rebalances only.

Spec: KIP-1035 "Custom Persistent Stores"; Kafka LegacyCheckpointingStateStore.
Differs from Kafka: there an untrusted store takes its whole task's directory with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pystreams.errors import StateStoreError
from pystreams.ids import TopicPartition
from pystreams.kernel.loggers import get_logger
from pystreams.runtime.state.files import known_changelogs
from pystreams.stores.files.checkpoint_file import (
    CheckpointFileError,
    read_checkpoint,
    sync_directory,
    write_checkpoint,
)

RECORDS_BETWEEN_WRITES = 10_000
"""Changelog records after which the file is written again, under at-least-once."""

_log = get_logger("pystreams.stores")


class StoreCheckpoint:
    """How far one store is in its changelog.

    Args:
        persistent: Whether its data outlives the process.
        exactly_once: Whether what is not committed must leave no trace.

    Attributes:
        offset: Offset of the last changelog record in the store's data, None if not known.
        suspect: Whether the store may hold data although no offset is known.
    """

    __slots__ = (
        "_changelog",
        "_exactly_once",
        "_file",
        "_persistent",
        "_store",
        "_written",
        "offset",
        "suspect",
    )

    def __init__(
        self, store: str, changelog: TopicPartition, *, persistent: bool, exactly_once: bool
    ) -> None:
        self.offset: int | None = None
        self.suspect = False
        self._store = store
        self._changelog = changelog
        self._persistent = persistent
        self._exactly_once = exactly_once
        self._file: Path | None = None
        self._written = -1

    def open(self, task_directory: Path, *, had_state: bool) -> None:
        """Read the file; the store was just opened.

        Args:
            had_state: Whether there was anything in it before the task opened its stores.

        Raises:
            StateStoreError: The file can't be written.
        """
        self.offset = None
        if not self._persistent:
            return
        self._file = file = checkpoint_file(task_directory, self._store)
        found = read_or_warn(file)
        self.offset = (found or {}).get(self._changelog)
        self._written = -1 if self.offset is None else self.offset
        self.suspect = self.offset is None and may_hold_data(
            found, had_state=had_state, exactly_once=self._exactly_once
        )
        if self._exactly_once:
            delete(file)
        elif self.offset is None:
            self._write(file)

    def take_in(self, offset: int | None) -> None:
        """Begin with another offset: of an older layout, or of a changelog that is another."""
        self.offset = offset
        self.suspect = False
        if self._file is not None and not self._exactly_once:
            self._write(self._file)

    def distrust(self) -> None:
        """Take note that the store may hold data of which nobody knows where it ends."""
        self.suspect = True

    def due(self, offset: int) -> bool:
        """Return whether the file is to be written when the store has come to an offset."""
        far = offset - self._written > RECORDS_BETWEEN_WRITES
        return far and self._file is not None and not self._exactly_once

    def moved(self, offset: int) -> None:
        """Take note of an offset; up to there the store's data is durable if that was `due`.

        Raises:
            StateStoreError: The file can't be written.
        """
        self.offset = offset
        if self._file is not None and self.due(offset):
            self._write(self._file)

    def forget(self) -> None:
        """Take note that the store is about to be wiped."""
        self.offset = None
        self.suspect = False
        if self._file is not None and not self._exactly_once:
            self._write(self._file)

    def close(self, *, clean: bool) -> None:
        """Write the file a last time, after the store was closed; safe to call twice.

        Args:
            clean: Whether the store holds nothing that is not committed.
        """
        file, self._file = self._file, None
        if file is None or self.offset is None or (self._exactly_once and not clean):
            return
        try:
            self._write(file)
        except StateStoreError as error:
            _log.warning(
                "checkpoint can't be written: more is restored at the next start",
                store=self._store,
                error=str(error),
            )

    def _write(self, file: Path) -> None:
        try:
            write_checkpoint(file, {self._changelog: self.offset})
        except OSError as error:
            raise StateStoreError(
                self._store,
                f"its checkpoint {file} can't be written ({error.strerror}): free some space or "
                "make the directory writable, then start again",
            ) from error
        self._written = -1 if self.offset is None else self.offset


def checkpoint_file(task_directory: Path, store: str) -> Path:
    """Return the file of one store."""
    return task_directory / f".checkpoint_{store}"


def may_hold_data(
    found: Mapping[TopicPartition, int | None] | None, *, had_state: bool, exactly_once: bool
) -> bool:
    """Return whether a store whose offset is not known may hold data.

    Args:
        found: What its file says; None without one.
        had_state: Whether there was anything in its task's directory.
    """
    return had_state if exactly_once else found is not None


def read_or_warn(file: Path) -> dict[TopicPartition, int | None] | None:
    """Return the offsets in a file; none, and a warning, if it can't be understood."""
    try:
        return read_checkpoint(file)
    except CheckpointFileError as error:
        _log.warning("checkpoint can't be read: its stores are restored anew", reason=str(error))
        return {}


def delete(file: Path) -> None:
    """Delete a file for good, if it exists."""
    if file.exists():
        file.unlink()
        sync_directory(file.parent)


def holds_state(task_directory: Path) -> bool:
    """Return whether a task's directory holds anything of its stores."""
    try:
        return any(
            entry.name not in {".lock", known_changelogs.FILE} for entry in task_directory.iterdir()
        )
    except FileNotFoundError:
        return False
