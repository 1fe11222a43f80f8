"""Disks of simulated machines: what survives a crash, and who has locked it.

A store commits in batches, and like RocksDB without a write-ahead log a crash takes back the last
of them: each store falls to one of its commits since it was last flushed, drawn from the seed,
each by itself. Closing flushes. A store whose directory is removed is empty when it opens again.

Segments of window and session stores are dropped after the batch that lets them expire, and for
good at once, as column families are: a crash may take that batch back and never the segments.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from pystreams.errors import (
    StateStoreCorruptedError,
    StateStoreError,
    StoreNotAvailableError,
    TaskLockedError,
)
from pystreams.ids import TaskId
from pystreams.kernel.changes import apply_changes
from pystreams.stores.contracts.key_value import KeyValueIterator, RocksDBConfigSetter
from pystreams.testing.simulation.faults import Faults, Lifeline


class Commit(NamedTuple):
    """One batch written to a store."""

    changes: dict[bytes, bytes | None]
    metadata: dict[bytes, bytes | None]


class StoreFiles:
    """One store on a disk: what is flushed, and the commits a crash may take back.

    Attributes:
        data: Keys and values as of the last commit.
        metadata: Offsets as of the last commit.
        is_open: Whether an engine has it open.
        dropped_below: Keys below this one were dropped at some time; empty if none were.
        damaged: Whether whoever reads or writes meets damage; so it stays until it is removed.
    """

    def __init__(self) -> None:
        self.data: dict[bytes, bytes] = {}
        self.metadata: dict[bytes, bytes] = {}
        self.is_open = False
        self.dropped_below = b""
        self.damaged = False
        self._flushed: tuple[dict[bytes, bytes], dict[bytes, bytes]] = ({}, {})
        self._unflushed: list[Commit] = []

    def write(self, commit: Commit) -> None:
        """Apply one commit."""
        apply_changes(self.data, commit.changes)
        apply_changes(self.metadata, commit.metadata)
        self._unflushed.append(commit)

    def drop_below(self, bound: bytes) -> None:
        """Drop all keys below `bound`, in a way that no crash takes back."""
        self.dropped_below = max(self.dropped_below, bound)
        held: list[dict[bytes, Any]] = [self.data, self._flushed[0]]
        held += [commit.changes for commit in self._unflushed]
        for entries in held:
            for key in [key for key in entries if key < bound]:
                del entries[key]

    def flush(self) -> None:
        """Make everything so far survive a crash."""
        self._flushed = (dict(self.data), dict(self.metadata))
        self._unflushed.clear()

    def crash(self, kept: int) -> None:
        """Fall back to the flushed state and the first `kept` commits after it."""
        data, metadata = self._flushed
        self.data, self.metadata = dict(data), dict(metadata)
        commits, self._unflushed = self._unflushed[:kept], []
        for commit in commits:
            self.write(commit)
        self.flush()
        self.is_open = False

    @property
    def unflushed_commits(self) -> int:
        """How many commits a crash may take back."""
        return len(self._unflushed)


class SimulatedDisk:
    """The disk of one machine.

    Args:
        root: An empty directory for what must be a directory.
        faults: Decides when stores are flushed, and what a crash leaves.

    Attributes:
        directory_id: What tells it from others.
        asked_for: Tasks that wait for directories which others hold.
    """

    def __init__(self, root: Path, faults: Faults) -> None:
        self.directory_id = root.name
        self._root = root
        self._faults = faults
        self._stores: dict[Path, StoreFiles] = {}
        self._locks: dict[TaskId, str] = {}
        self.asked_for: set[TaskId] = set()

    # ------------------------------------------------------------------ stores

    def files(self, directory: Path) -> StoreFiles:
        """Return the files of a store, new ones when its directory is gone."""
        if not directory.exists():
            directory.mkdir(parents=True)
            self._stores[directory] = StoreFiles()
        return self._stores.setdefault(directory, StoreFiles())

    def stores(self) -> Iterator[tuple[TaskId, str, StoreFiles]]:
        """Iterate over (task, store name, files) of all stores of tasks that exist."""
        for directory, files in self._stores.items():
            if directory.exists() and directory.parent.parent != self.global_directory():
                yield TaskId.parse(directory.parent.parent.name), directory.name, files

    def wipe(self) -> None:
        """Lose all: the process comes back on another machine."""
        shutil.rmtree(self._root, ignore_errors=True)
        self._stores.clear()
        self._locks.clear()

    def crash(self) -> None:
        """Lose what is not flushed, and all locks."""
        for files in self._stores.values():
            files.crash(self._faults.random.randint(0, files.unflushed_commits))
        self._locks.clear()

    # ------------------------------------------------------------------ locks

    def lock(self, task_id: TaskId, owner: str) -> Path:
        """Lock a task's directory.

        Raises:
            TaskLockedError: Somebody else holds it.
        """
        directory = self._root / str(task_id)
        if self._locks.setdefault(task_id, owner) != owner:
            raise TaskLockedError(task_id, str(directory))
        self.asked_for.discard(task_id)
        directory.mkdir(parents=True, exist_ok=True)
        return directory

    def global_directory(self) -> Path:
        """Return the directory of the global stores, which one process of the machine has."""
        return self._root / "global"

    def unlock(self, task_id: TaskId, owner: str) -> None:
        """Give a lock up, if it is held."""
        if self._locks.get(task_id) == owner:
            del self._locks[task_id]


class SimulatedDirectories:
    """Implements `TaskDirectories` for one thread."""

    def __init__(self, disk: SimulatedDisk, lifeline: Lifeline, owner: str) -> None:
        self._disk = disk
        self._lifeline = lifeline
        self._owner = owner

    def lock_task(self, task_id: TaskId) -> Path:
        """Lock a task's directory."""
        self._lifeline.pulse(f"{self._owner} lock {task_id}")
        return self._disk.lock(task_id, self._owner)

    def ask_for(self, task_id: TaskId) -> None:
        """Ask for a directory that another thread holds."""
        self._lifeline.pulse(f"{self._owner} ask for {task_id}")
        self._disk.asked_for.add(task_id)

    def is_asked_for(self, task_id: TaskId) -> bool:
        """Return whether another thread asks for a directory."""
        return task_id in self._disk.asked_for

    def global_directory(self) -> Path:
        """Return the directory of the global stores."""
        self._lifeline.pulse(f"{self._owner} global directory")
        return self._disk.global_directory()

    def unlock_task(self, task_id: TaskId) -> None:
        """Give a task's directory up."""
        self._lifeline.pulse(f"{self._owner} unlock {task_id}")
        self._disk.unlock(task_id, self._owner)


@dataclass(slots=True)
class SimulatedEngine:
    """A `KeyValueEngine` on a simulated disk.

    Attributes:
        faults: Decides when it is flushed by itself.
        segmented: Whether it drops segments, as the engine of window and session stores does.
    """

    name: str
    disk: SimulatedDisk
    lifeline: Lifeline
    faults: Faults
    segmented: bool = False
    _files: StoreFiles | None = field(default=None, init=False)

    @property
    def persistent(self) -> bool:
        """Return True."""
        return True

    def open(
        self, directory: Path, rocksdb_config_setter: RocksDBConfigSetter | None = None
    ) -> None:
        """Open the store's files; only one engine may have them open."""
        self.lifeline.pulse(f"open {directory.parent.parent.name} {self.name}")
        files = self.disk.files(directory)
        if files.is_open:
            raise StateStoreError(self.name, f"{directory} is open already")
        files.is_open = True
        self._files = files

    def get(self, key: bytes) -> bytes | None:
        """Return a value or None."""
        return self._whole().data.get(key)

    def range(
        self, start: bytes | None, end: bytes | None, *, reverse: bool = False
    ) -> KeyValueIterator[bytes, bytes]:
        """Iterate over a snapshot."""
        entries = [
            (key, value)
            for key, value in sorted(self._whole().data.items(), reverse=reverse)
            if (start is None or key >= start) and (end is None or key < end)
        ]
        return (entry for entry in entries)

    def write(
        self,
        changes: Mapping[bytes, bytes | None],
        metadata: Mapping[bytes, bytes | None],
        *,
        delete_below: bytes | None = None,
    ) -> None:
        """Apply one batch, then drop segments; the process may die before, between or after.

        Raises:
            StreamsError: The write was scripted to fail, or the store is damaged; nothing is
                applied.
        """
        files = self._whole()
        self.lifeline.pulse(f"write {self.name} {len(changes)} keys")
        self.faults.maybe_fail("write")
        if delete_below is not None and not self.segmented:
            gone = dict.fromkeys(key for key in files.data if key < delete_below)
            changes = {**gone, **changes}
        files.write(Commit(dict(changes), dict(metadata)))
        if self.faults.happens(self.faults.rates.background):
            files.flush()
        self.lifeline.pulse(f"written {self.name}")
        if delete_below is not None and self.segmented:
            files.drop_below(delete_below)
            self.lifeline.pulse(f"dropped {self.name}")

    def metadata(self) -> dict[bytes, bytes]:
        """Return the offsets."""
        return dict(self._open().metadata)

    def approximate_num_entries(self) -> int:
        """Return how many keys there are."""
        return len(self._open().data)

    def close(self) -> None:
        """Flush and close; a dead process flushes nothing."""
        files, self._files = self._files, None
        if files is None:
            return
        self.lifeline.pulse(f"close {self.name}")
        files.flush()
        files.is_open = False

    def _whole(self) -> StoreFiles:
        files = self._open()
        if files.damaged:
            raise StateStoreCorruptedError(self.name, "a block's checksum is wrong (simulated)")
        return files

    def _open(self) -> StoreFiles:
        if self._files is None:
            raise StoreNotAvailableError(f"state store {self.name!r} is closed")
        return self._files
