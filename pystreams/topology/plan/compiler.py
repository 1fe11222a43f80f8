"""Compiles one sub-topology for one task: nodes become functions, from the sinks up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from operator import index
from typing import Any

from pystreams.errors import TopologyError
from pystreams.kernel.async_functions import refuse_coroutine
from pystreams.kernel.partitioner import partition_of
from pystreams.record import Headers, OutputBuffer
from pystreams.stores.typed_stores.given_bytes import bytes_serializer
from pystreams.topology.contracts.operator import (
    NodeContext,
    Step,
    TaskContext,
    TraceStep,
    fan_out,
    nowhere,
)
from pystreams.topology.contracts.windowed_serdes import WindowedStreamPartitioner
from pystreams.topology.graph.naming import check_name
from pystreams.topology.graph.nodes import ProcessorNode, RecordForRouting, SinkNode, SourceNode
from pystreams.topology.graph.subtopologies import Subtopology
from pystreams.topology.graph.topology import Topology
from pystreams.topology.plan.record_encoder import (
    Encode,
    once_more,
    record_encoder,
    sees_headers,
)
from pystreams.topology.plan.topology_plan import TopologyPlan

_KAFKAS_CHOICE: Sequence[int | None] = (None,)
_REMEMBERED_KEYS = 4096


@dataclass(frozen=True, slots=True)
class CompiledSource:
    """A source of one task.

    Attributes:
        step: Feeds one record to the source's children.
    """

    node: SourceNode
    step: Step


def compile_subtopology(
    plan: TopologyPlan,
    subtopology: Subtopology,
    task: TaskContext,
    trace: TraceStep | None = None,
) -> list[CompiledSource]:
    """Attach all nodes of a sub-topology to a task; children that are not of it get nothing.

    The task's stores must be open. Processors are made here and initialised later, by the
    actions they leave with `task.on_init`.

    Args:
        task: What the nodes are attached to.
        trace: Puts something around the step of each node.

    Returns:
        The sources, in the order they were added.
    """
    topology = plan.topology
    steps: dict[str, Step] = {}
    sources: list[CompiledSource] = []
    restored = plan.source_changelogs(subtopology)
    for name in reversed(subtopology.nodes):
        node = topology.nodes[name]
        children = {child: steps.get(child, nowhere) for child in topology.children(name)}
        if isinstance(node, SinkNode):
            step = _attach_sink(node, task)
        elif isinstance(node, ProcessorNode):
            topics = _topics_of_others(topology, node, restored) if restored else {}
            context = NodeContext(name, task, children, frozenset(node.stores), topics)
            step = node.operator.attach(context)
        else:
            step = fan_out(list(children.values()))
        if trace is not None:
            step = trace(name, step)
        if isinstance(node, SourceNode):
            sources.append(CompiledSource(node, step))
        else:
            steps[name] = step
    sources.reverse()
    return sources


def _topics_of_others(
    topology: Topology, node: ProcessorNode, restored: Mapping[str, str]
) -> dict[str, str]:
    """Return the topics of a node's stores that are restored from one, which it does not read."""
    return {
        store: restored[store]
        for store in node.stores
        if store in restored and topology.source_changelogs[store] not in node.parents
    }


def _attach_sink(node: SinkNode, task: TaskContext) -> Step:
    if not callable(node.topic) and node.partitioner is None:
        return _static_sink(node, node.topic, task)
    if not callable(node.topic) and isinstance(node.partitioner, WindowedStreamPartitioner):
        return _windowed_sink(node, node.topic, node.partitioner, task)
    return _routing_sink(node, task)


def _static_sink(node: SinkNode, topic: str, task: TaskContext) -> Step:
    """Return the step of a sink with one topic and Kafka's partitioner: the hot one."""
    real_topic = task.topic_name(topic)
    append = task.output(real_topic).records.append
    if sees_headers(node, task, real_topic):
        encode = record_encoder(node, task, real_topic)

        def encoding_step(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            encoded = encode(key, value, headers)
            if encoded is not None:
                raw_key, raw_value, headers = encoded
                append((raw_key, raw_value, timestamp, headers))

        return encoding_step
    serialize_key = bytes_serializer(task.key_serde(node.key_serde, node.name), real_topic)
    serialize_value = bytes_serializer(task.value_serde(node.value_serde, node.name), real_topic)
    name = node.name

    def step(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        try:
            record = (
                None if key is None else serialize_key(key),
                None if value is None else serialize_value(value),
                timestamp,
                headers,
            )
        except Exception:  # noqa: BLE001 - a serde may raise anything
            parts = (serialize_key, key), (serialize_value, value)
            again = once_more(task, name, real_topic, *parts)
            if again is None:
                return
            record = (*again, timestamp, headers)
        append(record)

    return step


def _windowed_sink(
    node: SinkNode, topic: str, partitioner: WindowedStreamPartitioner, task: TaskContext
) -> Step:
    """Return the step of a sink of windowed keys: the partition is that of the key inside."""
    real_topic = task.topic_name(topic)
    encode = record_encoder(node, task, real_topic)
    suffix_bytes = partitioner.serde.suffix_bytes
    outputs: dict[bytes, OutputBuffer] = {}

    def output_of(inner: bytes) -> OutputBuffer:
        if len(outputs) >= _REMEMBERED_KEYS:
            outputs.clear()
        partition = partition_of(inner, task.num_partitions(real_topic))
        output = outputs[inner] = task.output(real_topic, partition)
        return output

    def step(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        encoded = encode(key, value, headers)
        if encoded is None:
            return
        raw_key, raw_value, headers = encoded
        if raw_key is None:
            output = task.output(real_topic)
        else:
            inner = raw_key[:-suffix_bytes]
            output = outputs.get(inner) or output_of(inner)
        output.records.append((raw_key, raw_value, timestamp, headers))

    return step


def partitions_of(chosen: Any) -> Sequence[int | None]:
    """Return the partitions that a partitioner has chosen.

    One that the topic does not have is told by who sends the record.

    Raises:
        TypeError: They are none.
        ValueError: One is negative.
    """
    if chosen is None:
        return _KAFKAS_CHOICE
    if isinstance(chosen, list | tuple):
        raise TypeError(f"the partitioner returned {chosen!r}: several partitions are a set")
    try:
        partitions = sorted(map(index, chosen if isinstance(chosen, AbstractSet) else (chosen,)))
    except TypeError:
        refuse_coroutine(chosen, "the partitioner returned")
        raise TypeError(f"the partitioner returned {chosen!r}: a partition is a number") from None
    if partitions and partitions[0] < 0:
        raise ValueError(f"the partitioner returned {chosen!r}: partitions are numbered from 0")
    return partitions


def _check_topic(topic: object) -> None:
    """Refuse what a function has chosen that is no topic.

    Raises:
        TypeError: It is no text.
        ValueError: It is none that Kafka takes.
    """
    if not isinstance(topic, str):
        refuse_coroutine(topic, "the function that chooses the topic returned")
        raise TypeError(
            f"the function that chooses the topic returned {topic!r} of type "
            f"{type(topic).__name__}: let it return a topic's name, and drop records that go "
            "nowhere by a filter before it"
        )
    try:
        check_name(topic, "a topic")
    except TopologyError as error:
        raise ValueError(f"the function that chooses the topic: {error}") from None


def _routing_sink(node: SinkNode, task: TaskContext) -> Step:
    """Return the step of a sink that chooses topic or partitions a record."""
    encoders: dict[str, Encode] = {}
    extract = node.topic if callable(node.topic) else None
    static_topic = "" if callable(node.topic) else task.topic_name(node.topic)
    name, partitioner = node.name, node.partitioner
    if isinstance(partitioner, WindowedStreamPartitioner):
        partitioner = partitioner.bound(task.key_serde(partitioner.serde, name))

    def choose(
        key: Any, value: Any, timestamp: int, headers: Headers
    ) -> tuple[str, Sequence[int | None]]:
        topic = static_topic
        if extract is not None:
            source = task.record.metadata() or (None, None, None)
            topic = extract(key, value, RecordForRouting(timestamp, headers, *source))
            if type(topic) is not str or topic not in encoders:
                _check_topic(topic)
        if partitioner is None:
            return topic, _KAFKAS_CHOICE
        return topic, partitions_of(partitioner(topic, key, value, task.num_partitions(topic)))

    def step(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        try:
            topic, partitions = choose(key, value, timestamp, headers)
        except Exception as error:  # noqa: BLE001 - the user's extractor may raise anything
            task.report_error(error, name)
            return
        if not partitions:
            task.record_dropped(name, "the partitioner chose no partition")
            return
        encode = encoders.get(topic)
        if encode is None:
            encode = encoders[topic] = record_encoder(node, task, topic)
        encoded = encode(key, value, headers)
        if encoded is None:
            return
        raw_key, raw_value, headers = encoded
        if partitioner is not None and raw_key is not None and partitions[0] is None:
            # Chosen here as the producer would: in a buffer of its own it might change places with
            # a record of its key that the partitioner has placed.
            partitions = (partition_of(raw_key, task.num_partitions(topic)),)
        record = (raw_key, raw_value, timestamp, headers)
        for partition in partitions:
            task.output(topic, partition).records.append(record)

    return step
