"""`map_values_batch`: one call of the user's function for the records that are there anyway."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from pystreams.record import ConsumedMessage, Headers
from pystreams.topology.contracts.operator import NodeContext, Step
from pystreams.topology.operators.records.wrong_results import is_in_order, wrong_result


@dataclass(frozen=True, slots=True, kw_only=True)
class MapValuesBatchOperator:
    """Replaces values by what the mapper returns for a list of them.

    Attributes:
        mapper: Called with (values), or with (keys, values).
        with_key: Which of the two.
        max_batch: How many records a call gets at most.
    """

    mapper: Callable[..., Iterable[Any]]
    with_key: bool
    max_batch: int

    def attach(self, node: NodeContext) -> Step:
        """Return the step; what it holds goes on at the end of the run, or when a batch is full."""
        batch = _Batch(self, node)
        node.task.hold_records(node.name, batch)
        return batch.step


class _Batch:
    """The records of one task that wait for the next call."""

    retry_at_ms: int | None = None

    def __init__(self, operator: MapValuesBatchOperator, node: NodeContext) -> None:
        self._operator = operator
        self._node = node
        self._present = node.task.record
        # What is forwarded may bring new records here, so each batch has its own lists.
        self._keys: list[Any] = []
        self._values: list[Any] = []
        self._rest: list[tuple[int, Headers, ConsumedMessage | None]] = []

    def __len__(self) -> int:
        return len(self._values)

    full = False

    def step(self, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        self._keys.append(key)
        self._values.append(value)
        self._rest.append((timestamp, headers, self._present.message))
        if len(self._values) >= self._operator.max_batch:
            self.go_on()

    def go_on(self) -> None:
        """See `HoldsRecords`."""
        if not self._values:
            return
        keys, values, rest = self._keys, self._values, self._rest
        self._keys, self._values, self._rest = [], [], []
        present, forward = self._present, self._node.forward
        message = present.message
        results = self._results(keys, values)
        if results is None:
            self._one_by_one(keys, values, rest)
        else:
            for key, result, (timestamp, headers, source) in zip(keys, results, rest, strict=True):
                present.message = source
                forward(key, result, timestamp, headers)
        present.message = message

    settle = go_on

    def discard(self) -> None:
        """See `HoldsRecords`."""
        self._keys, self._values, self._rest = [], [], []

    def _call(self, keys: list[Any], values: list[Any]) -> list[Any]:
        mapper = self._operator.mapper
        returned = mapper(keys, values) if self._operator.with_key else mapper(values)
        if not is_in_order(returned):
            raise wrong_result(
                returned, "an iterable of values, one for each that it got, in their order"
            )
        results = list(returned)
        if len(results) != len(keys):
            raise ValueError(
                f"the function returned {len(results)} values for {len(keys)}: return one for each"
            )
        return results

    def _results(self, keys: list[Any], values: list[Any]) -> list[Any] | None:
        """Return the results of a batch; None if the call failed."""
        try:
            return self._call(list(keys), list(values))
        except Exception:  # noqa: BLE001 - the user's code may raise anything
            return None

    def _one_by_one(
        self,
        keys: list[Any],
        values: list[Any],
        rest: list[tuple[int, Headers, ConsumedMessage | None]],
    ) -> None:
        """Call the function for each record alone, to learn which one it fails with."""
        task, present = self._node.task, self._present
        for key, value, (timestamp, headers, source) in zip(keys, values, rest, strict=True):
            present.message = source
            try:
                (result,) = self._call([key], [value])
            except Exception as error:  # noqa: BLE001 - the user's code may raise anything
                task.report_error(error, self._node.name)
                continue
            self._node.forward(key, result, timestamp, headers)
