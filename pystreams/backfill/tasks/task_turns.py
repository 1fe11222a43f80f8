"""The turns of one task: how far its order has come, and what it writes at which time of it."""

from __future__ import annotations

from typing import Any

from pystreams.backfill.plan.rows import MessageInOrder
from pystreams.backfill.plan.stages import Stage
from pystreams.backfill.plan.turns import topics_in_turn, with_turn
from pystreams.record import Headers, PresentRecord, ProducedRecord, TaskTime
from pystreams.topology.contracts.operator import Step
from pystreams.topology.graph.nodes import SourceNode
from pystreams.topology.plan.topology_plan import TopologyPlan


class TaskTurns:
    """Where a task is in its order; see `plan.turns`.

    Args:
        stage: What of it runs.

    Attributes:
        read: The topics it reads whose records have a turn.
        writes: Whether it writes such records: then each is given its turn when it is written.
    """

    def __init__(self, plan: TopologyPlan, stage: Stage) -> None:
        nodes = {name: plan.topology.nodes[name] for name in stage.subtopology.nodes}
        written = plan.written_topics(nodes).keys()
        in_turn = topics_in_turn(plan)
        self.read = in_turn.intersection(stage.topics)
        self._written = in_turn & written - stage.written_before
        self.writes = bool(self._written)
        self._sources = {
            name
            for name, node in nodes.items()
            if isinstance(node, SourceNode)
            and self.read.intersection(map(plan.topic_name, node.topics))
        }
        self._turn_ms = -1
        self._record, self._time = PresentRecord(), TaskTime()

    def follow(self, record: PresentRecord, time: TaskTime) -> None:
        """Look at the record and the time of the task from now on."""
        self._record, self._time = record, time

    def around(self, name: str, step: Step) -> Step:
        """Return the step of a node: a source of such topics goes on to the turn of each record."""
        if name not in self._sources:
            return step
        record = self._record

        def taking(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            message = record.message
            assert isinstance(message, MessageInOrder), "what was staged is read as rows"
            if message.turn_ms > self._turn_ms:
                self._turn_ms = message.turn_ms
            step(key, value, timestamp, headers)

        return taking

    def records_for(self, topic: str) -> list[ProducedRecord]:
        """Return a list for the records of a topic: what is written to it gets its turn, if any."""
        return _RecordsInTurn(self) if topic in self._written else []

    def now_ms(self) -> int:
        """Return the time to which the task's order has come (ms)."""
        self._turn_ms = turn_ms = max(self._turn_ms, self._time.stream_time)
        return turn_ms


class _RecordsInTurn(list[ProducedRecord]):
    """Records, each with the turn at which it was appended."""

    __slots__ = ("_turns",)

    def __init__(self, turns: TaskTurns) -> None:
        super().__init__()
        self._turns = turns

    def append(self, record: ProducedRecord) -> None:
        list.append(self, with_turn(record, self._turns.now_ms()))
