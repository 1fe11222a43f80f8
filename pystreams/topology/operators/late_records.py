"""What becomes of the records that come too late for a window, beside being counted as dropped.

Differs from Kafka, where the log and a count are all there is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pystreams.stores.contracts.window import Window
from pystreams.topology.contracts.operator import NodeContext, Step

Late = Callable[[Any, Any, int, Window], object]
"""Told of a late record: (key, value, timestamp in ms, the closed window)."""


@dataclass(frozen=True, slots=True)
class LateRecords:
    """Who gets late records; by default nobody.

    Attributes:
        function: Called for each record and each closed window it is late for; or None.
        sink: Name of the child that writes each late record once, as it came; or None.
    """

    function: Late | None = None
    sink: str | None = None

    def step(self, node: NodeContext) -> Step | None:
        """Return the step of the sink, if there is one."""
        return None if self.sink is None else node.children[self.sink]

    def without_sink(self, node: NodeContext) -> NodeContext:
        """Return the node without the sink: what results are sent on to."""
        if self.sink is None:
            return node
        others = {name: step for name, step in node.children.items() if name != self.sink}
        return NodeContext(node.name, node.task, others, node.stores)


NOBODY = LateRecords()
