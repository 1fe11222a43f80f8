"""Messages of paused partitions, which the client had fetched already.

librdkafka's `pause` throws away everything it has prefetched of a partition (up to 64 MiB), and
its `resume` waits for the fetch that is under way, up to half a second. A task that waits for a
moment for another of its inputs must not pay that. So a pause begins here: messages that still
come are held back, in order, and only a partition that has too many of them is paused in the
client; so are all of which something comes while too many bytes are held.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from pystreams.ids import TopicPartition
from pystreams.record import ConsumedMessage
from pystreams.runtime.adapters.consuming.partition_splitter import next_offset
from pystreams.runtime.core.queues.waiting_bytes import bytes_of
from pystreams.runtime.ports import PartitionBatch


class HeldLimits(NamedTuple):
    """What may be held back.

    Attributes:
        records: Of one partition.
        bytes: Of all partitions together.
    """

    records: int = 10_000
    bytes: int = 64 << 20


_DEFAULT = HeldLimits()


class PausedPartitions:
    """Holds back what arrives for paused partitions.

    Invariant: a partition's held messages are older than any the client will still return, so
    they are handed out first.

    Args:
        limits: What may be held back before partitions are paused in the client.
    """

    def __init__(self, limits: HeldLimits = _DEFAULT) -> None:
        self._limits = limits
        self._paused: set[TopicPartition] = set()
        self._held: dict[TopicPartition, list[ConsumedMessage]] = {}
        self._held_bytes: dict[TopicPartition, int] = {}

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Hold back what comes of these partitions from now on."""
        self._paused.update(partitions)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Hand out these partitions again, what was held first."""
        self._paused.difference_update(partitions)

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Forget partitions altogether."""
        for partition in partitions:
            self._paused.discard(partition)
            self._held.pop(partition, None)
            self._held_bytes.pop(partition, None)

    def held_records(self, partition: TopicPartition) -> int:
        """Return how many messages of a partition are held."""
        return len(self._held.get(partition, ()))

    def held_bytes(self) -> int:
        """Return what the messages held of all partitions take."""
        return sum(self._held_bytes.values())

    def behind_held(self, partition: TopicPartition) -> int:
        """Return the offset behind the newest message held of a partition; there must be one."""
        return next_offset(self._held[partition])

    def hold(self, batches: Iterable[PartitionBatch]) -> None:
        """Hold back messages of any partitions: they can't be returned now."""
        for partition, messages in batches:
            self._held.setdefault(partition, []).extend(messages)
            known = self._held_bytes.get(partition, 0)
            self._held_bytes[partition] = known + bytes_of(messages)

    def sift(
        self, batches: list[PartitionBatch]
    ) -> tuple[list[PartitionBatch], list[TopicPartition]]:
        """Hold back batches of paused partitions.

        Returns:
            The other batches, and the partitions that hold too much now.
        """
        if not self._paused:
            return batches, []
        back = [batch for batch in batches if batch.partition in self._paused]
        self.hold(back)
        crowded = bool(back) and self.held_bytes() > self._limits.bytes
        full = [
            batch.partition
            for batch in back
            if crowded or len(self._held[batch.partition]) >= self._limits.records
        ]
        return [batch for batch in batches if batch.partition not in self._paused], full

    def take(self, max_records: int) -> tuple[list[PartitionBatch], list[TopicPartition]]:
        """Take held messages of partitions that are not paused any more.

        Returns:
            The batches, together not longer than `max_records`, and the partitions of which
            nothing is held now.
        """
        taken: list[PartitionBatch] = []
        emptied: list[TopicPartition] = []
        for partition in [held for held in self._held if held not in self._paused]:
            if max_records <= 0:
                break
            held = self._held[partition]
            taken.append(PartitionBatch(partition, held[:max_records]))
            if len(held) <= max_records:
                del self._held[partition], self._held_bytes[partition]
                emptied.append(partition)
            else:
                self._held[partition] = held[max_records:]
                self._held_bytes[partition] -= bytes_of(taken[-1].messages)
            max_records -= len(taken[-1].messages)
        return taken, emptied
