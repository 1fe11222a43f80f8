"""Reads what lies in a state directory, without a broker, and changes nothing of it.

A running application may have the directory open. What it shows is then as of the last flush of
each store: RocksDB's write buffers, and what is not committed, are in that process only.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from pystreams.config import StreamsConfig
from pystreams.errors import StreamsError, TopologyError
from pystreams.exception_texts import exception_text
from pystreams.ids import TaskId, TopicPartition
from pystreams.record import OutputBuffer, ProducedRecord
from pystreams.runtime.adapters.state_directory import GLOBAL
from pystreams.runtime.state.global_state import GLOBAL_TASK_ID
from pystreams.serdes import Serde, readers_deserializer
from pystreams.stores.contracts.key_value import StateStore
from pystreams.stores.contracts.position import Position
from pystreams.stores.contracts.spec import HeldEntry, Reader
from pystreams.stores.contracts.state_store import StateStoreContext, StoreEnvironment
from pystreams.stores.engines.rocksdb.inspection import opened_copy
from pystreams.stores.engines.rocksdb.metadata import read_metadata_of_copy
from pystreams.stores.files.metadata import CHANGELOG_ID, POSITION, RESERVED, RESTORED, unpack_long
from pystreams.stores.store_builder import StoreBuilder
from pystreams.topology.plan.topology_plan import TopologyPlan

_ROCKSDB = "rocksdb"


@dataclass(frozen=True, slots=True)
class StoreOnDisk:
    """A store of a task, or a global one, as its files are.

    Attributes:
        application: The directory above the task's: the application.id.
        task_id: `GLOBAL_TASK_ID` of a global store.
        directory: Its files.
    """

    application: str
    task_id: TaskId
    name: str
    directory: Path

    @property
    def is_global(self) -> bool:
        """Whether it is no task's."""
        return self.task_id == GLOBAL_TASK_ID

    @property
    def size_bytes(self) -> int:
        """How much its files take."""
        files = (entry for entry in self.directory.iterdir() if entry.is_file())
        return sum(entry.stat().st_size for entry in files)

    def changelog_offsets(self) -> dict[str, int]:
        """Return the offset of the last changelog record in its data, by `<topic>-<partition>`.

        Raises:
            StateStoreError: It can't be read, or is damaged.
        """
        held = read_metadata_of_copy(self.name, self.directory)
        # A global store has those to read next.
        behind = 1 if self.is_global else 0
        return {
            name.decode(): int(unpack_long(packed)[0]) - behind
            for name, packed in held.items()
            if name not in RESERVED and name != CHANGELOG_ID
        }

    def position(self) -> Position:
        """Return which input its data reflects; empty where that is not known.

        Raises:
            StateStoreError: As `changelog_offsets`.
        """
        packed = read_metadata_of_copy(self.name, self.directory).get(POSITION)
        return Position() if packed is None else Position.deserialize(packed)

    def restored_since(self) -> bool:
        """Return whether it was restored since, and so reflects more than its position says.

        Raises:
            StateStoreError: As `changelog_offsets`.
        """
        return RESTORED in read_metadata_of_copy(self.name, self.directory)


class StoredEntry(NamedTuple):
    """One entry of a store, for readers.

    Attributes:
        key: Its key; bytes where the store's keys are no user's; of what an outer join holds back
            with its time and side.
        times: The times (ms) in its key, by name: a window's, a session's. Of a version `timestamp`
            and `valid_to`, from when and until when it is valid; that is None of the latest.
        value: Its value, likewise; of what an outer join holds back a list.
        timestamp: The time (ms) of the record that wrote it, None where the store does not keep it.
    """

    task_id: TaskId
    key: Any
    times: Mapping[str, int | None]
    value: Any
    timestamp: int | None


class UnreadEntry(NamedTuple):
    """One entry of a store that its serdes can't read.

    Attributes:
        key: As in `StoredEntry`; the record's key in bytes where that is what can't be read.
        times: Likewise.
        part: What can't be read: "key" or "value".
        serde: By which it can't; None if it is none of the user's.
        reason: Why.
    """

    task_id: TaskId
    key: Any
    times: Mapping[str, int | None]
    part: str
    serde: Serde[Any] | None
    reason: str


@dataclass(frozen=True, slots=True, eq=False)
class FlushedStore:
    """What a store of a task holds, as of one flush.

    Attributes:
        records: Changelog records that restore it.
        position: Which input that reflects; empty where it does not say.
        restored_since: Whether it reflects more, by a restore, of which nothing tells how much.
        changelog: What restores it: of a table without a changelog of its own, its topic.
        changelog_offset: That of the last record of it in the store; -1 if there is none.
    """

    task_id: TaskId
    name: str
    records: list[ProducedRecord]
    position: Position
    restored_since: bool
    changelog: TopicPartition
    changelog_offset: int


def stores_in(directory: Path) -> list[StoreOnDisk]:
    """Return the stores below a directory: `state.dir`, an application's in it, or a task's.

    Global stores are among them.

    Raises:
        StreamsError: There is none, or a directory may not be read.
    """
    found = []
    for depth in ("", "*/", "*/*/"):
        _refuse_unreadable(directory.absolute(), f"{depth}{_ROCKSDB}/*")
        for path in directory.absolute().glob(f"{depth}{_ROCKSDB}/*/CURRENT"):
            store = path.parent
            task = store.parent.parent
            try:
                task_id = GLOBAL_TASK_ID if task.name == GLOBAL else TaskId.parse(task.name)
            except ValueError:  # A task's directory that is being removed.
                continue
            found.append(StoreOnDisk(task.parent.name, task_id, store.name, store))
    if not found:
        raise StreamsError(
            f"there are no stores in {directory}: name a state.dir, the directory of an "
            "application in it, or that of a task. Stores in memory have no files"
        )
    return sorted(found, key=lambda store: (store.application, store.name, store.task_id))


def _refuse_unreadable(directory: Path, pattern: str) -> None:
    """Refuse directories of which a search would tell nothing.

    Args:
        pattern: Of the directories of stores, below that one.
    """
    way = pattern.split("/")
    for depth in range(len(way) + 1):
        searched = "/".join(way[:depth])
        for path in directory.glob(searched) if searched else (directory,):
            try:
                if path.is_dir():
                    os.scandir(path).close()
                    # Who may list it may not go through it, perhaps; a Path drops the dot.
                    os.stat(f"{path}/.")  # noqa: PTH116
            except PermissionError as error:
                raise StreamsError(
                    f"this process may not read the directory {path}; run it as a user who may, or "
                    "correct its owner and mode"
                ) from error
            except OSError:  # It is gone.
                continue


class StateReader:
    """Reads the entries of one store of a topology, over the tasks that have it.

    Args:
        config: Its default serdes stand in where a store has none of its own.
        stores: The files, of one application.

    Attributes:
        key_serde: The serde of records' keys; None where nobody knows them.

    Raises:
        TopologyError: The topology has no such store.
        StreamsError: The directory has none.
    """

    def __init__(
        self, plan: TopologyPlan, config: StreamsConfig, stores: list[StoreOnDisk], name: str
    ) -> None:
        builders = plan.topology.stores
        if name not in builders:
            known = ", ".join(sorted(builders)) or "none"
            raise TopologyError(f"the topology has no store {name!r} (it has: {known})")
        self._builder: StoreBuilder = builders[name]
        self._stores = [store for store in stores if store.name == name]
        if not self._stores:
            there = ", ".join(sorted({store.name for store in stores}))
            raise StreamsError(f"there is no store {name!r} in the directory (there is: {there})")
        self._topic = plan.topology.global_stores.get(name) or plan.changelog_topic(name)
        part = plan.subtopology_of_store(name)
        sources = {} if part is None else plan.source_changelogs(part)
        self._restored_from = sources.get(name, self._topic)
        self._config = config
        spec = self._builder.spec
        self._serdes = spec.filled_serdes(config.default_key_serde, config.default_value_serde)
        self.key_serde = spec.kind.record_key_serde(self._serdes[0])

    def entries(self, key: bytes | None = None) -> Iterator[StoredEntry | UnreadEntry]:
        """Give the entries, task by task, in the order of the store's own keys.

        Deletions are none; of a key that is deleted since there may be versions, which have ended.

        Args:
            key: Only those of a key, in the bytes of its serde; None for all.

        Raises:
            StateStoreError: The store can't be read, or is of another kind than the topology's.
        """
        spec = self._builder.spec
        readers = spec.kind.entry_readers(*(_reader(serde, self._topic) for serde in self._serdes))
        for stored in self._stores:
            with self._opened(stored) as store:
                for held in spec.kind.held(store):
                    found, times = spec.parts_of_key(held[0])
                    if key is None or key == found:
                        yield self._read(stored.task_id, held, times, readers)

    def flushed(self) -> Iterator[FlushedStore]:
        """Give what the store holds in each task, and how far that goes, of the same moment.

        Raises:
            StateStoreError: As `entries`.
        """
        for stored in self._stores:
            changelog = TopicPartition(self._restored_from, stored.task_id.partition)
            with self._opened(stored) as store:
                offset = store.committed_offset(changelog)
                yield FlushedStore(
                    stored.task_id,
                    stored.name,
                    list(store.changelog_records()),
                    store.position,
                    stored.restored_since(),
                    changelog,
                    -1 if offset is None else offset,
                )

    def _read(
        self,
        task_id: TaskId,
        held: HeldEntry,
        times: Mapping[str, int | None],
        readers: tuple[Reader, Reader],
    ) -> StoredEntry | UnreadEntry:
        spec = self._builder.spec
        logged, stored_value, timestamp, times_beside = held
        times = {**times, **times_beside}
        read_key, read_value = readers
        key: Any = spec.kind.key_in(logged)
        part, serde = "key", self._serdes[0]
        try:
            key = read_key(logged)
            part, serde = "value", self._serdes[1]
            value = read_value(stored_value)
        except Exception as error:  # noqa: BLE001 - the user's serde may raise anything
            return UnreadEntry(task_id, key, times, part, serde, exception_text(error))
        has_timestamp = spec.engine_timestamped or spec.kind.keeps_timestamps
        return StoredEntry(task_id, key, times, value, timestamp if has_timestamp else None)

    def _opened(self, stored: StoreOnDisk) -> AbstractContextManager[StateStore]:
        """Return what opens a copy of a store; see `opened_copy`."""
        environment = StoreEnvironment(
            application_id=stored.application,
            default_key_serde=self._config.default_key_serde,
            default_value_serde=self._config.default_value_serde,
        )

        def opened(copy: Path) -> StateStore:
            store = self._builder.build()
            store.init(
                StateStoreContext(
                    environment=environment,
                    task_id=stored.task_id,
                    task_directory=copy.parent.parent,
                    changelog=OutputBuffer(self._topic) if self._builder.logging else None,
                    changelog_topic=self._topic,
                )
            )
            return store

        return opened_copy(stored.name, stored.directory, opened)


def _reader(serde: Serde[Any] | None, topic: str) -> Callable[[bytes], Any]:
    return bytes if serde is None else readers_deserializer(serde, topic)
