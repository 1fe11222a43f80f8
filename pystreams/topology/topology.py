"""The topology: a graph of named nodes and stores, built by hand or by the DSL.

Invariants:
- Names of nodes are unique; parents are added before their children, so that the order of
  insertion is a topological order. Sub-topologies are numbered by it.
- A store belongs to one sub-topology: nodes that share a store are in the same one.
- Internal topics are held without the application's prefix, which only the plan knows.

Source: Kafka Streams' `Topology` and `InternalTopologyBuilder`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from pystreams.errors import TopologyError
from pystreams.serdes import Serde
from pystreams.stores.spec import StoreBuilder
from pystreams.topology.extractors import TimestampExtractor
from pystreams.topology.nodes import (
    CopartitionGroup,
    Node,
    ProcessorNode,
    RepartitionTopic,
    SinkNode,
    SourceNode,
    StreamPartitioner,
    TopicNameExtractor,
)
from pystreams.topology.operator import Operator
from pystreams.topology.processor import ConnectsStores, FixedKeyProcessor, Processor
from pystreams.topology.processors.user_processor import UserProcessorOperator

if TYPE_CHECKING:
    from pystreams.topology.description import TopologyDescription

_VALID_NAME = re.compile(r"^[a-zA-Z0-9._-]{1,249}$")
_OFFSET_RESETS = ("earliest", "latest", "none")

AnyProcessor = Processor[Any, Any, Any, Any] | FixedKeyProcessor[Any, Any, Any]


class Topology:
    """A graph of sources, processors, sinks and stores (the Processor API).

    Methods return the topology, so that calls chain. Not for use by several threads while it is
    being built; a built one is only read.
    """

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}
        self._children: dict[str, list[str]] = {}
        self._stores: dict[str, StoreBuilder] = {}
        self._repartition_topics: dict[str, RepartitionTopic] = {}
        self._copartition_groups: list[CopartitionGroup] = []

    # ------------------------------------------------------------------ what a user calls

    def add_source(
        self,
        name: str,
        *topics: str,
        pattern: str | re.Pattern[str] | None = None,
        key_serde: Serde[Any] | None = None,
        value_serde: Serde[Any] | None = None,
        timestamp_extractor: TimestampExtractor | None = None,
        offset_reset: str | None = None,
    ) -> Topology:
        """Add a node that reads topics.

        Args:
            name: The node's name, unique in the topology.
            topics: Topics to read; give these or `pattern`.
            pattern: A regular expression; every matching topic is read, new ones too.
            key_serde: How keys are read; the configured default when None.
            value_serde: How values are read; the configured default when None.
            timestamp_extractor: Where event time comes from; the configured one when None.
            offset_reset: "earliest", "latest" or "none" for a group without offsets; the
                configured `auto.offset.reset` when None.

        Raises:
            TopologyError: The name is taken, no topic is given, or a topic is read twice.
        """
        self._check_new(name)
        if bool(topics) == (pattern is not None):
            raise TopologyError(f"source {name!r} needs topics or a pattern, one of the two")
        if offset_reset is not None and offset_reset not in _OFFSET_RESETS:
            message = f"source {name!r}: offset_reset {offset_reset!r} is none of {_OFFSET_RESETS}"
            raise TopologyError(message)
        for topic in topics:
            self._check_unread(name, topic)
        self._nodes[name] = SourceNode(
            name,
            tuple(dict.fromkeys(topics)),
            re.compile(pattern) if isinstance(pattern, str) else pattern,
            key_serde,
            value_serde,
            timestamp_extractor,
            offset_reset,
        )
        self._children[name] = []
        return self

    def add_processor(
        self,
        name: str,
        supplier: Callable[[], AnyProcessor],
        *parents: str,
        fixed_key: bool = False,
    ) -> Topology:
        """Add a node that runs a processor of the user's.

        Args:
            name: The node's name, unique in the topology.
            supplier: Makes a new processor for each task (the class itself will do). When it has
                a method `stores()`, the stores that returns are added and connected.
            parents: Nodes whose records it receives.
            fixed_key: Refuse to forward a record whose key is not the input's.

        Raises:
            TopologyError: The name is taken or a parent does not exist.
        """
        self.add_operator(name, UserProcessorOperator(supplier, fixed_key=fixed_key), parents)
        # A class that is its own supplier has `stores` as a method of its objects, if at all.
        brings: object = supplier
        if isinstance(brings, ConnectsStores) and not isinstance(brings, type):
            for builder in brings.stores():
                self.add_state_store(builder, name)
        return self

    def add_sink(
        self,
        name: str,
        topic: str | TopicNameExtractor,
        *parents: str,
        key_serde: Serde[Any] | None = None,
        value_serde: Serde[Any] | None = None,
        partitioner: StreamPartitioner | None = None,
    ) -> Topology:
        """Add a node that writes to a topic.

        Args:
            name: The node's name, unique in the topology.
            topic: The topic, or a function (key, value, record) -> topic.
            parents: Nodes whose records it writes.
            key_serde: How keys are written; the configured default when None.
            value_serde: How values are written; the configured default when None.
            partitioner: Chooses the partition; Kafka's murmur2 of the key when None.

        Raises:
            TopologyError: The name is taken or a parent does not exist.
        """
        self._check_new(name)
        self._check_parents(name, parents)
        self._nodes[name] = SinkNode(name, topic, parents, key_serde, value_serde, partitioner)
        self._link(name, parents)
        return self

    def add_state_store(self, builder: StoreBuilder, *processors: str) -> Topology:
        """Add a store and connect it to processors.

        Adding the same builder again only connects it.

        Raises:
            TopologyError: Another store has the name, or a processor does not exist.
        """
        present = self._stores.get(builder.name)
        if present is not None and present != builder:
            message = f"two different state stores are named {builder.name!r}: rename one of them"
            raise TopologyError(message)
        self._stores[builder.name] = builder
        for processor in processors:
            self.connect_processor_and_state_stores(processor, builder.name)
        return self

    def connect_processor_and_state_stores(self, processor: str, *stores: str) -> Topology:
        """Let a processor use stores.

        Raises:
            TopologyError: The processor or a store does not exist; says what to add first.
        """
        node = self._nodes.get(processor)
        if not isinstance(node, ProcessorNode):
            message = f"can't connect a state store to {processor!r}: no processor has that name"
            raise TopologyError(message)
        for store in stores:
            if store not in self._stores:
                message = (
                    f"processor {processor!r} uses state store {store!r}, which does not exist: "
                    f"add it first with add_state_store(...); known: {sorted(self._stores)}"
                )
                raise TopologyError(message)
            if store not in node.stores:
                node.stores.append(store)
        return self

    def describe(self) -> TopologyDescription:
        """Return the description; its `str` is Kafka Streams' text."""
        from pystreams.topology.description import describe  # noqa: PLC0415 - it imports the plan

        return describe(self)

    # ------------------------------------------------------------------ what the DSL calls

    def add_operator(
        self, name: str, operator: Operator, parents: Iterable[str], stores: Iterable[str] = ()
    ) -> None:
        """Add a node that runs an operator; the stores must have been added."""
        self._check_new(name)
        self._check_parents(name, tuple(parents))
        self._nodes[name] = ProcessorNode(name, operator, tuple(parents))
        self._link(name, parents)
        self.connect_processor_and_state_stores(name, *stores)

    def add_repartition_topic(self, topic: RepartitionTopic) -> None:
        """Declare that a topic name (used by a sink and a source) is an internal one."""
        present = self._repartition_topics.get(topic.name)
        if present is not None and present != topic:
            message = (
                f"repartition topic {topic.name!r} is declared with {present.num_partitions} and "
                f"with {topic.num_partitions} partitions: use one number or two names"
            )
            raise TopologyError(message)
        self._repartition_topics[topic.name] = topic

    def add_copartition_group(self, group: CopartitionGroup) -> None:
        """Require that the topics of some source nodes have equal partition counts."""
        self._copartition_groups.append(group)

    # ------------------------------------------------------------------ what the plan reads

    @property
    def nodes(self) -> dict[str, Node]:
        """All nodes by name, parents before children."""
        return self._nodes

    @property
    def stores(self) -> dict[str, StoreBuilder]:
        """All stores by name, in the order they were added."""
        return self._stores

    @property
    def repartition_topics(self) -> dict[str, RepartitionTopic]:
        """Internal repartition topics by unprefixed name."""
        return self._repartition_topics

    @property
    def copartition_groups(self) -> list[CopartitionGroup]:
        """Which source nodes' topics must have equal partition counts."""
        return self._copartition_groups

    def children(self, name: str) -> list[str]:
        """Return the names of a node's children, in the order they were added."""
        return self._children[name]

    # ------------------------------------------------------------------ checks

    def _link(self, name: str, parents: Iterable[str]) -> None:
        self._children[name] = []
        for parent in parents:
            self._children[parent].append(name)

    def _check_new(self, name: str) -> None:
        if not _VALID_NAME.match(name):
            message = (
                f"{name!r} can't be a node's name: use 1 to 249 letters, digits, '.', '_' or '-'"
            )
            raise TopologyError(message)
        if name in self._nodes:
            raise TopologyError(f"two nodes are named {name!r}: give one of them another name")

    def _check_parents(self, name: str, parents: tuple[str, ...]) -> None:
        if not parents:
            raise TopologyError(f"node {name!r} has no parent: name the nodes it reads from")
        for parent in parents:
            node = self._nodes.get(parent)
            if node is None:
                message = f"node {name!r} names the parent {parent!r}, which does not exist (yet)"
                raise TopologyError(message)
            if isinstance(node, SinkNode):
                raise TopologyError(f"node {name!r} can't read from {parent!r}: it is a sink")

    def _check_unread(self, name: str, topic: str) -> None:
        for node in self._nodes.values():
            if not isinstance(node, SourceNode):
                continue
            if topic in node.topics or (node.pattern and node.pattern.fullmatch(topic)):
                message = (
                    f"topic {topic!r} is read by two sources, {node.name!r} and {name!r}: "
                    "read it once and use the stream twice"
                )
                raise TopologyError(message)
