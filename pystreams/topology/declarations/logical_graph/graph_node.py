"""What the logical graph is made of: declared operations, as values that never change.

What connects them, and what one wants of another, is known to the graph alone; a node is told its
`Place` when it is written. So the same declarations give the same topology however often, and
after whatever else, it is built.

Source: Kafka Streams' `GraphNode`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import NamedTuple

from pystreams.stores.store_builder import StoreBuilder
from pystreams.topology.graph.topology import Topology
from pystreams.topology.operators.tables.changes import DerivedTableOperator, TableSourceOperator
from pystreams.topology.operators.tables.results import ResultsOperator
from pystreams.topology.operators.tables.table_operator import TableOperator
from pystreams.topology.operators.tables.table_view import DerivedView, StoreView, TableView


@dataclass(frozen=True, slots=True)
class Place:
    """Where a node stands in the graph, as that is when it is written.

    Attributes:
        children: Operations that follow it, in order of declaration.
        feeds_null_keys: Whether something below wants records without a key.
        keeps_store: Of a table: whether it has a store.
        sends_old_values: Of a table: whether its changes carry old values.
        reuses_topics: Whether a table read from a topic is restored from there.
        final_results_below: Of windows whose results are held back until they close: after how
            much silence (ms) each of those below lets go of them, None if never.
    """

    parents: tuple[str, ...]
    children: tuple[GraphNode, ...]
    feeds_null_keys: bool
    keeps_store: bool
    sends_old_values: bool
    reuses_topics: bool = False
    final_results_below: frozenset[int | None] = frozenset()


class Effect(Enum):
    """What becomes of a record's key and value on its way through an operation."""

    SAME = "both stay"
    MERGED = "both stay, and the records of several streams meet"
    NEW_KEY = "the key may be another"
    NEW_VALUE = "the value is another"
    OTHER = "anything"


@dataclass(frozen=True, eq=False)
class GraphNode:
    """One declared operation.

    Attributes:
        name: The node's name in the topology; for a repartition, the name of its source.
        keeps_null_keys: Whether it wants records without a key (left joins do), so that
            repartitions upstream must not drop them.
        needs: What it wants of tables.
        effect: What it does to records.
    """

    name: str
    keeps_null_keys: bool = field(default=False, kw_only=True)
    needs: tuple[TableNeed, ...] = field(default=(), kw_only=True)
    effect: Effect = field(default=Effect.OTHER, kw_only=True)

    def write(self, topology: Topology, place: Place) -> None:
        """Add the nodes, stores and topics of this operation to the topology."""
        raise NotImplementedError


class Wanted(Enum):
    """What an operation may want of a table."""

    LOOKUP = "to look into it"
    OLD_VALUES = "changes with old values"
    OLD_VALUES_IF_FREE = "changes with old values, if no store is needed for that alone"


class TableNeed(NamedTuple):
    """What one operation wants of one table."""

    table: TableNode
    wanted: Wanted


NEVER_CLOSES = -1
"""In the place of a grace period, of windows that have no end."""


@dataclass(frozen=True, eq=False)
class TableNode(GraphNode):
    """Makes a table.

    Attributes:
        operator: What it does, with the store that it keeps or might keep.
        store: Builder of that store; None for a table that is computed on the fly.
        versioned: Whether late updates are history, see `LateChange`.
        derived_from: The table it is computed from, if it is.
        on_demand: Whether it does without its store as long as nothing needs that.
        window_grace_ms: Of a windowed aggregation: how long after its end (ms, in stream time) a
            window may still change, `NEVER_CLOSES` if it may for ever; None where there are no
            windows.
    """

    operator: TableOperator
    store: StoreBuilder | None
    versioned: bool
    derived_from: TableNode | None = None
    on_demand: bool = False
    window_grace_ms: int | None = None

    @property
    def joined_from(self) -> tuple[TableNode, ...]:
        """The tables that it joins or merges, if it does: its old values are made of theirs."""
        return ()

    def view(self) -> TableView:
        """Return the way to look into the table; who does must say so in its `needs`."""
        if self.store is not None:
            view = StoreView(self.store.name)
            operator = self.operator
            if isinstance(operator, ResultsOperator):
                return DerivedView(view, operator.result_of)
            return view
        assert self.derived_from is not None, f"table {self.name} has a store or is derived"
        assert isinstance(self.operator, DerivedTableOperator), f"{self.name} is derived"
        return DerivedView(self.derived_from.view(), self.operator.derivation())

    def write(self, topology: Topology, place: Place) -> None:
        """Add the operator and, if the table keeps it, the store."""
        self.write_below(topology, place, place.parents)

    def write_below(self, topology: Topology, place: Place, parents: tuple[str, ...]) -> None:
        """Do as `write`, with parents that are not the graph's."""
        operator = replace(self.operator, send_old_values=place.sends_old_values)
        if not place.keeps_store and isinstance(operator, TableSourceOperator):
            operator = replace(operator, store=None)
        for idle_timeout_ms in place.final_results_below:
            operator = operator.with_final_results(idle_timeout_ms)
        topology.add_operator(self.name, operator, parents)
        if place.keeps_store and self.store is not None:
            topology.add_state_store(self.store, self.name)
