"""Whether an application that is to start has a backfill to do first. Needs no Spark.

It has one to finish when its group is marked as being published, and one to begin when its group
has no offsets, nobody is in it, and more records wait in its topics than a live start should read.
Everything else streams: a group that was handed over, or has offsets of its own, goes on there.

Offsets that are pending in a transaction do not count: what a dead publisher left open is ended by
the next one, and what a live application has open shows in the group's members.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from pystreams.backfill.broker_waiting import REAL_WAITING, Waiting
from pystreams.backfill.publishing.hand_over import PublishingRefusedError, mark_at
from pystreams.backfill.sources.history import WantedTopics
from pystreams.backfill.staging.directory import begun_identity
from pystreams.errors import MissingSourceTopicError
from pystreams.ids import TopicPartition, all_partitions, firsts_of
from pystreams.runtime.cluster.committed_offsets import CommittedOffset
from pystreams.runtime.cluster.publishing_mark import is_being_published, published_by
from pystreams.runtime.ports import AdminPort
from pystreams.topology.plan.topology_plan import TopologyPlan

_LATEST = frozenset({"latest", "largest", "end"})


@dataclass(frozen=True, slots=True)
class BackfillNeed:
    """Whether there is a backfill to do.

    Attributes:
        is_needed: Whether there is.
        why: The reason for either, for the log.
        lag_records: Records that wait for the application; None where it does not matter.
        with_outputs: Whether output records are to be published too.
        starts: Where the history of partitions begins whose sources begin at the end; others begin
            at their first offset.
    """

    is_needed: bool
    why: str
    lag_records: int | None = None
    with_outputs: bool = True
    starts: Mapping[TopicPartition, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Lookout:
    """Looks at an application's group and topics.

    Attributes:
        offset_reset: The application's `auto.offset.reset`.
    """

    plan: TopologyPlan
    admin: AdminPort
    offset_reset: str
    waiting: Waiting = REAL_WAITING

    def look(self, above: int, staging: Path) -> BackfillNeed:
        """Return whether there is a backfill to do.

        Args:
            above: With no more records waiting than this there is none.
            staging: Where its results are, or will be.

        Raises:
            PublishingRefusedError: The group is being published from elsewhere.
            MissingSourceTopicError: A source topic does not exist.
            BrokerNotAvailableError: No broker answers.
            RetriableClientError: The broker stays silent.
        """
        # Asked first: without a broker it says so, where the others would be asked again.
        counts = self.admin.partition_counts(awaited=firsts_of(self.plan.source_topics()))
        group = self.plan.application_id
        held = self.waiting.until_answered(lambda: self.admin.committed_offsets(group))
        committed = {
            partition: at
            for partition, at in held.items()
            if self.plan.source_of_topic(partition.topic)
        }
        if committed:
            return self._of_committed(committed, staging)
        if self.waiting.until_answered(lambda: self.admin.group_members(group)):
            return _not_needed("the application runs already: its group has members")
        missing = [name for name in self.plan.source_topics() if name not in counts]
        if missing:
            raise MissingSourceTopicError(missing, self.admin.reached_with)
        wanted = WantedTopics(tuple(self.plan.source_topics()), tuple(self.plan.source_patterns()))
        partitions = all_partitions(wanted.among(counts), counts)
        need = self._of_lag(partitions, above)
        # What is begun has its bounds already.
        return need if begun_identity(staging) is None else replace(need, starts={})

    def _of_committed(
        self, committed: Mapping[TopicPartition, CommittedOffset], staging: Path
    ) -> BackfillNeed:
        for partition, offset in sorted(committed.items()):
            if is_being_published(offset.metadata):
                return _interrupted(partition, offset.metadata, staging)
        if any(published_by(offset.metadata) is not None for offset in committed.values()):
            return _not_needed("a backfill has handed the group over")
        return _not_needed("the group has committed offsets")

    def _of_lag(self, partitions: list[TopicPartition], above: int) -> BackfillNeed:
        ranges = self.waiting.until_answered(lambda: self.admin.offset_ranges(partitions))
        lag = 0
        starts = {}
        for partition, held in ranges.items():
            if self._begins_at_end(partition.topic):
                starts[partition] = held.end
            else:
                lag += held.end - held.beginning
        if lag <= above:
            return _not_needed("a live start reads what waits", lag)
        return BackfillNeed(True, "the group is new, and much waits", lag, starts=starts)

    def _begins_at_end(self, topic: str) -> bool:
        source = self.plan.source_of_topic(topic)
        own = None if source is None else source.offset_reset
        return (own or self.offset_reset) in _LATEST


def _interrupted(partition: TopicPartition, metadata: str, staging: Path) -> BackfillNeed:
    """Return the need of a group that is marked.

    Raises:
        PublishingRefusedError: The mark is of another version; the results are not here.
    """
    mark = mark_at(partition, metadata)
    assert mark is not None, "it was one"
    if begun_identity(staging) is None:
        raise PublishingRefusedError(
            f"a backfill or rescale is being published to this group (the mark on {partition} "
            f"says {metadata!r}), and its results are not in {staging}: start it where they are, "
            "or name their directory"
        )
    return BackfillNeed(True, "a backfill is published in part", with_outputs=mark.with_outputs)


def _not_needed(why: str, lag_records: int | None = None) -> BackfillNeed:
    return BackfillNeed(False, why, lag_records)
