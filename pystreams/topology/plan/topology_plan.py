"""The plan: what the runtime needs to know of a topology, once the application has a name.

Sub-topologies (parts of the graph that share no edge and no store) become tasks, one a
partition; they are joined only through topics. Internal topics carry the application's id as
prefix: `<application.id>-<name>-repartition`, `<application.id>-<store>-changelog`.

Source: Kafka Streams' `InternalTopologyBuilder.topicGroups`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from pystreams.errors import TopologyError
from pystreams.serdes import Serde
from pystreams.stores.contracts.spec import StoreSpec
from pystreams.stores.store_builder import StoreBuilder
from pystreams.topology.graph.nodes import (
    Node,
    ProcessorNode,
    RepartitionTopic,
    SinkNode,
    SourceNode,
)
from pystreams.topology.graph.source_topics import read_by_two
from pystreams.topology.graph.subtopologies import Subtopology, subtopologies_of
from pystreams.topology.graph.topology import Topology
from pystreams.topology.operators.tables.changes import TableSourceOperator


class TopologyPlan:
    """A validated topology with the real names of its topics; read-only, shared by all threads.

    Args:
        application_id: The application's id, prefix of internal topics.

    Raises:
        TopologyError: The topology reads nothing, has a store that no processor uses, or two of
            its sources read one topic.

    Attributes:
        subtopologies: Its parts of which there are tasks, in the order of their ids.
        by_id: The same by their ids.
        global_subtopologies: Its global stores, with what fills them: each process runs them all.
    """

    def __init__(self, topology: Topology, application_id: str) -> None:
        if not isinstance(topology, Topology):
            raise TopologyError(
                f"what runs is a Topology, not {topology!r}: builder.build() makes one of a "
                "StreamsBuilder"
            )
        self.topology = topology
        self.application_id = application_id
        parts = subtopologies_of(topology.nodes, topology.stores)
        self.subtopologies = [part for part in parts if not part.is_global]
        self.global_subtopologies = [part for part in parts if part.is_global]
        self._check()
        self.by_id = {part.id: part for part in self.subtopologies}
        self._subtopology_of_node = {
            name: part for part in self.subtopologies for name in part.nodes
        }
        self._subtopology_of_store = {
            name: part for part in self.subtopologies for name in part.stores
        }

    # ------------------------------------------------------------------ names

    def topic_name(self, topic: str) -> str:
        """Return a topic's real name: internal ones get the application's prefix."""
        if topic in self.topology.repartition_topics:
            return f"{self.application_id}-{topic}"
        return topic

    def changelog_topic(self, store: str) -> str:
        """Return the topic that holds a store's changes."""
        return f"{self.application_id}-{store}-changelog"

    def spec_of(self, store: str) -> StoreSpec:
        """Return what a store is.

        Raises:
            TopologyError: There is none of that name.
        """
        known = self.topology.stores
        if store not in known:
            raise TopologyError(f"there is no state store {store!r}; there are: {sorted(known)}")
        return known[store].spec

    def subtopology_of_store(self, store: str) -> Subtopology | None:
        """Return the part that has a store; None of a global one, or one that is not known."""
        return self._subtopology_of_store.get(store)

    # ------------------------------------------------------------------ topics

    def source_topics(self) -> list[str]:
        """Return the topics that tasks read and the user must have created, sorted."""
        internal = self.topology.repartition_topics
        names = {topic for node in self.sources() for topic in node.topics}
        return sorted(names - internal.keys())

    def global_topics(self) -> list[str]:
        """Return the topics of global stores, which the user must have created, sorted."""
        return sorted(self.topology.global_stores.values())

    def sink_topics(self) -> list[str]:
        """Return the user's topics that sinks with a fixed topic write to, sorted."""
        return sorted(self.written_topics().keys() - self.repartition_topics().keys())

    def written_topics(self, nodes: Iterable[str] | None = None) -> dict[str, list[SinkNode]]:
        """Return the topics with a fixed name that sinks write to, by real name, with the sinks.

        Args:
            nodes: Names of the nodes to look at; all when None.
        """
        found: dict[str, list[SinkNode]] = {}
        for name in self.topology.nodes if nodes is None else nodes:
            node = self.topology.nodes[name]
            if isinstance(node, SinkNode) and isinstance(node.topic, str):
                found.setdefault(self.topic_name(node.topic), []).append(node)
        return found

    def source_patterns(self) -> list[re.Pattern[str]]:
        """Return the patterns of sources that read by pattern."""
        return [node.pattern for node in self.sources() if node.pattern is not None]

    def consumed(self) -> tuple[list[str], list[str]]:
        """Return what tasks consume: topics by real name, repartition topics too; and patterns."""
        patterns = [pattern.pattern for pattern in self.source_patterns()]
        return [*self.source_topics(), *self.repartition_topics()], patterns

    def repartition_topics(self) -> dict[str, RepartitionTopic]:
        """Return internal repartition topics by real name."""
        topics = self.topology.repartition_topics
        return {self.topic_name(name): topic for name, topic in topics.items()}

    def is_repartition(self, topic: str) -> bool:
        """Return whether a topic (by real name) is one of the application's repartition topics."""
        return topic in self.repartition_topics()

    def output_topics(self) -> list[str]:
        """Return all topics with a fixed name that are written to, by real name, sorted."""
        return sorted({*self.sink_topics(), *self.repartition_topics(), *self.changelogs()})

    def changelogs(self) -> dict[str, StoreBuilder]:
        """Return the changelog topics, by real name, with the stores that they are of."""
        return {
            self.changelog_topic(store.name): store
            for subtopology in self.subtopologies
            for store in self.logged_stores(subtopology)
        }

    def logged_stores(self, subtopology: Subtopology) -> list[StoreBuilder]:
        """Return the stores of a sub-topology that have a changelog."""
        return [store for store, _, logged in self.stores_of(subtopology) if logged]

    def stores_of(self, subtopology: Subtopology) -> list[tuple[StoreBuilder, str, bool]]:
        """Return each store of a sub-topology, its changelog's topic, and whether it is logged.

        The changelog of one that is restored from a source topic, and not logged, is that topic.
        """
        builders = [self.topology.stores[name] for name in subtopology.stores]
        sources = self.source_changelogs(subtopology)
        return [
            (
                store,
                sources.get(store.name) or self.changelog_topic(store.name),
                store.logging and store.name not in sources,
            )
            for store in builders
        ]

    def source_changelogs(self, subtopology: Subtopology) -> dict[str, str]:
        """Return the stores that are restored from a source topic, with its real name."""
        nodes, found = self.topology.nodes, {}
        for store, name in self.topology.source_changelogs.items():
            source = nodes[name]
            if store in subtopology.stores and isinstance(source, SourceNode):
                found[store] = self.topic_name(source.topics[0])
        return found

    def table_topics(self, subtopology: Subtopology) -> dict[str, str]:
        """Return the stores of tables that are read from a topic, with its real name."""
        nodes, found = self.topology.nodes, {}
        for name in subtopology.nodes:
            node = nodes[name]
            if not isinstance(node, ProcessorNode) or len(node.parents) != 1:
                continue
            source, operator = nodes[node.parents[0]], node.operator
            if not isinstance(operator, TableSourceOperator) or operator.store is None:
                continue
            if isinstance(source, SourceNode) and len(source.topics) == 1:
                found[operator.store] = self.topic_name(source.topics[0])
        return found

    def stores_fed_by_stores(self, subtopology: Subtopology) -> frozenset[str]:
        """Return the stores with a processor below one that uses another store.

        Some of what such a store is to hold may still wait in the other one's record cache.
        """
        above: dict[str, set[str]] = {}
        fed: set[str] = set()
        for name in subtopology.nodes:
            node = self.topology.nodes[name]
            own = set(node.stores)
            reaching = {store for parent in node.parents for store in above[parent]}
            fed.update(store for store in own if reaching - {store})
            above[name] = reaching | own
        return frozenset(fed)

    def stores_reached_from(self, topic: str) -> list[str]:
        """Return the stores that hold what comes of a topic's records, sorted.

        Args:
            topic: A topic that is read, by real name; repartition topics are followed.
        """
        return sorted({name for node in self._reached_from(topic) for name in node.stores})

    def internal_topics_reached_from(self, topic: str) -> set[str]:
        """Return the changelogs and repartition topics that get what comes of a topic's records.

        Args:
            topic: As for `stores_reached_from`.
        """
        written = self.written_topics(node.name for node in self._reached_from(topic))
        changelogs = map(self.changelog_topic, self.stores_reached_from(topic))
        internal = self.repartition_topics().keys() | self.changelogs().keys()
        return internal.intersection({*written, *changelogs})

    def sources(self) -> list[SourceNode]:
        """Return the source nodes that tasks read, in the order they were added."""
        nodes = self.topology.nodes.values()
        return [node for node in nodes if isinstance(node, SourceNode) and not node.is_global]

    def sources_of(self, subtopology: Subtopology) -> list[SourceNode]:
        """Return the source nodes of one sub-topology."""
        nodes = (self.topology.nodes[name] for name in subtopology.nodes)
        return [node for node in nodes if isinstance(node, SourceNode)]

    def source_of_topic(self, topic: str) -> SourceNode | None:
        """Return the source node that reads a topic (by real name), or None.

        Raises:
            TopologyError: Two sources read it, which shows late where their patterns overlap.
        """
        readers = [node for node in self.sources() if self._reads(node, topic)]
        if len(readers) > 1:
            raise read_by_two(topic, readers[0], readers[1])
        return readers[0] if readers else None

    def reads(self, topic: str) -> bool:
        """Return whether a source node reads a topic (by real name); raises as that does."""
        return self.source_of_topic(topic) is not None

    def subtopology_of_topic(self, topic: str) -> Subtopology | None:
        """Return the sub-topology that reads a topic (by real name), or None."""
        source = self.source_of_topic(topic)
        if source is None:
            return None
        return self._subtopology_of_node[source.name]

    def serdes_of_topic(self, topic: str) -> tuple[Serde[Any] | None, Serde[Any] | None] | None:
        """Return the serdes of a topic (by real name); None where nothing reads or writes it.

        Those of the source that reads it, of tasks or of a global store, else of the first sink
        that writes to it; None in them stands for the configured default.
        """
        source = self.source_of_topic(topic) or self._global_source_of(topic)
        if source is not None:
            return source.key_serde, source.value_serde
        sinks = self.written_topics().get(topic)
        return (sinks[0].key_serde, sinks[0].value_serde) if sinks else None

    def _global_source_of(self, topic: str) -> SourceNode | None:
        nodes = self.topology.nodes.values()
        sources = (node for node in nodes if isinstance(node, SourceNode) and node.is_global)
        return next((node for node in sources if topic in node.topics), None)

    def subtopologies_writing(self, repartition_topic: str) -> list[Subtopology]:
        """Return the sub-topologies with a sink on a repartition topic (unprefixed name)."""
        writers = [
            self._subtopology_of_node[name]
            for name, node in self.topology.nodes.items()
            if isinstance(node, SinkNode) and node.topic == repartition_topic
        ]
        return list(dict.fromkeys(writers))

    def _reached_from(self, topic: str) -> list[Node]:
        reached: dict[str, Node] = {}
        source = self.source_of_topic(topic)
        coming = [] if source is None else [source.name]
        while coming:
            name = coming.pop()
            if name in reached:
                continue
            node = reached[name] = self.topology.nodes[name]
            if isinstance(node, SinkNode) and isinstance(node.topic, str):
                coming += [other.name for other in self.sources() if node.topic in other.topics]
            coming += self.topology.children(name)
        return list(reached.values())

    def _reads(self, source: SourceNode, topic: str) -> bool:
        if source.pattern is not None:
            return source.reads(topic)
        return topic in map(self.topic_name, source.topics)

    # ------------------------------------------------------------------ checks

    def _check(self) -> None:
        if not self.sources() and not self.global_subtopologies:
            raise TopologyError("the topology reads no topic: add a source (builder.stream(...))")
        parts = (*self.subtopologies, *self.global_subtopologies)
        used = {store for part in parts for store in part.stores}
        unused = [name for name in self.topology.stores if name not in used]
        if unused:
            raise TopologyError(
                f"state store {unused[0]!r} is connected to no processor: "
                "name it in process(..., stores=[...]) or remove it"
            )
        for part in self.subtopologies:
            if not self.sources_of(part):
                message = f"node {part.nodes[0]!r} receives nothing: no source leads to it"
                raise TopologyError(message)
        for source in self.sources():
            for topic in source.topics:
                self.source_of_topic(self.topic_name(topic))
