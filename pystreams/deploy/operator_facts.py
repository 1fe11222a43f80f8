"""What operators tell of the state that they make: windows, and what is made of which input.

Functions can't be seen. So where what comes to an operation goes by another function at each of its
places, the order of its inputs is all that tells which is which.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from pystreams.topology.contracts.operator import Operator
from pystreams.topology.contracts.outer_serde import OuterSerde
from pystreams.topology.contracts.windowed_serdes import TimeWindowedSerde, WindowedSerde
from pystreams.topology.graph.nodes import Node, ProcessorNode, SourceNode
from pystreams.topology.graph.topology import Topology
from pystreams.topology.operators.joins.foreign_key_join import ResponseOperator
from pystreams.topology.operators.joins.table_table_join import (
    TableJoinMergeOperator,
    TableJoinSideOperator,
)
from pystreams.topology.operators.records.distinct import DistinctOperator
from pystreams.topology.operators.tables.aggregations import AggregateOperator
from pystreams.topology.operators.tables.results import ResultsOperator
from pystreams.topology.operators.windows.session_windows import SessionWindowOperator
from pystreams.topology.operators.windows.sliding_windows import SlidingWindowOperator
from pystreams.topology.operators.windows.time_windows import TimeWindowOperator

Facts = dict[str, Any]
"""What is known of one store or topic; values of JSON."""

_FOLDS = AggregateOperator | TimeWindowOperator | SessionWindowOperator | SlidingWindowOperator


def is_global(facts: Facts) -> bool:
    """Return whether a store is one of a process, not of tasks."""
    return facts["subtopology"] is None


def places_of(
    topology: Topology, writers: Sequence[str], topics: Mapping[str, AbstractSet[str]]
) -> list[list[str]] | None:
    """Return the topics behind each place of a cogroup or a join of tables, in order.

    Args:
        writers: The nodes that write into the store.
        topics: The user's topics behind each node.
    """
    nodes = [topology.nodes[name] for name in writers]
    if len(nodes) > 1 and all(isinstance(_operator(node), _FOLDS) for node in nodes):
        return [sorted(topics[name]) for name in writers]
    if [type(_operator(node)) for node in nodes] == [TableJoinMergeOperator]:
        return [sorted(topics[name]) for name in nodes[0].parents]
    return None


def required_of(topology: Topology, writer: str) -> list[bool] | None:
    """Return which tables of a join must have a row, the left one first; None of other nodes."""
    for above in topology.nodes[writer].parents:
        operator = _operator(topology.nodes[above])
        if isinstance(operator, TableJoinSideOperator):
            return [operator.join.left_required, operator.join.right_required]
        if isinstance(operator, ResponseOperator):
            return [True, not operator.left]
    return None


def _operator(node: Node) -> Operator | None:
    return node.operator if isinstance(node, ProcessorNode) else None


def windows_of(operator: Operator) -> Facts | None:
    """Return the windows of an operator: their type and their times; None if it has none."""
    if isinstance(operator, ResultsOperator):
        return windows_of(operator.operator)
    if isinstance(operator, DistinctOperator):
        return {
            "type": "distinct",
            "within_ms": operator.within_ms,
            "grace_period_ms": operator.grace_period_ms,
        }
    if isinstance(operator, TimeWindowOperator | SessionWindowOperator | SlidingWindowOperator):
        windows = operator.windows
        return {"type": type(windows).__name__, **dataclasses.asdict(windows)}
    return None


def windows_made_by(node: Node) -> list[Facts]:
    """Return the windows of the keys that a node makes; nothing where it leaves them as they are.

    How long late records are waited for is not in keys.
    """
    if isinstance(node, SourceNode):
        serde = node.key_serde
        if isinstance(serde, TimeWindowedSerde):
            return [{"type": "TimeWindows", "size_ms": serde.window_size_ms}]
        return []
    windows = windows_of(node.operator) if isinstance(node, ProcessorNode) else None
    if windows is None or windows["type"] == "distinct":
        return []
    return [{name: each for name, each in windows.items() if name != "grace_period_ms"}]


def is_windowed(serde: Any) -> bool:
    """Return whether windowed keys are all, or a part, of what a serde writes."""
    if isinstance(serde, WindowedSerde):
        return True
    return isinstance(serde, OuterSerde) and is_windowed(serde.inner)
