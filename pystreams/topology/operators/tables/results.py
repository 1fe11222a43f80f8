"""Runs an aggregation that keeps states: its operator sees them, those after it see results.

    record --> the operator (key, time window, session, ...) --> (new state, old state)
                    | get, put: states                                 |  result of each
                  store                                       (new result, old result) -->

Which operator that is does not matter: it is told how to fold, and what it forwards are changes. An
aggregation by event time is told the time of the record that is being processed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

from pystreams.record import Headers
from pystreams.topology.aggregations.aggregation import Aggregation
from pystreams.topology.contracts.operator import NodeContext, Step
from pystreams.topology.operators.fold import Fold
from pystreams.topology.operators.late_records import NOBODY, LateRecords
from pystreams.topology.operators.tables.table_operator import TableOperator
from pystreams.topology.operators.tables.table_view import Change, LateChange


@dataclass(frozen=True, slots=True)
class ResultsOperator(TableOperator):
    """Hands on the results of an aggregation whose states another operator keeps.

    Attributes:
        operator: The other one; it has a `fold` if the aggregation wants timestamps.
        aggregation: Makes results of states.
        late: Who gets late records, which are handed on as they came.
    """

    operator: TableOperator
    aggregation: Aggregation[Any, Any, Any]
    late: LateRecords = NOBODY

    @property
    def idle_timeout_ms(self) -> int | None:
        """That of the other operator, if it has one."""
        return getattr(self.operator, "idle_timeout_ms", None)

    def result_of(self, key: Any, state: Any) -> Any:
        """Return the result of a state."""
        return self.aggregation.result(state)

    def with_final_results(self, idle_timeout_ms: int | None) -> Self:
        """Return the same of the other operator."""
        return replace(self, operator=self.operator.with_final_results(idle_timeout_ms))

    def attach(self, node: NodeContext) -> Step:
        """Return the step."""
        operator = replace(self.operator, send_old_values=self.send_old_values)
        children = {node.name: self._results(self.late.without_sink(node))}
        if self.late.sink is not None:
            children[self.late.sink] = node.children[self.late.sink]
        below = NodeContext(node.name, node.task, children, node.stores)
        if not self.aggregation.with_timestamp:
            return operator.attach(below)
        return _at_event_time(operator, below)

    def _results(self, node: NodeContext) -> Step:
        """Return the step that takes changes of states and forwards those of results."""
        result, forward = self.aggregation.result, node.forward
        report_error, name = node.task.report_error, node.name

        def step(key: Any, change: Change, timestamp: int, headers: Headers) -> None:
            new, old = change
            try:
                if new is not None:
                    new = result(new)
                if old is not None:
                    old = result(old)
            except Exception as error:  # noqa: BLE001 - the user's code may raise anything
                report_error(error, name)
                return
            results = (new, old) if type(change) is tuple else LateChange((new, old))
            forward(key, results, timestamp, headers)

        return step


def fold_of(aggregation: Aggregation[Any, Any, Any]) -> Fold:
    """Return how an aggregation folds records into states."""
    return Fold(aggregation.initializer, aggregation.aggregator, aggregation.merger)


def _at_event_time(operator: Any, node: NodeContext) -> Step:
    """Attach an operator with a fold, whose aggregator takes the time of the record as well."""
    fold: Fold = operator.fold
    aggregator: Callable[..., Any] = fold.aggregator
    event_time = 0

    def at_event_time(key: Any, value: Any, so_far: Any) -> Any:
        return aggregator(key, value, so_far, event_time)

    step: Step = replace(operator, fold=replace(fold, aggregator=at_event_time)).attach(node)

    def step_at(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        nonlocal event_time
        event_time = timestamp
        step(key, value, timestamp, headers)

    return step_at
