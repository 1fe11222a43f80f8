"""The nodes of the logical graph: one declared operation each, and how it is written down.

Source: Kafka Streams' sub-classes of `GraphNode`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from types import FunctionType
from typing import Any

from pystreams.errors import TopologyError
from pystreams.serdes import Serde
from pystreams.stores.spec_builder import without_changelog
from pystreams.stores.store_builder import StoreBuilder
from pystreams.topology.contracts.extractors import fail_on_invalid_timestamp
from pystreams.topology.contracts.operator import Operator
from pystreams.topology.declarations.logical_graph.graph_node import (
    Effect,
    GraphNode,
    Place,
    TableNode,
)
from pystreams.topology.graph.nodes import RepartitionTopic, StreamPartitioner, TopicNameExtractor
from pystreams.topology.graph.topology import Topology
from pystreams.topology.operators.joins.grace_join import GraceJoinOperator
from pystreams.topology.operators.records.stateless import (
    BranchOperator,
    DropNullKeysOperator,
    KeyValueFunction,
    PassThroughOperator,
)
from pystreams.topology.operators.user_processor import AnyProcessor
from pystreams.topology.options.operation_options import Consumed

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


@dataclass(frozen=True, eq=False)
class StreamSourceNode(GraphNode):
    """A stream read from topics or from a pattern."""

    topics: tuple[str, ...]
    pattern: re.Pattern[str] | None
    consumed: Consumed[Any, Any]

    def write(self, topology: Topology, place: Place) -> None:
        """Add the source."""
        _add_source(topology, self.name, self.topics, self.pattern, self.consumed)

    def check_reads_as(self, other: StreamSourceNode) -> None:
        """Refuse to read for another source of the same topics that asks for something else.

        Of serdes and extractors one of the two may leave out what the other one gives. Differs
        from Kafka, which compares offset resets alone.

        Raises:
            TopologyError: It does.
        """
        mine, its = self.consumed, other.consumed
        if mine.offset_reset != its.offset_reset:
            raise self._reads_otherwise(other, "offset_reset", mine.offset_reset, its.offset_reset)
        for part in ("key_serde", "value_serde", "timestamp_extractor"):
            one, another = getattr(mine, part), getattr(its, part)
            if one is not None and another is not None and not _alike(one, another):
                names = (getattr(found, "__name__", found) for found in (one, another))
                raise self._reads_otherwise(other, part, *names)

    def _reads_otherwise(
        self, other: StreamSourceNode, option: str, one: object, another: object
    ) -> TopologyError:
        what = self.pattern.pattern if self.pattern else ", ".join(self.topics)
        return TopologyError(
            f"streams {self.name!r} and {other.name!r} read {what!r} with different {option} "
            f"({one} and {another}): use the same for both"
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class TableSourceNode(TableNode):
    """A table read from a topic."""

    source_name: str
    topic: str
    consumed: Consumed[Any, Any]

    def write(self, topology: Topology, place: Place) -> None:
        """Add the source, then the table below it."""
        _add_source(topology, self.source_name, (self.topic,), None, self.consumed)
        reuses_topic = place.keeps_store and place.reuses_topics
        # Rows that have expired are in the topic still, and would come back.
        if self.store is None or not reuses_topic or self.store.store_kind.expires_rows:
            self.write_below(topology, place, (self.source_name,))
            return
        unlogged = replace(self, store=without_changelog(self.store))
        unlogged.write_below(topology, place, (self.source_name,))
        topology.restore_from_source(self.store.name, self.source_name)


@dataclass(frozen=True, eq=False)
class ProcessorGraphNode(GraphNode):
    """One operator, with the stores it uses.

    Attributes:
        stores: Names of stores that others add and this node reads or writes.
        looks_into: Names of stores that others add and this node reads.
    """

    operator: Operator
    stores: tuple[str, ...] = ()
    looks_into: tuple[str, ...] = ()

    def write(self, topology: Topology, place: Place) -> None:
        """Add the operator and connect its stores."""
        stores = (*self.stores, *self.looks_into)
        topology.add_operator(
            self.name, self.operator, place.parents, stores, looks_into=self.looks_into
        )


@dataclass(frozen=True, eq=False)
class GraceJoinNode(GraphNode):
    """A join of a stream with a versioned table, with the buffer its records wait in."""

    operator: GraceJoinOperator
    table_stores: tuple[str, ...]
    buffer: StoreBuilder

    def write(self, topology: Topology, place: Place) -> None:
        """Add the operator and connect its stores, its own first: descriptions list them so.

        Raises:
            TopologyError: The table's history is shorter than the grace period.
        """
        topology.add_operator(self.name, self.operator, place.parents, looks_into=self.table_stores)
        topology.add_state_store(self.buffer, self.name)
        topology.connect_processor_and_state_stores(self.name, *self.table_stores)
        grace_period_ms = self.operator.grace_period_ms
        for store in self.table_stores:
            if not topology.stores[store].store_kind.keeps_versions:
                continue  # What a transformer uses is no history.
            retention = topology.stores[store].spec.retention
            assert retention is not None, f"store {store} is versioned"
            if retention.retention_ms < grace_period_ms:
                raise TopologyError(
                    f"join {self.name!r} waits {grace_period_ms} ms for late updates, but "
                    f"store {store!r} keeps a history of {retention.retention_ms} ms: make "
                    "history_retention_ms of the table at least as long as grace_period_ms"
                )


@dataclass(frozen=True, eq=False)
class BranchNode(GraphNode):
    """Sends each record to one of its children, which are all `BranchChildNode`s."""

    effect: Effect = field(default=Effect.SAME, kw_only=True)

    def write(self, topology: Topology, place: Place) -> None:
        """Add the node that chooses."""
        children = [child for child in place.children if isinstance(child, BranchChildNode)]
        branches = tuple(
            (child.predicate, child.name) for child in children if child.predicate is not None
        )
        default = next((child.name for child in children if child.predicate is None), None)
        topology.add_operator(self.name, BranchOperator(branches, default), place.parents)


@dataclass(frozen=True, eq=False)
class BranchChildNode(GraphNode):
    """One branch.

    Attributes:
        predicate: Chooses its records; None for the default branch, which takes the rest.
    """

    predicate: KeyValueFunction | None
    effect: Effect = field(default=Effect.SAME, kw_only=True)

    def write(self, topology: Topology, place: Place) -> None:
        """Add the node that the branch begins with."""
        topology.add_operator(self.name, PassThroughOperator(), place.parents)


@dataclass(frozen=True, eq=False)
class UserProcessorNode(GraphNode):
    """A processor of the user's, with the names of the stores it uses."""

    supplier: Callable[[], AnyProcessor]
    stores: tuple[str, ...]
    fixed_key: bool

    def write(self, topology: Topology, place: Place) -> None:
        """Add the processor, the stores it brings, and connect those it names."""
        topology.add_user_processor(
            self.name, self.supplier, place.parents, fixed_key=self.fixed_key
        )
        topology.connect_processor_and_state_stores(self.name, *self.stores)


@dataclass(frozen=True, eq=False)
class StateStoreNode(GraphNode):
    """A store that processors will name."""

    store: StoreBuilder

    def write(self, topology: Topology, place: Place) -> None:
        """Add the store, connected to nothing yet."""
        topology.add_state_store(self.store)


@dataclass(frozen=True, eq=False, kw_only=True)
class SinkGraphNode(GraphNode):
    """Writes a stream to a topic."""

    topic: str | TopicNameExtractor
    key_serde: Serde[Any] | None
    value_serde: Serde[Any] | None
    partitioner: StreamPartitioner | None

    def write(self, topology: Topology, place: Place) -> None:
        """Add the sink."""
        topology.add_sink(
            self.name,
            self.topic,
            *place.parents,
            key_serde=self.key_serde,
            value_serde=self.value_serde,
            partitioner=self.partitioner,
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class InternalTopicSinkNode(SinkGraphNode):
    """Writes to an internal topic, which is made with it; an `InternalTopicSourceNode` reads it."""

    topic: str

    def write(self, topology: Topology, place: Place) -> None:
        """Add the topic and the sink."""
        topology.add_repartition_topic(RepartitionTopic(self.topic))
        SinkGraphNode.write(self, topology, place)


@dataclass(frozen=True, eq=False, kw_only=True)
class InternalTopicSourceNode(GraphNode):
    """Reads an internal topic."""

    topic: str
    key_serde: Serde[Any] | None
    value_serde: Serde[Any] | None

    def write(self, topology: Topology, place: Place) -> None:
        """Add the source."""
        consumed = Consumed(self.key_serde, self.value_serde, fail_on_invalid_timestamp)
        _add_source(topology, self.name, (self.topic,), None, consumed)


@dataclass(frozen=True, eq=False)
class StoringNode(GraphNode):
    """One operator with a store that it brings."""

    operator: Operator
    store: StoreBuilder

    def write(self, topology: Topology, place: Place) -> None:
        """Add the operator and the store."""
        topology.add_operator(self.name, self.operator, place.parents)
        topology.add_state_store(self.store, self.name)


@dataclass(frozen=True, eq=False, kw_only=True)
class RepartitionNode(GraphNode):
    """Sends records through an internal topic, so that equal keys meet in one task.

    It is called as the node that reads the topic.

    Attributes:
        topic: The internal topic, without the application's prefix.
        filter_name: Node that drops records without a key; None writes them all.
        value_serde: How values are written and read.
        partitioner: Chooses the partition; murmur2 of the key when None.
        num_partitions: Partitions of the topic; as many as upstream when None.
        mergeable: Whether another one may do its work: it was not asked for as such.
    """

    topic: str
    filter_name: str | None
    sink_name: str
    key_serde: Serde[Any] | None
    value_serde: Serde[Any] | None
    partitioner: StreamPartitioner | None = None
    num_partitions: int | None = None
    mergeable: bool = False

    def write(self, topology: Topology, place: Place) -> None:
        """Add the topic, the filter, the sink and the source."""
        parents = place.parents
        topology.add_repartition_topic(RepartitionTopic(self.topic, self.num_partitions))
        if self.filter_name is not None:
            operator = PassThroughOperator() if place.feeds_null_keys else DropNullKeysOperator()
            topology.add_operator(self.filter_name, operator, parents)
            parents = (self.filter_name,)
        topology.add_sink(
            self.sink_name,
            self.topic,
            *parents,
            key_serde=self.key_serde,
            value_serde=self.value_serde,
            partitioner=self.partitioner,
        )
        consumed = Consumed(self.key_serde, self.value_serde, fail_on_invalid_timestamp)
        _add_source(topology, self.name, (self.topic,), None, consumed)


def _add_source(
    topology: Topology,
    name: str,
    topics: tuple[str, ...],
    pattern: re.Pattern[str] | None,
    consumed: Consumed[Any, Any],
) -> None:
    topology.add_source(
        name,
        *topics,
        pattern=pattern,
        key_serde=consumed.key_serde,
        value_serde=consumed.value_serde,
        timestamp_extractor=consumed.timestamp_extractor,
        offset_reset=consumed.offset_reset,
    )


def _alike(one: object, other: object) -> bool:
    """Return whether two may be the same; those that say nothing of themselves may be."""
    if one == other:
        return True
    if type(one) is not type(other) or isinstance(one, FunctionType):
        return False
    silent = type(one).__repr__ is object.__repr__
    return silent or _ADDRESS.sub("", repr(one)) == _ADDRESS.sub("", repr(other))
