"""Declared groups of a stream, cut into windows: below `TimeWindowedKStream` and such.

What kind of windows they are decides which store keeps the results, how long it keeps them, which
operator folds the records, and how the resulting keys are written.

Source: Kafka Streams' `TimeWindowedKStreamImpl`, `SlidingWindowedKStreamImpl`,
`SessionWindowedKStreamImpl`, `WindowStoreMaterializer`, `SlidingWindowStoreMaterializer`,
`SessionStoreMaterializer`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from pystreams.errors import TopologyError
from pystreams.serdes import LONG, Serde
from pystreams.stores.contracts.spec import StoreEngine, StoreSupplier
from pystreams.stores.contracts.window import Windowed
from pystreams.stores.kinds.session.kind import SESSION
from pystreams.stores.kinds.window.kind import WINDOW
from pystreams.stores.retentions import session_retention, window_retention
from pystreams.topology.aggregations.aggregation import Aggregation
from pystreams.topology.contracts.windowed_serdes import (
    SessionWindowedSerde,
    TimeWindowedSerde,
)
from pystreams.topology.contracts.windows import (
    EmitStrategy,
    SessionWindows,
    SlidingWindows,
    TimeWindows,
    UnlimitedWindows,
)
from pystreams.topology.declarations.groups.declared_groups import (
    StreamGroups,
    keeping_states,
    with_results,
)
from pystreams.topology.declarations.kept_serdes import Serdes, kept_serde
from pystreams.topology.declarations.logical_graph.graph_node import NEVER_CLOSES
from pystreams.topology.declarations.logical_graph.graph_nodes import SinkGraphNode
from pystreams.topology.declarations.tables.declared_table import DeclaredTable
from pystreams.topology.declarations.tables.table_store import TableStore
from pystreams.topology.graph import naming
from pystreams.topology.operators.fold import Fold, counting, reducing
from pystreams.topology.operators.idle_time import NEVER, checked_timeout
from pystreams.topology.operators.late_records import NOBODY, Late, LateRecords
from pystreams.topology.operators.tables.results import ResultsOperator, fold_of
from pystreams.topology.operators.tables.table_operator import TableOperator
from pystreams.topology.operators.windows.session_windows import SessionWindowOperator
from pystreams.topology.operators.windows.sliding_windows import SlidingWindowOperator
from pystreams.topology.operators.windows.time_windows import TimeWindowOperator
from pystreams.topology.options.materialized import Materialized

AnyWindows = TimeWindows | UnlimitedWindows | SlidingWindows | SessionWindows


@dataclass(frozen=True, slots=True, eq=False)
class WindowedGroups:
    """The records of a stream, grouped and cut into windows.

    Attributes:
        late: Who is told of late records: a function, or the topic they are written to.
        idle_timeout_ms: How long the input is silent before the wall clock moves the stream time
            (ms); as the builder says when None, never when -1.
    """

    groups: StreamGroups
    windows: AnyWindows
    emit: EmitStrategy = EmitStrategy.ON_WINDOW_UPDATE
    late: Late | str | None = None
    idle_timeout_ms: int | None = None

    def __post_init__(self) -> None:
        """Refuse an idle timeout that is none, or that closes nothing.

        Raises:
            TopologyError: It is.
        """
        own_ms = checked_timeout(self.idle_timeout_ms, "windowed_by")
        if own_ms in {None, NEVER}:
            return
        if isinstance(self.windows, UnlimitedWindows):
            raise TopologyError(
                "windowed_by: unlimited windows never close, so nothing waits for an "
                "idle_timeout_ms: leave it out, or aggregate by TimeWindows"
            )

    def emitting(self, emit: EmitStrategy) -> WindowedGroups:
        """Return these groups with another emit strategy.

        Raises:
            TopologyError: It is none, or the windows never close.
        """
        if not isinstance(emit, EmitStrategy):
            raise TopologyError(
                "emit_strategy takes EmitStrategy.on_window_close(), with the parentheses, or "
                f"EmitStrategy.on_window_update(), not {emit!r}"
            )
        if emit is EmitStrategy.ON_WINDOW_CLOSE and isinstance(self.windows, UnlimitedWindows):
            raise TopologyError(
                "emit_strategy: unlimited windows never close, so EmitStrategy.on_window_close() "
                "would never send a result: leave it out, or aggregate by TimeWindows"
            )
        return replace(self, emit=emit)

    def counted(
        self, chosen: Materialized[Any, Any], node_name: str | None, *, with_options: bool
    ) -> DeclaredTable:
        """Declare a count.

        Args:
            node_name: The node's name; None generates one.
            with_options: Whether the user said anything about the store.
        """
        sliding = isinstance(self.windows, SlidingWindows)
        if with_options and chosen.store_name is None and not sliding:
            # Kafka takes a number here for the sake of old topologies.
            self.groups.stream.graph.names.use_up_a_number()
        return self._folded(counting(), chosen, node_name, naming.STREAM_AGGREGATE, LONG)

    def reduced(
        self,
        reducer: Callable[[Any, Any], Any],
        chosen: Materialized[Any, Any],
        node_name: str | None,
    ) -> DeclaredTable:
        """Declare that values are combined."""
        value_serde = self.groups.grouped.value_serde
        return self._folded(reducing(reducer), chosen, node_name, naming.STREAM_REDUCE, value_serde)

    def aggregated(
        self, fold: Fold, chosen: Materialized[Any, Any], node_name: str | None
    ) -> DeclaredTable:
        """Declare a fold of the user's."""
        value_serde = kept_serde(fold.aggregator, self.groups.grouped.value_serde)
        return self._folded(fold, chosen, node_name, naming.STREAM_AGGREGATE, value_serde)

    def aggregated_by(
        self,
        aggregation: Aggregation[Any, Any, Any],
        chosen: Materialized[Any, Any],
        node_name: str | None,
    ) -> DeclaredTable:
        """Declare a ready aggregation: the store keeps its states, the table has its results."""
        states = keeping_states(aggregation, chosen)
        prefix = naming.STREAM_AGGREGATE
        table = self._folded(fold_of(aggregation), states, node_name, prefix, None, aggregation)
        return with_results(aggregation, chosen, table)

    def _folded(
        self,
        fold: Fold,
        chosen: Materialized[Any, Any],
        node_name: str | None,
        prefix: str,
        value_serde: Serde[Any] | None,
        aggregation: Aggregation[Any, Any, Any] | None = None,
    ) -> DeclaredTable:
        """Declare an aggregation.

        Args:
            node_name: The node's name; None generates one.
            prefix: Begins generated names.
            value_serde: Serde of results, where `chosen` has none.
            aggregation: Makes results of what the fold keeps; None if that is the result.

        Raises:
            TopologyError: Windows would not be kept as long as they may change.
        """
        serdes = Serdes(self.groups.grouped.key_serde, value_serde)
        store = self.store(chosen, prefix, serdes)
        late = self._late_records()
        operator = self.operator(store.name, fold, late)
        if aggregation is not None:
            operator = ResultsOperator(operator, aggregation, late)
        table = self.groups.aggregated(
            operator, node_name, prefix, store, window_grace_ms=self.window_grace_ms
        )
        self._write_late(late, table)
        return replace(table, key_serde=self.windowed_serde(store.key_serde))

    @property
    def window_grace_ms(self) -> int:
        """How long after its end (ms, in stream time) a window may still change.

        `NEVER_CLOSES` if it has no end.
        """
        windows = self.windows
        if isinstance(windows, UnlimitedWindows):
            return NEVER_CLOSES
        if isinstance(windows, SessionWindows):
            return windows.inactivity_gap_ms + windows.grace_period_ms
        return windows.grace_period_ms

    def store(
        self, chosen: Materialized[Any, Any], prefix: str, serdes: Serdes
    ) -> WindowedTableStore:
        """Return the store of an aggregation; options that have no name use up a number.

        Args:
            prefix: Begins a generated name.
            serdes: Of keys without their windows, and of results, where `chosen` has none.

        Raises:
            TopologyError: Windows would not be kept as long as they may change.
        """
        self._check_kept_long_enough(chosen)
        kept = TableStore.of(
            replace(chosen, caching=chosen.caching and self._may_cache()),
            self.groups.stream.graph.names,
            prefix,
            serdes,
        )
        return WindowedTableStore(
            kept.name,
            kept.queryable_name,
            kept.key_serde,
            kept.value_serde,
            kept.options,
            self.windows,
            self.emit,
        )

    def operator(self, store: str, fold: Fold, late: LateRecords = NOBODY) -> TableOperator:
        """Return what folds the records of these windows."""
        windows = self.windows
        silence_ms = self.groups.stream.graph.idle_timeout_of(self.idle_timeout_ms)
        if isinstance(windows, SessionWindows):
            return SessionWindowOperator(store, windows, fold, self.emit, late, silence_ms)
        if isinstance(windows, SlidingWindows):
            return SlidingWindowOperator(store, windows, fold, self.emit, late, silence_ms)
        if isinstance(windows, UnlimitedWindows):
            silence_ms = None
        return TimeWindowOperator(store, windows, fold, self.emit, late, silence_ms)

    def windowed_serde(self, inner: Serde[Any] | None) -> Serde[Windowed[Any]]:
        """Return the serde of keys with these windows."""
        windows = self.windows
        if isinstance(windows, SessionWindows):
            return SessionWindowedSerde(inner)
        return TimeWindowedSerde(inner, windows.size_ms)

    def _late_records(self) -> LateRecords:
        if isinstance(self.late, str):
            return LateRecords(sink=self.groups.stream.graph.names.node(naming.STREAM_SINK))
        return LateRecords(self.late)

    def _write_late(self, late: LateRecords, table: DeclaredTable) -> None:
        """Declare the sink of late records, if they have one."""
        if late.sink is not None and isinstance(self.late, str):
            grouped = self.groups.grouped
            sink = SinkGraphNode(
                late.sink,
                topic=self.late,
                key_serde=grouped.key_serde,
                value_serde=grouped.value_serde,
                partitioner=None,
            )
            table.graph.add(sink, table.node)

    def _may_cache(self) -> bool:
        """Return whether results may wait in a record cache: final ones are sent on as they are."""
        return self.emit is EmitStrategy.ON_WINDOW_UPDATE or isinstance(self.windows, TimeWindows)

    def _check_kept_long_enough(self, chosen: Materialized[Any, Any]) -> None:
        retention = None if chosen.supplier is None else chosen.supplier.retention
        kept_ms = chosen.retention_ms if retention is None else retention.retention_ms
        needed_ms = retention_needed_ms(self.windows)
        if kept_ms is not None and kept_ms < needed_ms:
            raise TopologyError(
                f"{self.windows} need a store that keeps them {needed_ms} ms, until nothing can "
                f"change them any more; store {chosen.store_name or '(unnamed)'!r} has "
                f"retention_ms {kept_ms}: make it at least {needed_ms}, or leave it out"
            )


@dataclass(frozen=True, slots=True)
class WindowedTableStore(TableStore):
    """The store of a windowed aggregation.

    Attributes:
        windows: What it keeps results of.
        shared: Whether several operators write it: those of a cogroup.
    """

    windows: AnyWindows
    emit: EmitStrategy
    shared: bool = False

    def _supplier(self) -> StoreSupplier:
        """Return where the store's bytes live, laid out for what is done with them."""
        supplier = TableStore._supplier(self)  # noqa: SLF001 - super() knows no class with slots
        if supplier.retention is None:
            return supplier
        retention = replace(
            supplier.retention,
            time_ordered=self.emit is EmitStrategy.ON_WINDOW_CLOSE,
            reads_while_live=self.shared,
        )
        return replace(supplier, retention=retention)

    def _own_supplier(self, engine: StoreEngine) -> StoreSupplier:
        windows = self.windows
        kept_ms = self.options.retention_ms
        if kept_ms is None:
            kept_ms = retention_needed_ms(windows)
        if isinstance(windows, SessionWindows):
            return StoreSupplier(
                self.name, SESSION, engine, retention=session_retention(self.name, kept_ms)
            )
        retention = window_retention(self.name, kept_ms, windows.size_ms, retain_duplicates=False)
        return StoreSupplier(self.name, WINDOW, engine, timestamped=True, retention=retention)


def retention_needed_ms(windows: AnyWindows) -> int:
    """Return how long (ms) the results of windows must be kept at least."""
    grace_ms = windows.grace_period_ms
    if isinstance(windows, SessionWindows):
        return windows.inactivity_gap_ms + grace_ms
    if isinstance(windows, SlidingWindows):
        # A late record may need the window that ends a whole one before its own.
        return 2 * windows.time_difference_ms + grace_ms
    return windows.size_ms + grace_ms
