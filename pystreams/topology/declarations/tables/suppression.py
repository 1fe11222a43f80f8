"""Declares the suppression of a table.

Source: Kafka Streams' `KTableImpl.suppress`, `TableSuppressNode`, `GraphGraceSearchUtil`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from pystreams.errors import TopologyError
from pystreams.stores.contracts.spec import StoreEngine, StoreSpec
from pystreams.stores.kinds.suppress.kind import SUPPRESS, SuppressKind
from pystreams.stores.spec_builder import StoreSpecBuilder
from pystreams.topology.declarations.graph_writing.final_results import (
    nearest_windowed_aggregations,
)
from pystreams.topology.declarations.graph_writing.streams_graph import StreamsGraph
from pystreams.topology.declarations.logical_graph.graph_node import (
    NEVER_CLOSES,
    GraphNode,
    Place,
    TableNeed,
    TableNode,
    Wanted,
)
from pystreams.topology.declarations.tables.declared_table import DeclaredTable
from pystreams.topology.graph import naming
from pystreams.topology.graph.topology import Topology
from pystreams.topology.operators.idle_time import NEVER, checked_timeout
from pystreams.topology.operators.tables.suppress import SuppressedView, SuppressOperator
from pystreams.topology.operators.tables.table_view import TableView
from pystreams.topology.options.suppressed import BufferConfig, BufferFullStrategy, Suppressed


@dataclass(frozen=True, eq=False, kw_only=True)
class SuppressNode(TableNode):
    """A suppression, with the buffer in which changes wait.

    Attributes:
        suppressed: The table above.
    """

    suppressed: TableNode
    buffer: StoreSpecBuilder

    def view(self) -> TableView:
        """Return the way to look into what went on; who does must say so in its `needs`."""
        return SuppressedView(self.suppressed.view(), self.buffer.name)

    def write(self, topology: Topology, place: Place) -> None:
        """Add the operator and its buffer."""
        topology.add_operator(self.name, self.operator, place.parents)
        topology.add_state_store(self.buffer, self.name)


def suppressed_table(
    table: DeclaredTable, suppressed: Suppressed[Any], idle_timeout_ms: int | None
) -> DeclaredTable:
    """Declare that a table's changes wait; return the table of those that went on.

    Args:
        idle_timeout_ms: How long the input is silent before the wall clock moves the stream time
            (ms); None takes the topology's.

    Raises:
        TopologyError: The table is versioned; or is to wait for its windows and has none, or they
            close later on a silent input.
    """
    graph, above = table.graph, table.node
    if not isinstance(suppressed, Suppressed):
        raise TopologyError(
            "suppress needs a Suppressed, such as Suppressed.until_time_limit(60_000, "
            f"BufferConfig.unbounded()), not {suppressed!r}"
        )
    if above.versioned:
        raise TopologyError(
            f"suppress: {above.name!r} is a versioned table, whose late updates are history of "
            "their own and can't wait for one another: leave history_retention_ms out, or suppress "
            "a table made of it, as with to_stream().to_table()"
        )
    wait_ms = suppressed.time_to_wait_ms
    by_window = wait_ms is None
    if wait_ms is None:
        wait_ms = window_grace_ms(graph, above)
    # A name uses up no number here.
    name = suppressed.name or graph.names.node(naming.TABLE_SUPPRESS)
    given_name = suppressed.name
    store = f"{given_name}-store" if given_name else graph.names.store(naming.TABLE_SUPPRESS)
    config = suppressed.buffer_config
    operator = SuppressOperator(
        store,
        wait_ms,
        by_window,
        config.record_limit,
        config.byte_limit,
        config.when_full is BufferFullStrategy.EMIT,
        _idle_timeout_ms(graph, above, idle_timeout_ms, by_window=by_window),
    )
    node = SuppressNode(
        name,
        operator,
        None,
        versioned=False,
        derived_from=above,
        needs=(TableNeed(above, Wanted.OLD_VALUES),),
        suppressed=above,
        buffer=_buffer(store, table, config),
    )
    graph.add(node, above)
    return replace(table, node=node, queryable_store_name=None)


def window_grace_ms(graph: StreamsGraph, node: GraphNode, below: tuple[str, ...] = ()) -> int:
    """Return how long the windows of a table may change after their end (ms).

    That of the windowed aggregation above it; of several the longest.

    Args:
        below: The way here, for the error.

    Raises:
        TopologyError: There is none on one of the ways up, or its windows never close.
    """
    if isinstance(node, TableNode) and node.window_grace_ms is not None:
        if node.window_grace_ms == NEVER_CLOSES:
            raise TopologyError(
                "Suppressed.until_window_closes: the unlimited windows of "
                f"{' -> '.join((node.name, *below))} never close, so no result would ever be sent: "
                "leave it out, aggregate by TimeWindows, or use Suppressed.until_time_limit"
            )
        return node.window_grace_ms
    way = (node.name, *below)
    parents = graph.parents_of(node)
    if not parents:
        raise TopologyError(
            "Suppressed.until_window_closes: only the windows of a windowed aggregation close, and "
            f"there is none above ({' -> '.join(way)}): put windowed_by(...) before the "
            "aggregation, or use Suppressed.until_time_limit"
        )
    return max(window_grace_ms(graph, parent, way) for parent in parents)


def _idle_timeout_ms(
    graph: StreamsGraph, above: TableNode, own_ms: int | None, *, by_window: bool
) -> int | None:
    """Return after how much silence (ms) what waits is let go; None if never.

    Final results go no sooner than their windows close. An aggregation without a timeout of its
    own is told that of the suppression as the topology is written.

    Raises:
        TopologyError: The aggregation has one of its own, which closes windows later.
    """
    timeout_ms = graph.idle_timeout_of(checked_timeout(own_ms, "suppress"))
    if timeout_ms is None or not by_window:
        return timeout_ms
    for table in nearest_windowed_aggregations((above,), graph.parents_of):
        windows_ms: int | None = getattr(table.operator, "idle_timeout_ms", None)
        if windows_ms is not None and windows_ms <= timeout_ms:
            continue
        if own_ms is not None and windows_ms == graph.idle_timeout_ms:
            continue
        if own_ms is not None:
            theirs = NEVER if windows_ms is None else windows_ms
            raise TopologyError(
                f"suppress: with idle_timeout_ms={own_ms} results would be told as final before "
                f"{table.name!r} closes their windows, whose windowed_by has idle_timeout_ms="
                f"{theirs}: take it out there, so that suppress's holds for both, or give suppress "
                "as much"
            )
        if windows_ms is None:
            return None
        timeout_ms = windows_ms
    return timeout_ms


def _buffer(store: str, table: DeclaredTable, config: BufferConfig) -> StoreSpecBuilder:
    # Serdes of windowed keys say how many bytes of a key are the window's.
    window_bytes = getattr(table.key_serde, "suffix_bytes", 0)
    spec = StoreSpec(
        store,
        SuppressKind(window_bytes) if window_bytes else SUPPRESS,
        engine=config.store_type or StoreEngine.ROCKSDB,
        key_serde=table.key_serde,
        value_serde=table.value_serde,
    )
    builder = StoreSpecBuilder(spec)
    if config.logging:
        return builder.with_logging_enabled(config.log_config)
    return builder.with_logging_disabled()
