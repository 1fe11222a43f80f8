"""To be written."""

from __future__ import annotations

from dataclasses import dataclass

from pystreams.topology.contracts.operator import NodeContext, Step
from pystreams.topology.contracts.windows import EmitStrategy, SlidingWindows
from pystreams.topology.operators.fold import Fold
from pystreams.topology.operators.late_records import NOBODY, LateRecords
from pystreams.topology.operators.table_operator import TableOperator


@dataclass(frozen=True, slots=True)
class SlidingWindowOperator(TableOperator):
    """Folds the records of each key and window.

    Attributes:
        store: Keeps the results.
        windows: How time is cut.
        fold: What is done with the records of a window.
        emit: When results are sent on.
        late: Who gets late records.
    """

    store: str
    windows: SlidingWindows
    fold: Fold
    emit: EmitStrategy
    late: LateRecords = NOBODY

    def attach(self, node: NodeContext) -> Step:
        """Return the step."""
        raise NotImplementedError
