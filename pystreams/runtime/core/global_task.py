"""What fills the global stores of a process: their sources and processors, over all partitions.

One object a process, owned by one thread. It is given records, and commits what came of them when
it is told to. A record goes the same way while the stores are filled for the first time and
afterwards: it is deserialized and processed, so that a processor of the user's, and the handlers of
errors, are asked of every record once.

Source: Kafka Streams' `GlobalStateUpdateTask`; KIP-813. Differs from Kafka, which copies a global
table's records unread into its store while it is filled, those that can't be deserialized included,
and passes over those without a key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NoReturn

from pystreams.errors import TopologyError
from pystreams.ids import TopicPartition
from pystreams.record import ConsumedMessage, OutputBuffer, PresentRecord, TaskTime, offset_of
from pystreams.runtime.core.global_stores import global_view
from pystreams.runtime.core.operators.operator_context import OperatorContext
from pystreams.runtime.core.queues.record_queue import RecordQueue
from pystreams.runtime.core.source_queue import queue_of_source
from pystreams.runtime.core.task_settings import TaskSettings
from pystreams.runtime.state.global_state import GLOBAL_TASK_ID, GlobalStateManager
from pystreams.stores.contracts.state_store import StateStore
from pystreams.topology.contracts.extractors import fail_on_invalid_timestamp
from pystreams.topology.plan.compiler import CompiledSource, compile_subtopology
from pystreams.topology.plan.topology_plan import TopologyPlan


class GlobalTask:
    """Fills the global stores.

    Args:
        counts: Partition count of at least the global topics.

    Attributes:
        state: The stores, with their offsets: to be opened first, and committed.
        consumed_records: Records it was given since it was made, by topic.
    """

    def __init__(
        self, plan: TopologyPlan, settings: TaskSettings, counts: Mapping[str, int]
    ) -> None:
        self.record = PresentRecord()
        self.time = TaskTime()
        self.consumed_records: dict[str, int] = {}
        stores = plan.topology.global_stores
        builders = plan.topology.stores
        self.state = GlobalStateManager(
            [(builders[name], topic) for name, topic in stores.items()],
            counts,
            settings.stores,
            self.record,
            lambda: self.time.stream_time,
        )
        self._plan = plan
        # Records of a global store have their own timestamps, as in Kafka.
        self._settings = replace(settings, timestamp_extractor=fail_on_invalid_timestamp)
        self._operators = self._new_context()
        self._queues: dict[TopicPartition, RecordQueue] = {}
        self._sources: dict[str, CompiledSource] = {}
        self._dropped_before = 0

    def start(self, now_ms: int) -> None:
        """Make the processors; those there were before are closed.

        Args:
            now_ms: Wall-clock time (ms).
        """
        self._stop_processors()
        self.time.now_ms, self.record.message = now_ms, None
        self._operators = operators = self._new_context()
        self._sources = {
            source.node.topics[0]: source
            for part in self._plan.global_subtopologies
            for source in compile_subtopology(self._plan, part, operators, self._settings.trace)
        }
        self._queues = {partition: self._queue(partition) for partition in self.state.partitions()}
        operators.init_processors()

    def take_partitions(self, counts: Mapping[str, int]) -> list[TopicPartition]:
        """Take partitions that topics have got since; return them.

        Args:
            counts: Partition counts of topics.
        """
        new = self.state.take_partitions(counts)
        self._queues.update({partition: self._queue(partition) for partition in new})
        return new

    def process(
        self, partition: TopicPartition, messages: Sequence[ConsumedMessage], now_ms: int
    ) -> None:
        """Process a batch of one partition.

        Raises:
            ProcessingError: The user's code raised and the handler says to fail.
            SerializationError: A record can't be decoded and the handler says to fail.
            StateStoreCorruptedError: A store is damaged.
        """
        if not messages:
            return
        queue, record, time = self._queues[partition], self.record, self.time
        time.now_ms = queue.now_ms = now_ms
        queue.add(messages)
        step = queue.step
        for key, value, timestamp, headers, message in queue.take(len(queue)):
            record.message = message
            if timestamp > time.stream_time:
                time.stream_time = timestamp
            step(key, value, timestamp, headers)
        last_offset = offset_of(messages[-1])
        self.state.processed(partition, last_offset)
        topic = partition.topic
        self.consumed_records[topic] = self.consumed_records.get(topic, 0) + len(messages)

    @property
    def dropped_records(self) -> int:
        """Records dropped since it was made: by processors, by handlers."""
        in_queues = sum(queue.dropped for queue in list(self._queues.values()))
        return self._dropped_before + self._operators.dropped_records + in_queues

    def outputs(self) -> list[OutputBuffer]:
        """Return the buffers to drain: those of dead letters."""
        return self._operators.all_outputs(self._queues)

    def close(self) -> None:
        """Close processors and stores; what is not committed is dropped. Safe to call twice."""
        try:
            self._stop_processors()
        finally:
            self.state.close()

    # ------------------------------------------------------------------ inside

    def _queue(self, partition: TopicPartition) -> RecordQueue:
        source = self._sources[partition.topic]
        return queue_of_source(partition, source, self._operators, self._settings)

    def _stop_processors(self) -> None:
        self._dropped_before = self.dropped_records
        self._queues = {}
        operators, self._operators = self._operators, self._new_context()
        operators.close_processors()

    def _new_context(self) -> OperatorContext:
        context = _GlobalContext(
            GLOBAL_TASK_ID,
            self._plan,
            self._settings,
            self.record,
            self.time,
            self.state.processors_store,
        )
        context.state_directory = self.state.directory
        context.stores_of_process = self.state.stores()
        return context


class _GlobalContext(OperatorContext):
    """The context of what fills global stores: nothing is scheduled there.

    Attributes:
        stores_of_process: All global stores by name.
    """

    stores_of_process: Mapping[str, StateStore]
    skips_by = f"{OperatorContext.skips_by} and processing.exception.handler.global.enabled=true"

    def global_store(self, name: str, reader: str) -> Any:
        """Return a view of another global store, filled or not; None if there is none."""
        store = self.stores_of_process.get(name)
        return None if store is None else global_view(store, reader)

    def schedule(self, node: str, *_: Any, **__: Any) -> NoReturn:
        """Refuse.

        Raises:
            TopologyError: Always.
        """
        raise TopologyError(
            f"processor {node!r} fills a global store and can't schedule punctuations: let another "
            "processor do that, which reads the store"
        )
