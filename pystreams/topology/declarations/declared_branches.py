"""A declared split and its branches, below `BranchedKStream`. Source: `BranchedKStreamImpl`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pystreams.errors import TopologyError
from pystreams.topology.contracts.user_functions import KEY_VALUE, checked_to_run
from pystreams.topology.declarations.declared_stream import DeclaredStream
from pystreams.topology.declarations.logical_graph.graph_nodes import BranchChildNode, BranchNode
from pystreams.topology.graph import naming


class DeclaredSplit:
    """A split, as long as branches are added to it.

    Args:
        name: Name of the node that splits, if the user gave one.
    """

    def __init__(self, stream: DeclaredStream, name: str | None) -> None:
        self._stream = stream
        self._node = BranchNode(stream.graph.names.node_or(name, naming.STREAM_BRANCH))
        self._names: list[str] = []
        self._ended = False
        stream.graph.add(self._node, stream.node)

    def branch(self, predicate: Callable[[Any, Any], Any], name: str | None) -> DeclaredStream:
        """Declare a branch; without a name it has its number."""
        self._check_open("branch")
        checked_to_run(predicate, "branch", KEY_VALUE)
        return self._add(str(len(self._names) + 1) if name is None else name, predicate)

    def default_branch(self, name: str | None) -> DeclaredStream:
        """Declare the branch that takes the rest, which is the last."""
        self._check_open("default_branch")
        stream = self._add("0" if name is None else name, None)
        self._ended = True
        return stream

    def end(self, method: str) -> None:
        """Allow no branch after this.

        Raises:
            TopologyError: It has ended already.
        """
        self._check_open(method)
        self._ended = True

    def _add(self, suffix: str, predicate: Callable[[Any, Any], Any] | None) -> DeclaredStream:
        graph, name = self._stream.graph, self._node.name + suffix
        naming.check_name(name, "a branch")
        if name in self._names:
            raise TopologyError(f"two branches are named {name!r}: give one another name")
        self._names.append(name)
        # Kafka takes a number for each branch, though its name has none.
        graph.names.node(name)
        child = BranchChildNode(name, predicate)
        graph.add(child, self._node)
        return replace(self._stream, node=child)

    def _check_open(self, method: str) -> None:
        if self._ended:
            raise TopologyError(
                f"{method}(...) after the end of split {self._node.name!r}: declare all branches "
                "before default_branch(...) or no_default_branch(), and call one of the two, once"
            )
