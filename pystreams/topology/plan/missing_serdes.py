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
from pystreams.serdes import BYTES, Serde, filled, filled_value, is_complete
from pystreams.topology.graph.nodes import ProcessorNode, SinkNode, SourceNode
from pystreams.topology.graph.topology import Topology
from pystreams.topology.operators.joins.foreign_key_join import (
    ResponseOperator,
    SubscriptionSendOperator,
)
from pystreams.topology.operators.joins.foreign_key_serdes import ResponseSerde, SubscriptionSerde
from pystreams.topology.operators.joins.grace_join import GraceJoinOperator
from pystreams.topology.operators.joins.self_join import SelfJoinOperator
from pystreams.topology.operators.joins.stream_global_join import StreamGlobalTableJoinOperator
from pystreams.topology.operators.joins.stream_stream_join import StreamStreamJoinOperator
from pystreams.topology.operators.joins.stream_table_join import StreamTableJoinOperator
from pystreams.topology.operators.joins.table_table_join import TableJoinSideOperator
from pystreams.topology.operators.records.async_calls import MapValuesAsyncOperator
from pystreams.topology.operators.records.batches import MapValuesBatchOperator
from pystreams.topology.operators.records.distinct import DistinctOperator
from pystreams.topology.operators.records.stateless import (
    FlatMapOperator,
    FlatMapValuesOperator,
    MapOperator,
    MapValuesOperator,
    SelectKeyOperator,
)
from pystreams.topology.operators.tables.changes import (
    TableMapValuesOperator,
    TableRegroupOperator,
)
from pystreams.topology.operators.tables.suppress import SuppressOperator
from pystreams.topology.operators.tables.transform_values import TableTransformValuesOperator
from pystreams.topology.operators.user_processor import UserProcessorOperator

_Part = Literal["key", "value"]

_NEW_KEYS = (SelectKeyOperator, MapOperator, FlatMapOperator, TableRegroupOperator)
_NEW_VALUES = (
    MapOperator,
    FlatMapOperator,
    MapValuesOperator,
    MapValuesAsyncOperator,
    MapValuesBatchOperator,
    FlatMapValuesOperator,
    TableMapValuesOperator,
    TableRegroupOperator,
    TableTransformValuesOperator,
    GraceJoinOperator,
    ResponseOperator,
    SelfJoinOperator,
    StreamGlobalTableJoinOperator,
    StreamStreamJoinOperator,
    StreamTableJoinOperator,
    TableJoinSideOperator,
)
_AGGREGATIONS = frozenset(("count", "reduce", "aggregate"))
_JOINS = frozenset(("join", "left_join", "outer_join"))
_PROCESSOR_API = frozenset(
    ("add_global_store", "add_state_store", "process", "process_values", "add_processor")
)
_GROUPING = "the group_by(...) or group_by_key(...) before it"
_LEFT_TABLE = "what makes the left table"
_RIGHT_TABLE = "what makes the right table"


@dataclass(frozen=True, slots=True)
class _Need:
    """What needs both serdes.

    Attributes:
        what: It, in an error's words.
        call: The user's call that declared it.
        node: Its node, or one that uses it; tells where the serde was lost.
        is_store: Whether it is a store of what the call itself makes.
        given_to: What takes the serde of keys, and that of values, if not the call.
    """

    what: str
    call: UsersCall
    key_serde: Serde[Any] | None
    value_serde: Serde[Any] | None
    node: str
    is_store: bool = False
    given_to: tuple[str, str] = ("", "")


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
        if not is_complete(filled(need.key_serde, default_key_serde)):
            _tell(topology, need, "key", missing)
        if not is_complete(filled_value(need.value_serde, default_value_serde, default_key_serde)):
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
            yield from _sink_needs(topology, node, call)
        elif isinstance(node, ProcessorNode):
            yield from _operator_needs(topology, node, call)
    users = _store_users(topology)
    for name, builder in topology.stores.items():
        if builder.store_kind.has_serdes:
            spec, call = builder.spec, topology.call_of_store(name)
            of_streams = call.method in _JOINS and not builder.store_kind.holds_tables
            yield _Need(
                f"state store {name!r}",
                call,
                spec.key_serde,
                spec.value_serde,
                users.get(name, ""),
                is_store=not of_streams,
            )


def _operator_needs(topology: Topology, node: ProcessorNode, call: UsersCall) -> Iterator[_Need]:
    """Give what an operator needs for what it holds back, or sends, by itself."""
    name, operator = node.name, node.operator
    if isinstance(operator, GraceJoinOperator):
        what, given_to = f"join {name!r}", ("", f"{call.method}(...)")
        yield _Need(what, call, operator.key_serde, operator.value_serde, name, given_to=given_to)
    elif isinstance(operator, SubscriptionSendOperator):
        # The sink behind it needs no more.
        what, rows = f"join {name!r}", (operator.primary_key_serde, operator.value_serde)
        yield _Need(what, call, *rows, name, given_to=(_LEFT_TABLE, _LEFT_TABLE))
        yield _Need(what, call, operator.foreign_key_serde, BYTES, "", given_to=(_RIGHT_TABLE, ""))
    elif isinstance(operator, DistinctOperator):
        yield _Need(f"node {name!r}", call, operator.key_serde, BYTES, name)
    elif isinstance(operator, SuppressOperator):
        spec, before = topology.stores[operator.store].spec, "what makes the table before it"
        yield _Need(
            f"suppression {name!r}",
            call,
            spec.key_serde,
            spec.value_serde,
            name,
            given_to=(before, before),
        )


def _sink_needs(topology: Topology, node: SinkNode, call: UsersCall) -> Iterator[_Need]:
    what = _sink_text(topology, node)
    if isinstance(node.value_serde, ResponseSerde):
        # The last of the two nodes that answer is below the right table.
        values, parent = node.value_serde, node.parents[-1]
        yield _Need(what, call, BYTES, values, parent, given_to=("", _RIGHT_TABLE))
    elif not isinstance(node.value_serde, SubscriptionSerde):
        yield _Need(what, call, node.key_serde, node.value_serde, node.parents[0])


def _sink_text(topology: Topology, node: SinkNode) -> str:
    if node.topic in topology.repartition_topics:
        return f"repartition topic {node.topic!r}"
    topics = "a function's topics" if callable(node.topic) else node.topic
    return f"sink {node.name!r} ({topics})"


def _store_users(topology: Topology) -> dict[str, str]:
    """Return for each store the first node that uses it."""
    users: dict[str, str] = {}
    for node in topology.nodes.values():
        for store in node.stores:
            users.setdefault(store, node.name)
    return users


def _tell(
    topology: Topology, need: _Need, part: _Part, missing: dict[tuple[str, _Part, str], str]
) -> None:
    """Note that a serde is missing, unless one of the same call and cure is noted already."""
    call, cure = need.call, _cure(need, part)
    message = (
        f"{call.method}(...) at {call.place}: {need.what} has no {part} serde"
        f"{_lost(topology, need, part)}. {cure}, or set default.{part}.serde in the configuration"
    )
    missing.setdefault((call.place, part, cure), message)


def _cure(need: _Need, part: _Part) -> str:
    method, option = need.call.method, f"{part}_serde=..."
    given_to = need.given_to[part == "value"]
    if given_to:
        return f"Give {option} to {given_to}"
    if method in _AGGREGATIONS and (part == "key" or not need.is_store):
        return f"Give {option} to {_GROUPING}"
    if method in _JOINS and part == "value" and not need.is_store:
        return f"Give {option}, or other_value_serde=... for the right stream, to {method}(...)"
    if need.is_store and method in _PROCESSOR_API:
        return f"Give {option} to the Stores...builder(...) that it was made with"
    return f"Give {option} to {method}(...)"


def _lost(topology: Topology, need: _Need, part: _Part) -> str:
    """Return where the serde was lost, in an error's words; nothing where none was."""
    method = need.call.method
    if need.is_store and (method in _PROCESSOR_API or (method, part) == ("aggregate", "value")):
        return ""  # Nothing that comes in has the serde.
    node = _lost_by(topology, need, part)
    if node is None:
        return ""
    call = topology.call_of(node.name)
    lost = f": {call.method}(...) at {call.place} makes new {part}s"
    of_class = isinstance(node.operator, (UserProcessorOperator, TableTransformValuesOperator))
    says = "its class's type parameters" if of_class else "its function's annotated return type"
    return (
        f"{lost}, and whether they are of the type of the old ones is not known ({says} would say "
        "so to a serde of one type)"
    )


def _lost_by(topology: Topology, need: _Need, part: _Part) -> ProcessorNode | None:
    """Return the nearest node upstream that makes new keys or values, if there is one.

    A store of the call's own is for what it makes; all else that it needs is for what comes to it.
    """
    seen: set[str] = set()
    waiting = [need.node] if need.node else []
    while waiting:
        name = waiting.pop(0)
        if name in seen:
            continue
        seen.add(name)
        found = topology.nodes[name]
        asked = need.is_store or topology.call_of(name) != need.call
        if asked and isinstance(found, ProcessorNode) and _is_new(found, part):
            return found
        waiting.extend(found.parents)
    return None


def _is_new(node: ProcessorNode, part: _Part) -> bool:
    if isinstance(node.operator, UserProcessorOperator):
        return part == "value" or not node.operator.fixed_key
    return isinstance(node.operator, _NEW_KEYS if part == "key" else _NEW_VALUES)
