"""A task on disk, by itself: fed, run and committed without a broker, what it writes counted."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path

from pystreams.config import StreamsConfig
from pystreams.config.resolution import Source
from pystreams.ids import TaskId, TopicPartition
from pystreams.record import ProducedRecord, StaticMessage
from pystreams.runtime.core.task import StreamTask
from pystreams.runtime.settings import task_settings
from pystreams.testing.simulation.calls import InlineCalls
from pystreams.topology.contracts.held_records import AsyncCalls
from pystreams.topology.graph.topology import Topology
from pystreams.topology.plan.topology_plan import TopologyPlan

INPUT = "input"
OUTPUT = "output"
COMMIT_RECORDS = 1000
REQUIRED = {"application.id": "one-task", "bootstrap.servers": "none:1"}
"""The configuration that has no defaults."""

_COMMIT_MS = 250


class OneTask:
    """Runs a topology of one sub-topology that reads `input` and writes `output`.

    The store writes of a commit are those of a thousand records, or fewer if they would pass
    `statestore.uncommitted.max.bytes`; the task's wall clock goes on by a quarter of a second with
    each.

    Args:
        topology: What runs.
        directory: For its stores; exists.
        on_result: Called with each record of the output.
        async_calls: Makes asynchronous calls.

    Attributes:
        cpu_ns: What the thread has used while it ran the task.
        commits: How many there were.
    """

    def __init__(
        self,
        topology: Topology,
        directory: Path,
        on_result: Callable[[ProducedRecord], None] = lambda _record: None,
        async_calls: Callable[[], AsyncCalls] = InlineCalls,
    ) -> None:
        config = StreamsConfig.from_sources([Source("", REQUIRED)])
        plan = TopologyPlan(topology, config.application_id)
        self._partition = TopicPartition(INPUT, 0)
        settings = task_settings(config, async_calls=async_calls, num_partitions=lambda _: 1)
        [part] = plan.subtopologies
        self._task = StreamTask(TaskId(0, 0), plan, part, [self._partition], settings, lambda _: 0)
        self._room_bytes = config.statestore_uncommitted_max_bytes
        self._on_result = on_result
        self._offset = 0
        self.cpu_ns = 0
        self.commits = 0
        self._task.open(directory)
        self._task.start({}, 0)

    def feed(self, records: Iterable[tuple[bytes, bytes, int]]) -> None:
        """Process and commit records: key, value and time (ms) of each."""
        task, waiting = self._task, iter(records)
        while batch := list(islice(waiting, COMMIT_RECORDS)):
            messages = [
                StaticMessage(INPUT, 0, self._offset + at, key, value, timestamp)
                for at, (key, value, timestamp) in enumerate(batch)
            ]
            self._offset += len(messages)
            began_ns = time.thread_time_ns()
            task.add_records(self._partition, messages)
            while (run := task.next_run(COMMIT_RECORDS)) is not None:
                task.process(run, room_bytes=self._room_bytes)
                self._commit()
            self.cpu_ns += time.thread_time_ns() - began_ns

    def close(self) -> None:
        """Close its stores."""
        self._task.close()

    def _commit(self) -> None:
        task = self._task
        task.settle()
        for output in task.outputs():
            if output.topic == OUTPUT:
                for record in output.records:
                    self._on_result(record)
            elif output.records:
                output.last_offset = (output.last_offset or 0) + len(output.records)
            output.records.clear()
        task.post_commit()
        task.time.now_ms += _COMMIT_MS
        self.commits += 1
