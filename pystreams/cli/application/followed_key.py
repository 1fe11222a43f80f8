"""Which of a replay's events are of one key, and of what its records become."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from pystreams.cli.application.topic_serdes import serdes_of_topic
from pystreams.readable_keys import bytes_of_key
from pystreams.testing.trace import Hop, StateChange, TraceEvent
from pystreams.topology.graph.nodes import ProcessorNode, SinkNode, SourceNode

if TYPE_CHECKING:
    from pystreams.config import StreamsConfig
    from pystreams.topology.plan.topology_plan import TopologyPlan


class FollowedKey:
    """Follows the records of one key, under whatever keys they go on.

    All that such a record sets off is followed. Of what the record of another key sets off: what
    becomes of it once it has this key in a repartition topic, and what an operation had held back
    of this key, as the result of a window that closes.

    Args:
        config: Its default serdes stand in where a source has none of its own.
        key: The key, as people write it.
        topics: The topics that are read. Repartition topics are followed beside them.

    Raises:
        UsageError: It fits the serde of none of them all.
    """

    def __init__(
        self, plan: TopologyPlan, config: StreamsConfig, key: str, topics: Iterable[str]
    ) -> None:
        self._bytes: dict[str, bytes] = {}
        self._repartitioned: dict[str, Any] = {}
        self._keys: list[Any] = []
        self._nodes: set[str] = set()
        self._stores: set[str] = set()
        self._graph = plan.topology.nodes
        self._all = False
        self._let_go: list[Any] = []
        self._shown_to: int | None = None
        refused = []
        for topic in (*topics, *plan.repartition_topics()):
            serde = serdes_of_topic(plan, config, topic).key
            try:
                self._bytes[topic] = bytes_of_key(key, serde, topic)
            except ValueError as error:
                refused.append(f"topic {topic!r}: {error}")
                continue
            self._keys.append(serde.deserializer(topic)(self._bytes[topic]))
            source = plan.source_of_topic(topic)
            if source is not None and plan.is_repartition(topic):
                self._repartitioned[source.name] = self._keys[-1]
            part = plan.subtopology_of_topic(topic)
            if part is not None:
                self._nodes.update(part.nodes)
                self._stores.update(part.stores)
        if not self._bytes:
            raise click.UsageError(f"--key {key}: no topic has such keys; " + "; ".join(refused))

    def takes(self, topic: str, key: bytes | None) -> bool:
        """Take note of the next record; return whether it is of the key."""
        self._all = key is not None and self._bytes.get(topic) == key
        self._shown_to, self._let_go = None, []
        return self._all

    def follows(self, event: TraceEvent) -> bool:
        """Return whether an event is of the key."""
        if self._all:
            return True
        if isinstance(event, Hop):
            return self._follows_hop(event)
        if isinstance(event, StateChange):
            return event.store in self._stores and self._is_mine(event.key)
        return event.key in self._let_go

    def _follows_hop(self, hop: Hop) -> bool:
        if self._shown_to is None or hop.depth <= self._shown_to:
            let_go = hop.node in self._nodes and self._held_back(hop) and self._is_mine(hop.key)
            mine = let_go or self._comes_repartitioned(hop)
            self._shown_to = hop.depth if mine else None
        if self._shown_to is None:
            return False
        if isinstance(self._graph[hop.node], SinkNode):
            self._let_go.append(hop.key)
        return True

    def _comes_repartitioned(self, hop: Hop) -> bool:
        """Return whether a record that got the key on its way comes out of a repartition topic."""
        return hop.node in self._repartitioned and hop.key == self._repartitioned[hop.node]

    def _held_back(self, hop: Hop) -> bool:
        """Return whether a node that keeps records may have let this one go."""
        if hop.parent is None:
            return not isinstance(self._graph[hop.node], SourceNode)
        parent = self._graph[hop.parent]
        return isinstance(parent, ProcessorNode) and bool(parent.stores)

    def _is_mine(self, key: Any) -> bool:
        """Return whether a key is the one, or a window of it."""
        return key in self._keys or getattr(key, "key", None) in self._keys
