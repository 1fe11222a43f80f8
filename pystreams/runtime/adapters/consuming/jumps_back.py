"""Partitions in which the client went back by itself: what has been read is not returned again.

Where a broker refuses an offset, librdkafka goes to the first one there is, and does so even if it
was moved elsewhere meanwhile: the order waits behind a `seek` that came before it. An offset that
nobody wants any more is refused easily: partitions are assigned at 0, and what is before the first
uncommitted record of a repartition topic is deleted. Records would be processed twice.
Source: librdkafka's `rd_kafka_offset_reset`, which has no version of the position it is about.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from pystreams.errors import RetriableClientError
from pystreams.ids import TopicPartition
from pystreams.kernel.loggers import get_logger
from pystreams.runtime.adapters.consuming.partition_splitter import next_offset
from pystreams.runtime.adapters.consuming.reset_offsets import ResetOffsets
from pystreams.runtime.ports import PartitionBatch

_log = get_logger("pystreams.consumer")


@dataclass(slots=True)
class JumpsBack:
    """Follows the offsets of one consumer's partitions; owned by its thread.

    Attributes:
        positions: The next offset of each assigned partition, None before it has one; the
            consumer's, and moved on here.
        stopped: Partitions paused in the client, which are moved when they go on; the consumer's.
        reset: Tells where to go on.
    """

    positions: dict[TopicPartition, int | None]
    stopped: Mapping[TopicPartition, int]
    reset: ResetOffsets
    _astray: set[TopicPartition] = field(default_factory=set, init=False)

    def sift(self, batches: list[PartitionBatch]) -> list[PartitionBatch]:
        """Return the batches that go on where the last ones ended, and move the positions on."""
        for partition, messages in batches:
            position, first = self.positions.get(partition), messages[0].offset()
            if position is None or first is None or first < position:
                self._astray.add(partition)
            else:
                self.positions[partition] = next_offset(messages)
        if not self._astray:
            return batches
        return [batch for batch in batches if batch.partition not in self._astray]

    def found(self) -> Iterator[tuple[TopicPartition, int]]:
        """Yield partitions that went astray, and where they go on; without an answer they wait.

        Raises:
            FatalStreamsError: The offset is not there, and `auto.offset.reset` says to stop.
        """
        for partition in sorted(self._astray):
            position = self.positions.get(partition)
            if position is not None and partition not in self.stopped:
                try:
                    goes_on_at = self.reset.instead_of(partition, position)
                except RetriableClientError as error:
                    _log.debug("consumer", error=str(error))
                    return
                _log.warning(
                    "the client went back in a partition by itself",
                    partition=str(partition),
                    offset=position,
                    goes_on_at=goes_on_at,
                )
                yield partition, goes_on_at
            self._astray.discard(partition)
