"""What a topology can be made of, found in the package; and what a topology is made of."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from types import FrameType, ModuleType
from typing import Any

import pystreams
import pystreams.topology
from pystreams import StoreKind, StreamsBuilder, Topology
from pystreams.topology.graph import nodes
from pystreams.topology.graph.nodes import ProcessorNode
from pystreams.topology.operators.tables.changes import DerivedTableOperator
from pystreams.topology.operators.tables.table_operator import TableOperator
from pystreams.topology.operators.windows.window_aggregation import WindowOperator

TOPOLOGY = pystreams.topology.__name__


def operators(package: ModuleType = pystreams.topology) -> set[type]:
    """All classes in a package, at whatever depth, that can be attached to a node; no bases."""
    found = set()
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        for member in classes_in(importlib.import_module(module.name)):
            is_protocol = getattr(member, "_is_protocol", False)
            if hasattr(member, "attach") and not is_protocol:
                found.add(member)
    return found - {TableOperator, DerivedTableOperator, WindowOperator}


def node_classes() -> set[type]:
    """All kinds of nodes."""
    return {member for member in classes_in(nodes) if member.__name__.endswith("Node")}


def classes_in(module: ModuleType) -> Iterator[type]:
    """The public classes that a module defines."""
    for name, member in vars(module).items():
        own = inspect.isclass(member) and member.__module__ == module.__name__
        if own and not name.startswith("_"):
            yield member


def operations() -> set[str]:
    """What a topology is declared with: public methods, by their qualified names.

    Those of the builder, of the classes that its methods return, and so on. What returns something
    else tells, and declares nothing; what returns nothing in `Topology` is there for the DSL.
    """
    found: set[str] = set()
    seen: set[type] = set()
    waiting: set[type] = {StreamsBuilder}
    while waiting:
        kind = waiting.pop()
        seen.add(kind)
        for method in public_methods(kind):
            returned = returned_by(method)
            if returned or (returns(method) == "None" and kind is not Topology):
                found.add(method.__qualname__)
            waiting |= returned - seen
    return found


def public_methods(kind: type) -> list[Any]:
    methods = inspect.getmembers(kind, inspect.isfunction)
    return [method for name, method in methods if not name.startswith("_")]


def returns(method: Any) -> str:
    annotation: str = method.__annotations__["return"]
    return annotation


def returned_by(method: Any) -> set[type]:
    """The classes with which one goes on to declare: those of the package that users know."""
    names = set(re.findall(r"\w+", returns(method))) & set(pystreams.__all__)
    members = {getattr(pystreams, name) for name in names}
    return {member for member in members if member.__module__.startswith(f"{TOPOLOGY}.")}


def called_by(builds: Iterable[Callable[[], Topology]]) -> set[str]:
    """Qualified names of what is called while topologies are made, by them and not within."""
    called = set()

    def notice(frame: FrameType, event: str, _argument: object) -> None:
        caller = frame.f_back
        if event == "call" and caller is not None:
            within = caller.f_globals.get("__name__", "").startswith("pystreams.")
            if not within:
                called.add(frame.f_code.co_qualname)

    before = sys.getprofile()
    for build in builds:
        sys.setprofile(notice)
        try:
            build()
        finally:
            sys.setprofile(before)
    return called


def operators_of(topology: Topology) -> set[type]:
    return {
        type(node.operator) for node in topology.nodes.values() if isinstance(node, ProcessorNode)
    }


def node_classes_of(topology: Topology) -> set[type]:
    return {type(node) for node in topology.nodes.values()}


def store_kinds_of(topology: Topology) -> set[StoreKind]:
    """The kinds of its stores, without those of stores of the user's own."""
    specs = [getattr(builder, "spec", None) for builder in topology.stores.values()]
    return {spec.kind for spec in specs if spec is not None}
