"""Compiles one sub-topology for one task: nodes become functions, from the sinks up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

from pystreams.errors import SerializationError
from pystreams.kernel.partitioner import partition_of
from pystreams.record import Headers, OutputBuffer
from pystreams.serdes import serialize_or_raise
from pystreams.topology.contracts.operator import NodeContext, Step, TaskContext, fan_out
from pystreams.topology.contracts.windowed_serdes import WindowedStreamPartitioner
from pystreams.topology.graph.nodes import ProcessorNode, RecordForRouting, SinkNode, SourceNode
from pystreams.topology.graph.subtopologies import Subtopology
from pystreams.topology.plan.topology_plan import TopologyPlan

Serialize = Callable[[Any], bytes]

_KAFKAS_CHOICE: Sequence[int | None] = (None,)
_REMEMBERED_KEYS = 4096


@dataclass(frozen=True, slots=True)
class CompiledSource:
    """A source of one task.

    Attributes:
        node: The source node.
        step: Feeds one record to the source's children.
    """

    node: SourceNode
    step: Step


def compile_subtopology(
    plan: TopologyPlan, subtopology: Subtopology, task: TaskContext
) -> list[CompiledSource]:
    """Attach all nodes of a sub-topology to a task; children that are not of it get nothing.

    The task's stores must be open. Processors are made here and initialised later, by the
    actions they leave with `task.on_init`.

    Returns:
        The sources, in the order they were added.
    """
    topology = plan.topology
    steps: dict[str, Step] = {}
    sources: list[CompiledSource] = []
    for name in reversed(subtopology.nodes):
        node = topology.nodes[name]
        children = {child: steps[child] for child in topology.children(name) if child in steps}
        if isinstance(node, SinkNode):
            steps[name] = _attach_sink(node, task)
        elif isinstance(node, ProcessorNode):
            context = NodeContext(name, task, children, frozenset(node.stores))
            steps[name] = node.operator.attach(context)
        else:
            sources.append(CompiledSource(node, fan_out(list(children.values()))))
    sources.reverse()
    return sources


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
    serialize_key = task.key_serde(node.key_serde, node.name).serializer(real_topic)
    serialize_value = task.value_serde(node.value_serde, node.name).serializer(real_topic)
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
            again = _again(task, name, real_topic, (serialize_key, key), (serialize_value, value))
            if again is None:
                return
            record = (*again, timestamp, headers)
        append(record)

    return step


def _windowed_sink(
    node: SinkNode, topic: str, partitioner: WindowedStreamPartitioner, task: TaskContext
) -> Step:
    """Return the step of a sink of windowed keys: the partition is that of the key inside."""
    real_topic, name = task.topic_name(topic), node.name
    serialize_key = task.key_serde(node.key_serde, name).serializer(real_topic)
    serialize_value = task.value_serde(node.value_serde, name).serializer(real_topic)
    suffix_bytes = partitioner.serde.suffix_bytes
    outputs: dict[bytes, OutputBuffer] = {}

    def output_of(inner: bytes) -> OutputBuffer:
        if len(outputs) >= _REMEMBERED_KEYS:
            outputs.clear()
        partition = partition_of(inner, task.num_partitions(real_topic))
        output = outputs[inner] = task.output(real_topic, partition)
        return output

    def step(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        try:
            raw_key = None if key is None else serialize_key(key)
            raw_value = None if value is None else serialize_value(value)
        except Exception:  # noqa: BLE001 - a serde may raise anything
            again = _again(task, name, real_topic, (serialize_key, key), (serialize_value, value))
            if again is None:
                return
            raw_key, raw_value = again
        if raw_key is None:
            output = task.output(real_topic)
        else:
            inner = raw_key[:-suffix_bytes]
            output = outputs.get(inner) or output_of(inner)
        output.records.append((raw_key, raw_value, timestamp, headers))

    return step


def _routing_sink(node: SinkNode, task: TaskContext) -> Step:
    """Return the step of a sink that chooses topic or partitions a record."""
    targets: dict[str, tuple[Serialize, Serialize]] = {}
    extract = node.topic if callable(node.topic) else None
    static_topic = "" if callable(node.topic) else task.topic_name(node.topic)
    name, partitioner = node.name, node.partitioner
    if isinstance(partitioner, WindowedStreamPartitioner):
        partitioner = partitioner.bound(task.key_serde(partitioner.serde, name))

    def bind(topic: str) -> tuple[Serialize, Serialize]:
        targets[topic] = (
            task.key_serde(node.key_serde, name).serializer(topic),
            task.value_serde(node.value_serde, name).serializer(topic),
        )
        return targets[topic]

    def choose(
        key: Any, value: Any, timestamp: int, headers: Headers
    ) -> tuple[str, Sequence[int | None]]:
        topic = static_topic
        if extract is not None:
            source = task.record.metadata() or (None, None, None)
            topic = extract(key, value, RecordForRouting(timestamp, headers, *source))
        if partitioner is None:
            return topic, _KAFKAS_CHOICE
        chosen = partitioner(topic, key, value, task.num_partitions(topic))
        if isinstance(chosen, AbstractSet):
            return topic, sorted(chosen)
        if isinstance(chosen, list | tuple):
            raise TypeError(f"the partitioner returned {chosen!r}: several partitions are a set")
        return topic, (chosen,)

    def step(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        try:
            topic, partitions = choose(key, value, timestamp, headers)
        except Exception as error:  # noqa: BLE001 - the user's extractor may raise anything
            task.report_error(error, name)
            return
        if not partitions:
            task.record_dropped(name, "the partitioner chose no partition")
            return
        serialize_key, serialize_value = targets.get(topic) or bind(topic)
        try:
            raw_key = None if key is None else serialize_key(key)
            raw_value = None if value is None else serialize_value(value)
        except Exception:  # noqa: BLE001 - a serde may raise anything
            again = _again(task, name, topic, (serialize_key, key), (serialize_value, value))
            if again is None:
                return
            raw_key, raw_value = again
        if partitioner is not None and raw_key is not None and partitions[0] is None:
            # Chosen here as the producer would: in a buffer of its own it might change places with
            # a record of its key that the partitioner has placed.
            partitions = (partition_of(raw_key, task.num_partitions(topic)),)
        record = (raw_key, raw_value, timestamp, headers)
        for partition in partitions:
            task.output(topic, partition).records.append(record)

    return step


def _again(
    task: TaskContext,
    node: str,
    topic: str,
    key: tuple[Serialize, Any],
    value: tuple[Serialize, Any],
) -> tuple[bytes | None, bytes | None] | None:
    """Serialize once more what has failed, to learn which part it was.

    Returns:
        Key and value, where they can be serialized after all: what a serde asks elsewhere, a
        registry for one, may answer now. None when the production handler drops the record.
    """
    try:
        raw_key, raw_value = (
            None if data is None else serialize_or_raise(serialize, data, topic, part)
            for part, (serialize, data) in (("key", key), ("value", value))
        )
    except SerializationError as error:
        task.report_serialization_error(error, node)
        return None
    return raw_key, raw_value
