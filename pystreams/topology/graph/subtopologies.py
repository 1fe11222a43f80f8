"""Splits a topology into sub-topologies: its parts that share no edge and no store.

Source: Kafka Streams' `InternalTopologyBuilder.makeNodeGroups`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pystreams.topology.graph.nodes import Node, SourceNode


@dataclass(frozen=True, slots=True)
class Subtopology:
    """One connected part of a topology.

    Attributes:
        id: Its number, by the order in which its first node was added.
        nodes: Names of its nodes, parents before children.
        stores: Names of the stores its processors use, in the order they were added.
        is_global: Whether it is a global store, with its source and its processor: no tasks.
    """

    id: int
    nodes: tuple[str, ...]
    stores: tuple[str, ...]
    is_global: bool = False


def subtopologies_of(nodes: Mapping[str, Node], stores: Iterable[str]) -> list[Subtopology]:
    """Split a topology into its connected parts.

    Args:
        nodes: All nodes by name, in the order in which they were added: it numbers the parts.
        stores: Names of all stores, in the order in which they were added.
    """
    root: dict[str, str] = {name: name for name in nodes}

    def find(name: str) -> str:
        while root[name] != name:
            root[name] = root[root[name]]
            name = root[name]
        return name

    store_user: dict[str, str] = {}
    for name, node in nodes.items():
        for parent in node.parents:
            root[find(name)] = find(parent)
        for store in node.stores:
            root[find(name)] = find(store_user.setdefault(store, name))
    groups: dict[str, list[str]] = {}
    for name in nodes:
        groups.setdefault(find(name), []).append(name)
    return [
        Subtopology(
            number, tuple(names), _stores_used(nodes, names, stores), _is_global(nodes, names)
        )
        for number, names in enumerate(groups.values())
    ]


def _is_global(nodes: Mapping[str, Node], names: list[str]) -> bool:
    found = (nodes[name] for name in names)
    return any(isinstance(node, SourceNode) and node.is_global for node in found)


def _stores_used(
    nodes: Mapping[str, Node], names: list[str], stores: Iterable[str]
) -> tuple[str, ...]:
    used = {store for name in names for store in nodes[name].stores}
    return tuple(store for store in stores if store in used)
