"""What a topology is made of: named nodes with their links, and stores.

Invariants:
- Names of nodes are unique; parents are added before their children, so that the order of
  insertion is a topological order. Sub-topologies are numbered by it.
- Two stores have two names.
"""

from __future__ import annotations

from collections.abc import Mapping

from pystreams.config import TopologyOptimization
from pystreams.errors import TopologyError
from pystreams.kernel.user_tracebacks import UsersCall, users_call
from pystreams.stores.store_builder import StoreBuilder
from pystreams.topology.graph.naming import check_name
from pystreams.topology.graph.nodes import (
    CopartitionGroup,
    Node,
    RepartitionTopic,
    SinkNode,
    SourceNode,
)


class NodeGraph:
    """Nodes, stores and internal topics, each with the user's call that declared it.

    Attributes:
        optimizations: What `StreamsBuilder.build` was told to use; None for a topology by hand.
        generated_names: Names of nodes, stores and internal topics that no user has given.
    """

    def __init__(self) -> None:
        self.generated_names: set[str] = set()
        self.optimizations: frozenset[TopologyOptimization] | None = None
        self._nodes: dict[str, Node] = {}
        self._children: dict[str, list[str]] = {}
        self._stores: dict[str, StoreBuilder] = {}
        self._global_stores: dict[str, str] = {}
        self._repartition_topics: dict[str, RepartitionTopic] = {}
        self._source_changelogs: dict[str, str] = {}
        self._copartition_groups: list[CopartitionGroup] = []
        self._calls: dict[str, UsersCall] = {}
        self._store_calls: dict[str, UsersCall] = {}
        self._declared_by: UsersCall | None = None

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
    def source_changelogs(self) -> dict[str, str]:
        """Stores that are restored from a topic that is read, with the source node that does."""
        return self._source_changelogs

    def call_of(self, node: str) -> UsersCall:
        """Return the user's call that declared a node."""
        return self._calls[node]

    def call_of_store(self, store: str) -> UsersCall:
        """Return the user's call that declared a store."""
        return self._store_calls[store]

    @property
    def global_stores(self) -> Mapping[str, str]:
        """The topic of each global store, by the store's name, in the order they were added."""
        return self._global_stores

    @property
    def copartition_groups(self) -> list[CopartitionGroup]:
        """Which source nodes' topics must have equal partition counts."""
        return self._copartition_groups

    def children(self, name: str) -> list[str]:
        """Return the names of a node's children, in the order they were added."""
        return self._children[name]

    def declare_for(self, call: UsersCall | None) -> None:
        """Ascribe what is added from now on to a call of the user's; None ends that."""
        self._declared_by = call

    # ------------------------------------------------------------------ what adding calls

    def _place(self, node: Node) -> None:
        """Add a node that has been checked, below its parents."""
        self._nodes[node.name] = node
        self._calls[node.name] = self._declared_by or users_call()
        self._children[node.name] = []
        for parent in node.parents:
            self._children[parent].append(node.name)

    def _place_store(self, builder: StoreBuilder, users: tuple[str, ...]) -> None:
        """Add a store, unless that very builder is there; `users` are named in an error."""
        present = self._stores.setdefault(builder.name, builder)
        if present is not builder:
            raise self._two_stores(builder.name, users)
        self._store_calls.setdefault(builder.name, self._declared_by or users_call())

    def _check_new(self, name: str) -> None:
        check_name(name, "a node")
        if name in self._nodes:
            raise TopologyError(f"two nodes are named {name!r}: give one of them another name")

    def _check_parents(self, name: str, parents: tuple[str, ...]) -> None:
        if not parents:
            raise TopologyError(f"node {name!r} has no parent: name the nodes it reads from")
        for parent in parents:
            if not isinstance(parent, str):
                raise TopologyError(
                    f"node {name!r}: {parent!r} is no node's name: give each parent's name"
                )
            node = self._nodes.get(parent)
            if node is None:
                message = f"node {name!r} names the parent {parent!r}, which does not exist (yet)"
                raise TopologyError(message)
            if isinstance(node, SinkNode):
                raise TopologyError(f"node {name!r} can't read from {parent!r}: it is a sink")
            if self._is_global(node):
                raise TopologyError(
                    f"node {name!r} can't read from {parent!r}: what comes to a global store goes "
                    "no further; look the store up from another processor, or read the topic once "
                    "more as a stream under another name"
                )

    def _is_global(self, node: Node) -> bool:
        """Return whether a node reads or fills a global store."""
        if isinstance(node, SourceNode):
            return node.is_global
        return any(self._is_global(self._nodes[parent]) for parent in node.parents)

    def _check_stores(self, processor: str, stores: tuple[str, ...]) -> None:
        for store in stores:
            if not isinstance(store, str):
                raise TopologyError(
                    f"processor {processor!r}: {store!r} is no store's name: give its name"
                )
            if store in self._global_stores:
                raise TopologyError(
                    f"processor {processor!r}: state store {store!r} is a global one, which every "
                    "processor can read without being connected to it: leave it out here"
                )
            if store not in self._stores:
                raise TopologyError(
                    f"processor {processor!r} uses state store {store!r}, which does not exist: "
                    f"add it first with add_state_store(...); known: {sorted(self._stores)}"
                )

    def _two_stores(self, store: str, processors: tuple[str, ...]) -> TopologyError:
        """Return the error of two builders of one name; names the processors of both."""
        users = [node.name for node in self._nodes.values() if store in node.stores]
        named = ", ".join(map(repr, (*users, *processors)))
        used_by = f" (processors {named})" if named else ""
        return TopologyError(
            f"two different state stores are named {store!r}{used_by}: rename one of them; to "
            "share a store, make one builder, and give that same object wherever it is added"
        )
