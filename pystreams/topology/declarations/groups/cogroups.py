"""Declared cogroups: several grouped streams that are aggregated into one table.

Each stream has an operator of its own, which folds its records with its own aggregator; all keep
their results in one store, so that a key's row is made of the records of all streams. Behind them
one node merges the changes. Streams that must travel to their groups have a repartition topic each.

    grouped clicks --> COGROUPKSTREAM-AGGREGATE-1 --+
                             (one store)            +--> COGROUPKSTREAM-MERGE-3 --> table
    grouped orders --> COGROUPKSTREAM-AGGREGATE-2 --+

Source: Kafka Streams' `CogroupedKStreamImpl`, `CogroupedStreamAggregateBuilder` and the three
implementations of windowed ones.
Differs from Kafka: the store's keys have the serde that all grouped streams agree on, where it is
given none; of a stream that is repartitioned, it is the repartition topic that must have as many
partitions as the others have, not the topics behind it; the row of a window or session is found as
long as its segment is there: each stream has a stream time of its own, and what is late by that of
one may not be by that of another; and windows of what a versioned table changes are not versioned.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pystreams.errors import TopologyError
from pystreams.serdes import Serde
from pystreams.topology.declarations.declared_stream import DeclaredStream, behind
from pystreams.topology.declarations.graph_writing.repartitioning import new_repartition
from pystreams.topology.declarations.graph_writing.streams_graph import StreamsGraph
from pystreams.topology.declarations.groups.declared_groups import StreamGroups
from pystreams.topology.declarations.groups.windowed_groups import AnyWindows, WindowedGroups
from pystreams.topology.declarations.kept_serdes import Serdes, kept_serde
from pystreams.topology.declarations.logical_graph.graph_node import TableNode
from pystreams.topology.declarations.tables.declared_table import DeclaredTable, kept_table
from pystreams.topology.declarations.tables.table_store import TableStore
from pystreams.topology.graph import naming
from pystreams.topology.operators.fold import Fold
from pystreams.topology.operators.tables.aggregations import AggregateOperator
from pystreams.topology.operators.tables.changes import TableMergeOperator
from pystreams.topology.operators.tables.table_operator import TableOperator
from pystreams.topology.operators.tables.table_view import TableView
from pystreams.topology.options.materialized import Materialized
from pystreams.topology.options.operation_options import Repartitioned

Aggregator = Callable[[Any, Any, Any], Any]
Operators = Callable[[str, Aggregator], TableOperator]
"""Called with (store, aggregator of a stream); returns the operator that folds its records."""


@dataclass(frozen=True, eq=False, kw_only=True)
class MergedTablesNode(TableNode):
    """The table that several with one store make together: each hands its changes on to it."""

    tables: tuple[TableNode, ...]

    @property
    def joined_from(self) -> tuple[TableNode, ...]:
        """All of them."""
        return self.tables

    def view(self) -> TableView:
        """Return the way to look into the table: their store."""
        return self.tables[0].view()


class _Chain:
    """What cogroups have in common that were made one of another: their repartitions."""


@dataclass(frozen=True, slots=True, eq=False)
class Cogroups:
    """Grouped streams, each with the aggregator of its records.

    Attributes:
        aggregators: By groups, in the order in which they were added.
        chain: Which cogroups share repartitions with this one.
    """

    aggregators: Mapping[StreamGroups, Aggregator]
    chain: _Chain = field(default_factory=_Chain)

    def with_groups(self, groups: StreamGroups, aggregator: Aggregator) -> Cogroups:
        """Return cogroups with another grouped stream; one that is there gets the new aggregator.

        Raises:
            TopologyError: It comes from another builder.
        """
        first, other = next(iter(self.aggregators)).stream, groups.stream
        first.graph.check_same_builder(first.node, other.graph, other.node, "cogroup")
        return replace(self, aggregators={**self.aggregators, groups: aggregator})

    def aggregated(
        self,
        initializer: Callable[[], Any],
        chosen: Materialized[Any, Any],
        node_name: str | None,
    ) -> DeclaredTable:
        """Declare the table of all records of a key."""
        prefix, names = naming.COGROUP_AGGREGATE, self._graph.names
        serdes = Serdes(self._common_key_serde(), self._kept_value_serde())
        store = TableStore.of(chosen, names, prefix, serdes)

        def operator(name: str, aggregator: Aggregator) -> TableOperator:
            return AggregateOperator(name, Fold(initializer, aggregator))

        return self._declared(store, operator, node_name, None)

    def windowed(
        self, windows: AnyWindows, fold: Fold, chosen: Materialized[Any, Any], node_name: str | None
    ) -> DeclaredTable:
        """Declare the table of all records of a key and window.

        Args:
            fold: Begins and merges results; its aggregator is that of each stream.
            node_name: Begins the names of the nodes; None generates them.
        """
        windowed = WindowedGroups(next(iter(self.aggregators)), windows)
        prefix = naming.COGROUP_AGGREGATE
        serdes = Serdes(self._common_key_serde(), self._kept_value_serde())
        store = replace(windowed.store(chosen, prefix, serdes), shared=True)

        def operator(name: str, aggregator: Aggregator) -> TableOperator:
            return windowed.operator(name, replace(fold, aggregator=aggregator))

        table = self._declared(store, operator, node_name, windowed.window_grace_ms)
        return replace(table, key_serde=windowed.windowed_serde(store.key_serde))

    @property
    def _graph(self) -> StreamsGraph:
        return next(iter(self.aggregators)).stream.graph

    def _common_key_serde(self) -> Serde[Any] | None:
        """Return the key serde of the groups; None if they do not all have the same."""
        first, *others = [groups.grouped.key_serde for groups in self.aggregators]
        return first if all(serde == first for serde in others) else None

    def _kept_value_serde(self) -> Serde[Any] | None:
        """Return the first serde of a stream's values that its aggregator's results are of."""
        kept = (
            kept_serde(aggregator, groups.grouped.value_serde)
            for groups, aggregator in self.aggregators.items()
        )
        return next((serde for serde in kept if serde is not None), None)

    def _declared(
        self,
        store: TableStore,
        operator: Operators,
        node_name: str | None,
        window_grace_ms: int | None,
    ) -> DeclaredTable:
        """Declare an operator for each stream, and the node that merges what they do."""
        graph, names, builder = self._graph, self._graph.names, store.builder()
        self._check_repartitions(store.name)
        streams = [self._at_their_groups(groups, store.name) for groups in self.aggregators]
        tables: list[TableNode] = []
        for number, aggregator in enumerate(self.aggregators.values()):
            name = names.suffixed_or(node_name, f"-cogroup-agg-{number}", naming.COGROUP_AGGREGATE)
            folding = operator(store.name, aggregator)
            table = TableNode(
                name, folding, builder, store.versioned, window_grace_ms=window_grace_ms
            )
            graph.add(table, streams[number].node)
            tables.append(table)
        merge = MergedTablesNode(
            names.suffixed_or(node_name, "-cogroup-merge", naming.COGROUP_MERGE),
            TableMergeOperator(),
            None,
            store.versioned,
            window_grace_ms=window_grace_ms,
            tables=tuple(tables),
        )
        graph.add(merge, *tables)
        sources = frozenset[str]().union(*(stream.sources for stream in streams))
        graph.require_copartition(sources, merge.name)
        return kept_table(graph, merge, sources, store)

    def _check_repartitions(self, store_name: str) -> None:
        """Refuse two streams that would have one repartition topic: each has an aggregator."""
        topics: set[str] = set()
        for groups in self.aggregators:
            if not groups.stream.repartition_required:
                continue
            topic = groups.grouped.name or store_name
            if topic in topics:
                raise TopologyError(
                    f"cogroup: two streams that make new keys would both be sent through the topic "
                    f"'{topic}{naming.REPARTITION_SUFFIX}': give one of them a name for its own, "
                    "as in group_by(..., name='orders-by-user')"
                )
            topics.add(topic)

    def _at_their_groups(self, groups: StreamGroups, store_name: str) -> DeclaredStream:
        """Return a stream of which the records are in the partitions of their groups."""
        stream, grouped, graph = groups.stream, groups.grouped, self._graph
        if not stream.repartition_required:
            return stream
        options = Repartitioned(key_serde=grouped.key_serde, value_serde=grouped.value_serde)
        # Made even if it is not used: its numbers are used up.
        repartition = new_repartition(graph.names, grouped.name or store_name, options)
        shared = graph.repartitions.setdefault((self.chain, groups), repartition)
        if shared is repartition:
            graph.add(repartition, stream.node)
        return behind(graph, shared)
