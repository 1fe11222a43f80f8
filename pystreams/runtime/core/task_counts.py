"""What a task counts and measures over its whole life, however often it goes back to a commit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pystreams.ids import TopicPartition
from pystreams.metrics import Recording
from pystreams.record import OutputBuffer
from pystreams.runtime.core.node_meters import NodeMeters
from pystreams.runtime.core.operators.operator_context import OperatorContext
from pystreams.runtime.core.queues.partition_group import PartitionGroup
from pystreams.runtime.core.queues.record_queue import Item, timestamp_of
from pystreams.runtime.state.state_manager import ProcessorStateManager


class TaskCounts:
    """Records by what became of them. The task's thread writes; others may read.

    Attributes:
        operators: What its operators are given now; the task says when there are others.
        processed: Records processed.
        consumed: Records it was given, by topic.
        nodes: What its nodes do.
        last_timestamp: The timestamp of the last record processed (ms), None before the first.
        latencies: How old records were, by their timestamps, when they were processed (ms): the
            first and the last one of each run.
    """

    def __init__(
        self,
        state_manager: ProcessorStateManager,
        operators: OperatorContext,
        group: PartitionGroup,
        recording: Recording,
    ) -> None:
        self.operators = operators
        self.group = group
        self.processed = 0
        self.consumed: dict[str, int] = {}
        self.nodes = NodeMeters(recording)
        self.latencies = recording.sampled()
        self._monotonic_ms = recording.monotonic_ms
        self.last_timestamp: int | None = None
        self._run_ends: tuple[int, ...] = ()
        self._state_manager = state_manager
        self._dropped_before = 0
        self._calls_again_before = 0
        self._sent_before: dict[str, int] = {}

    @property
    def dropped(self) -> int:
        """Records dropped by operations, stores, handlers and extractors."""
        in_queues = sum(queue.dropped for queue in list(self.group.queues.values()))
        in_operators = self.operators.dropped_records
        return self._dropped_before + in_operators + self._state_manager.dropped.count + in_queues

    @property
    def calls_again(self) -> int:
        """How often functions were called again with a record, after an error."""
        return self._calls_again_before + self.operators.warnings.calls_again

    def buffered_bytes(self, partition: TopicPartition | None = None) -> int:
        """Return what the records take that wait, of one partition or of all."""
        queues = self.group.queues
        asked = list(queues.values()) if partition is None else [queues[partition]]
        return sum(queue.waiting_bytes() for queue in asked)

    def next_offset(self, partition: TopicPartition) -> int | None:
        """Return the offset of the first record of a partition that was not processed, if known."""
        return self.group.queues[partition].next_offset

    def oldest_waiting_ms(self) -> int | None:
        """Return the timestamp of the oldest record that waits in the task (ms), None without any.

        Any thread may ask.
        """
        heads = [queue.waiting(1) for queue in list(self.group.queues.values())]
        return min((timestamp_of(head[0]) for head in heads if head), default=None)

    def ran(self, taken: Sequence[Item]) -> None:
        """Count a run that was processed, in the order of its records."""
        self.processed += len(taken)
        if not taken:
            self._run_ends = ()
            return
        self.last_timestamp = timestamp_of(taken[-1])
        self._run_ends = (timestamp_of(taken[0]), self.last_timestamp)

    def measure_latency(self, now_ms: int) -> None:
        """Record how old the last run's records are, at a time of the wall clock (ms)."""
        at_ms = self._monotonic_ms()
        for timestamp in self._run_ends:
            self.latencies.record(now_ms - timestamp, at_ms)

    def produced(self) -> dict[str, int]:
        """Return how many records were handed to the producer, by topic."""
        return self._sent([*self._state_manager.changelog_buffers(), *self.operators.outputs()])

    def go_back(self) -> None:
        """Keep what was counted by what ends now: the task goes back to its last commit."""
        self._dropped_before = self.dropped
        self._calls_again_before = self.calls_again
        self.operators.warnings.calls_again = 0
        self._sent_before = self._sent(self.operators.outputs())
        self.operators.dropped_records = self._state_manager.dropped.count = 0
        for queue in self.group.queues.values():
            queue.dropped = 0

    def _sent(self, outputs: Iterable[OutputBuffer]) -> dict[str, int]:
        """Return what was sent before it last went back and from these buffers, by topic."""
        sent = dict(self._sent_before)
        for output in outputs:
            sent[output.topic] = sent.get(output.topic, 0) + output.sent_records
        return sent
