"""What the stores in a state directory hold, beside what their changelogs do; and what was decided.

For an application that is stopped: the directories of its tasks are locked meanwhile. Nothing is
changed but the decisions, which the next start carries out (see `loss_decisions`).
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from pystreams.config import ChangelogLossPolicy, StreamsConfig
from pystreams.errors import StateDirectoryError, StateStoreCorruptedError, TaskLockedError
from pystreams.ids import TaskId, TopicPartition
from pystreams.runtime.adapters.client_factory import ConfluentClients
from pystreams.runtime.adapters.state_directory import StateDirectory
from pystreams.runtime.cluster.committed_offsets import OffsetRange
from pystreams.runtime.state.changelog_gaps import (
    ANOTHER_TOPIC,
    is_new,
    why_not_continued,
    why_not_rebuilt,
)
from pystreams.runtime.state.checkpointed_offsets import checkpoint_file, read_or_warn
from pystreams.runtime.state.known_changelogs import known_changelogs
from pystreams.runtime.state.loss_decisions import read_decision, write_decision
from pystreams.runtime.state.managed_store import RebuildReason, expires
from pystreams.runtime.state.told_losses import is_told
from pystreams.stores.contracts.state_store import ChangelogIdentity
from pystreams.stores.dirty_map.opening import left_open
from pystreams.stores.engines.stored_offsets import stored_state
from pystreams.topology.graph.topology import Topology
from pystreams.topology.plan.topology_plan import TopologyPlan


@dataclass(frozen=True, slots=True)
class StoreFinding:
    """One store on the disk of this host, and its changelog.

    Attributes:
        last_offset: Up to where it holds its changelog; None if it holds nothing.
        held: What the broker holds of the changelog; None when there is no such topic.
        trouble: What is wrong, or None.
        last_copy: Whether a start stops at it, unless it was decided what becomes of it.
        decision: What was decided before, or None.
    """

    task_id: TaskId
    store: str
    changelog: TopicPartition
    last_offset: int | None
    held: OffsetRange | None
    trouble: str | None
    last_copy: bool
    decision: ChangelogLossPolicy | None


class Recovery:
    """The stores of one application on this host."""

    def __init__(self, topology: Topology, config: StreamsConfig) -> None:
        self._config = config
        self._plan = TopologyPlan(topology, config.application_id)
        self._admin = ConfluentClients(config).admin()

    def task_ids(self) -> list[TaskId]:
        """Return the tasks that have state on this host, in order.

        Raises:
            StateDirectoryError: The directory can't be read.
        """
        with self._directories() as directories:
            return directories.task_ids()

    def stores_of(self, tasks: Collection[TaskId]) -> set[str]:
        """Return the names of the stores with a changelog that these tasks have."""
        numbers = {task_id.subtopology for task_id in tasks}.intersection(self._plan.by_id)
        return {
            builder.name
            for number in numbers
            for builder in self._plan.logged_stores(self._plan.by_id[number])
        }

    def has_changelog(self, store: str) -> bool:
        """Return whether a store of the topology has a changelog of its own."""
        return any(
            builder.name == store
            for subtopology in self._plan.by_id.values()
            for builder in self._plan.logged_stores(subtopology)
        )

    def find(
        self, tasks: Collection[TaskId] = (), stores: Collection[str] = ()
    ) -> list[StoreFinding]:
        """Return what there is, in order of tasks.

        Args:
            tasks: Only these; all when empty.
            stores: Likewise.

        Raises:
            StateDirectoryError: A task runs; or the directory can't be read.
            StateStoreError: A store can't be read.
            RetriableClientError: The broker did not answer in time.
        """
        existing = self._admin.partition_counts()
        with self._directories() as directories:
            return [
                self._finding(task_id, builder.name, _locked(directories, task_id), existing)
                for task_id in directories.task_ids()
                if task_id.subtopology in self._plan.by_id and (not tasks or task_id in tasks)
                for builder in self._plan.logged_stores(self._plan.by_id[task_id.subtopology])
                if not stores or builder.name in stores
            ]

    def decide(self, findings: Collection[StoreFinding], decision: ChangelogLossPolicy) -> None:
        """Write down what is to become of stores; the next start does it.

        Raises:
            StateDirectoryError: A task runs.
            StateStoreError: A decision can't be written.
        """
        with self._directories() as directories:
            for finding in findings:
                write_decision(_locked(directories, finding.task_id), finding.store, decision)

    def _directories(self) -> closing[StateDirectory]:
        return closing(StateDirectory(self._config.state_dir, self._config.application_id))

    def _finding(
        self, task_id: TaskId, store: str, directory: Path, existing: dict[str, int]
    ) -> StoreFinding:
        changelog = TopicPartition(self._plan.changelog_topic(store), task_id.partition)
        last_offset, damage, identity = None, None, ChangelogIdentity()
        exactly_once = self._config.processing_guarantee.exactly_once
        try:
            found = stored_state(directory, store, changelog)
            last_offset, identity.stored = found.offset, found.topic
            if exactly_once and found.was_left_open:
                unclosed = left_open(store, holds_nothing=found.holds_nothing)
                damage = RebuildReason.damage(unclosed, last_offset)
        except StateStoreCorruptedError as error:
            damage = RebuildReason.damage(error)
        if last_offset is None:
            offsets = read_or_warn(checkpoint_file(directory, store)) or {}
            last_offset = offsets.get(changelog)
        held = None
        if changelog.partition < existing.get(changelog.topic, 0):
            held = self._admin.offset_ranges([changelog])[changelog]
            identity.is_now(self._admin.topic_ids([changelog.topic]).get(changelog.topic))
        trouble, last_copy = self._verdict(store, last_offset, held)
        if identity.is_another and last_offset is not None:
            trouble, last_copy = ANOTHER_TOPIC, True
        if damage is not None:
            lost = self._why_not_rebuilt(directory, store, identity, held, damage)
            trouble, last_copy = damage.why, lost is not None
            if lost is not None:
                trouble = f"{lost}; and it can't be kept: {damage.why}"
            elif is_new(known_changelogs(directory), store, identity, damage):
                trouble = None
        return StoreFinding(
            task_id=task_id,
            store=store,
            changelog=changelog,
            last_offset=last_offset,
            held=held,
            trouble=trouble,
            last_copy=last_copy,
            decision=read_decision(directory, store),
        )

    def _why_not_rebuilt(
        self,
        directory: Path,
        store: str,
        identity: ChangelogIdentity,
        held: OffsetRange | None,
        damage: RebuildReason,
    ) -> str | None:
        """Return why a damaged store is not rebuilt from its changelog; None if it is."""
        known = known_changelogs(directory)
        if held is None:
            # It is made anew, empty, before the application starts.
            gone = "its changelog does not exist"
            return None if is_new(known, store, identity, damage) else gone
        return why_not_rebuilt(
            known,
            store,
            identity,
            held,
            damage,
            may_begin_later=expires(self._plan.topology.stores[store])
            or is_told(directory, store, held.beginning, identity, lost=True),
        )

    def _verdict(
        self, store: str, last_offset: int | None, held: OffsetRange | None
    ) -> tuple[str | None, bool]:
        """Return what is wrong between a store and its changelog, and whether a start stops at it.

        Args:
            last_offset: Up to where it holds its changelog.
            held: What the broker holds of that.
        """
        if held is None:
            return (
                ("its changelog does not exist", True) if last_offset is not None else (None, False)
            )
        forgets = expires(self._plan.topology.stores[store])
        if last_offset is not None:
            exactly_once = self._config.processing_guarantee.exactly_once
            reason = why_not_continued(last_offset + 1, held, exactly_once=exactly_once)
            if reason is not None:
                return reason, not (forgets and last_offset < held.beginning)
        if held.beginning > 0 and not forgets:
            whole = "the store is whole" if last_offset is not None else "there is no store here"
            return f"the changelog has lost {held.beginning} offsets; {whole}", False
        return None, False


def _locked(directories: StateDirectory, task_id: TaskId) -> Path:
    try:
        return directories.lock_task(task_id)
    except TaskLockedError as error:
        message = f"task {task_id} runs in another process ({error}): stop the application first"
        raise StateDirectoryError(message) from error
