"""Whether an application still reads the topics that its state was made of.

A topic that is deleted and created again has the same name and holds other records: read from its
start into the state that is there, it counts twice what both hold. Two things tell:

- the ids that the group's committed offsets note (`topic_ids`): those of other topics,
  repartition topics among them, outlive the deletion. They are compared once, before any thread
  starts, and again every `metadata.max.age.ms`;
- a local store that holds what was read of a partition without a committed offset: Kafka deletes
  a topic's offsets with it, and those of a group that is away for `offsets.retention.minutes`.

Where neither is left (all of a group's offsets are gone, and so is the disk), the state comes from
changelogs alone. Under exactly-once it was committed with offsets, so that these are gone: refused.
Under at_least_once a crash before the first commit looks the same: told. An input that holds no
records is in no doubt.

A topic that tables are restored from may get partitions meanwhile: no changelog tells. Rows that
were written before lie where the key's task is no more, and a join misses them. The offsets note
how many partitions the topic had (`topic_ids`); one that has more is refused, at the start and
while the application runs, unless its id is accepted.

Spec: KIP-516 (topic ids). Differs from Kafka Streams, which reads on.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from pystreams.errors import FatalStreamsError, MissingSourceTopicError, RetriableClientError
from pystreams.ids import TaskId, TopicPartition
from pystreams.kernel.loggers import get_logger
from pystreams.runtime.cluster.committed_offsets import CommittedOffset, encode_entries
from pystreams.runtime.cluster.topic_ids import (
    keys_to_note,
    known_ids,
    noted_ids,
    noted_partitions,
    partitions_to_note,
)
from pystreams.runtime.cluster.topology_note import TopologyNote, noted_topologies
from pystreams.runtime.core.task import StreamTask
from pystreams.runtime.ports import AdminPort
from pystreams.runtime.topics.last_topology import LastTopology
from pystreams.topology.plan.partition_plan import topics_of
from pystreams.topology.plan.topology_plan import TopologyPlan

_log = get_logger("pystreams.topics")

ACCEPTED_KEY = "accepted.source.topic.ids"


class InputTopics:
    """The topics an application reads, by their ids; shared by its threads.

    Args:
        accepted: `accepted.source.topic.ids`: `<topic>:<id>`, several separated by commas.
        note: What else is committed with each offset: which topology it is; None for nothing.
        last: Compares the topology with the one that the group ran last; None to leave it.
        exactly_once: Whether state and offsets are committed together.
    """

    def __init__(
        self,
        plan: TopologyPlan,
        admin: AdminPort,
        accepted: str,
        note: TopologyNote | None = None,
        last: LastTopology | None = None,
        *,
        exactly_once: bool,
    ) -> None:
        self._plan = plan
        self._admin = admin
        pairs = [pair.strip() for pair in accepted.split(",")]
        self._accepted = dict(pair.split(":") for pair in pairs if pair)
        self._exactly_once = exactly_once
        self._note, self._last = note, last
        self._ids: dict[str, str] = {}
        self._entries: dict[str, bytes] = {}
        self._tables: dict[str, list[str]] = {}
        for subtopology in plan.subtopologies:
            for store, topic in plan.source_changelogs(subtopology).items():
                self._tables.setdefault(topic, []).append(store)
        self._table_counts: dict[str, int] = {}

    def prepare(self, counts: Mapping[str, int]) -> None:
        """Learn the topics' ids, and compare them with those the group has noted.

        Args:
            counts: Partition counts of all topics that are read, by real name.

        Raises:
            FatalStreamsError: A topic is another one, and state holds what was read of the former;
                or one that a table is restored from has got partitions.
            TopologyError: State of the topology before would give wrong results.
            RetriableClientError: No answer in time.
        """
        self._ids = self._present_ids(counts)
        committed = self._admin.committed_offsets(self._plan.application_id)
        noted = _noted(committed, counts)
        others = {
            topic: sorted(ids)
            for topic, ids in noted.items()
            if topic in self._ids and self._ids[topic] not in ids
        }
        refused = []
        for topic, former in sorted(others.items()):
            stores = self._plan.stores_reached_from(topic)
            if self._accepts(topic, self._ids[topic]) or not stores:
                _log.warning(
                    "source topic was deleted and created again: it is read from where its offset "
                    "reset policy says",
                    topic=topic,
                    topic_id=self._ids[topic],
                    former_topic_id=former[-1],
                    stores_that_hold_what_was_read_before=stores,
                )
            else:
                refused.append((topic, former[-1], stores))
        if refused:
            raise FatalStreamsError(
                "; ".join(self._other_topic(*refusal) for refusal in refused)
                + _choices({topic: self._ids[topic] for topic, _, _ in refused})
            )
        self._check_partitions(_noted_partitions(committed, self._tables), counts)
        topologies = noted_topologies(committed)
        if self._last is not None:
            self._last.compare(topologies)
        self._note = None if self._note is None else self._note.after(topologies)

    def watch(self, counts: Mapping[str, int]) -> None:
        """Look whether a topic was deleted and created again since; take new topics of patterns.

        Args:
            counts: As for `prepare`.

        Raises:
            FatalStreamsError: One was; or one that a table is restored from has got partitions.
            RetriableClientError: No answer in time.
        """
        present = self._present_ids(counts)
        self._check_ids(present)
        if present.keys() - self._ids.keys():
            self._ids = {**self._ids, **present}
            self._entries = {}
        self._check_partitions(self._table_counts, counts)

    def entries(
        self, partition: TopicPartition, numbers: Mapping[str, int], *, first: bool
    ) -> bytes:
        """Return what is committed with an offset, repartition topics included: `OffsetEntries`."""
        topic, note = partition.topic, self._note
        entries = self._entries.get(topic)
        if entries is None:
            keys = keys_to_note(self._ids, topic) + partitions_to_note(self._table_counts, topic)
            if note is not None:
                keys += note.keys_to_note(self._plan, topic)
            entries = self._entries[topic] = encode_entries(keys)
        if first and partition.partition == 0 and note is not None and note.fingerprint is not None:
            return note.fingerprint.added(entries, numbers)
        return entries

    def of_present_topics(
        self, committed: Mapping[TopicPartition, CommittedOffset]
    ) -> dict[TopicPartition, CommittedOffset]:
        """Return committed offsets without those that count in a former topic of the name."""
        present = {}
        for partition, offset in committed.items():
            topic_id = self._ids.get(partition.topic)
            noted = noted_ids(offset.metadata).get(partition.topic, topic_id)
            if topic_id is None or noted == topic_id:
                present[partition] = offset
        return present

    def check_offsets(
        self,
        task: StreamTask,
        committed: Mapping[TopicPartition, CommittedOffset],
        present: Callable[[], Mapping[TopicPartition, CommittedOffset]],
    ) -> None:
        """Look whether a restored task has state of input that it would read again.

        Args:
            committed: What was committed before it was restored.

        Raises:
            FatalStreamsError: It has, of a partition without a committed offset; or its topic was
                deleted and created again since the start.
            MissingSourceTopicError: Likewise, and the topic was deleted.
            RetriableClientError: No answer in time; or the first offset was committed while it
                restored, by whoever had its partitions when this thread stood still.
        """
        try:
            self._check_offsets(task, committed)
        except FatalStreamsError:
            if self.of_present_topics(present()).keys() <= committed.keys():
                raise
            message = f"task {task.task_id}: its first offset was committed while it restored"
            raise RetriableClientError(message) from None

    # ------------------------------------------------------------------ inside

    def _check_offsets(
        self, task: StreamTask, committed: Mapping[TopicPartition, CommittedOffset]
    ) -> None:
        without = [partition for partition in task.partitions if partition not in committed]
        if not without:
            return
        stores = task.state_manager.stores()
        for partition in without:
            holding = {
                name: store.position.offsets[partition]
                for name, store in stores.items()
                if partition in store.position.offsets
            }
            if holding:
                self._refuse_or_tell(task.task_id, partition, holding)
                return
        # Brokers forget the offsets in a topic that is deleted. What is read of the next one would
        # be committed as of the former, and be read again after the next start.
        topics = sorted({partition.topic for partition in without} & self._ids.keys())
        if topics:
            self._check_ids(known_ids(self._admin.topic_ids(topics)))
        restored = any(
            offset is not None for offset in task.state_manager.restore_positions().values()
        )
        if restored and len(without) == len(task.partitions) and self._holds_records(without):
            self._refuse_or_tell_restored(task.task_id, without, sorted(stores))

    def _check_ids(self, present: Mapping[str, str]) -> None:
        for topic, topic_id in sorted(present.items()):
            former = self._ids.get(topic, topic_id)
            if former != topic_id:
                raise FatalStreamsError(
                    f"source topic {topic!r} was deleted and created again while the application "
                    f"ran: its id was {former} and is {topic_id}. Offsets of the former one mean "
                    "nothing in it; start again, to read it from its start or to learn what state "
                    "stands against that"
                )

    def _refuse_or_tell(
        self, task_id: TaskId, partition: TopicPartition, holding: Mapping[str, int]
    ) -> None:
        topic = partition.topic
        topic_id = self._admin.topic_ids([topic]).get(topic)
        if self._accepts(topic, topic_id):
            _log.warning(
                "partition without a committed offset is read from where its offset reset policy "
                "says, into the state that is there",
                task=str(task_id),
                partition=str(partition),
                stores=sorted(holding),
            )
            return
        if topic_id is None:
            raise MissingSourceTopicError([topic], self._admin.reached_with)
        raise FatalStreamsError(
            f"task {task_id}: the group has no committed offset of {partition} any more, and state "
            f"of {_named(holding)} holds what was read of it up to offset "
            f"{max(holding.values())}: topic {topic!r} was deleted and created again (it has the "
            f"id {topic_id} now), or the offsets have expired or were deleted"
            + _choices({topic: topic_id})
        )

    def _holds_records(self, partitions: Sequence[TopicPartition]) -> bool:
        held = self._admin.offset_ranges(partitions).values()
        return any(found.beginning < found.high_watermark for found in held)

    def _refuse_or_tell_restored(
        self, task_id: TaskId, partitions: Sequence[TopicPartition], stores: list[str]
    ) -> None:
        """Refuse what may be read again into state from changelogs; where it is in doubt, tell."""
        topics = {partition.topic for partition in partitions}
        ids = {topic: self._ids.get(topic) for topic in sorted(topics & self._ids.keys())}
        accepted = all(self._accepts(topic, topic_id) for topic, topic_id in ids.items())
        if self._exactly_once and ids and not accepted:
            raise FatalStreamsError(
                f"task {task_id}: the group has no committed offset of "
                f"{', '.join(map(str, partitions))} any more, and state of {_named(stores)} was "
                "restored from its changelog: source topics were deleted and created again, or the "
                f"offsets have expired or were deleted{_choices(ids)}"
            )
        _log.warning(
            "state without committed offsets: input is read from where the offset reset policy "
            "says, and what of it is in the state already counts twice. Offsets vanish when a "
            "topic is deleted or a group is away for long; a crash before the first commit "
            "looks the same. `pystreams reset` starts over",
            task=str(task_id),
            stores=stores,
        )

    def _other_topic(self, topic: str, former: str, stores: list[str]) -> str:
        return (
            f"source topic {topic!r} was deleted and created again: the group has read the one "
            f"with id {former}, and now there is {self._ids[topic]}; state of {_named(stores)} "
            "holds what was read of the former"
        )

    def _accepts(self, topic: str, topic_id: str | None) -> bool:
        return topic_id is not None and self._accepted.get(topic) == topic_id

    def _present_ids(self, counts: Mapping[str, int]) -> dict[str, str]:
        internal = self._plan.repartition_topics()
        topics = set(topics_of(self._plan, self._plan.sources(), counts))
        return known_ids(self._admin.topic_ids(sorted(topics - internal.keys())))

    def _check_partitions(self, former: Mapping[str, int], counts: Mapping[str, int]) -> None:
        """Refuse topics with more partitions than they had when their tables were read."""
        present = {topic: counts[topic] for topic in self._tables if topic in counts}
        for topic, count in sorted(present.items()):
            before = former.get(topic, 0)
            if not 0 < before < count:
                continue
            topic_id = self._ids.get(topic)
            told = (
                f"topic {topic!r} has {count} partitions, and had {before} when it was read into "
                f"{_named(self._tables[topic])}, which it restores: rows that were written before "
                "lie where joins and queries look for their keys no more"
            )
            if not self._accepts(topic, topic_id):
                raise FatalStreamsError(
                    f"{told}. Copy the topic, record by record, into a new one with as many "
                    "partitions as you want, and run over that one, from its beginning, under "
                    "another application.id; or, if all rows that count lie where your producers' "
                    f"partitioner puts them now, go on: set {ACCEPTED_KEY}={topic}:{topic_id}"
                )
            _log.warning(told, topic=topic, topic_id=topic_id)
        if present != self._table_counts:
            self._table_counts = present
            self._entries = {}


def _noted(
    committed: Mapping[TopicPartition, CommittedOffset], counts: Mapping[str, int]
) -> dict[str, set[str]]:
    """Return the ids that the group's offsets note, of the partitions that tasks read."""
    noted: dict[str, set[str]] = {}
    for partition, offset in committed.items():
        if partition.partition < counts.get(partition.topic, 0):
            for topic, topic_id in noted_ids(offset.metadata).items():
                noted.setdefault(topic, set()).add(topic_id)
    return noted


def _noted_partitions(
    committed: Mapping[TopicPartition, CommittedOffset], topics: Collection[str]
) -> dict[str, int]:
    """Return how many partitions these topics had, as far as offsets note it: the most of them.

    A partition that nothing was read of since has the number of the time before it was accepted.
    """
    noted: dict[str, int] = {}
    for partition, offset in committed.items():
        topic = partition.topic
        if topic in topics:
            noted[topic] = max(noted.get(topic, 0), noted_partitions(offset.metadata, topic))
    return noted


def _named(stores: Mapping[str, int] | list[str]) -> str:
    names = ", ".join(repr(name) for name in sorted(stores))
    return f"store {names}" if len(stores) == 1 else f"stores {names}"


def _choices(topic_ids: Mapping[str, str | None]) -> str:
    pairs = ",".join(f"{topic}:{topic_id}" for topic, topic_id in topic_ids.items())
    return (
        ". What both hold would count twice. Either start over: `pystreams reset` deletes state "
        "and offsets; or keep the state, and add to it what is read from where the offset reset "
        f"policy says: set {ACCEPTED_KEY}={pairs}"
    )
