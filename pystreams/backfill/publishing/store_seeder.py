"""Builds the stores of an application from staged state, so that it starts without a restore.

    <state.dir>/<application.id>/
      pystreams-topology.json  which topology the stores are of, written before any of them
      <task>/
        .lock                    held while the task's stores are built
        .seeding/rocksdb/<store> being built; means nothing to anybody
        rocksdb/<store>          complete: renamed from there, with the file `seeded-by` in it

The rows go through the store's own `restore`, over an engine that writes sorted files
(`stores.engines.rocksdb.bulk_load`): what there is then is what a restore from the changelog would
have made, byte for byte. Kafka is not involved.

**The offset** beside the data is that of the last record or marker in the changelog when all rows
are published and the group is still claimed. Until the hand-over nobody else writes there; so the
store holds all that the changelog has up to this offset, and that stays true whatever comes after.

**Killed at any moment**, a store is there whole or not at all: `offsets` come after the data, files
are synced before the rename, and the rename is one step. What is missing is built by the next run,
or restored from the changelog. `seeded-by` names the publication, so that a second run knows its
own stores, and nobody else's are taken for them.

Spec: KIP-1035 (offsets beside the data).
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import Any

from pystreams.backfill.plan.rows import HistoryMessage
from pystreams.backfill.publishing.hand_over import PublishingRefusedError
from pystreams.backfill.publishing.publication import Publication
from pystreams.errors import StateDirectoryError, TaskLockedError
from pystreams.ids import TaskId, TopicPartition
from pystreams.kernel.loggers import get_logger
from pystreams.runtime.adapters.state_directory import LOCK_FILE, StateDirectory
from pystreams.runtime.maintenance.earlier_topology import EarlierTopology
from pystreams.stores.build import build_bulk_loaded_store
from pystreams.stores.contracts.spec import StoreEngine
from pystreams.stores.contracts.state_store import StateStoreContext, StoreEnvironment
from pystreams.stores.engines.rocksdb.bulk_load import RUN_ENTRIES
from pystreams.stores.files.checkpoint_file import sync_directory, write_synced
from pystreams.stores.store_builder import StoreBuilder
from pystreams.topology.plan.partition_plan import plan_partitions
from pystreams.topology.plan.topology_plan import TopologyPlan

_UNFINISHED = ".seeding"
_STORES = "rocksdb"
_SEEDED_BY = "seeded-by"

StateColumns = tuple[Sequence[bytes | None], Sequence[bytes | None], Sequence[int], Sequence[Any]]
"""Keys, values, timestamps (ms) and headers of some changelog records of one store, in order.

Headers are what a message gives: a list, or None for none.
"""

StateReader = Callable[[TaskId, str], Iterator[StateColumns]]
"""Returns the final state of a task's store, always in the same order."""

_log = get_logger("pystreams.backfill")


@dataclass(frozen=True, slots=True)
class Seeded:
    """What was seeded.

    Attributes:
        stores: Stores that are there now, those of an earlier, interrupted run included.
        left_stores: Stores with state that are left to a restore from the changelog: in memory, of
            the user's own, or of a task whose directory another process holds.
    """

    directory: Path
    stores: int
    size_bytes: int
    left_stores: int


class StateSeeder:
    """Seeds the stores of one publication, on this host; used once, by one thread.

    Args:
        environment: What the application opens its stores with.
        directory: Where they are to lie; the caller closes it.
        run_entries: How many changes are sorted together; see `BulkLoadEngine`.
    """

    def __init__(
        self,
        publication: Publication,
        plan: TopologyPlan,
        state: StateReader,
        environment: StoreEnvironment,
        directory: StateDirectory,
        run_entries: int = RUN_ENTRIES,
    ) -> None:
        self._run_entries = run_entries
        self._publication = publication
        self._plan = plan
        self._state = state
        self._environment = environment
        self._directory = directory
        self._topology = EarlierTopology(directory, plan, environment)
        self._partitions = plan_partitions(plan, publication.num_partitions)
        self._stores = self._size_bytes = self._left = 0

    def check(self, *, is_begun: bool) -> None:
        """Look at the directories before anything is published.

        Args:
            is_begun: Whether an earlier run has begun to publish, and may have seeded.

        Raises:
            PublishingRefusedError: A task's directory holds state of something else.
            StateDirectoryError: A directory can't be read.
        """
        for task in self._publication.tasks:
            home = self._directory.directory / str(task.task_id)
            with _explained(home):
                self._refuse_foreign(home, self._publication.id if is_begun else None)

    def seed(self, ends: Mapping[TopicPartition, int]) -> Seeded:
        """Build all stores that are not there yet; those of this publication stay as they are.

        Args:
            ends: The offset behind all that is in each changelog, when all rows were published and
                nobody else had written.

        Raises:
            PublishingRefusedError: A task's directory holds state of something else.
            StateStoreError: A store can't be written; nothing of it is left.
            StateDirectoryError: A directory can't be read or written.
        """
        for task in self._publication.tasks:
            task_id = task.task_id
            subtopology = self._plan.by_id[task_id.subtopology]
            stores = [
                (builder, ends[self._changelog(task_id, builder.name)])
                for builder in self._plan.logged_stores(subtopology)
            ]
            # What has no records needs no restore.
            filled = [(builder, end) for builder, end in stores if end]
            if filled:
                self._seed_task(task_id, filled)
        return Seeded(self._directory.directory, self._stores, self._size_bytes, self._left)

    # ------------------------------------------------------------------ inside

    def _seed_task(self, task_id: TaskId, stores: Sequence[tuple[StoreBuilder, int]]) -> None:
        try:
            home = self._directory.lock_task(task_id)
        except TaskLockedError as error:
            self._left += len(stores)
            _log.warning(
                "task is not seeded: its directory is in use", task=str(task_id), why=str(error)
            )
            return
        try:
            with _explained(home):
                self._refuse_foreign(home, self._publication.id)
                # The first start is compared with it.
                self._topology.learn(self._partitions)
                self._topology.keep()
                for builder, end in stores:
                    self._seed_store(home, task_id, builder, end)
        finally:
            shutil.rmtree(home / _UNFINISHED, ignore_errors=True)
            self._directory.unlock_task(task_id)

    def _seed_store(self, home: Path, task_id: TaskId, builder: StoreBuilder, end: int) -> None:
        complete = home / _STORES / builder.name
        if not complete.exists():
            unfinished = home / _UNFINISHED
            shutil.rmtree(unfinished, ignore_errors=True)  # Of a run that was killed.
            if not self._build(unfinished, task_id, builder, end):
                self._left += 1
                return
            built = unfinished / _STORES / builder.name
            write_synced(built / _SEEDED_BY, self._publication.id)
            sync_directory(built)
            complete.parent.mkdir(exist_ok=True)
            built.rename(complete)
            sync_directory(complete.parent)
            sync_directory(home)
        size_bytes = sum(file.stat().st_size for file in complete.rglob("*"))
        self._stores += 1
        self._size_bytes += size_bytes
        _log.info("store seeded", task=str(task_id), store=builder.name, size_bytes=size_bytes)

    def _build(self, directory: Path, task_id: TaskId, builder: StoreBuilder, end: int) -> bool:
        """Build a store below a directory; return False for one that a restore has to fill."""
        if builder.engine is not StoreEngine.ROCKSDB:
            return False
        store, engine = build_bulk_loaded_store(builder.spec, self._run_entries)
        changelog = self._changelog(task_id, builder.name)
        offsets = repeat(end - 1)
        records = 0
        try:
            store.init(self._context(directory, task_id, changelog.topic))
            for keys, values, timestamps, headers in self._state(task_id, builder.name):
                # A changelog has no timestamp of 0: the producer sends it as 1.
                times = [timestamp or 1 for timestamp in timestamps]
                messages = HistoryMessage.of_columns(
                    changelog, offsets, times, keys, values, headers
                )
                store.restore(messages)
                records += len(times)
            if records:
                store.close()
        finally:
            engine.abandon()
        # Without any, what the changelog has is not of this publication.
        return records > 0

    def _context(self, directory: Path, task_id: TaskId, topic: str) -> StateStoreContext:
        return StateStoreContext(
            environment=self._environment,
            task_id=task_id,
            task_directory=directory,
            changelog=None,
            changelog_topic=topic,
        )

    def _changelog(self, task_id: TaskId, store: str) -> TopicPartition:
        return TopicPartition(self._plan.changelog_topic(store), task_id.partition)

    def _refuse_foreign(self, home: Path, own: str | None) -> None:
        """Refuse a task's directory with anything but our unfinished work and our own stores."""
        found = _foreign(home, own)
        if found is not None:
            raise PublishingRefusedError(
                f"{found} holds state of another life of the application, which does not fit the "
                f"changelogs that are being published: delete {self._directory.directory}, and "
                "publish again"
            )


def _foreign(home: Path, own: str | None) -> Path | None:
    """Return the first thing in a task's directory that this publication did not make."""
    for entry in _entries(home):
        if entry.name == _STORES:
            for store in _entries(entry):
                if own is None or _seeded_by(store) != own:
                    return store
        elif entry.name not in {LOCK_FILE, _UNFINISHED}:
            return entry
    return None


@contextlib.contextmanager
def _explained(home: Path) -> Iterator[None]:
    """Turn a failed file operation into an error that says what to do."""
    try:
        yield
    except OSError as error:
        raise StateDirectoryError(
            f"state can't be built in {home} ({error.strerror or error}): make room or give "
            "access, and publish again, which goes on; or publish without seeding"
        ) from error


def _entries(directory: Path) -> list[Path]:
    return sorted(directory.iterdir()) if directory.is_dir() else []


def _seeded_by(store: Path) -> str | None:
    """Return the publication that seeded a store, or None."""
    try:
        return (store / _SEEDED_BY).read_text("utf-8")
    except OSError:
        return None
