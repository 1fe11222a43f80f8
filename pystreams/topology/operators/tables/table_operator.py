"""What all operators that make a table have in common."""

from __future__ import annotations

from dataclasses import dataclass, field

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
