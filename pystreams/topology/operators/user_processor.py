"""Runs the user's own processors: builds their records and gives them their context."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pystreams.kernel.async_functions import refuse_coroutine
from pystreams.record import Headers, Record
from pystreams.topology.contracts.operator import NodeContext, Step
from pystreams.topology.contracts.processor import FixedKeyProcessor, Processor, ProcessorWrapper
from pystreams.topology.contracts.user_functions import check_processor, checked_supplier
from pystreams.topology.operators.node_processor_context import NodeProcessorContext, supplied

AnyProcessor = Processor[Any, Any, Any, Any] | FixedKeyProcessor[Any, Any, Any]


@dataclass(frozen=True, slots=True)
class UserProcessorOperator:
    """The operator of `process`, `process_values` and `Topology.add_processor`.

    Attributes:
        supplier: Makes a new processor for each task.
        fixed_key: Refuse to forward a record whose key is not the input's.
    """

    supplier: Callable[[], AnyProcessor]
    fixed_key: bool = field(default=False, kw_only=True)

    def attach(self, node: NodeContext) -> Step:
        """Make the task's processor and return the step that feeds it."""
        processor = supplied(self.supplier, node)
        check_processor(processor, node.name)
        context = NodeProcessorContext(node, fixed_key=self.fixed_key)
        node.task.on_init(lambda: processor.init(context))
        node.task.on_close(processor.close)
        process = processor.process
        present = node.task.record
        report_error = node.task.report_error
        name = node.name

        def step(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            present.timestamp = timestamp
            present.headers = headers
            context.input_key = key
            try:
                returned: object = process(Record(key, value, timestamp, headers))
                if returned is not None:
                    refuse_coroutine(returned)
            except Exception as error:  # noqa: BLE001 - the user's code may raise anything
                report_error(error, name)

        return step


def wrapped_supplier(
    wrapper: ProcessorWrapper, node: str, supplier: Callable[[], AnyProcessor], *, fixed_key: bool
) -> Callable[[], AnyProcessor]:
    """Return what a wrapper makes of a node's supplier.

    Raises:
        TopologyError: The result does not make a new processor at each call.
    """
    wrap: Callable[[str, Any], Callable[[], AnyProcessor]] = wrapper.wrap_processor_supplier
    if fixed_key:
        wrap = wrapper.wrap_fixed_key_processor_supplier
    return checked_supplier(wrap(node, supplier), node)
