"""One task that runs without a broker: it is given records, and commits when it is told to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from pystreams import (
    StoreEnvironment,
    TaskId,
    TopicPartition,
    Topology,
    fail_on_invalid_timestamp,
    log_and_continue,
)
from pystreams.record import StaticMessage
from pystreams.runtime.cluster.committed_offsets import CommittedOffset
from pystreams.runtime.core.task import StreamTask
from pystreams.runtime.core.task_settings import TaskSettings
from pystreams.runtime.state.store_settings import StoreSettings
from pystreams.testing.simulation.calls import InlineCalls
from pystreams.topology.plan.topology_plan import TopologyPlan

IN = "in"


class RunningTask:
    """A task of the first sub-topology, which reads one partition of the topic `in`.

    Attributes:
        input: What it reads.
    """

    def __init__(
        self,
        topology: Topology,
        *,
        partition: int = 0,
        directory: Path | None = None,
        committed: int | None = None,
        cache_enabled: bool = False,
        metadata: str = "",
        restored: Mapping[TopicPartition, Sequence[StaticMessage]] | None = None,
    ) -> None:
        plan = TopologyPlan(topology, "app")
        settings = TaskSettings(
            timestamp_extractor=fail_on_invalid_timestamp,
            deserialization_handler=log_and_continue,
            processing_handler=log_and_continue,
            production_handler=log_and_continue,
            max_task_idle_ms=0,
            stores=StoreSettings(
                StoreEnvironment(application_id="app", cache_enabled=cache_enabled)
            ),
            async_calls=InlineCalls,
            num_partitions=lambda _: 1,
        )
        self.input = TopicPartition(IN, partition)
        self.task = StreamTask(
            TaskId(0, partition), plan, plan.subtopologies[0], [self.input], settings, lambda _: 0
        )
        self._next_offset = committed or 0
        self.task.open(directory or Path())
        for changelog, messages in (restored or {}).items():
            self.task.state_manager.restore(changelog, messages)
        self.task.start(self._offsets(committed, metadata), 0)

    def read(self, *records: tuple[str, str | None, int]) -> None:
        """Buffer records (key, value, timestamp) at the next offsets."""
        messages = [
            StaticMessage(
                IN,
                self.input.partition,
                self._next_offset + number,
                key.encode(),
                None if value is None else value.encode("latin-1"),
                timestamp,
            )
            for number, (key, value, timestamp) in enumerate(records)
        ]
        self._next_offset += len(records)
        self.task.add_records(self.input, messages)

    def run(self, *records: tuple[str, str | None, int], limit: int = 1000) -> None:
        """Buffer records, and process one run of at most so many."""
        self.read(*records)
        run = self.task.next_run(limit)
        if run is not None:
            self.task.process(run)

    def commit(self) -> None:
        """Commit, as if the broker had taken everything."""
        self.task.flush_caches()
        for output in self.task.outputs():
            if output.records:
                output.last_offset = (output.last_offset or 0) + len(output.records)
                output.records.clear()
        self.task.post_commit()

    def restart(self, committed: int | None, metadata: str = "") -> None:
        """Roll back, and start again at a committed offset, with what was committed with it."""
        self.task.revive()
        self.task.start(self._offsets(committed, metadata), 0)

    def _offsets(
        self, committed: int | None, metadata: str = ""
    ) -> Mapping[TopicPartition, CommittedOffset]:
        return {} if committed is None else {self.input: CommittedOffset(committed, metadata)}
