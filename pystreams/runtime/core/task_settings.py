"""What all tasks of an application are made with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from pystreams.ids import TopicPartition
from pystreams.record import ProducedRecord
from pystreams.runtime.cluster.committed_offsets import OffsetEntries, no_entries
from pystreams.runtime.core.failures.error_handlers import DeadLetterListener, ErrorHandler, told_of
from pystreams.runtime.core.global_stores import GlobalStores
from pystreams.runtime.state.store_settings import StoreSettings
from pystreams.topology.contracts.extractors import TimestampExtractor
from pystreams.topology.contracts.held_records import AsyncCalls
from pystreams.topology.contracts.operator import OperatorSettings, TraceStep


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSettings:
    """What all tasks of an application share.

    Attributes:
        timestamp_extractor: For sources without one of their own.
        deserialization_handler: Decides about records that can't be read.
        processing_handler: Decides when the user's code raises, or a record does not fit a store.
        production_handler: Decides about records that can't be serialized or produced.
        max_task_idle_ms: See `PartitionGroup`.
        stores: What stores are opened with.
        num_partitions: Returns the partition count of a topic by its real name.
        read_to_end: Asks the broker whether it holds nothing of some partitions beyond what was
            polled; False if it does not say.
        monotonic_ms: Tells a time that never goes back (ms); None where the task's own tells it.
        offset_entries: Gives what is committed with an offset (`topic_ids`, `topology_note`).
        global_stores: Those of the process.
        app_configs: All of the configuration by Kafka's names, for processors that ask.
        trace: Put around the step of each node, for those who want to see every hop.
        records_for: Makes the list in which the records wait that are written to a topic (by its
            real name), for those who want to see each when it is written.
    """

    timestamp_extractor: TimestampExtractor
    deserialization_handler: ErrorHandler
    processing_handler: ErrorHandler
    production_handler: ErrorHandler
    max_task_idle_ms: int
    stores: StoreSettings
    num_partitions: Callable[[str], int]
    read_to_end: Callable[[Sequence[TopicPartition]], bool] = lambda _: True
    operators: OperatorSettings = field(default_factory=OperatorSettings)
    monotonic_ms: Callable[[], int] | None = None
    async_calls: Callable[[], AsyncCalls]
    offset_entries: OffsetEntries = no_entries
    global_stores: GlobalStores = field(default_factory=GlobalStores)
    app_configs: Mapping[str, Any] = field(default_factory=dict)
    trace: TraceStep | None = None
    records_for: Callable[[str], list[ProducedRecord]] = lambda _: []

    def telling(self, listener: DeadLetterListener) -> Self:
        """Return them with a listener that is told of all dead letters."""
        return replace(
            self,
            deserialization_handler=told_of(self.deserialization_handler, listener),
            processing_handler=told_of(self.processing_handler, listener),
            production_handler=told_of(self.production_handler, listener),
        )
