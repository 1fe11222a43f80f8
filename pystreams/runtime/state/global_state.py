"""The state of a process that all its threads share: the global stores, and how far each is.

A global store is the image of one topic, all partitions of it. It has no changelog: the topic is
one, and its offsets are committed with the data, in one batch. So a restart reads what has come
since. They are those to read next, where a task's store has the last: so Kafka Streams has them,
and each goes on in the other's directory. What can't be continued is read anew from the beginning,
that store alone:

- the topic is another one of the same name, or no longer holds what comes next;
- its files are damaged;
- it can't tell how far it is (it does not keep its offsets), or may hold what was never committed
  (under exactly-once, if it is not transactional).

Source: Kafka Streams' `GlobalStateManagerImpl`. Differs from Kafka: there each of these ends the
application, and the next start begins with all global stores empty.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from pystreams.errors import StateStoreCorruptedError
from pystreams.ids import TaskId, TopicPartition
from pystreams.kernel.loggers import get_logger
from pystreams.record import PresentRecord
from pystreams.runtime.cluster.committed_offsets import OffsetRange
from pystreams.runtime.state.changelog_gaps import ANOTHER_TOPIC, why_not_continued
from pystreams.runtime.state.store_settings import StoreSettings
from pystreams.stores.accounting.metered import StoreMeters, as_processors_see_it
from pystreams.stores.contracts.key_value import StateStore, StateStoreContext
from pystreams.stores.contracts.position import Position
from pystreams.stores.contracts.state_store import ChangelogIdentity
from pystreams.stores.store_builder import StoreBuilder

GLOBAL_TASK_ID = TaskId(-1, -1)
"""Stands for a process's global state where a task's id is asked for, as in Kafka."""

_log = get_logger("pystreams.stores")


@dataclass(slots=True)
class _GlobalStore:
    """One global store.

    Attributes:
        topic: What it is the image of.
        partitions: All partitions of it.
        processed: Offset of the last record in it, committed or not, by partition.
        identity: Which topic its offsets are of.
    """

    builder: StoreBuilder
    topic: str
    partitions: tuple[TopicPartition, ...]
    store: StateStore
    meters: StoreMeters
    processed: dict[TopicPartition, int] = field(default_factory=dict)
    identity: ChangelogIdentity = field(default_factory=ChangelogIdentity)

    def position(self) -> Position:
        """Return which input is in it, committed or not; for any thread."""
        return Position(self.processed.copy())

    def next_offsets(self) -> dict[TopicPartition, int]:
        """Return where each partition that something came of goes on."""
        return {partition: last + 1 for partition, last in self.processed.items()}


class GlobalStateManager:
    """Opens, fills, commits and closes the global stores of a process.

    Belongs to the thread that fills them; others may read `store` and `position_of`.

    Args:
        stores: Builder and topic of each store.
        counts: Partition count of at least these topics.
        settings: What all stores are opened with.
        record: The record that is being processed.
        stream_time: Returns the highest timestamp (ms) there was so far.

    Attributes:
        directory: Their directory, once they are open.
    """

    def __init__(
        self,
        stores: Sequence[tuple[StoreBuilder, str]],
        counts: Mapping[str, int],
        settings: StoreSettings,
        record: PresentRecord,
        stream_time: Callable[[], int],
    ) -> None:
        # There is nobody to forward to, so that a record cache would hold back for nothing.
        self._environment = replace(settings.environment, cache_enabled=False)
        self._damage_cure = settings.damage_cure
        self._record, self._stream_time = record, stream_time
        self.directory = Path()
        self._stores: dict[str, _GlobalStore] = {}
        for builder, topic in stores:
            self._stores[builder.name] = _GlobalStore(
                builder,
                topic,
                tuple(TopicPartition(topic, number) for number in range(counts[topic])),
                settings.build(builder),
                StoreMeters(builder.metrics_scope, settings.recording),
            )
        self._of_topic = {found.topic: found for found in self._stores.values()}

    def open(self, directory: Path) -> None:
        """Open all stores.

        Raises:
            StateStoreError: A store can't be opened; those already open are closed again.
        """
        self.directory = directory
        try:
            for found in self._stores.values():
                self._open(found)
        except BaseException:
            self.close()
            raise

    def partitions(self) -> list[TopicPartition]:
        """Return all that is read."""
        return [partition for found in self._stores.values() for partition in found.partitions]

    def take_partitions(self, counts: Mapping[str, int]) -> list[TopicPartition]:
        """Read partitions that topics have got since, too; return them.

        Args:
            counts: Partition counts of topics.
        """
        new: list[TopicPartition] = []
        for found in self._stores.values():
            known = len(found.partitions)
            added = range(known, counts.get(found.topic, known))
            partitions = tuple(TopicPartition(found.topic, number) for number in added)
            found.partitions += partitions
            new += partitions
        return new

    def begin(
        self, held: Mapping[TopicPartition, OffsetRange], topic_ids: Mapping[str, str]
    ) -> dict[TopicPartition, int]:
        """Return where each partition is read from; a store that can't go on begins anew.

        Args:
            held: What the broker holds of all partitions.
            topic_ids: The topics' ids, as far as they are known.
        """
        next_offsets: dict[TopicPartition, int] = {}
        for found in self._stores.values():
            found.identity.is_now(topic_ids.get(found.topic))
            if reason := self._why_anew(found, held):
                self._rebuild_because(found, reason)
            for partition in found.partitions:
                last_offset = found.processed.get(partition)
                next_offset = 0 if last_offset is None else last_offset + 1
                next_offsets[partition] = max(next_offset, held[partition].beginning)
        return next_offsets

    def processors_store(self, name: str) -> Any:
        """Return a store as the processor that fills it sees it."""
        found = self._stores[name]
        return as_processors_see_it(found.store, found.meters)

    def stores(self) -> dict[str, StateStore]:
        """Return all stores by name."""
        return {name: found.store for name, found in self._stores.items()}

    def meters(self) -> dict[str, StoreMeters]:
        """Return what is measured on all stores, by their names; safe from any thread."""
        return {name: found.meters for name, found in self._stores.items()}

    def position_of(self, name: str) -> Position:
        """Return which input a store reflects; for any thread."""
        return self._stores[name].position()

    def processed(self, partition: TopicPartition, last_offset: int) -> None:
        """Take note that a store holds what came of a partition up to an offset."""
        self._of_topic[partition.topic].processed[partition] = last_offset

    def uncommitted_bytes(self) -> int:
        """Return the bytes of keys and values that wait for `commit`, over all stores."""
        total = 0
        for found in self._stores.values():
            size = found.store.approximate_num_uncommitted_bytes()
            found.meters.uncommitted_bytes = size
            total += size
        return total

    def commit(self) -> None:
        """Make all stores durable with their offsets."""
        for found in self._stores.values():
            if found.processed:
                commit = partial(found.store.commit, found.next_offsets())
                found.meters.timed(commit, found.meters.commits)
                found.meters.uncommitted_bytes = 0

    def rebuild(self, store: str, reason: str) -> None:
        """Wipe a store, to be filled from the beginning of its topic; the log says why."""
        self._rebuild_because(self._stores[store], reason)

    def store_of(self, topic: str) -> str:
        """Return the name of the store that is the image of a topic."""
        return self._of_topic[topic].builder.name

    def close(self) -> None:
        """Close all stores; what is committed stays."""
        for found in self._stores.values():
            found.store.close()

    # ------------------------------------------------------------------ inside

    def _open(self, found: _GlobalStore) -> None:
        try:
            self._init(found)
        except StateStoreCorruptedError as error:
            if self._damage_cure:  # There is no topic to read it anew from.
                raise error.with_cure(self._damage_cure) from error
            self._rebuild_because(found, str(error))
        store = found.store
        undone = store.transactional or not self._environment.exactly_once
        if store.persistent and not (store.manages_offsets() and undone):
            # A new one has nothing to lose; of another it is not known how far it is.
            store.destroy()
            self._init(found)

    def _init(self, found: _GlobalStore) -> None:
        found.processed.clear()
        found.store.init(
            StateStoreContext(
                environment=self._environment,
                task_id=GLOBAL_TASK_ID,
                task_directory=self.directory,
                changelog=None,
                changelog_topic=found.topic,
                changelog_identity=found.identity,
                record=self._record,
                stream_time=self._stream_time,
                position=found.position,
            )
        )
        for partition in found.partitions:
            next_offset = found.store.committed_offset(partition)
            if next_offset:  # Kafka Streams says 0 of a partition that was empty.
                found.processed[partition] = next_offset - 1

    def _why_anew(
        self, found: _GlobalStore, held: Mapping[TopicPartition, OffsetRange]
    ) -> str | None:
        """Return why a store can't go on from where it is; None if it can."""
        if found.processed and found.identity.is_another:
            return ANOTHER_TOPIC
        for partition, last_offset in found.processed.items():
            # Whoever writes the topic, in transactions or not, may end it with a marker.
            reason = why_not_continued(last_offset + 1, held[partition], exactly_once=True)
            if reason is not None:
                return f"{partition}: {reason}"
        return None

    def _rebuild_because(self, found: _GlobalStore, reason: str) -> None:
        _log.warning(
            "global store is read anew from the beginning of its topic",
            store=found.builder.name,
            topic=found.topic,
            reason=reason,
        )
        found.store.destroy()
        self._init(found)
