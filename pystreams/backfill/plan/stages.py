"""The stages of a backfill: parts of a topology in the order in which topics lead through them.

A topic that the topology both writes and reads (a repartition topic, or one of the user's in the
middle) has to be complete before it is read. Most often each sub-topology is one stage, after those
that write what it reads. But a sub-topology may need a topic that it feeds itself, as when a stream
is joined with a table of its own, repartitioned: then what feeds the topic runs first, alone, for
that topic's records only; and the whole runs later, without writing them again.

What feeds a topic is its sinks, all before them, and whoever else writes into their stores. What a
sink with a topic extractor will write is not known before; a record of it for a stage that has run
already is an error then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pystreams.errors import TopologyError
from pystreams.topology.graph.nodes import ProcessorNode, SinkNode, SourceNode
from pystreams.topology.graph.subtopologies import Subtopology
from pystreams.topology.plan.partition_plan import topics_of
from pystreams.topology.plan.topology_plan import TopologyPlan


@dataclass(frozen=True, slots=True)
class Stage:
    """A sub-topology's turn, or that of a part of it.

    Attributes:
        subtopology: What runs: with fewer nodes and stores than the plan's for a part.
        topics: Topics it reads, by real name, sorted.
        only_topic: The topic whose records are kept, for a part; None for a whole sub-topology,
            whose outputs and state are results.
        written_before: Topics whose records a part has given already; dropped here.
    """

    subtopology: Subtopology
    topics: tuple[str, ...]
    only_topic: str | None = None
    written_before: frozenset[str] = frozenset()


def stages_of(plan: TopologyPlan, known_topics: Mapping[str, int]) -> list[Stage]:
    """Return the stages, each after those it needs.

    Args:
        known_topics: Partition counts of all topics there are; patterns match among them.

    Raises:
        TopologyError: A topic is needed to make itself; names the topics.
    """
    return _Scheduling(plan, known_topics).run()


def merges_history(plan: TopologyPlan, known_topics: Mapping[str, int]) -> bool:
    """Return whether a stage may read history together with what an earlier stage has written.

    What a sink with a topic extractor writes is not known, and may be any topic.

    Args:
        known_topics: Partition counts of all topics there are.

    Raises:
        TopologyError: As `stages_of`.
    """
    internal = plan.repartition_topics().keys()
    written: set[str] = set()
    writes_any = False
    for stage in stages_of(plan, {**known_topics, **dict.fromkeys(internal, 1)}):
        topics = set(stage.topics)
        if topics - internal and (writes_any or written & topics):
            return True
        written |= plan.written_topics(stage.subtopology.nodes).keys()
        nodes = (plan.topology.nodes[name] for name in stage.subtopology.nodes)
        writes_any |= any(isinstance(node, SinkNode) and callable(node.topic) for node in nodes)
    return False


class _Scheduling:
    """Works out the stages; used once."""

    def __init__(self, plan: TopologyPlan, known_topics: Mapping[str, int]) -> None:
        self._plan = plan
        self._known_topics = known_topics
        self._waiting = list(plan.subtopologies)
        self._sinks = {
            topic: {sink.name for sink in sinks} for topic, sinks in plan.written_topics().items()
        }
        # Sinks of topics that are read as well and whose records are not there yet.
        read = {topic for part in self._waiting for topic in self._topics(part.nodes)}
        self._missing = {topic: set(self._sinks[topic]) for topic in read & self._sinks.keys()}

    def run(self) -> list[Stage]:
        stages: list[Stage] = []
        while self._waiting:
            stage = self._whole() or self._part()
            if stage is None:
                raise self._circle()
            stages.append(stage)
        return stages

    def _whole(self) -> Stage | None:
        for part in self._waiting:
            topics = self._topics(part.nodes)
            if not self._missing.keys() & topics:
                self._waiting.remove(part)
                own = {
                    topic
                    for topic, sinks in self._sinks.items()
                    if sinks & set(part.nodes) and self._is_fed(topic, part)
                }
                for topic in list(self._missing):
                    self._feed(topic, part.nodes)
                return Stage(part, tuple(sorted(topics)), written_before=frozenset(own))
        return None

    def _is_fed(self, topic: str, part: Subtopology) -> bool:
        """Return whether a part of this sub-topology has given the topic's records already."""
        read = {topic for other in self._plan.subtopologies for topic in self._topics(other.nodes)}
        left = self._missing.get(topic, set())
        return topic in read and not left & set(part.nodes)

    def _part(self) -> Stage | None:
        for topic in sorted(self._missing):
            for part in self._waiting:
                sinks = self._missing[topic] & set(part.nodes)
                if not sinks:
                    continue
                nodes = self._needed(part, sinks)
                topics = self._topics(nodes)
                if not self._missing.keys() & topics:
                    self._feed(topic, nodes)
                    own = self._plan.topology.nodes
                    used = {store for name in nodes for store in own[name].stores}
                    stores = tuple(name for name in part.stores if name in used)
                    needed = Subtopology(part.id, nodes, stores)
                    return Stage(needed, tuple(sorted(topics)), only_topic=topic)
        return None

    def _feed(self, topic: str, nodes: tuple[str, ...]) -> None:
        sinks = self._missing.get(topic, set())
        sinks.difference_update(nodes)
        if not sinks:
            self._missing.pop(topic, None)

    def _needed(self, part: Subtopology, sinks: set[str]) -> tuple[str, ...]:
        """Return the nodes that sinks need: what is before them, and who fills the stores there."""
        nodes = self._plan.topology.nodes
        needed: set[str] = set()
        looked_at = sorted(sinks)
        while looked_at:
            name = looked_at.pop()
            if name in needed:
                continue
            needed.add(name)
            node = nodes[name]
            looked_at.extend(node.parents)
            for store in node.stores:
                looked_at.extend(self._writers(store))
        return tuple(name for name in part.nodes if name in needed)

    def _writers(self, store: str) -> list[str]:
        """Return the nodes that write into a store: all that use it, but for those that look."""
        return [
            name
            for name, node in self._plan.topology.nodes.items()
            if isinstance(node, ProcessorNode)
            and store in node.stores
            and store not in node.looks_into
        ]

    def _topics(self, names: tuple[str, ...]) -> set[str]:
        nodes = (self._plan.topology.nodes[name] for name in names)
        sources = (node for node in nodes if isinstance(node, SourceNode))
        return set(topics_of(self._plan, sources, self._known_topics))

    def _circle(self) -> TopologyError:
        topics = ", ".join(repr(topic) for topic in sorted(self._missing))
        return TopologyError(
            f"topics lead in a circle through {topics}: what writes there needs what is read "
            "there. A backfill reads a topic when it is complete, so it can't run this topology; "
            "start it live from the beginning of its topics instead"
        )
