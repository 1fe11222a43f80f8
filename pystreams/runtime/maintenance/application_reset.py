"""Puts an application back to where it has never run: offsets, internal topics, local state.

    mark the group -> delete internal topics -> remove local state -> delete or set the offsets

Every step may be repeated, and what fails leaves the others to be done: a reset that was cut off is
finished by the next one. The mark keeps the application from starting in between (`reset_mark`).

Deleted are the topics that the topology at hand has, no more: the names of another application may
begin alike (`shop` and `shop-eu`), so that what merely looks like this one's is only told, or
deleted on request. What the group has noted of earlier versions goes, though, with its offsets: so
which changelogs stay is told.

Source: Kafka's `StreamsResetter`. Differs: it deletes all topics whose names look like it, and
leaves local state to `KafkaStreams.cleanUp`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pystreams.errors import FatalStreamsError, StreamsError
from pystreams.ids import TaskId, TopicPartition, all_partitions
from pystreams.runtime.adapters.state_directory import StateDirectory, tasks_in
from pystreams.runtime.cluster.committed_offsets import (
    UNKNOWN_TIME,
    CommittedOffset,
    encode_entries,
    encode_partition_time,
)
from pystreams.runtime.cluster.reset_mark import RESETTING
from pystreams.runtime.cluster.topic_ids import keys_to_note, known_ids
from pystreams.runtime.cluster.topology_note import noted_topologies
from pystreams.runtime.maintenance.earlier_topology import FINGERPRINT_FILE, read_fingerprint
from pystreams.runtime.ports import AdminPort
from pystreams.topology.plan.partition_plan import topics_of
from pystreams.topology.plan.topology_plan import TopologyPlan

NewOffsets = Callable[[AdminPort, Sequence[TopicPartition]], Mapping[TopicPartition, int]]
"""Returns where partitions are to be read from."""

_CHANGELOG_ENDING = "-changelog"
_INTERNAL_ENDINGS = (
    _CHANGELOG_ENDING,
    "-repartition",
    "-subscription-registration-topic",
    "-subscription-response-topic",
)
_FOREIGN_KEY_TOPIC = re.compile(r".*KTABLE-FK-JOIN-SUBSCRIPTION-(REGISTRATION|RESPONSE)-\d+-topic")


class ResetRefusedError(StreamsError):
    """The application may not be reset now; nothing was changed. Says what to do."""


@dataclass(frozen=True, slots=True)
class ResetPlan:
    """What a reset finds.

    Attributes:
        members: Client ids of the group's members; while there are some it is refused.
        sources: The partitions of the source topics that exist.
        others: Committed partitions of topics that exist, and that an earlier version has read.
        internal_topics: Topics of the topology, and of no other application.
        orphans: Topics that look like the application's, and are not of this topology.
        changelogs: Those of them that are changelogs, with the store of an earlier version that the
            group or the directory has noted for one; "" where it is not known whose it is.
        directory: The application's state directory on this machine.
        tasks: Tasks with state there.
    """

    members: list[str]
    committed: Mapping[TopicPartition, CommittedOffset]
    sources: list[TopicPartition]
    others: list[TopicPartition]
    internal_topics: list[str]
    orphans: list[str]
    changelogs: Mapping[str, str]
    directory: Path
    tasks: list[TaskId]

    def told_of_changelogs(self, reached_with: str) -> str:
        """Return what follows where orphans stay, as a sentence; "" where nothing does.

        Args:
            reached_with: The options with which commands of ours reach the brokers.
        """
        if not self.changelogs:
            return ""
        known = [topic for topic, store in self.changelogs.items() if store]
        named = [
            f"{topic} (of store {store!r}, which an earlier version had)" if store else topic
            for topic, store in self.changelogs.items()
        ]
        which = "these" if len(known) == len(named) else "those that are this application's"
        command = f"pystreams topics delete {' '.join(known or ['NAME'])}"
        return (
            f"changelogs stay: {', '.join(named)}. The reset forgets which stores earlier versions "
            "had: a later version with a store of such a name goes on with the rows in it, and "
            f"neither `pystreams check` nor its start tells. So delete {which} before the next "
            f"start: `{command} {reached_with} --execute`"
        )


@dataclass(frozen=True, slots=True)
class ApplicationReset:
    """Resets one application.

    Attributes:
        plan: Its topology's plan; None when only the id is known, so that all its topics are
            orphans.
        state_dir: `state.dir` on this machine.
    """

    application_id: str
    plan: TopologyPlan | None
    admin: AdminPort
    state_dir: Path

    def look(self) -> ResetPlan:
        """Return what there is to reset; changes nothing.

        Raises:
            BrokerNotAvailableError: No broker answered.
            RetriableClientError: One did not, in time.
        """
        counts = self.admin.partition_counts()
        members = self.admin.group_members(self.application_id)
        committed = self.admin.committed_offsets(self.application_id)
        directory = self.state_dir.absolute() / self.application_id
        own = self._own_topics()
        sources = self._sources(counts, committed)
        existing = (each for each in committed if each.partition < counts.get(each.topic, 0))
        orphans = [topic for topic in sorted(counts) if self._looks_own(topic, own)]
        return ResetPlan(
            members=members,
            committed=committed,
            sources=sources,
            others=sorted(set(existing) - set(sources)),
            internal_topics=sorted(own & counts.keys()),
            orphans=orphans,
            changelogs=self._changelogs(orphans, committed, directory),
            directory=directory,
            tasks=tasks_in(directory) if directory.is_dir() else [],
        )

    def execute(
        self,
        found: ResetPlan,
        *,
        with_orphans: bool,
        new_offsets: NewOffsets | None,
        told: Callable[[str], None],
    ) -> None:
        """Do it.

        Args:
            found: What `look` has returned.
            with_orphans: Whether to delete topics that only look like the application's.
            new_offsets: Says where source partitions are to be read from; None to leave that to
                the offset reset policies.
            told: Called with each thing that was done.

        Raises:
            ResetRefusedError: The group has members; or without a topology, topics would stay.
            FatalStreamsError: Something could not be deleted. The application does not start until
                a further reset has finished.
        """
        if found.members:
            raise ResetRefusedError(why_members(self.application_id, found.members))
        if self.plan is None and found.orphans and not with_orphans:
            raise ResetRefusedError(
                "without a topology nobody knows which internal topics are the application's "
                f"({', '.join(found.orphans)}), and state would stay without offsets: name the "
                "topology, or delete all of them with --orphans"
            )
        offsets = {} if new_offsets is None else new_offsets(self.admin, found.sources)
        if not with_orphans and (left := found.told_of_changelogs(self.admin.reached_with)):
            told(left)  # Before anything is done: a reset that is cut off has forgotten it.
        marks = {
            partition: CommittedOffset(
                found.committed[partition].next_offset if partition in found.committed else 0,
                RESETTING,
            )
            for partition in found.sources
        }
        self.admin.alter_offsets(self.application_id, marks)
        topics = found.internal_topics + (found.orphans if with_orphans else [])
        failures = [
            f"topic {topic!r} was not deleted: {why}"
            for topic, why in self.admin.delete_topics(topics).items()
        ]
        told(f"topics deleted: {len(topics) - len(failures)} of {len(topics)}")
        failures += self._remove_state(found, told)
        if failures:
            raise FatalStreamsError(
                f"{'; '.join(failures)}. The rest was deleted; the application does not start "
                "until the reset has finished: mend this, and run it again"
            )
        if offsets:
            forgotten = _without_notes(found, topics)
            self.admin.alter_offsets(self.application_id, {**forgotten, **self._noted(offsets)})
            told(f"offsets set: {len(offsets)} partitions")
        else:
            self.admin.delete_group(self.application_id)
            told("committed offsets deleted")

    # ------------------------------------------------------------------ inside

    def _own_topics(self) -> set[str]:
        plan = self.plan
        if plan is None:
            return set()
        return plan.changelogs().keys() | plan.repartition_topics().keys()

    def _looks_own(self, topic: str, own: set[str]) -> bool:
        begins = topic.startswith(f"{self.application_id}-")
        internal = topic.endswith(_INTERNAL_ENDINGS) or _FOREIGN_KEY_TOPIC.fullmatch(topic)
        return bool(begins and internal and topic not in own)

    def _changelogs(
        self,
        orphans: Sequence[str],
        committed: Mapping[TopicPartition, CommittedOffset],
        directory: Path,
    ) -> dict[str, str]:
        noted = [each.fingerprint().fingerprint for each in noted_topologies(committed)]
        noted.append(read_fingerprint(directory / FINGERPRINT_FILE))
        stores = {
            f"{self.application_id}-{store}{_CHANGELOG_ENDING}": store
            for fingerprint in noted
            if fingerprint is not None
            for store in (*fingerprint["former_stores"], *fingerprint["stores"])
        }
        changelogs = (topic for topic in orphans if topic.endswith(_CHANGELOG_ENDING))
        return {topic: stores.get(topic, "") for topic in changelogs}

    def _sources(
        self, counts: Mapping[str, int], committed: Mapping[TopicPartition, CommittedOffset]
    ) -> list[TopicPartition]:
        if self.plan is None:
            return sorted(
                partition
                for partition in committed
                if partition.partition < counts.get(partition.topic, 0)
                and not self._looks_own(partition.topic, set())
            )
        internal = self.plan.repartition_topics()
        read = set(topics_of(self.plan, self.plan.sources(), counts))
        return all_partitions(sorted((read - internal.keys()) & counts.keys()), counts)

    def _remove_state(self, found: ResetPlan, told: Callable[[str], None]) -> list[str]:
        """Remove this machine's task directories, and global stores; return what could not be."""
        if not found.directory.is_dir():
            return []
        failures, removed = [], 0
        directory = StateDirectory(self.state_dir, self.application_id)
        try:
            for task_id in directory.task_ids():
                try:
                    if directory.remove(task_id):
                        removed += 1
                    else:
                        failures.append(f"{found.directory / str(task_id)} is held by a process")
                except StreamsError as error:
                    failures.append(str(error))
            failures += [
                f"{path} is held by a process"
                for path in directory.global_directories()
                if not directory.remove_global(path)
            ]
            for leftover in directory.leftovers():
                directory.discard(leftover)
            (found.directory / FINGERPRINT_FILE).unlink(missing_ok=True)
        except StreamsError as error:
            failures.append(str(error))
        finally:
            directory.close()
        told(f"task directories removed: {removed}")
        return failures

    def _noted(
        self, offsets: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, CommittedOffset]:
        ids = known_ids(self.admin.topic_ids(sorted({partition.topic for partition in offsets})))
        return {
            partition: CommittedOffset(
                offset,
                encode_partition_time(
                    UNKNOWN_TIME, encode_entries(keys_to_note(ids, partition.topic))
                ),
            )
            for partition, offset in offsets.items()
        }


def _without_notes(
    found: ResetPlan, deleted_topics: Sequence[str]
) -> dict[TopicPartition, CommittedOffset]:
    """Return offsets of what the topology does not read, which tell of the state that is gone."""
    return {
        partition: CommittedOffset(found.committed[partition].next_offset, "")
        for partition in found.others
        if partition.topic not in deleted_topics
    }


def why_members(group: str, members: Sequence[str]) -> str:
    """Return why a group with these members is not reset."""
    return (
        f"group {group!r} has members ({', '.join(members)}): the application runs, or was stopped "
        "less than session.timeout.ms ago, as long as a static member stays in its group. Stop "
        "it, wait for its session to end, and run the reset again"
    )
