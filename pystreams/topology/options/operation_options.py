"""Options of the DSL's operations: plain values, each field also a keyword of the methods.

`stream("orders", key_serde=STRING)` and `stream("orders", consumed=Consumed(key_serde=STRING))`
say the same. Keywords are the way to write it; an object is for options that several operations
share. The `...Options` dictionaries type the keywords and repeat the fields of their class. The
classes have no slots: before Python 3.13 one that is frozen, generic and has them can't be called
with its types, as in `Materialized[str, int](name="counts")`.

Source: Kafka Streams' `Consumed`, `Produced`, `Grouped`, `Repartitioned`, `Joined`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Literal, TypedDict

from pystreams.serdes import Serde
from pystreams.topology.contracts.extractors import TimestampExtractor
from pystreams.topology.contracts.numbers import check_number
from pystreams.topology.graph.nodes import StreamPartitioner
from pystreams.topology.operators.idle_time import checked_timeout
from pystreams.topology.options.given_options import CheckedOptions
from pystreams.topology.options.type_variables import K, V, VOther

OffsetReset = Literal["earliest", "latest", "none"]


@dataclass(frozen=True)
class Consumed(CheckedOptions, Generic[K, V]):
    """How topics are read.

    Attributes:
        key_serde: How keys are read; the configured default when None.
        value_serde: How values are read; the configured default when None.
        timestamp_extractor: Where event time comes from; the configured one when None.
        offset_reset: Where a group without offsets begins; `auto.offset.reset` when None.
        name: Name of the node; a table's source adds `-source`.
    """

    key_serde: Serde[K] | None = None
    value_serde: Serde[V] | None = None
    timestamp_extractor: TimestampExtractor | None = None
    offset_reset: OffsetReset | None = None
    name: str | None = None


class ConsumedOptions(TypedDict, Generic[K, V], total=False):
    """Keywords for `Consumed`."""

    key_serde: Serde[K] | None
    value_serde: Serde[V] | None
    timestamp_extractor: TimestampExtractor | None
    offset_reset: OffsetReset | None
    name: str | None


@dataclass(frozen=True)
class Produced(CheckedOptions, Generic[K, V]):
    """How a topic is written.

    Attributes:
        key_serde: How keys are written; the stream's own when None, then the configured default.
        value_serde: How values are written; likewise.
        partitioner: Chooses the partition, or a set: each of several gets the record, an empty one
            drops it. Kafka's murmur2 of the key when None.
        name: Name of the sink.
    """

    key_serde: Serde[K] | None = None
    value_serde: Serde[V] | None = None
    partitioner: StreamPartitioner | None = None
    name: str | None = None


class ProducedOptions(TypedDict, Generic[K, V], total=False):
    """Keywords for `Produced`."""

    key_serde: Serde[K] | None
    value_serde: Serde[V] | None
    partitioner: StreamPartitioner | None
    name: str | None


@dataclass(frozen=True)
class Grouped(CheckedOptions, Generic[K, V]):
    """How records travel to their group, if they must.

    Attributes:
        key_serde: How keys are written to the repartition topic.
        value_serde: How values are written to it.
        name: Name of the repartition topic (`<application id>-<name>-repartition`) and of the
            node that selects the new key.
    """

    key_serde: Serde[K] | None = None
    value_serde: Serde[V] | None = None
    name: str | None = None


class GroupedOptions(TypedDict, Generic[K, V], total=False):
    """Keywords for `Grouped`."""

    key_serde: Serde[K] | None
    value_serde: Serde[V] | None
    name: str | None


@dataclass(frozen=True)
class Repartitioned(CheckedOptions, Generic[K, V]):
    """How a stream is spread anew.

    Attributes:
        key_serde: How keys are written; the stream's own when None, then the configured default.
        value_serde: How values are written; likewise.
        partitioner: Chooses the partition, or a set: each of several gets the record, an empty one
            drops it. Kafka's murmur2 of the key when None.
        num_partitions: Partitions of the topic; as many as upstream has when None.
        name: Name of the topic (`<application id>-<name>-repartition`).
    """

    key_serde: Serde[K] | None = None
    value_serde: Serde[V] | None = None
    partitioner: StreamPartitioner | None = None
    num_partitions: int | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        """Refuse options of a wrong type."""
        super().__post_init__()
        if self.num_partitions is not None:
            check_number("Repartitioned", "num_partitions", self.num_partitions, 1, "")


class RepartitionedOptions(TypedDict, Generic[K, V], total=False):
    """Keywords for `Repartitioned`."""

    key_serde: Serde[K] | None
    value_serde: Serde[V] | None
    partitioner: StreamPartitioner | None
    num_partitions: int | None
    name: str | None


@dataclass(frozen=True)
class Joined(CheckedOptions, Generic[K, V, VOther]):
    """How a stream is brought to the table it is joined with.

    Attributes:
        key_serde: How keys are written to the repartition topic; also the result's.
        value_serde: How the stream's values are written to it.
        other_value_serde: How the table's values are written; no stream-table join needs it.
        name: Name of the node and of the repartition topic.
        grace_period_ms: How long records of the stream wait, in stream time, for late updates of
            the table; only a versioned table can be joined so. None joins at once.
        idle_timeout_ms: How long the input of a join with grace is silent, on the wall clock (ms),
            before stream time goes on with the clock; as `StreamsBuilder` says when None, never
            when -1.
    """

    key_serde: Serde[K] | None = None
    value_serde: Serde[V] | None = None
    other_value_serde: Serde[VOther] | None = None
    name: str | None = None
    grace_period_ms: int | None = None
    idle_timeout_ms: int | None = None

    def __post_init__(self) -> None:
        """Refuse options of a wrong type."""
        super().__post_init__()
        checked_timeout(self.idle_timeout_ms, "Joined")
        if self.grace_period_ms is not None:
            check_number("Joined", "grace_period_ms", self.grace_period_ms, 0)


class JoinedOptions(TypedDict, Generic[K, V, VOther], total=False):
    """Keywords for `Joined`."""

    key_serde: Serde[K] | None
    value_serde: Serde[V] | None
    other_value_serde: Serde[VOther] | None
    name: str | None
    grace_period_ms: int | None
    idle_timeout_ms: int | None
