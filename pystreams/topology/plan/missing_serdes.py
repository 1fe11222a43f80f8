"""Finds what has no serde before anything runs: neither one of its own nor the configured default.

    source, sink, store, what waits --> its own serde --> the default --> told, with its cure

An operation that makes new keys or values loses their serde, unless it is given one or knows their
type (`declarations.kept_serdes`), and the next topic or store misses it. So what is told has both
lines of the user's code. A task would find it too, but only when the group has been joined and
topics were made.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from pystreams.errors import TopologyError
from pystreams.kernel.user_tracebacks import UsersCall
from pystreams.serdes import BYTES, Serde, is_known
from pystreams.topology.graph.nodes import Node, ProcessorNode, SinkNode, SourceNode
from pystreams.topology.graph.topology import Topology
from pystreams.topology.operators.distinct import DistinctOperator
from pystreams.topology.operators.joins.foreign_key_join import SubscriptionSendOperator
from pystreams.topology.operators.joins.grace_join import GraceJoinOperator
from pystreams.topology.operators.stateless import (
    FlatMapOperator,
    FlatMapValuesOperator,
    MapOperator,
    MapValuesOperator,
    SelectKeyOperator,
)
from pystreams.topology.operators.tables.changes import TableMapValuesOperator
from pystreams.topology.operators.tables.suppress import SuppressOperator
from pystreams.topology.operators.tables.transform_values import TableTransformValuesOperator
from pystreams.topology.operators.user_processor import UserProcessorOperator

_Part = Literal["key", "value"]

_NEW_KEYS = (SelectKeyOperator, MapOperator, FlatMapOperator)
_NEW_VALUES = (
    MapOperator,
    FlatMapOperator,
    MapValuesOperator,
    FlatMapValuesOperator,
    TableMapValuesOperator,
    TableTransformValuesOperator,
)
_AGGREGATIONS = frozenset(("count", "reduce", "aggregate"))
_JOINS = frozenset(("join", "left_join", "outer_join"))
_PROCESSOR_API = frozenset(
    ("add_global_store", "add_state_store", "process", "process_values", "add_processor")
)
_GROUPING = "the group_by(...) or group_by_key(...) before it"


@dataclass(frozen=True, slots=True)
class _Need:
    """What needs both serdes.

    Attributes:
        what: It, in an error's words.
        call: The user's call that declared it.
        key_serde: Its own.
        value_serde: Its own.
        node: Its node, or one that uses it; tells where the serde was lost.
        is_store: Whether it is a store.
    """

    what: str
    call: UsersCall
    key_serde: Serde[Any] | None
    value_serde: Serde[Any] | None
    node: str
    is_store: bool = False


def check_serdes(
    topology: Topology,
    default_key_serde: Serde[Any] | None,
    default_value_serde: Serde[Any] | None,
) -> None:
    """Refuse a topology in which a serde is missing.

    Args:
        default_key_serde: The configured `default.key.serde`.
        default_value_serde: The configured `default.value.serde`.

    Raises:
        TopologyError: A serde is missing; names each place once, with its line and cure.
    """
    missing: dict[tuple[str, _Part, str], str] = {}
    for need in _needs(topology):
        if not is_known(need.key_serde, default_key_serde):
            _tell(topology, need, "key", missing)
        if not is_known(need.value_serde, default_value_serde):
            _tell(topology, need, "value", missing)
    if missing:
        raise TopologyError("\n".join(missing.values()))


def _needs(topology: Topology) -> Iterator[_Need]:
    """Give what needs serdes: nodes in their order, then stores."""
    for name, node in topology.nodes.items():
        call = topology.call_of(name)
        if isinstance(node, SourceNode):
            if topology.repartition_topics.keys().isdisjoint(node.topics):  # Else its sink is told.
                what = f"source {name!r} ({', '.join(node.topics) or 'a pattern'})"
                yield _Need(what, call, node.key_serde, node.value_serde, name)
        elif isinstance(node, SinkNode):
            yield _Need(
                _sink_text(topology, node), call, node.key_serde, node.value_serde, node.parents[0]
            )
        elif isinstance(node.operator, GraceJoinOperator):
            join = node.operator
            yield _Need(f"join {name!r}", call, join.key_serde, join.value_serde, name)
        elif isinstance(node.operator, SubscriptionSendOperator):
            send = node.operator
            yield _Need(f"join {name!r}", call, send.foreign_key_serde, send.value_serde, name)
        elif isinstance(node.operator, DistinctOperator):
            what = f"node {name!r}"
            yield _Need(what, call, node.operator.key_serde, BYTES, name)
        elif isinstance(node.operator, SuppressOperator):
            spec = topology.stores[node.operator.store].spec
            what = f"suppression {name!r}"
            yield _Need(what, call, spec.key_serde, spec.value_serde, name)
    users = _store_users(topology)
    for name, builder in topology.stores.items():
        if builder.store_kind.has_serdes:
            spec, call = builder.spec, topology.call_of_store(name)
            what = f"state store {name!r}"
            yield _Need(
                what, call, spec.key_serde, spec.value_serde, users.get(name, ""), is_store=True
            )


def _sink_text(topology: Topology, node: SinkNode) -> str:
    if node.topic in topology.repartition_topics:
        return f"repartition topic {node.topic!r}"
    return (
        f"sink {node.name!r} (a function's topics)"
        if callable(node.topic)
        else (f"sink {node.name!r} ({node.topic})")
    )


def _store_users(topology: Topology) -> dict[str, str]:
    """Return for each store the first node that uses it."""
    users: dict[str, str] = {}
    for node in topology.nodes.values():
        if isinstance(node, ProcessorNode):
            for store in node.stores:
                users.setdefault(store, node.name)
    return users


def _tell(
    topology: Topology, need: _Need, part: _Part, missing: dict[tuple[str, _Part, str], str]
) -> None:
    """Note that a serde is missing, unless one of the same call and cure is noted already."""
    call, cure = need.call, _cure(need, part)
    lost_by = _lost_by(topology, need.node, part)
    lost = ""
    # A store of the call's own takes no serde from the table before it, whatever its type.
    if lost_by is not None and not (need.is_store and lost_by is call):
        lost = (
            f": {lost_by.method}(...) at {lost_by.place} makes new {part}s, and whether they are "
            "of the type of the old ones is not known (its function's annotated return type would "
            "say so)"
        )
    message = (
        f"{call.method}(...) at {call.place}: {need.what} has no {part} serde{lost}. {cure}, or "
        f"set default.{part}.serde in the configuration"
    )
    missing.setdefault((call.place, part, cure), message)


def _cure(need: _Need, part: _Part) -> str:
    method, option = need.call.method, f"{part}_serde=..."
    if method in _AGGREGATIONS and (part == "key" or not need.is_store):
        return f"Give {option} to {_GROUPING}"
    if method in _JOINS and part == "value":
        return f"Give {option}, or other_value_serde=... for the right stream, to {method}(...)"
    if method == "suppress":
        return f"Give {option} to what makes the table before it"
    if need.is_store and method in _PROCESSOR_API:
        return f"Give {option} to the Stores...builder(...) that it was made with"
    return f"Give {option} to {method}(...)"


def _lost_by(topology: Topology, node: str, part: _Part) -> UsersCall | None:
    """Return the nearest call upstream that makes new keys or values, if there is one."""
    seen: set[str] = set()
    waiting = [node] if node else []
    while waiting:
        name = waiting.pop(0)
        if name in seen:
            continue
        seen.add(name)
        found = topology.nodes[name]
        if _is_new(found, part):
            return topology.call_of(name)
        if not isinstance(found, SourceNode):
            waiting.extend(found.parents)
    return None


def _is_new(node: Node, part: _Part) -> bool:
    if not isinstance(node, ProcessorNode):
        return False
    if isinstance(node.operator, UserProcessorOperator):
        return part == "value" or not node.operator.fixed_key
    return isinstance(node.operator, _NEW_KEYS if part == "key" else _NEW_VALUES)
