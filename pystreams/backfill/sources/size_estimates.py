"""How large a history in Kafka is, estimated from a few of its records.

librdkafka has no request for the sizes of logs. So some records of each topic are read, from the
beginning and from the end of some partitions, and their mean stands for the others. Whatever goes
wrong, this ends soon and without an error: a topic's size is missing then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pystreams.backfill.plan.partition_bounds import PartitionBounds, records_by_topic
from pystreams.backfill.plan.rows import payload_bytes
from pystreams.config import StreamsConfig
from pystreams.errors import OffsetOutOfRangeError, StreamsError
from pystreams.ids import TopicPartition
from pystreams.kernel.clock import Clock, SystemClock
from pystreams.runtime.ports import ChangelogBatch, RestoreConsumerPort

_PARTITIONS_MAX = 4
"""Of a topic; more of them would be asked for a megabyte each."""
_RECORDS_AT_A_PLACE = 50
_DEADLINE_MS = 5000
"""For all topics together."""
_POLL_RECORDS = 500
_POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class EstimatedSizes:
    """Sizes of topics, as far as records of them could be read.

    Attributes:
        size_bytes: Keys, values and headers within the bounds, uncompressed (bytes), by topic. An
            upper bound as the number of records is. Missing: topics of which no record was read.
        sampled_records: From how many records this was estimated.
        trouble: Why topics are missing, as a sentence; empty when none is.
        newest_ms: The largest timestamp among those records (ms); None when none was read.
    """

    size_bytes: Mapping[str, int]
    sampled_records: int
    trouble: str = ""
    newest_ms: int | None = field(default=None, compare=False)


def estimated_sizes(
    config: StreamsConfig, bounds: Mapping[TopicPartition, PartitionBounds]
) -> EstimatedSizes:
    """Return the sizes of a history in Kafka, after some seconds at most.

    Args:
        config: The application's configuration, with which brokers are reached.
    """
    from pystreams.runtime.adapters.client_factory import ConfluentClients

    name = f"{config.application_id}-backfill-sizes"
    try:
        consumer = ConfluentClients(config).history_consumer(name)
    except StreamsError as error:
        return EstimatedSizes({}, 0, f"no record could be read ({error})")
    try:
        return estimated_by(consumer, bounds, SystemClock())
    finally:
        consumer.close()


def estimated_by(
    consumer: RestoreConsumerPort, bounds: Mapping[TopicPartition, PartitionBounds], clock: Clock
) -> EstimatedSizes:
    """Return the sizes of a history that a consumer reads some records of.

    Args:
        consumer: Reads; is assigned some partitions.
        clock: Tells when it is time to end.
    """
    sample = _Sample(consumer, bounds, clock)
    sample.read()
    sizes = {
        topic: sample.size_of(topic) if count else 0
        for topic, count in records_by_topic(bounds).items()
    }
    missing = ", ".join(sorted(topic for topic, size in sizes.items() if size is None))
    why = sample.trouble or (
        f"none came within {_DEADLINE_MS // 1000} s"
        if sample.was_cut_off()
        else "only transactions' markers and aborted records were there"
    )
    return EstimatedSizes(
        {topic: size for topic, size in sizes.items() if size is not None},
        sum(sample.records.values()),
        f"no record of {missing} could be read ({why})" if missing else "",
        sample.newest_ms,
    )


class _Sample:
    """Some records of a history; read once.

    Attributes:
        records: How many were read, by partition.
        trouble: What went wrong; empty when nothing did.
        newest_ms: The largest timestamp (ms); None before the first record.
    """

    def __init__(
        self,
        consumer: RestoreConsumerPort,
        bounds: Mapping[TopicPartition, PartitionBounds],
        clock: Clock,
    ) -> None:
        self.records: dict[TopicPartition, int] = {}
        self.trouble = ""
        self.newest_ms: int | None = None
        self._bytes: dict[TopicPartition, int] = {}
        self._consumer = consumer
        self._bounds = bounds
        self._clock = clock
        self._deadline_ms = clock.monotonic_ms() + _DEADLINE_MS
        self._positions = {partition: bounds[partition].first for partition in _chosen(bounds)}

    def read(self) -> None:
        """Read from the beginning of partitions, then from before their end."""
        try:
            self._read_some()
            for partition, position in self._positions.items():
                before_end = self._bounds[partition].end - _RECORDS_AT_A_PLACE
                self._positions[partition] = max(position, before_end)
            self._read_some()
        except StreamsError as error:
            self.trouble = str(error)

    def was_cut_off(self) -> bool:
        """Return whether the time for reading is over."""
        return self._clock.monotonic_ms() >= self._deadline_ms

    def size_of(self, topic: str) -> int | None:
        """Return the size of a topic (bytes), or None when no record of it was read."""
        read = [partition for partition in self.records if partition.topic == topic]
        if not read:
            return None
        mean = sum(self._bytes[partition] for partition in read) / sum(
            self.records[partition] for partition in read
        )
        return round(
            sum(
                has.records
                * (self._bytes[partition] / self.records[partition] if partition in read else mean)
                for partition, has in self._bounds.items()
                if partition.topic == topic
            )
        )

    def _read_some(self) -> None:
        """Read a few records of each partition, from its position on."""
        left = {
            partition: _RECORDS_AT_A_PLACE
            for partition, position in self._positions.items()
            if position < self._bounds[partition].end
        }
        # Partitions that are kept would go on where they are.
        self._consumer.assign({})
        while left and not self.was_cut_off():
            self._consumer.assign({partition: self._positions[partition] for partition in left})
            try:
                batches = self._consumer.poll(_POLL_RECORDS, _POLL_S)
            except OffsetOutOfRangeError as error:
                self.trouble = str(error)
                left.pop(error.partition, None)
                # What was read of the others went with it, and comes again.
                self._consumer.assign({})
                continue
            for batch in batches:
                self._take(batch, left)

    def _take(self, batch: ChangelogBatch, left: dict[TopicPartition, int]) -> None:
        """Count records of one partition, as many as are wanted; then it is not read any more."""
        partition, messages, end_reached_at = batch
        if partition not in left:
            return
        end = self._bounds[partition].end
        for message in messages:
            offset = message.offset()
            assert offset is not None, "consumed records have an offset"
            self._positions[partition] = offset + 1
            if offset >= end:
                break
            left[partition] -= 1
            self.records[partition] = self.records.get(partition, 0) + 1
            self._bytes[partition] = self._bytes.get(partition, 0) + payload_bytes(
                message.key(), message.value(), message.headers() or ()
            )
            self.newest_ms = max(self.newest_ms or 0, message.timestamp()[1])
            if not left[partition]:
                break  # The others may be read from before the end.
        else:
            if end_reached_at is not None:
                self._positions[partition] = max(self._positions[partition], end_reached_at)
        if not left[partition] or self._positions[partition] >= end:
            del left[partition]


def _chosen(bounds: Mapping[TopicPartition, PartitionBounds]) -> list[TopicPartition]:
    """Return some partitions of each topic that have records, spread over all of them."""
    by_topic: dict[str, list[TopicPartition]] = {}
    for partition in sorted(partition for partition, has in bounds.items() if has.records):
        by_topic.setdefault(partition.topic, []).append(partition)
    return [
        partition
        for own in by_topic.values()
        for partition in own[:: -(-len(own) // _PARTITIONS_MAX)]
    ]
