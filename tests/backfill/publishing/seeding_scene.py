"""What tests of seeding share: results of a backfill, seeded, and restored to compare with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pystreams import StoreEnvironment, TaskId, TopicPartition, serdes
from pystreams.backfill.plan.rows import Result, ResultKind
from pystreams.backfill.publishing.publication import Publication
from pystreams.backfill.publishing.store_seeder import (
    Seeded,
    StateColumns,
    StateReader,
    StateSeeder,
)
from pystreams.record import StaticMessage
from pystreams.runtime.adapters.state_directory import StateDirectory
from pystreams.runtime.state.state_manager import ProcessorStateManager
from pystreams.runtime.state.store_settings import StoreSettings
from pystreams.stores.engines.rocksdb.bulk_load import RUN_ENTRIES
from pystreams.topology.plan.topology_plan import TopologyPlan
from tests.stores.families import Families, families

MARKERS = 3
"""Offsets of a changelog that are no records."""
BATCH_RECORDS = 100
ENVIRONMENT = StoreEnvironment(
    application_id="app", default_key_serde=serdes.STRING, default_value_serde=serdes.STRING
)


def state_of(results: Sequence[Result]) -> StateReader:
    """Read the state among the results of a backfill."""

    def read(task_id: TaskId, store: str) -> Iterator[StateColumns]:
        rows = state_rows(results, task_id, store)
        for first in range(0, len(rows), BATCH_RECORDS):
            some = rows[first : first + BATCH_RECORDS]
            yield (
                [row.key for row in some],
                [row.value for row in some],
                [row.timestamp for row in some],
                [list(row.headers) or None for row in some],
            )

    return read


def state_rows(results: Sequence[Result], task_id: TaskId, store: str) -> list[Result]:
    return [
        row
        for row in results
        if (row.kind, row.name, row.partition) == (ResultKind.STATE, store, task_id.partition)
    ]


@dataclass(frozen=True)
class Scene:
    """One application, the results of its backfill, and a directory.

    Attributes:
        plan: The topology's plan.
        publication: What is published.
        directory: For state directories.
        environment: What stores are opened with.
        run_entries: How many changes are sorted together.
    """

    plan: TopologyPlan
    publication: Publication
    results: Sequence[Result]
    directory: Path
    environment: StoreEnvironment = field(default=ENVIRONMENT)
    run_entries: int = RUN_ENTRIES

    def ends(self) -> dict[TopicPartition, int]:
        """The ends of the changelogs, as if each record had been published there."""
        found = {}
        for task_id, store in self.stores():
            count = len(state_rows(self.results, task_id, store))
            found[self.changelog(task_id, store)] = count + MARKERS if count else 0
        return found

    def stores(self) -> list[tuple[TaskId, str]]:
        """All stores with a changelog, task by task."""
        return [
            (task.task_id, builder.name)
            for task in self.publication.tasks
            for builder in self.plan.logged_stores(self.plan.by_id[task.task_id.subtopology])
        ]

    def changelog(self, task_id: TaskId, store: str) -> TopicPartition:
        return TopicPartition(self.plan.changelog_topic(store), task_id.partition)

    def seeder(self, directory: StateDirectory) -> StateSeeder:
        return StateSeeder(
            self.publication,
            self.plan,
            state_of(self.results),
            self.environment,
            directory,
            self.run_entries,
        )

    def seed(self) -> Seeded:
        """Seed as a publisher does that goes on."""
        directory = StateDirectory(self.directory, "app")
        try:
            seeder = self.seeder(directory)
            seeder.check(is_begun=True)
            return seeder.seed(self.ends())
        finally:
            directory.close()

    def home(self, task_id: TaskId) -> Path:
        """The directory of a task."""
        return self.directory / "app" / str(task_id)

    def seeded(self) -> dict[tuple[TaskId, str], Families]:
        """What each store that is there holds."""
        return {
            (task_id, store): families(self.home(task_id) / "rocksdb" / store)
            for task_id, store in self.stores()
            if (self.home(task_id) / "rocksdb" / store).exists()
        }

    def manager(self, task_id: TaskId, home: Path) -> ProcessorStateManager:
        """Open a task's stores as a live task does."""
        subtopology = self.plan.by_id[task_id.subtopology]
        stores = [
            (builder, self.plan.changelog_topic(builder.name), True)
            for builder in self.plan.logged_stores(subtopology)
        ]
        manager = ProcessorStateManager(task_id, stores, StoreSettings(self.environment))
        manager.open(home)
        return manager

    def restored(self) -> dict[tuple[TaskId, str], Families]:
        """What each store on the disk with state holds when it is restored from its changelog."""
        found = {}
        for task in self.publication.tasks:
            home = self.directory / "restored" / str(task.task_id)
            home.mkdir(parents=True)
            manager = self.manager(task.task_id, home)
            mine = [store for task_id, store in self.stores() if task_id == task.task_id]
            for store in mine:
                self._restore(manager, task.task_id, store)
            manager.close()
            for store in mine:
                on_disk = (home / "rocksdb" / store).exists()
                if on_disk and state_rows(self.results, task.task_id, store):
                    found[task.task_id, store] = families(home / "rocksdb" / store)
        return found

    def _restore(self, manager: ProcessorStateManager, task_id: TaskId, store: str) -> None:
        changelog = self.changelog(task_id, store)
        rows = state_rows(self.results, task_id, store)
        last = self.ends()[changelog] - 1
        messages = [
            # A producer sends a timestamp of 0 as 1.
            StaticMessage(*changelog, offset, row.key, row.value, row.timestamp or 1, row.headers)
            for offset, row in enumerate(rows)
        ]
        for first in range(0, len(messages), BATCH_RECORDS):
            some = messages[first : first + BATCH_RECORDS]
            if first + BATCH_RECORDS >= len(messages):
                some[-1] = replace(some[-1], message_offset=last)
            manager.restore(changelog, some)


def next_offsets(ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
    """Where stores go on that hold all of their changelogs; None for those without records."""
    return {changelog: end or None for changelog, end in ends.items()}
