"""How many records a second go along each edge of a topology, as far as that is known.

What comes from topics and goes to them is always counted, and what each node is given, and by which
other one, at DEBUG.
The rest follows where an operation hands on each record that it gets, or all that it hands on to
each of its children.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pystreams.topology.graph.description import NodeDescription
from pystreams.topology.operators.records.stateless import (
    DropNullKeysOperator,
    FilterOperator,
    FlatMapOperator,
    FlatMapValuesOperator,
    MapOperator,
    MapValuesOperator,
    PassThroughOperator,
    PeekOperator,
    SelectKeyOperator,
)
from pystreams.topology.operators.tables.aggregations import (
    AggregateOperator,
    CountOperator,
    ReduceOperator,
)
from pystreams.topology.operators.tables.changes import TableToStreamOperator

Edge = tuple[str, str]

_ONE_FOR_ONE = (
    MapOperator,
    MapValuesOperator,
    PassThroughOperator,
    PeekOperator,
    SelectKeyOperator,
    TableToStreamOperator,
)
_TO_ALL_CHILDREN = (
    *_ONE_FOR_ONE,
    AggregateOperator,
    CountOperator,
    DropNullKeysOperator,
    FilterOperator,
    FlatMapOperator,
    FlatMapValuesOperator,
    ReduceOperator,
)


def edge_flows(
    nodes: Sequence[NodeDescription],
    operators: Mapping[str, Any],
    known: Mapping[str, float],
    given: Mapping[str, Mapping[str, float]],
) -> dict[Edge, float]:
    """Return what goes along edges.

    Args:
        operators: The operators of those that are processors.
        known: What comes from sources, and what other nodes are given, as far as it is counted.
        given: Of that what each was given by which others, as far as it is counted.
    """
    flows: dict[Edge, float] = {}
    for node in nodes:
        rate = known.get(node.name)
        if rate is None:
            continue
        if node.kind == "source":
            flows.update(((node.name, successor), rate) for successor in node.successors)
        elif len(node.predecessors) == 1:
            flows[node.predecessors[0], node.name] = rate
    for node in nodes:
        rates = given.get(node.name, {})
        # What came from no node may be of any of those before it.
        if rates and not any(
            rate for giver, rate in rates.items() if giver not in node.predecessors
        ):
            for predecessor in node.predecessors:
                flows.setdefault((predecessor, node.name), rates.get(predecessor, 0.0))
    for _ in nodes:
        before = len(flows)
        for node in nodes:
            if node.kind == "processor":
                _follow(node, operators[node.name], flows)
        if len(flows) == before:
            break
    return flows


def _follow(node: NodeDescription, operator: Any, flows: dict[Edge, float]) -> None:
    """Add what follows from what is known around a node."""
    ins = [(predecessor, node.name) for predecessor in node.predecessors]
    outs = [(node.name, successor) for successor in node.successors]
    if not outs or not isinstance(operator, _TO_ALL_CHILDREN):
        return
    unknown = [edge for edge in ins if edge not in flows]
    out = next((flows[edge] for edge in outs if edge in flows), None)
    if isinstance(operator, _ONE_FOR_ONE):
        given = sum(flows[edge] for edge in ins if edge in flows)
        if not unknown:
            out = given if out is None else out
        elif len(unknown) == 1 and out is not None:
            flows[unknown[0]] = max(0.0, out - given)
    if out is not None:
        for edge in outs:
            flows.setdefault(edge, out)
