"""What each node of a task takes in, and how long it works: measured at DEBUG only.

Something stands around each step then, which costs a record about a microsecond a node. At INFO
nothing does, and a node costs what it costs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pystreams.record import Headers
from pystreams.topology.contracts.operator import Step


class NodeMeter:
    """One node's numbers. The task's thread writes; any may read.

    Attributes:
        records: Records it was given.
        busy_ms: How long it worked on them itself: what it calls of other nodes is theirs (ms).
    """

    __slots__ = ("busy_ms", "records")

    def __init__(self) -> None:
        self.records = 0
        self.busy_ms = 0.0


class NodeMeters:
    """The meters of a task's nodes.

    Args:
        monotonic_ms: The timer (ms).

    Attributes:
        by_node: The meters by the nodes' names; they stay when the task goes back to a commit.
    """

    def __init__(self, monotonic_ms: Callable[[], float]) -> None:
        self.by_node: dict[str, NodeMeter] = {}
        self._now_ms = monotonic_ms
        self._inside_ms = 0.0

    def around(self, name: str, step: Step) -> Step:
        """Return a step that measures another one."""
        meter, now_ms = self.by_node.setdefault(name, NodeMeter()), self._now_ms

        def measured(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            meter.records += 1
            before_ms, self._inside_ms = self._inside_ms, 0.0
            began_ms = now_ms()
            try:
                step(key, value, timestamp, headers)
            finally:
                took_ms = now_ms() - began_ms
                meter.busy_ms += took_ms - self._inside_ms
                self._inside_ms = before_ms + took_ms

        return measured
