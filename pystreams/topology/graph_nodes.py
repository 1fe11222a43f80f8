"""The nodes of the logical graph: one declared operation each, and how it is written down.

Source: Kafka Streams' `GraphNode` and its sub-classes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pystreams.errors import TopologyError
from pystreams.stores.spec_builder import StoreSpecBuilder
from pystreams.topology.extractors import fail_on_invalid_timestamp
from pystreams.topology.nodes import RepartitionTopic, StreamPartitioner, TopicNameExtractor
from pystreams.topology.operator import Operator
from pystreams.topology.options import Consumed
from pystreams.topology.processors.stateless import DropNullKeysOperator, PassThroughOperator
from pystreams.topology.topology import Topology

if TYPE_CHECKING:
    from collections.abc import Callable

    from pystreams.serdes import Serde
    from pystreams.stores.store_builder import StoreBuilder
    from pystreams.topology.processors.grace_join import GraceJoinOperator
    from pystreams.topology.processors.table import TableSourceOperator
    from pystreams.topology.processors.user_processor import AnyProcessor
    from pystreams.tracebacks import UsersCall


class GraphNode:
    """One declared operation.

    Args:
        name: The node's name in the topology; for a repartition, the name of its source.

    Attributes:
        name: See above.
        parents: Operations it follows, in order of declaration.
        children: Operations that follow it.
        priority: When it was declared.
        call: The user's call that declared it first; None before it is added to the graph.
        keeps_null_keys: Whether it wants records without a key (left joins do), so that
            repartitions upstream must not drop them.
        versioned: Whether it makes a table of which late updates are history, see `LateChange`.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.parents: list[GraphNode] = []
        self.children: list[GraphNode] = []
        self.priority = -1
        self.call: UsersCall | None = None
        self.keeps_null_keys = False
        self.versioned = False

    def write(self, topology: Topology) -> None:
        """Add the nodes, stores and topics of this operation to the topology."""

    def parent_names(self) -> tuple[str, ...]:
        """Return the names of the nodes this one reads from."""
        return tuple(parent.name for parent in self.parents)


class StreamSourceNode(GraphNode):
    """A stream read from topics or from a pattern."""

    def __init__(
        self,
        name: str,
        topics: tuple[str, ...],
        pattern: re.Pattern[str] | None,
        consumed: Consumed[Any, Any],
    ) -> None:
        super().__init__(name)
        self.topics = topics
        self.pattern = pattern
        self.consumed = consumed

    def write(self, topology: Topology) -> None:
        """Add the source."""
        _add_source(topology, self.name, self.topics, self.pattern, self.consumed)

    def take_over(self, other: StreamSourceNode) -> None:
        """Adopt the children of another source of the same topics.

        Raises:
            TopologyError: The two ask for different offset resets.
        """
        if self.consumed.offset_reset != other.consumed.offset_reset:
            what = self.pattern.pattern if self.pattern else ", ".join(self.topics)
            message = (
                f"streams {self.name!r} and {other.name!r} read {what!r} with different "
                f"offset_reset ({self.consumed.offset_reset} and {other.consumed.offset_reset}): "
                "use the same for both"
            )
            raise TopologyError(message)
        for child in list(other.children):
            disconnect(other, child)
            connect(self, child)


class TableSourceNode(GraphNode):
    """A table read from a topic; its store is added only if something needs it."""

    def __init__(
        self,
        name: str,
        source_name: str,
        topic: str,
        consumed: Consumed[Any, Any],
        operator: TableSourceOperator,
        store: StoreBuilder,
    ) -> None:
        super().__init__(name)
        self._source_name = source_name
        self._topic = topic
        self._consumed = consumed
        self._operator = operator
        self._store = store

    def write(self, topology: Topology) -> None:
        """Add the source, the table's node and, when it is materialized, its store."""
        _add_source(topology, self._source_name, (self._topic,), None, self._consumed)
        topology.add_operator(self.name, self._operator, (self._source_name,))
        if self._operator.materialized:
            topology.add_state_store(self._store, self.name)


class ProcessorGraphNode(GraphNode):
    """One operator, with the stores it uses.

    Args:
        name: The node's name.
        operator: What it does.
        stores: Names of stores that others add and this node reads or writes.
        own_store: A store that is added with this node; with a `materialized` attribute on the
            operator, only if that is true when the topology is built.
    """

    def __init__(
        self,
        name: str,
        operator: Operator,
        *,
        stores: tuple[str, ...] = (),
        own_store: StoreBuilder | None = None,
    ) -> None:
        super().__init__(name)
        self._operator = operator
        self._stores = stores
        self._own_store = own_store

    def write(self, topology: Topology) -> None:
        """Add the operator and connect its stores, its own first: descriptions list them so."""
        topology.add_operator(self.name, self._operator, self.parent_names())
        if self._own_store is not None and getattr(self._operator, "materialized", True):
            topology.add_state_store(self._own_store, self.name)
        topology.connect_processor_and_state_stores(self.name, *self._stores)


class GraceJoinNode(ProcessorGraphNode):
    """A join of a stream with a versioned table, with the buffer its records wait in."""

    def __init__(
        self,
        name: str,
        operator: GraceJoinOperator,
        *,
        stores: tuple[str, ...],
        buffer: StoreBuilder,
    ) -> None:
        super().__init__(name, operator, stores=stores, own_store=buffer)
        self._table_stores = stores
        self._grace_period_ms = operator.grace_period_ms

    def write(self, topology: Topology) -> None:
        """Add the operator and connect its stores.

        Raises:
            TopologyError: The table's history is shorter than the grace period.
        """
        super().write(topology)
        for store in self._table_stores:
            builder = topology.stores[store]
            assert isinstance(builder, StoreSpecBuilder), f"store {store} is versioned"
            retention = builder.spec.retention
            assert retention is not None, f"store {store} is versioned"
            if retention.retention_ms < self._grace_period_ms:
                message = (
                    f"join {self.name!r} waits {self._grace_period_ms} ms for late updates, but "
                    f"store {store!r} keeps a history of {retention.retention_ms} ms: make "
                    "history_retention_ms of the table at least as long as grace_period_ms"
                )
                raise TopologyError(message)


class UserProcessorNode(GraphNode):
    """A processor of the user's, with the names of the stores it uses."""

    def __init__(
        self,
        name: str,
        supplier: Callable[[], AnyProcessor],
        stores: tuple[str, ...],
        *,
        fixed_key: bool,
    ) -> None:
        super().__init__(name)
        self._supplier = supplier
        self._stores = stores
        self._fixed_key = fixed_key

    def write(self, topology: Topology) -> None:
        """Add the processor, the stores it brings, and connect those it names."""
        parents = self.parent_names()
        topology.add_user_processor(self.name, self._supplier, parents, fixed_key=self._fixed_key)
        topology.connect_processor_and_state_stores(self.name, *self._stores)


class StateStoreNode(GraphNode):
    """A store that processors will name."""

    def __init__(self, store: StoreBuilder) -> None:
        super().__init__(store.name)
        self._store = store

    def write(self, topology: Topology) -> None:
        """Add the store, connected to nothing yet."""
        topology.add_state_store(self._store)


class SinkGraphNode(GraphNode):
    """Writes a stream to a topic."""

    def __init__(
        self,
        name: str,
        topic: str | TopicNameExtractor,
        key_serde: Serde[Any] | None,
        value_serde: Serde[Any] | None,
        partitioner: StreamPartitioner | None,
    ) -> None:
        super().__init__(name)
        self._topic = topic
        self._key_serde = key_serde
        self._value_serde = value_serde
        self._partitioner = partitioner

    def write(self, topology: Topology) -> None:
        """Add the sink."""
        topology.add_sink(
            self.name,
            self._topic,
            *self.parent_names(),
            key_serde=self._key_serde,
            value_serde=self._value_serde,
            partitioner=self._partitioner,
        )


@dataclass(frozen=True, slots=True)
class Repartition:
    """What a repartition consists of.

    Attributes:
        topic: The internal topic, without the application's prefix.
        filter_name: Node that drops records without a key; None writes them all.
        sink_name: Node that writes the topic.
        source_name: Node that reads it.
        key_serde: How keys are written and read.
        value_serde: How values are written and read.
        partitioner: Chooses the partition; murmur2 of the key when None.
        num_partitions: Partitions of the topic; as many as upstream when None.
    """

    topic: str
    filter_name: str | None
    sink_name: str
    source_name: str
    key_serde: Serde[Any] | None
    value_serde: Serde[Any] | None
    partitioner: StreamPartitioner | None = None
    num_partitions: int | None = None


class RepartitionNode(GraphNode):
    """Sends records through an internal topic, so that equal keys meet in one task."""

    def __init__(self, repartition: Repartition) -> None:
        super().__init__(repartition.source_name)
        self._repartition = repartition

    def write(self, topology: Topology) -> None:
        """Add the topic, the filter, the sink and the source."""
        part = self._repartition
        parents = self.parent_names()
        topology.add_repartition_topic(RepartitionTopic(part.topic, part.num_partitions))
        if part.filter_name is not None:
            keep_all = _has_null_key_reader(self)
            operator = PassThroughOperator() if keep_all else DropNullKeysOperator()
            topology.add_operator(part.filter_name, operator, parents)
            parents = (part.filter_name,)
        topology.add_sink(
            part.sink_name,
            part.topic,
            *parents,
            key_serde=part.key_serde,
            value_serde=part.value_serde,
            partitioner=part.partitioner,
        )
        topology.add_source(
            part.source_name,
            part.topic,
            key_serde=part.key_serde,
            value_serde=part.value_serde,
            timestamp_extractor=fail_on_invalid_timestamp,
        )


def connect(parent: GraphNode, child: GraphNode) -> None:
    """Make one node follow another; no change when it does already."""
    if child not in parent.children:
        parent.children.append(child)
        child.parents.append(parent)


def disconnect(parent: GraphNode, child: GraphNode) -> None:
    """Undo `connect`."""
    parent.children.remove(child)
    child.parents.remove(parent)


def _has_null_key_reader(node: GraphNode) -> bool:
    """Return whether anything downstream wants records without a key."""
    seen: set[GraphNode] = set()
    waiting = list(node.children)
    while waiting:
        child = waiting.pop()
        if child.keeps_null_keys:
            return True
        if child not in seen:
            seen.add(child)
            waiting.extend(child.children)
    return False


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
