"""`BranchedKStream`: splits a stream by predicates. Source: Kafka's `BranchedKStreamImpl`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, Protocol

from pystreams.errors import TopologyError
from pystreams.topology.functions import KEY_VALUE, checked
from pystreams.topology.graph import StreamsGraph
from pystreams.topology.graph_nodes import GraphNode, ProcessorGraphNode
from pystreams.topology.naming import check_name
from pystreams.topology.processors.stateless import BranchOperator, PassThroughOperator
from pystreams.topology.type_variables import K, V

if TYPE_CHECKING:
    from pystreams.topology.kstream import KStream


class BranchedKStream(Generic[K, V]):
    """A stream being split: a record goes to the first branch whose predicate is true.

    Made by `KStream.split`. Declare the branches, then end with `default_branch` (which takes
    the rest) or `no_default_branch` (which drops it); both return the branches by name:

        split = stream.split(name="size-").branch(is_big, name="big")
        branches = split.default_branch(name="small")
        branches["size-big"], branches["size-small"]

    A branch without a name is called by its number, from 1; the default branch is 0.
    """

    def __init__(
        self, graph: StreamsGraph, parent: GraphNode, name: str, make_stream: MakeStream
    ) -> None:
        self._graph = graph
        self._name = name
        self._make_stream = make_stream
        self._operator = BranchOperator()
        self._node = ProcessorGraphNode(name, self._operator)
        self._branches: dict[str, KStream[K, V]] = {}
        self._names: set[str] = set()
        self._ended = False
        graph.add(self._node, parent)

    def branch(
        self,
        predicate: Callable[[K, V], bool],
        *,
        name: str | None = None,
        chain: Callable[[KStream[K, V]], KStream[Any, Any] | None] | None = None,
    ) -> BranchedKStream[K, V]:
        """Add a branch.

        Args:
            predicate: Called with (key, value), if no earlier branch took the record.
            name: Ends the branch's name, which begins with the split's.
            chain: Called with the branch; what it returns stands in the result instead, and
                nothing if it returns None.

        Raises:
            TopologyError: The split has ended, or another branch has the name.
        """
        self._check_open("branch")
        checked(predicate, "branch", KEY_VALUE)
        number = len(self._operator.branches) + 1
        child, stream = self._child(str(number) if name is None else name)
        self._operator.branches.append((predicate, child))
        self._keep(child, stream, chain)
        return self

    def default_branch(
        self,
        *,
        name: str | None = None,
        chain: Callable[[KStream[K, V]], KStream[Any, Any] | None] | None = None,
    ) -> dict[str, KStream[K, V]]:
        """End the split with a branch for all records that no other one takes.

        Args:
            name: Ends the branch's name.
            chain: As in `branch`.

        Returns:
            The branches by name.

        Raises:
            TopologyError: The split has ended, or another branch has the name.
        """
        self._check_open("default_branch")
        child, stream = self._child("0" if name is None else name)
        self._operator.default = child
        self._ended = True
        self._keep(child, stream, chain)
        return self._branches

    def no_default_branch(self) -> dict[str, KStream[K, V]]:
        """End the split; drop records that no branch takes.

        Returns:
            The branches by name.

        Raises:
            TopologyError: The split has ended.
        """
        self._check_open("no_default_branch")
        self._ended = True
        return self._branches

    def _child(self, suffix: str) -> tuple[str, KStream[K, V]]:
        name = self._name + suffix
        check_name(name, "a branch")
        if name in self._names:
            raise TopologyError(f"two branches are named {name!r}: give one another name")
        self._names.add(name)
        # Kafka takes a number for each branch, though its name has none.
        self._graph.names.node(name)
        node = ProcessorGraphNode(name, PassThroughOperator())
        self._graph.add(node, self._node)
        return name, self._make_stream(node)

    def _keep(
        self,
        name: str,
        stream: KStream[K, V],
        chain: Callable[[KStream[K, V]], KStream[Any, Any] | None] | None,
    ) -> None:
        kept = stream if chain is None else chain(stream)
        if kept is not None:
            self._branches[name] = kept

    def _check_open(self, method: str) -> None:
        if self._ended:
            message = (
                f"{method}(...) after the end of split {self._name!r}: declare all branches before "
                "default_branch(...) or no_default_branch(), and call one of the two, once"
            )
            raise TopologyError(message)


class MakeStream(Protocol):
    """Makes the stream behind a branch's node; serdes and keys are those of the split stream."""

    def __call__(self, node: GraphNode, /) -> KStream[Any, Any]:
        """Return the stream."""
