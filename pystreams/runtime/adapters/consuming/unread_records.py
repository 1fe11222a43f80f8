"""What a consumer has not returned of its partitions: as far as it knows, or as the broker says."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from confluent_kafka import KafkaException

from pystreams.ids import TopicPartition
from pystreams.runtime.adapters.connection.confluent import Consumer
from pystreams.runtime.adapters.connection.kafka_partitions import theirs, watermarks
from pystreams.runtime.adapters.consuming.paused_partitions import PausedPartitions

_ANSWER_TIMEOUT_S = 1.0
"""How long the loop may have to wait to learn where a partition ends."""
_PAUSE_S = 10.0
"""How long it asks for no partition after it had no answer for one."""


@dataclass(slots=True)
class UnreadRecords:
    """Records of one consumer's partitions that were not polled.

    Attributes:
        started: Where reading of assigned partitions began, None before it has; the consumer's.
        stopped: Partitions paused in the client, and where they go on; the consumer's.
    """

    client: Consumer
    started: Mapping[TopicPartition, int | None]
    stopped: Mapping[TopicPartition, int]
    paused: PausedPartitions
    _ask_again_s: float = field(default=0.0, init=False)
    # Where brokers said that partitions end: fetches may have no answers.
    _told_ends: dict[TopicPartition, int] = field(default_factory=dict, init=False)

    def known(self, partition: TopicPartition) -> int | None:
        """Return how many there are by what brokers have told; None when that is nothing yet."""
        start = self.started.get(partition)
        if start is None:
            return None
        _, fetched = self.client.get_watermark_offsets(theirs(partition), cached=True)
        end = max(fetched, self._told_ends.get(partition, fetched))
        if end < start:
            return None
        behind = max(end - self._position(partition, start), 0)
        return behind + self.paused.held_records(partition)

    def note_ends(self, ends: Mapping[TopicPartition, int]) -> None:
        """Take where assigned partitions end."""
        self._told_ends.update((at, end) for at, end in ends.items() if at in self.started)

    def forget(self, partition: TopicPartition) -> None:
        """Let go of a partition."""
        self._told_ends.pop(partition, None)

    def is_none_now(self, partition: TopicPartition) -> bool:
        """Return whether there are none, by what the broker says now; False without an answer."""
        start = self.started.get(partition)
        if start is None or self.known(partition) != 0 or time.monotonic() < self._ask_again_s:
            return False
        try:
            found = watermarks(self.client, partition, _ANSWER_TIMEOUT_S)
        except KafkaException:
            found = None
        if found is None:
            self._ask_again_s = time.monotonic() + _PAUSE_S
            return False
        return found[1] <= self._position(partition, start)

    def _position(self, partition: TopicPartition, start: int) -> int:
        """Return the next offset; the client's also passes the markers of transactions."""
        stopped = self.stopped.get(partition)
        if stopped is not None:
            return stopped
        position: int = self.client.position([theirs(partition)])[0].offset
        return max(position, start)
