"""Decides which tables keep a store, and which send old values with their changes.

A table has a store if the user named one, or if something looks into it; its changes carry old
values if something below must subtract them. None of that is noted on the table when it is declared
downstream: it is worked out here, of the whole graph, each time a topology is written.

The order of declaration counts: a filter takes old values only where they cost no store that was
not asked for before it. So it is in Kafka, and so two topologies may differ in what they delete.

Source: Kafka Streams' `KTableImpl.enableSendingOldValues`, `KTableImpl.valueGetterSupplier`.
"""

from __future__ import annotations

from collections.abc import Iterable

from pystreams.topology.declarations.logical_graph.graph_node import GraphNode, TableNode, Wanted


class TableDecisions:
    """What is decided about the tables of one graph.

    Args:
        nodes: All nodes, in the order in which they were declared.
    """

    def __init__(self, nodes: Iterable[GraphNode]) -> None:
        self._storing: set[GraphNode] = set()
        self._sending: set[GraphNode] = set()
        for node in nodes:
            for table, wanted in node.needs:
                if wanted is Wanted.LOOKUP:
                    self._store(table)
                elif wanted is Wanted.OLD_VALUES:
                    self._send(table, force=True)
                elif self._send(table, force=False):
                    self._sending.add(node)

    def keeps_store(self, node: GraphNode) -> bool:
        """Return whether a node is a table that has a store."""
        if not isinstance(node, TableNode) or node.store is None:
            return False
        return not node.on_demand or node in self._storing

    def sends_old_values(self, node: GraphNode) -> bool:
        """Return whether a node is a table whose changes carry old values."""
        return node in self._sending

    def _store(self, table: TableNode) -> None:
        """Let a table have its store; one without has that of the table it is computed from."""
        while table.store is None and table.derived_from is not None:
            table = table.derived_from
        self._storing.add(table)

    def _send(self, table: TableNode, *, force: bool) -> bool:
        """Let a table send old values: from its store, else computed from its parent's.

        A join computes them from both parents', which must send them, even if it has a store.
        """
        if table.joined_from:
            for parent in table.joined_from:
                self._send(parent, force=True)
            self._sending.add(table)
        elif table.store is None and table.derived_from is not None:
            if self._send(table.derived_from, force=force):
                self._sending.add(table)
        elif force or self.keeps_store(table):
            self._storing.add(table)
            self._sending.add(table)
        return table in self._sending
