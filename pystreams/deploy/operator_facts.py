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
from pystreams.topology.operators.tables.changes import TableRegroupOperator
from pystreams.topology.operators.tables.results import ResultsOperator
from pystreams.topology.operators.tables.table_operator import TableOperator
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
    """Return the topics behind each stream of a cogroup, in order; None of another store.

    Args:
        writers: The nodes that write into the store.
        topics: The user's topics behind each node.
    """
    operators = [_operator(topology.nodes[name]) for name in writers]
    if len(writers) > 1 and all(isinstance(each, _FOLDS) for each in operators):
        return [sorted(topics[name]) for name in writers]
    return None


def join_of(
    node: Node,
    above: Mapping[str, Node],
    joins: Mapping[str, Facts],
    topics: Mapping[str, AbstractSet[str]],
) -> Facts:
    """Return how the rows of a table were joined last: `required` and `places`, if they were.

    What is kept on the way tells it itself.

    Args:
        above: The nodes that lead to it.
        joins: What was returned of them.
        topics: The user's topics behind each node.
    """
    operator = _operator(node)
    if isinstance(operator, TableJoinSideOperator):
        return {"required": [operator.join.left_required, operator.join.right_required]}
    if isinstance(operator, ResponseOperator):
        return {"required": [True, not operator.left]}
    if isinstance(node, ProcessorNode) and not isinstance(
        operator, TableOperator | TableRegroupOperator
    ):
        return {}
    passed_on = (joins[name] for name, other in above.items() if not _keeps(other))
    inherited = next(filter(None, passed_on), {})
    if isinstance(operator, TableJoinMergeOperator):
        return {**inherited, "places": [sorted(topics[name]) for name in node.parents]}
    return inherited


def _keeps(node: Node) -> bool:
    return isinstance(node, ProcessorNode) and not node.looks_into.issuperset(node.stores)


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
