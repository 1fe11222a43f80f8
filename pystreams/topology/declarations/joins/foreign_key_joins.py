"""Declares a join of two tables by a foreign key. Source: Kafka's `KTableImpl.doJoinOnForeignKey`.

send -> topic -> receive -> answer -+-> topic -> resolve -> the result
foreign table ----------> tell -----+
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Any

from pystreams.errors import TopologyError
from pystreams.serdes import BYTES, Serde
from pystreams.stores.contracts.spec import StoreEngine, StoreSpec, StoreSupplier
from pystreams.stores.kinds.key_value.kind import KEY_VALUE
from pystreams.stores.spec_builder import StoreSpecBuilder
from pystreams.topology.contracts.user_functions import (
    VALUE,
    of_key_and_value,
    of_key_and_values,
    with_or_without_key,
)
from pystreams.topology.declarations.declared_stream import DeclaredStream
from pystreams.topology.declarations.joins.joined_tables import TableJoinCall
from pystreams.topology.declarations.kept_serdes import Serdes, kept_serde
from pystreams.topology.declarations.logical_graph.graph_node import (
    GraphNode,
    TableNeed,
    Wanted,
)
from pystreams.topology.declarations.logical_graph.graph_nodes import (
    InternalTopicSinkNode,
    InternalTopicSourceNode,
    ProcessorGraphNode,
    StoringNode,
)
from pystreams.topology.declarations.tables.declared_table import DeclaredTable, updated_table
from pystreams.topology.declarations.tables.table_store import TableStore
from pystreams.topology.graph import naming
from pystreams.topology.graph.nodes import StreamPartitioner
from pystreams.topology.operators.joins.foreign_key_join import (
    ForeignTableOperator,
    ResponseOperator,
    SubscriptionAnswerOperator,
    SubscriptionReceiveOperator,
    SubscriptionSendOperator,
)
from pystreams.topology.operators.joins.foreign_key_serdes import (
    Response,
    ResponseSerde,
    SubscriptionSerde,
)
from pystreams.topology.operators.joins.table_table_join import RowJoiner
from pystreams.topology.options.materialized import Materialized, table_options
from pystreams.topology.options.table_joined import TableJoined

_TOPIC_SUFFIX = "-topic"

RowFunction = Callable[[Any, Any], Any]
"""Called with (key, value) of a row."""


@dataclass(frozen=True, slots=True)
class _ForeignKeyCall:
    """What the user's call of a join by a foreign key says.

    Attributes:
        foreign_key_of: Called with (key, value) of a row; returns its foreign key.
        joiner: Called with (key, value, foreign value).
        left: Whether rows without a foreign row are in the result.
        partitioners: Where subscriptions and responses go.
        kept_serde: The serde of one side's values, if the result's are of its type.
        node_name: Begins the names of all that the join consists of.
    """

    foreign_key_of: RowFunction
    joiner: RowJoiner
    left: bool
    partitioners: TableJoined[Any, Any]
    kept_serde: Serde[Any] | None
    materialized: Materialized[Any, Any]
    node_name: str | None


def join_by_foreign_key(
    table: DeclaredTable,
    foreign: DeclaredTable,
    call: TableJoinCall,
    foreign_key: Callable[..., Any],
    table_joined: TableJoined[Any, Any] | None,
) -> DeclaredTable:
    """Declare a join; return the table of its results.

    Args:
        table: The table whose rows name others.
        foreign_key: Called with (value), or with (key, value) as the call says.
        table_joined: Where subscriptions and responses go.

    Raises:
        TopologyError: The two come from different builders, or an option or function is not right.
    """
    if table_joined is not None and not isinstance(table_joined, TableJoined):
        raise TopologyError(f"{call.kind}: table_joined takes TableJoined(...): {table_joined!r}")
    with_or_without_key(call.joiner, call.kind, ("value", "other_value"), with_key=call.with_key)
    with_or_without_key(foreign_key, call.kind, VALUE, with_key=call.with_key)
    materialized: Materialized[Any, Any] = table_options(call.materialized, call.options, call.kind)
    described = _ForeignKeyCall(
        of_key_and_value(foreign_key, with_key=call.with_key),
        of_key_and_values(call.joiner, with_key=call.with_key),
        call.kind == "left_join",
        table_joined or TableJoined(),
        kept_serde(call.joiner, table.value_serde, foreign.value_serde),
        materialized,
        call.node_name,
    )
    table.graph.check_same_builder(table.node, foreign.graph, foreign.node, "join")
    return _ForeignKeyJoin(table, foreign, described).declared()


class _ForeignKeyJoin:
    """One join, while it is declared: Kafka's order of names, which take numbers one by one."""

    def __init__(self, table: DeclaredTable, foreign: DeclaredTable, call: _ForeignKeyCall) -> None:
        self._table = table
        self._foreign = foreign
        self._call = call
        self._graph = table.graph
        self._topic = self._topic_of("-subscription-registration", naming.FOREIGN_KEY_REGISTRATION)

    def declared(self) -> DeclaredTable:
        """Declare all nodes; return the result's table."""
        source = self._declare_subscriptions()
        answers = self._declare_answers(source)
        return self._declare_result(*answers)

    def _name(self, suffix: str, prefix: str) -> str:
        return self._graph.names.suffixed_or(self._call.node_name, suffix, prefix)

    def _topic_of(self, suffix: str, prefix: str) -> str:
        base = self._name(suffix, prefix)
        return self._graph.names.made_of(base, base + _TOPIC_SUFFIX)

    def _declare_subscriptions(self) -> InternalTopicSourceNode:
        """Declare how primary rows subscribe; return the node that reads their subscriptions."""
        table, foreign, call, graph = self._table, self._foreign, self._call, self._graph
        send = ProcessorGraphNode(
            self._name("-subscription-registration-processor", naming.FOREIGN_KEY_REGISTRATION),
            SubscriptionSendOperator(
                self._topic,
                call.foreign_key_of,
                call.left,
                foreign.key_serde,
                table.key_serde,
                table.value_serde,
            ),
            needs=(
                TableNeed(foreign.node, Wanted.OLD_VALUES),
                TableNeed(table.node, Wanted.OLD_VALUES),
            ),
        )
        graph.add(send, table.node)
        sink_name = self._name("-subscription-registration-sink", naming.TABLE_SINK)
        source_name = self._name("-subscription-registration-source", naming.TABLE_SOURCE)
        self._store = self._name("-subscription-store", naming.FOREIGN_KEY_STORE)
        serde = SubscriptionSerde(table.key_serde, self._topic, self._store)
        sink = InternalTopicSinkNode(
            sink_name,
            topic=self._topic,
            key_serde=foreign.key_serde,
            value_serde=serde,
            partitioner=_by_key(call.partitioners.other_partitioner),
        )
        source = InternalTopicSourceNode(
            source_name, topic=self._topic, key_serde=foreign.key_serde, value_serde=serde
        )
        graph.add(sink, send)
        graph.add(source, sink)
        return source

    def _declare_answers(self, source: InternalTopicSourceNode) -> tuple[GraphNode, GraphNode]:
        """Declare what the foreign table's side does; return the two nodes that answer."""
        table, foreign, graph = self._table, self._foreign, self._graph
        graph.require_copartition(foreign.sources | {source.name}, source.name)
        serdes = (self._topic, self._store, foreign.key_serde, table.key_serde)
        receive = StoringNode(
            self._name("-subscription-receive", naming.FOREIGN_KEY_SUBSCRIPTION),
            SubscriptionReceiveOperator(*serdes),
            self._subscription_store(source),
        )
        graph.add(receive, source)
        view = foreign.node.view()
        answer = ProcessorGraphNode(
            self._name("-subscription-join-foreign", naming.FOREIGN_KEY_SUBSCRIPTION),
            SubscriptionAnswerOperator(self._topic, foreign.key_serde, view),
            looks_into=view.stores,
            needs=(TableNeed(foreign.node, Wanted.LOOKUP),),
        )
        graph.add(answer, receive)
        tell = ProcessorGraphNode(
            self._name("-foreign-join-subscription", naming.FOREIGN_KEY_SUBSCRIPTION),
            ForeignTableOperator(*serdes),
            looks_into=(self._store,),
        )
        graph.add(tell, foreign.node)
        return answer, tell

    def _declare_result(self, answer: GraphNode, tell: GraphNode) -> DeclaredTable:
        """Declare how answers come back and become rows."""
        table, call, graph = self._table, self._call, self._graph
        topic = self._topic_of("-subscription-response", naming.FOREIGN_KEY_RESPONSE)
        serde = ResponseSerde(self._foreign.value_serde)
        given = call.partitioners.partitioner
        sink = InternalTopicSinkNode(
            self._name("-subscription-response-sink", naming.TABLE_SINK),
            topic=topic,
            key_serde=table.key_serde,
            value_serde=serde,
            partitioner=_to_primary_partition if given is None else _by_key(given),
        )
        source = InternalTopicSourceNode(
            self._name("-subscription-response-source", naming.TABLE_SOURCE),
            topic=topic,
            key_serde=table.key_serde,
            value_serde=serde,
        )
        graph.add(sink, answer, tell)
        graph.add(source, sink)
        sources = table.sources | {source.name}
        graph.require_copartition(sources, source.name)
        view = table.node.view()
        resolve = ProcessorGraphNode(
            self._name("-subscription-response-resolver", naming.FOREIGN_KEY_RESOLVER),
            ResponseOperator(
                self._topic,
                view,
                table.key_serde,
                table.value_serde,
                call.foreign_key_of,
                call.joiner,
                call.left,
            ),
            looks_into=view.stores,
            needs=(TableNeed(table.node, Wanted.LOOKUP),),
        )
        graph.add(resolve, source)
        name = self._name("-result", naming.FOREIGN_KEY_OUTPUT)
        serdes = Serdes(table.key_serde, call.kept_serde)
        store = TableStore.of(call.materialized, graph.names, naming.FOREIGN_KEY_OUTPUT, serdes)
        resolved = DeclaredStream(graph, resolve, sources, *serdes)
        return replace(updated_table(resolved, name, store), key_serde=table.key_serde)

    def _subscription_store(self, source: InternalTopicSourceNode) -> StoreSpecBuilder:
        engine = self._call.materialized.store_type or StoreEngine.ROCKSDB
        supplier = StoreSupplier(self._store, KEY_VALUE, engine, timestamped=True)
        spec = StoreSpec.of(supplier, BYTES, source.value_serde, timestamped=True)
        return StoreSpecBuilder(replace(spec, logs_headers=True, length_prefixed_keys=True))


def _to_primary_partition(
    topic: str,  # noqa: ARG001 - the form of a partitioner
    key: Any,  # noqa: ARG001 - as above
    value: Response,
    count: int,  # noqa: ARG001 - as above
) -> int | None:
    return value.primary_partition


def _by_key(partitioner: StreamPartitioner | None) -> StreamPartitioner | None:
    """Return a partitioner that is given no value: subscriptions and responses are ours alone.

    Each must go to one partition: the one where the row lies that it is for. A row of a left join
    that names no row subscribes without a key, wherever that is: only answers come back to it.
    Differs from Kafka: there the partitioner is asked about that key, too.
    """
    if partitioner is None:
        return None

    def choose(topic: str, key: Any, value: Any, count: int) -> int | None:  # noqa: ARG001 - as above
        if key is None:
            return None
        chosen = partitioner(topic, key, None, count)
        if not isinstance(chosen, AbstractSet):
            return chosen
        if len(chosen) != 1:
            raise TopologyError(
                f"the partitioner of a join by a foreign key chose the partitions {sorted(chosen)} "
                f"of {topic} for {key!r}: TableJoined takes one that chooses one partition"
            )
        return next(iter(chosen))

    return choose
