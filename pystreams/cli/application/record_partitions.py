"""Which partitions of a topic a record goes to: those that the application would write it to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pystreams.exception_texts import named_exception
from pystreams.kernel.partitioner import partition_of
from pystreams.record import ProducedRecord
from pystreams.serdes import seeing_deserializer

if TYPE_CHECKING:
    from pystreams.cli.application.topic_serdes import TopologyTopic
    from pystreams.config import StreamsConfig
    from pystreams.topology.graph.nodes import SinkNode
    from pystreams.topology.plan.topology_plan import TopologyPlan

RecordPartitions = Callable[[ProducedRecord], Sequence[int | None]]
"""Returns the partitions of a record: [None] for Kafka's choice by key, [] for none at all."""


def partitions_of_records(
    plan: TopologyPlan, config: StreamsConfig, topic: TopologyTopic
) -> RecordPartitions:
    """Return what chooses the partitions of a topic's records.

    That is what the topology's first sink on the topic does. Of a topic that it only reads,
    windowed keys go to the partition of the key inside, as Kafka Streams' `to` writes them.
    """
    from pystreams.topology.contracts.windowed_serdes import (
        WindowedSerde,
        WindowedStreamPartitioner,
    )

    sinks = plan.written_topics().get(topic.name)
    if not sinks:
        key_serde = topic.serdes.key
        windowed = key_serde if isinstance(key_serde, WindowedSerde) else None
        return _kafkas_choice if windowed is None else _by_key_inside(windowed.suffix_bytes, topic)
    partitioner = sinks[0].partitioner
    if partitioner is None:
        return _kafkas_choice
    if isinstance(partitioner, WindowedStreamPartitioner):
        return _by_key_inside(partitioner.serde.suffix_bytes, topic)
    return _by_partitioner(sinks[0], partitioner, config, topic)


def _kafkas_choice(_: ProducedRecord) -> Sequence[int | None]:
    return (None,)


def _by_key_inside(suffix_bytes: int, topic: TopologyTopic) -> RecordPartitions:
    def choose(record: ProducedRecord) -> Sequence[int | None]:
        key = record[0]
        if key is None or len(key) < suffix_bytes:
            return (None,)
        return (partition_of(key[:-suffix_bytes], topic.num_partitions),)

    return choose


def _by_partitioner(
    sink: SinkNode, partitioner: Callable[..., Any], config: StreamsConfig, topic: TopologyTopic
) -> RecordPartitions:
    """Return what asks a partitioner of the user's, which sees keys and values as the sink does."""
    from pystreams.cli.application.topic_serdes import filled_serdes
    from pystreams.topology.plan.compiler import partitions_of

    serdes = filled_serdes((sink.key_serde, sink.value_serde), config)
    read_key, read_value = (seeing_deserializer(serde, topic.name) for serde in serdes)
    count = topic.num_partitions

    def choose(record: ProducedRecord) -> Sequence[int | None]:
        raw_key, raw_value, _, headers = record
        try:
            key = None if raw_key is None else read_key(raw_key, headers)
            value = None if raw_value is None else read_value(raw_value, headers)
            chosen = partitions_of(partitioner(topic.name, key, value, count))
        except Exception as error:
            raise ValueError(
                f"the partitioner of sink {sink.name!r}: {named_exception(error)}"
            ) from error
        if chosen and chosen[-1] is not None and chosen[-1] >= count:
            raise ValueError(
                f"the partitioner of sink {sink.name!r} returned {chosen[-1]}: {topic.name!r} has "
                f"partitions 0 to {count - 1}"
            )
        if chosen == (None,) and raw_key is not None:
            return (partition_of(raw_key, count),)
        return chosen

    return choose
