"""The turns of one task: how far its order has come, and what it writes at which time of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pystreams.backfill.plan.rows import MessageInOrder
from pystreams.backfill.plan.stages import Stage
from pystreams.backfill.plan.turns import (
    given_topics,
    topics_between_tables,
    topics_in_turn,
    with_turn,
)
from pystreams.record import ConsumedMessage, Headers, PresentRecord, ProducedRecord, TaskTime
from pystreams.topology.contracts.operator import Step
from pystreams.topology.graph.nodes import SourceNode
from pystreams.topology.plan.topology_plan import TopologyPlan

_NOTES = 10_000


class TaskTurns:
    """Where a task is in its order; see `plan.turns`.

    A record between the tables of a join by a foreign key has the time at which it is written: it
    tells of a row that is there now. Any other has the time at which the record was taken that it
    is made of, though operators may have held that back, and no less than its own timestamp. What
    a record cache lets go has its timestamp alone.

    Args:
        stage: What of it runs.

    Attributes:
        read: The topics it reads whose records have a turn.
        read_between_tables: Those of them that are between the tables of a join by a foreign key.
        with_history: Those of them that may hold records of the history, too.
        writes_between_tables: Whether it writes such records.
        settles: Whether the task lets go what is held back, and not because of a record.
    """

    def __init__(self, plan: TopologyPlan, stage: Stage) -> None:
        self._nodes = {name: plan.topology.nodes[name] for name in stage.subtopology.nodes}
        self._plan = plan
        in_turn, between_tables = topics_in_turn(plan), topics_between_tables(plan)
        self.read = in_turn.intersection(stage.topics)
        self.read_between_tables = self.read & between_tables
        self.with_history = self.read - plan.repartition_topics().keys()
        written = plan.written_topics(self._nodes).keys()
        self.writes_between_tables = bool(between_tables & written - stage.written_before)
        self._given = given_topics(plan, stage) & in_turn
        if stage.only_topic is None:
            # A sink that chooses its topics may write to any.
            self._given = in_turn - stage.written_before
        self._between_tables = between_tables
        self.settles = False
        self._turn_ms = -1
        self._notes: dict[int, tuple[ConsumedMessage, int]] = {}
        self._record, self._time = PresentRecord(), TaskTime()
        self._holds: Callable[[], bool] = lambda: False

    def follow(self, record: PresentRecord, time: TaskTime, holds: Callable[[], bool]) -> None:
        """Look at the record and the time of the task from now on.

        Args:
            holds: Returns whether operators that are attached by now may hold records back.
        """
        self._record, self._time, self._holds = record, time, holds

    def around(self, name: str, step: Step) -> Step:
        """Return the step of a node: a source goes on to the turn of each record that has one.

        Where operators may hold back what it feeds them, it notes the turn of each record.
        """
        node = self._nodes[name]
        if not isinstance(node, SourceNode):
            return step
        if self._given - self._between_tables and self._holds():
            step = self._noting(step)
        if self.read.intersection(map(self._plan.topic_name, node.topics)) or (
            node.pattern is not None and any(map(node.pattern.fullmatch, self.read))
        ):
            step = self._taking(step)
        return step

    def _taking(self, step: Step) -> Step:
        record = self._record

        def taking(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            message = record.message
            assert isinstance(message, MessageInOrder), "what was staged is read as rows"
            if message.turn_ms > self._turn_ms:
                self._turn_ms = message.turn_ms
            step(key, value, timestamp, headers)

        return taking

    def _noting(self, step: Step) -> Step:
        record, notes = self._record, self._notes

        def noting(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            message = record.message
            if message is not None:
                notes[id(message)] = message, self.now_ms()
            step(key, value, timestamp, headers)

        return noting

    @property
    def full(self) -> bool:
        """Whether so much is noted that what is held back is to be let go."""
        return len(self._notes) > _NOTES

    def forget(self) -> None:
        """Forget what was noted: nothing is held back."""
        self._notes.clear()

    def records_for(self, topic: str) -> list[ProducedRecord]:
        """Return a list for the records of a topic: what is written to it gets its turn, if any."""
        if topic not in self._given:
            return []
        return _RecordsInTurn(self.now_ms if topic in self._between_tables else self.cause_ms)

    def now_ms(self, _: int = -1) -> int:
        """Return the time to which the task's order has come (ms)."""
        self._turn_ms = turn_ms = max(self._turn_ms, self._time.stream_time)
        return turn_ms

    def cause_ms(self, timestamp: int) -> int:
        """Return the turn (ms) of a record with a timestamp: that of the one it is made of."""
        noted = self._notes.get(id(self._record.message)) if self._notes else None
        if noted is not None:
            return max(noted[1], timestamp)
        return timestamp if self.settles else max(self.now_ms(), timestamp)


class _RecordsInTurn(list[ProducedRecord]):
    """Records, each with the turn at which it was appended."""

    __slots__ = ("_turn_of",)

    def __init__(self, turn_of: Callable[[int], int]) -> None:
        super().__init__()
        self._turn_of = turn_of

    def append(self, record: ProducedRecord) -> None:
        list.append(self, with_turn(record, self._turn_of(record[2])))
