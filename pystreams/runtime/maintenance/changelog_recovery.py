"""What the stores in a state directory hold, beside what their changelogs do; and what was decided.

For an application that is stopped: the directories of its tasks are locked meanwhile. Nothing is
changed but the decisions, which the next start carries out (see `loss_decisions`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from pystreams.config import ChangelogLossPolicy, StreamsConfig
from pystreams.errors import StateDirectoryError, StateStoreError, TaskLockedError
from pystreams.ids import TaskId, TopicPartition
from pystreams.runtime.adapters.client_factory import ConfluentClients
from pystreams.runtime.adapters.state_directory import StateDirectory
from pystreams.runtime.cluster.committed_offsets import OffsetRange
from pystreams.runtime.maintenance.closed_stores import ClosedStore, closed_store
from pystreams.runtime.state.changelog_gaps import (
    ANOTHER_TOPIC,
    is_new,
    is_of_another,
    why_not_continued,
    why_not_rebuilt,
)
from pystreams.runtime.state.files.known_changelogs import known_changelogs
from pystreams.runtime.state.files.loss_decisions import (
    BECOMES,
    decisions_but,
    in_words,
    read_decision,
    refused_decisions,
    write_decision,
)
from pystreams.runtime.state.files.told_losses import is_told
from pystreams.runtime.state.managed_store import RebuildReason, expires
from pystreams.stores.contracts.state_store import ChangelogIdentity
from pystreams.stores.store_builder import StoreBuilder
from pystreams.topology.graph.topology import Topology
from pystreams.topology.plan.topology_plan import TopologyPlan

_GONE = "its changelog does not exist"


@dataclass(frozen=True, slots=True)
class StoreFinding:
    """One store on the disk of this host, and its changelog.

    Attributes:
        last_offset: Up to where it holds its changelog; None if that is not known, or nothing.
        is_offset_known: Whether the next start finds that offset, or none, too.
        held: What the broker holds of the changelog; None when there is no such topic.
        trouble: What is wrong, or None.
        last_copy: Whether a start stops at it, unless it was decided what becomes of it.
        decision: What was decided before, or None.
        refused: What can't be decided, and why.
    """

    task_id: TaskId
    store: str
    changelog: TopicPartition
    last_offset: int | None
    is_offset_known: bool
    held: OffsetRange | None
    trouble: str | None
    last_copy: bool
    decision: ChangelogLossPolicy | None
    refused: Mapping[ChangelogLossPolicy, str]

    @property
    def choices(self) -> list[ChangelogLossPolicy]:
        """What can be decided."""
        return decisions_but(self.refused)


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
                self._finding(task_id, builder, _locked(directories, task_id), existing)
                for task_id in directories.task_ids()
                if task_id.subtopology in self._plan.by_id and (not tasks or task_id in tasks)
                for builder in self._plan.logged_stores(self._plan.by_id[task_id.subtopology])
                if not stores or builder.name in stores
            ]

    def check(self, findings: Collection[StoreFinding], decision: ChangelogLossPolicy) -> None:
        """Refuse what a start could not do with one of the stores.

        Raises:
            StateStoreError: There is such a store; says why, and what can be decided.
        """
        for found in findings:
            if decision in found.refused:
                raise StateStoreError(
                    found.store,
                    f"task {found.task_id}: it can't be {BECOMES[decision]}, and nothing was "
                    f"written: {found.refused[decision]}. Choose {in_words(found.choices)} for it, "
                    f"with --task {found.task_id} --store {found.store}",
                )

    def decide(self, findings: Collection[StoreFinding], decision: ChangelogLossPolicy) -> None:
        """Write down what is to become of stores; the next start does it.

        Raises:
            StateDirectoryError: A task runs.
            StateStoreError: A decision can't be written; or can't be done, and nothing was written.
        """
        self.check(findings, decision)
        with self._directories() as directories:
            for finding in findings:
                write_decision(_locked(directories, finding.task_id), finding.store, decision)

    def _directories(self) -> closing[StateDirectory]:
        return closing(StateDirectory(self._config.state_dir, self._config.application_id))

    def _finding(
        self, task_id: TaskId, builder: StoreBuilder, directory: Path, existing: dict[str, int]
    ) -> StoreFinding:
        changelog = TopicPartition(self._plan.changelog_topic(builder.name), task_id.partition)
        exactly_once = self._config.processing_guarantee.exactly_once
        found = closed_store(builder, directory, changelog, exactly_once=exactly_once)
        held = None
        if changelog.partition < existing.get(changelog.topic, 0):
            held = self._admin.offset_ranges([changelog])[changelog]
            found.identity.is_now(self._admin.topic_ids([changelog.topic]).get(changelog.topic))
        trouble, last_copy = self._verdict(directory, builder, found, held)
        what = None if found.rebuild is None else found.rebuild.what
        return StoreFinding(
            task_id=task_id,
            store=builder.name,
            changelog=changelog,
            last_offset=found.last_offset,
            is_offset_known=found.rebuild is None and not found.asks_to_be_opened,
            held=held,
            trouble=trouble,
            last_copy=last_copy,
            decision=read_decision(directory, builder.name),
            refused=refused_decisions(found.store, held, what=what),
        )

    def _verdict(
        self, directory: Path, builder: StoreBuilder, found: ClosedStore, held: OffsetRange | None
    ) -> tuple[str | None, bool]:
        """Return what is wrong between a store and its changelog, and whether a start stops at it.

        Args:
            held: What the broker holds of the changelog.
        """
        rebuild, last_offset = found.rebuild, found.last_offset
        known = known_changelogs(directory)
        if rebuild is not None:
            lost = self._why_not_rebuilt(directory, builder, found.identity, held, rebuild)
            if lost is not None:
                return f"{lost}; and it can't be kept: it is {rebuild.what}: {rebuild.why}", True
            if is_new(known, builder.name, found.identity, rebuild):
                return None, False
            return f"it is {rebuild.what}, and the next start rebuilds it: {rebuild.why}", False
        if found.asks_to_be_opened:
            return "only a start can ask it how far it is", False
        if held is None:
            return (_GONE, True) if last_offset is not None else (None, False)
        if last_offset is not None and is_of_another(known, builder.name, found.identity):
            return ANOTHER_TOPIC, True
        forgets = expires(builder)
        if last_offset is not None:
            exactly_once = self._config.processing_guarantee.exactly_once
            reason = why_not_continued(last_offset + 1, held, exactly_once=exactly_once)
            if reason is not None:
                return reason, not (forgets and last_offset < held.beginning)
        if held.beginning > 0 and not forgets:
            whole = "the store is whole" if last_offset is not None else "there is no store here"
            return f"the changelog has lost {held.beginning} offsets; {whole}", False
        return None, False

    def _why_not_rebuilt(
        self,
        directory: Path,
        builder: StoreBuilder,
        identity: ChangelogIdentity,
        held: OffsetRange | None,
        rebuild: RebuildReason,
    ) -> str | None:
        """Return why a changelog may not hold all of a store that can't be used; else None."""
        known, store = known_changelogs(directory), builder.name
        if held is None:
            # It is made anew, empty, before the application starts.
            knows_topic = (known.of(store).topic or identity.stored) is not None
            held = OffsetRange(0, 0, 0)
            lost = why_not_rebuilt(known, store, identity, held, rebuild, may_begin_later=True)
            return _GONE if knows_topic or lost is not None else None
        told = is_told(directory, store, held.beginning, identity, lost=True)
        return why_not_rebuilt(
            known,
            store,
            identity,
            held,
            rebuild,
            may_begin_later=expires(builder) or told,
        )


def _locked(directories: StateDirectory, task_id: TaskId) -> Path:
    try:
        return directories.lock_task(task_id)
    except TaskLockedError as error:
        message = f"task {task_id} runs in another process ({error}): stop the application first"
        raise StateDirectoryError(message) from error
