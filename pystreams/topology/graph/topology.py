"""The topology: a graph of named nodes and stores, built by hand or by the DSL.

Invariants, beside those of the graph (`node_graph`):
- A store belongs to one sub-topology: nodes that share a store are in the same one.
- Internal topics are held without the application's prefix, which only the plan knows.

Source: Kafka Streams' `Topology` and `InternalTopologyBuilder`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from pystreams.errors import TopologyError
from pystreams.serdes import Serde
from pystreams.stores.spec_builder import without_changelog
from pystreams.stores.store_builder import StoreBuilder
from pystreams.topology.contracts.extractors import TimestampExtractor
from pystreams.topology.contracts.operator import Operator
from pystreams.topology.contracts.processor import ProcessorWrapper
from pystreams.topology.contracts.user_functions import KEY_VALUE, checked, checked_supplier
from pystreams.topology.graph.declaration_checks import (
    check_store_builder,
    check_values,
    refuse_expiring,
    stores_brought_by,
)
from pystreams.topology.graph.description import TopologyDescription, describe
from pystreams.topology.graph.naming import check_name
from pystreams.topology.graph.node_graph import NodeGraph
from pystreams.topology.graph.nodes import (
    CopartitionGroup,
    ProcessorNode,
    RepartitionTopic,
    SinkNode,
    SourceNode,
    StreamPartitioner,
    TopicNameExtractor,
)
from pystreams.topology.graph.source_topics import compiled_pattern, refuse_overlap
from pystreams.topology.operators.user_processor import (
    AnyProcessor,
    UserProcessorOperator,
    wrapped_supplier,
)


class Topology(NodeGraph):
    """A graph of sources, processors, sinks and stores (the Processor API).

    Methods return the topology, so that calls chain. Not for use by several threads while it is
    being built; a built one is only read.

    Args:
        processor_wrapper: Wraps the suppliers of all processors that are added.
    """

    def __init__(self, *, processor_wrapper: ProcessorWrapper | None = None) -> None:
        super().__init__()
        self._wrapper = processor_wrapper

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
            TopologyError: The name is taken, no topic is given, a topic is read twice, or an
                argument is of a wrong type.
        """
        self._check_new(name)
        if bool(topics) == (pattern is not None):
            raise TopologyError(f"source {name!r} needs topics or a pattern, one of the two")
        for topic in topics:
            check_name(topic, f"a topic of source {name!r}")
        check_values(
            f"source {name!r}",
            key_serde=key_serde,
            value_serde=value_serde,
            timestamp_extractor=timestamp_extractor,
            offset_reset=offset_reset,
        )
        source = SourceNode(
            name,
            topics=tuple(dict.fromkeys(topics)),
            pattern=compiled_pattern(pattern, f"source {name!r}"),
            key_serde=key_serde,
            value_serde=value_serde,
            timestamp_extractor=timestamp_extractor,
            offset_reset=offset_reset,
        )
        self._place_source(source)
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
            supplier: Makes a new processor for each task (the class itself will do). Is called
                twice at once, to see that the two differ: leave files and connections to `init`.
                When it has a method `stores()`, the stores that returns are added and connected.
            parents: Nodes whose records it receives.
            fixed_key: Refuse to forward a record whose key is not the input's.

        Raises:
            TopologyError: The name is taken, a parent does not exist, the supplier does not make
                a new processor at each call, or another store has the name of one it brings.
        """
        self._check_new(name)
        self._check_parents(name, parents)
        checked_supplier(supplier, name)
        self.add_user_processor(name, supplier, parents, fixed_key=fixed_key)
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
            partitioner: Chooses the partition, several, or none to drop the record (see
                `StreamPartitioner`); Kafka's murmur2 of the key when None.

        Raises:
            TopologyError: The name is taken, a parent does not exist, or an argument is of a
                wrong type.
        """
        self._check_new(name)
        self._check_parents(name, parents)
        if callable(topic):
            checked(topic, f"sink {name!r}", (*KEY_VALUE, "record"))
        else:
            check_name(topic, f"the topic of sink {name!r}")
        check_values(
            f"sink {name!r}",
            key_serde=key_serde,
            value_serde=value_serde,
            partitioner=partitioner,
        )
        self._place(SinkNode(name, topic, parents, key_serde, value_serde, partitioner))
        return self

    def add_state_store(self, builder: StoreBuilder, *processors: str) -> Topology:
        """Add a store and connect it to processors.

        Adding the same builder again only connects it. Another one is another store, even if it
        is equal.

        Raises:
            TopologyError: It is no store builder, another store has the name, or a processor does
                not exist.
        """
        check_store_builder(builder, "add_state_store")
        self._place_store(builder, processors)
        for processor in processors:
            self.connect_processor_and_state_stores(processor, builder.name)
        return self

    def add_read_only_state_store(
        self,
        store_builder: StoreBuilder,
        source_name: str,
        topic: str,
        processor_name: str,
        supplier: Callable[[], AnyProcessor],
        *,
        key_serde: Serde[Any] | None = None,
        value_serde: Serde[Any] | None = None,
        timestamp_extractor: TimestampExtractor | None = None,
    ) -> Topology:
        """Add a store that is filled from a topic, and restored from there: it has no changelog.

        Other processors that are connected to it read it, and can't write into it; they must be in
        the partitions of its keys. The topic should be compacted.

        Args:
            store_builder: Of the store; its changelog is turned off.
            source_name: The name of the node that reads the topic.
            topic: The topic.
            processor_name: The name of the node that keeps the store.
            supplier: Makes its processors. They must put each record as it is, a null value as a
                deletion: a store that is restored gets the topic's records without them.
            key_serde: How the topic's keys are read; the configured default when None.
            value_serde: How its values are read; the configured default when None.
            timestamp_extractor: Where event time comes from; the configured one when None.

        Raises:
            TopologyError: A name is taken, the topic is read already, or an argument is wrong.
        """
        check_store_builder(store_builder, "add_read_only_state_store")
        refuse_expiring(store_builder, topic)
        self.add_source(
            source_name,
            topic,
            key_serde=key_serde,
            value_serde=value_serde,
            timestamp_extractor=timestamp_extractor,
        )
        self.add_processor(processor_name, supplier, source_name)
        self.add_state_store(without_changelog(store_builder), processor_name)
        self.restore_from_source(store_builder.name, source_name)
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
        self._check_stores(processor, stores)
        connected = tuple(dict.fromkeys((*node.stores, *stores)))
        self._nodes[processor] = replace(node, stores=connected)
        return self

    def add_global_store(
        self,
        store_builder: StoreBuilder,
        source_name: str,
        topic: str,
        processor_name: str,
        supplier: Callable[[], AnyProcessor],
        *,
        key_serde: Serde[Any] | None = None,
        value_serde: Serde[Any] | None = None,
    ) -> Topology:
        """Add a store that each process fills from the whole of a topic, with a processor.

        All processors can read it, without being connected to it; the one given here alone writes.
        It is filled to the topic's end before anything else is processed, at the first start from
        the beginning, and has no changelog: the topic is one. Records have their own timestamps.

        Args:
            store_builder: The store's builder.
            source_name: Name of the node that reads the topic.
            topic: The topic; no other source may read it.
            processor_name: Name of the processor's node.
            supplier: Makes the processor. It forwards nothing and schedules nothing. Of what it
                brings with `stores()` nothing is added.
            key_serde: How keys are read; the configured default when None.
            value_serde: How values are read; likewise.

        Raises:
            TopologyError: A name is taken, the topic is read already, or an argument is of a wrong
                type.
        """
        check_store_builder(store_builder, "add_global_store")
        check_name(topic, f"the topic of source {source_name!r}")
        where = f"source {source_name!r}"
        check_values(where, key_serde=key_serde, value_serde=value_serde)
        checked_supplier(supplier, processor_name)
        source = SourceNode(source_name, (topic,), None, key_serde, value_serde, is_global=True)
        self.add_global_operator(
            source, processor_name, self._user_operator(processor_name, supplier), store_builder
        )
        return self

    def describe(self) -> TopologyDescription:
        """Return the description; its `str` is Kafka Streams' text."""
        return describe(self._nodes, self._stores)

    # ------------------------------------------------------------------ what the DSL calls

    def add_operator(
        self,
        name: str,
        operator: Operator,
        parents: Iterable[str],
        stores: Iterable[str] = (),
        *,
        looks_into: Iterable[str] = (),
    ) -> None:
        """Add a node that runs an operator; the stores must have been added.

        Args:
            parents: The nodes whose records it gets.
            stores: Stores that it is connected to.
            looks_into: Stores that it reads and never writes, connected now or later.
        """
        self._check_new(name)
        self._check_parents(name, tuple(parents))
        self._place(ProcessorNode(name, operator, tuple(parents), looks_into=frozenset(looks_into)))
        self.connect_processor_and_state_stores(name, *stores)

    def add_user_processor(
        self,
        name: str,
        supplier: Callable[[], AnyProcessor],
        parents: Iterable[str],
        *,
        fixed_key: bool,
    ) -> None:
        """Add a node that runs a processor of the user's, whose supplier has been checked."""
        operator = self._user_operator(name, supplier, fixed_key=fixed_key)
        self.add_operator(name, operator, parents)
        brought = stores_brought_by(operator.supplier, name) or stores_brought_by(supplier, name)
        for builder in brought:
            self.add_state_store(builder, name)

    def add_global_operator(
        self, source: SourceNode, name: str, operator: Operator, store: StoreBuilder
    ) -> None:
        """Add a global store with its source, and the node that fills it.

        Args:
            source: The source; it says that it is global.
            name: Name of the node below it.
            operator: What that does.
            store: The store's builder.
        """
        refuse_expiring(store, source.topics[0])
        self._check_new(source.name)
        self._check_new(name)
        if name == source.name:
            raise TopologyError(f"two nodes are named {name!r}: give one of them another name")
        if store.name in self._stores:
            raise self._two_stores(store.name, (name,))
        self._place_source(source)
        self._place(ProcessorNode(name, operator, (source.name,), (store.name,)))
        self._place_store(store, (name,))
        self._global_stores[store.name] = source.topics[0]

    def add_repartition_topic(self, topic: RepartitionTopic) -> None:
        """Declare that a topic name (used by a sink and a source) is an internal one."""
        present = self._repartition_topics.get(topic.name)
        if present is not None and present != topic:
            raise TopologyError(
                f"repartition topic {topic.name!r} is declared with {present.num_partitions} and "
                f"with {topic.num_partitions} partitions: use one number or two names"
            )
        self._repartition_topics[topic.name] = topic

    def restore_from_source(self, store: str, source: str) -> None:
        """Let the topic that a source node reads be the changelog of a store."""
        self._source_changelogs[store] = source

    def add_copartition_group(self, group: CopartitionGroup) -> None:
        """Require that the topics of some source nodes have equal partition counts."""
        self._copartition_groups.append(group)

    def _place_source(self, source: SourceNode) -> None:
        """Add a source, unless another one reads one of its topics."""
        for other in self._nodes.values():
            if isinstance(other, SourceNode):
                refuse_overlap(other, source)
        self._place(source)

    def _user_operator(
        self, name: str, supplier: Callable[[], AnyProcessor], *, fixed_key: bool = False
    ) -> UserProcessorOperator:
        """Return what runs a processor of the user's, perhaps one that is wrapped."""
        if self._wrapper is not None:
            supplier = wrapped_supplier(self._wrapper, name, supplier, fixed_key=fixed_key)
        return UserProcessorOperator(supplier, fixed_key=fixed_key)
