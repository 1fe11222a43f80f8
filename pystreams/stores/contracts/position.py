"""Positions: which input records the content of a store reflects, and bounds on that.

A position holds, for each input partition, the offset of the last record processed. Bytes (Kafka's
version 0), all numbers big-endian:

    0x00 | int32 topics | { int32 length, name | int32 pairs | { int32 partition, int64 offset } }

    orders-0 processed up to offset 41
    -> 00  00000001  00000006 6f7264657273  00000001  00000000 0000000000000029

Kafka writes zeros behind that, eight bytes for each of its own; readers count and stop.

Differs from Kafka: a position is a value and never changes, so that threads may share it. And a
store's position covers all records its task has processed, also those that wrote nothing into this
store; Kafka's names only those that wrote. Ours is never lower, and it costs nothing per record.

Spec: KIP-796 "Position", KIP-892 "Interactive Query .position Offsets"; Kafka PositionSerde.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from pystreams.ids import TopicPartition, by_topic

_VERSION = 0
_VERSION_AND_COUNT = struct.Struct(">bi")
_INT = struct.Struct(">i")
_PAIR = struct.Struct(">iq")


class Position:
    """The last offset processed of each input partition; equal by value, may be a key.

    A partition that is not named has not been processed at all, as far as is known.

    Args:
        offsets: The last offset processed of each partition; copied.
    """

    __slots__ = ("_offsets",)

    def __init__(self, offsets: Mapping[TopicPartition, int] | None = None) -> None:
        self._offsets: Final = dict(offsets or {})

    @property
    def offsets(self) -> Mapping[TopicPartition, int]:
        """The last offset processed of each partition, read-only."""
        return MappingProxyType(self._offsets)

    def with_component(self, topic: str, partition: int, offset: int) -> Position:
        """Return a position that covers one more record; a higher offset stays."""
        return self.merge(Position({TopicPartition(topic, partition): offset}))

    def merge(self, other: Position) -> Position:
        """Return a position with the partitions of both, and the higher offset of each."""
        if not self._offsets or not other._offsets:
            return self if self._offsets else other
        merged = dict(self._offsets)
        for partition, offset in other._offsets.items():
            if offset > merged.get(partition, -1):
                merged[partition] = offset
        return Position(merged)

    def dominates(self, other: Position) -> bool:
        """Return whether this position covers all that another one covers."""
        return not other.beyond(self)

    def beyond(self, other: Position) -> Position:
        """Return what this position covers and another one does not."""
        reached = other._offsets
        return Position(
            {
                partition: offset
                for partition, offset in self._offsets.items()
                if offset > reached.get(partition, -1)
            }
        )

    def of_partition(self, number: int) -> Position:
        """Return the components of one partition number, of all topics."""
        return Position(
            {
                partition: offset
                for partition, offset in self._offsets.items()
                if partition.partition == number
            }
        )

    def serialize(self) -> bytes:
        """Return the bytes; topics and partitions in order, so that equal positions are equal."""
        topics = by_topic(self._offsets)
        parts = [_VERSION_AND_COUNT.pack(_VERSION, len(topics))]
        for topic, numbers in topics.items():
            name = topic.encode()
            parts += [_INT.pack(len(name)), name, _INT.pack(len(numbers))]
            parts += [
                _PAIR.pack(number, self._offsets[TopicPartition(topic, number)])
                for number in numbers
            ]
        return b"".join(parts)

    @classmethod
    def deserialize(cls, data: bytes) -> Position:
        """Read what `serialize`, or Kafka, has written.

        Raises:
            ValueError: The bytes are of another version, or cut off.
        """
        try:
            version, topics = _VERSION_AND_COUNT.unpack_from(data)
            if version != _VERSION:
                raise ValueError(f"a position of version {version}; only 0 is known")
            at = _VERSION_AND_COUNT.size
            offsets: dict[TopicPartition, int] = {}
            for _ in range(topics):
                (length,) = _INT.unpack_from(data, at)
                at += _INT.size
                topic = data[at : at + length].decode()
                at += length
                (pairs,) = _INT.unpack_from(data, at)
                at += _INT.size
                for _ in range(pairs):
                    number, offset = _PAIR.unpack_from(data, at)
                    at += _PAIR.size
                    offsets[TopicPartition(topic, number)] = offset
        except struct.error as error:
            raise ValueError(f"a position that is cut off: {data[:80]!r}") from error
        return cls(offsets)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Position):
            return NotImplemented
        return self._offsets == other._offsets

    def __hash__(self) -> int:
        return hash(frozenset(self._offsets.items()))

    def __bool__(self) -> bool:
        """Return whether any partition is named."""
        return bool(self._offsets)

    def __repr__(self) -> str:
        inside = ", ".join(f"{partition}: {self._offsets[partition]}" for partition in self)
        return f"Position({inside})"

    def __iter__(self) -> Iterator[TopicPartition]:
        """Return the partitions in order."""
        return iter(sorted(self._offsets))


@dataclass(frozen=True, slots=True)
class PositionBound:
    """How far a store must have come before it may answer a query.

    Attributes:
        position: What the store must cover; an empty one asks nothing.
    """

    position: Position = field(default_factory=Position)

    @classmethod
    def unbounded(cls) -> PositionBound:
        """Return the bound that every store meets."""
        return _UNBOUNDED

    @classmethod
    def at(cls, position: Position) -> PositionBound:
        """Return the bound that a store meets once it covers a position."""
        return cls(position)

    def missing(self, reached: Position, partition: int) -> Position:
        """Return what a store's partition lacks of the bound; empty when it meets it.

        Components of other partition numbers say nothing about this one, so that a position
        merged over all partitions is a bound for each. Spec: Kafka StoreQueryUtils.isPermitted.
        """
        if not self.position:
            return self.position
        return self.position.of_partition(partition).beyond(reached)


_UNBOUNDED = PositionBound()
