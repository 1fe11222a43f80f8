"""Where a consumer is in its partitions: what has been read is not returned again.

The client may go back in a partition by itself: where a broker refuses an offset, librdkafka goes
to the first one there is, and does so even if it was moved elsewhere meanwhile: the order waits
behind a `seek` that came before it. An offset that nobody wants any more is refused easily:
partitions are assigned at 0, and what is before the first uncommitted record of a repartition topic
is deleted. Records would be processed twice.

It also does so where a partition ends before the offset: brokers have lost records. That is no way
to go on, and stops the application; not before brokers have said it for some seconds, for one that
leads a partition since just now may not know its end.
Source: librdkafka's `rd_kafka_offset_reset`, which has no version of the position it is about.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from pystreams.errors import InputLossError, RetriableClientError
from pystreams.ids import TopicPartition
from pystreams.kernel.clock import Clock, SystemClock
from pystreams.kernel.loggers import get_logger
from pystreams.runtime.adapters.consuming.partition_splitter import next_offset
from pystreams.runtime.adapters.consuming.reset_offsets import ResetOffsets
from pystreams.runtime.ports import PartitionBatch

_log = get_logger("pystreams.consumer")

_BELIEVED_AFTER_MS = 5_000


class ReadPositions:
    """The positions of one consumer's partitions; belongs to its thread.

    Args:
        stopped: Partitions paused in the client, which are moved when they go on; the consumer's.
        reset: Tells where to go on.
        clock: Tells for how long brokers have said that a partition is too short.

    Attributes:
        assigned: The next offset of each assigned partition, None before it has one; to be read.
    """

    def __init__(
        self,
        stopped: Mapping[TopicPartition, int],
        reset: ResetOffsets,
        clock: Clock | None = None,
    ) -> None:
        self._stopped = stopped
        self._reset = reset
        self._clock = clock or SystemClock()
        # Since when (ms) partitions have ended before their positions.
        self._too_short_since_ms: dict[TopicPartition, float] = {}
        self._positions: dict[TopicPartition, int | None] = {}
        self._astray: set[TopicPartition] = set()
        self.assigned: Mapping[TopicPartition, int | None] = MappingProxyType(self._positions)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Take partitions that have no position yet."""
        self._positions.update(dict.fromkeys(partitions))

    def forget(self, partition: TopicPartition) -> None:
        """Let go of a partition."""
        self._positions.pop(partition, None)
        self._too_short_since_ms.pop(partition, None)

    def move(self, positions: Mapping[TopicPartition, int]) -> None:
        """Go on elsewhere in these partitions."""
        self._positions.update(positions)
        for partition in positions:
            self._too_short_since_ms.pop(partition, None)

    def sift(self, batches: list[PartitionBatch]) -> list[PartitionBatch]:
        """Return the batches that go on where the last ones ended, and move the positions on."""
        for partition, messages in batches:
            position, first = self._positions.get(partition), messages[0].offset()
            if position is None or first is None or first < position:
                self._astray.add(partition)
            else:
                self._positions[partition] = next_offset(messages)
        if not self._astray:
            return batches
        return [batch for batch in batches if batch.partition not in self._astray]

    def went_back(self) -> Iterator[tuple[TopicPartition, int]]:
        """Yield partitions that went astray, and where they are now; without an answer they wait.

        Raises:
            InputLossError: One has ended before its position for seconds.
            FatalStreamsError: The offset is not there, and `auto.offset.reset` says to stop.
        """
        for partition in sorted(self._astray):
            position = self._positions.get(partition)
            if position is not None and partition not in self._stopped:
                try:
                    goes_on_at = self._reset.instead_of(partition, position)
                except RetriableClientError as error:
                    _log.debug("consumer", error=str(error))
                    return
                except InputLossError as error:
                    self._believe(partition, error)
                    continue
                self._too_short_since_ms.pop(partition, None)
                _log.warning(
                    "the client went back in a partition by itself",
                    partition=str(partition),
                    offset=position,
                    goes_on_at=goes_on_at,
                )
                self._positions[partition] = goes_on_at
                yield partition, goes_on_at
            self._astray.discard(partition)

    def _believe(self, partition: TopicPartition, loss: InputLossError) -> None:
        """Raise what brokers have said for long enough."""
        now_ms = self._clock.monotonic_ms()
        since_ms = self._too_short_since_ms.setdefault(partition, now_ms)
        if now_ms - since_ms >= _BELIEVED_AFTER_MS:
            raise loss
        _log.debug("consumer", error=str(loss))
