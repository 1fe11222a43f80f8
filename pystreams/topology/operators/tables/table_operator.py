"""What all operators that make a table have in common."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

from pystreams.topology.contracts.operator import NodeContext, Step


@dataclass(frozen=True, slots=True)
class TableOperator:
    """An operator whose output is a table.

    Attributes:
        send_old_values: Whether changes carry old values.
    """

    send_old_values: bool = field(default=False, kw_only=True)

    def attach(self, node: NodeContext) -> Step:
        """Return the step of this node for one task."""
        raise NotImplementedError

    def with_final_results(self, idle_timeout_ms: int | None) -> Self:
        """Return what it is if something below holds its results back until windows close.

        Args:
            idle_timeout_ms: After how much silence (ms) that lets go of them; None if never.
        """
        return self
