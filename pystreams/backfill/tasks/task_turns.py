"""The turns of one task: how far its order has come, and what it writes at which time of it."""

from __future__ import annotations

from collections.abc import Sequence

from pystreams.backfill.plan.rows import HistoryMessage
from pystreams.backfill.plan.stages import Stage
from pystreams.backfill.plan.turns import topics_in_turn, turn_in, with_turn, without_turn
from pystreams.record import OutputBuffer
from pystreams.topology.graph.nodes import SinkNode
from pystreams.topology.plan.topology_plan import TopologyPlan


class TaskTurns:
    """Where a task is in its order; see `plan.turns`.

    Args:
        plan: The topology's plan.
        stage: What of it runs.

    Attributes:
        read: The topics it reads whose records have a turn.
        writes: Whether it writes such records: then they are marked after each record it takes.
    """

    def __init__(self, plan: TopologyPlan, stage: Stage) -> None:
        nodes = plan.topology.nodes
        written = {
            plan.topic_name(node.topic)
            for node in map(nodes.__getitem__, stage.subtopology.nodes)
            if isinstance(node, SinkNode) and isinstance(node.topic, str)
        }
        in_turn = topics_in_turn(plan)
        self.read = in_turn.intersection(stage.topics)
        self._written = in_turn & written - stage.written_before
        self.writes = bool(self._written)
        self._turn_ms = -1
        self._marked: dict[int, int] = {}

    def take(self, message: HistoryMessage) -> HistoryMessage:
        """Go on to the turn of a record; return it as the task is given it.

        Raises:
            StreamsError: It has none.
        """
        self._turn_ms = max(self._turn_ms, turn_in(message.headers()))
        return without_turn(message)

    def mark(self, outputs: Sequence[OutputBuffer], stream_time: int) -> None:
        """Give what the task has written since the last call its turn.

        Args:
            outputs: What it has written.
            stream_time: That of the task (ms).
        """
        self._turn_ms = turn_ms = max(self._turn_ms, stream_time)
        for output in outputs:
            if output.topic in self._written:
                records = output.records
                for at in range(self._marked.get(id(output), 0), len(records)):
                    records[at] = with_turn(records[at], turn_ms)
                self._marked[id(output)] = len(records)

    def forget(self, output: OutputBuffer) -> None:
        """Begin anew with a buffer that has been drained."""
        self._marked.pop(id(output), None)
