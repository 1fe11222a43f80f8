"""Makes the queues of partitions, with their source nodes' serdes, extractors and steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pystreams.ids import TopicPartition
from pystreams.kernel.async_functions import deserializer_of
from pystreams.runtime.cluster.committed_offsets import (
    CommittedOffset,
    decode_partition_time,
)
from pystreams.runtime.core.operators.operator_context import OperatorContext
from pystreams.runtime.core.queues.deserializers import Deserializers
from pystreams.runtime.core.queues.record_queue import RecordQueue
from pystreams.runtime.core.task_settings import TaskSettings
from pystreams.serdes import Serde, seeing_deserializer, sees_headers
from pystreams.topology.plan.compiler import CompiledSource
from pystreams.topology.plan.topology_plan import TopologyPlan


@dataclass(frozen=True, slots=True)
class SourceQueues:
    """Makes the queues of one running task."""

    sources: Sequence[CompiledSource]
    operators: OperatorContext
    plan: TopologyPlan
    settings: TaskSettings

    def of(
        self, partition: TopicPartition, committed: CommittedOffset | None = None
    ) -> RecordQueue:
        """Return an empty queue, which begins at a committed offset if there is one.

        Args:
            partition: The partition; its task reads the topic.
        """
        task_id, node = self.operators.task_id, self.plan.source_of_topic(partition.topic)
        assert node is not None, f"task {task_id} was given {partition}, which it never reads"
        source = next(source for source in self.sources if source.node is node)
        queue = queue_of_source(partition, source, self.operators, self.settings)
        if committed is not None:
            queue.next_offset = committed.next_offset
            queue.partition_time = decode_partition_time(committed.metadata)
        return queue


def queue_of_source(
    partition: TopicPartition,
    source: CompiledSource,
    operators: OperatorContext,
    settings: TaskSettings,
) -> RecordQueue:
    """Return an empty queue of a partition that a compiled source reads."""
    node, topic = source.node, partition.topic
    queue = RecordQueue(
        task_id=operators.task_id,
        partition=partition,
        node=node.name,
        step=source.step,
        deserializers=deserializers_of(
            operators.key_serde(node.key_serde, node.name),
            operators.value_serde(node.value_serde, node.name),
            topic,
        ),
        extractor=node.timestamp_extractor or settings.timestamp_extractor,
        handler=settings.deserialization_handler,
    )
    queue.call = operators.call_of(node.name)
    return queue


def deserializers_of(key_serde: Serde[Any], value_serde: Serde[Any], topic: str) -> Deserializers:
    """Return how records of a topic are decoded with two serdes."""
    if sees_headers(key_serde, topic) or sees_headers(value_serde, topic):
        return Deserializers(
            seeing_deserializer(key_serde, topic),
            seeing_deserializer(value_serde, topic),
            see_headers=True,
        )
    read_key, read_value = (deserializer_of(serde, topic) for serde in (key_serde, value_serde))
    return Deserializers(read_key, read_value)
