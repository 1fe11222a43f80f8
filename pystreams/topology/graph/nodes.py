"""The nodes of a topology, as plain values: sources, processors, sinks."""

from __future__ import annotations

import re
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, ClassVar

from pystreams.record import Headers
from pystreams.serdes import Serde
from pystreams.topology.contracts.extractors import TimestampExtractor
from pystreams.topology.contracts.operator import Operator

TopicNameExtractor = Callable[[Any, Any, "RecordForRouting"], str]
"""Chooses the topic of one record: (key, value, record) -> topic name."""

StreamPartitioner = Callable[[str, Any, Any, int], int | AbstractSet[int] | None]
"""Chooses where one record goes: (topic, key, value, number of partitions) -> a partition; a set of
partitions, each of which gets the record, and of which an empty one drops it; or None for Kafka's
own choice (murmur2 of the key's bytes). Spec: KIP-837."""


@dataclass(slots=True)
class RecordForRouting:
    """What a topic name extractor may look at beside key and value.

    Attributes:
        timestamp: The record's timestamp (ms).
        topic: Topic of the source record; None in a punctuation.
        partition: Its partition; None in a punctuation.
        offset: Its offset; None in a punctuation.
    """

    timestamp: int
    headers: Headers
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None


@dataclass(frozen=True, slots=True)
class SourceNode:
    """Reads topics. Exactly one of `topics` and `pattern` is set.

    Attributes:
        is_global: Whether each process reads all of its one topic, into a global store.
    """

    name: str
    topics: tuple[str, ...] = ()
    pattern: re.Pattern[str] | None = None
    key_serde: Serde[Any] | None = None
    value_serde: Serde[Any] | None = None
    timestamp_extractor: TimestampExtractor | None = None
    offset_reset: str | None = None
    is_global: bool = False
    parents: ClassVar[tuple[str, ...]] = ()
    stores: ClassVar[tuple[str, ...]] = ()

    def reads(self, topic: str) -> bool:
        """Return whether it reads a topic; internal topics by their names without prefix."""
        if self.pattern is not None:
            return self.pattern.fullmatch(topic) is not None
        return topic in self.topics


@dataclass(frozen=True, slots=True)
class ProcessorNode:
    """Runs an operator between its parents and its children.

    Attributes:
        looks_into: Of these, the stores that it never writes into.
    """

    name: str
    operator: Operator
    parents: tuple[str, ...]
    stores: tuple[str, ...] = ()
    looks_into: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class SinkNode:
    """Writes to a topic, or to the topic an extractor chooses."""

    name: str
    topic: str | TopicNameExtractor
    parents: tuple[str, ...]
    key_serde: Serde[Any] | None = None
    value_serde: Serde[Any] | None = None
    partitioner: StreamPartitioner | None = None
    stores: ClassVar[tuple[str, ...]] = ()


Node = SourceNode | ProcessorNode | SinkNode


@dataclass(frozen=True, slots=True)
class RepartitionTopic:
    """An internal topic that carries records from one sub-topology to another.

    Attributes:
        name: Its name without the application's prefix.
        num_partitions: How many partitions it must have; None takes as many as upstream has.
    """

    name: str
    num_partitions: int | None = None


@dataclass(frozen=True, slots=True)
class CopartitionGroup:
    """Sources whose topics must have equal partition counts.

    Attributes:
        node: The node for whose sake: a join.
    """

    sources: frozenset[str]
    node: str
