"""Joins a stream with a versioned table some time later, so that late updates of it still count.

A record waits in a buffer until stream time is beyond its own by the grace period, and is then
joined with the row as it was at the record's time. A record that is later than that when it comes
is joined at once; so is one without a key, which has no row to wait for. Records leave in order of
time, which may not be the order they came in.

The stream time is that of the records that wait or have waited: what is joined at once, or dropped
for want of a key or value, neither moves it nor lets others go. The newest of them is always in the
buffer, unless the grace period is 0; so after a restart the buffer tells the stream time.

Differs from Kafka, which forgets the stream time at a restart, and fails on a left join's record
without a key.
Spec: KIP-923; Kafka KStreamKTableJoinProcessor.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pystreams.errors import SerializationError
from pystreams.record import Headers
from pystreams.serdes import Serde, serialize_or_raise
from pystreams.stores.kinds.buffer.store import TimeOrderedBuffer
from pystreams.stores.kinds.buffer.waiting_record import WaitingMessage
from pystreams.topology.contracts.operator import NodeContext, Step
from pystreams.topology.operators.stream_table_join import StreamTableJoinOperator


@dataclass(frozen=True, slots=True)
class GraceJoinOperator:
    """Joins a stream with a versioned table after a grace period.

    Attributes:
        join: The join itself.
        buffer: Name of the buffer's store.
        grace_period_ms: How long records wait, in stream time.
        key_serde: How keys are kept; the configured default when None.
        value_serde: How the stream's values are kept; likewise.
    """

    join: StreamTableJoinOperator
    buffer: str
    grace_period_ms: int
    key_serde: Serde[Any] | None
    value_serde: Serde[Any] | None

    def attach(self, node: NodeContext) -> Step:
        """Return the step."""
        task, name, grace_period_ms = node.task, node.name, self.grace_period_ms
        join, context = self.join.attach(node), task.record
        report_error = task.report_error
        buffer: TimeOrderedBuffer = task.store(self.buffer)
        key_serde = task.key_serde(self.key_serde, name)
        value_serde = task.value_serde(self.value_serde, name)
        serialize_key, read_key = key_serde.serializer(name), key_serde.deserializer(name)
        serialize_value, read_value = value_serde.serializer(name), value_serde.deserializer(name)
        put, leave_until = buffer.put, buffer.leave_until
        present, stream_time = WaitingMessage(), -1

        def start() -> None:
            nonlocal stream_time
            stream_time = buffer.latest_timestamp()

        task.on_init(start)

        def step(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            nonlocal stream_time
            if key is None or value is None or timestamp < stream_time - grace_period_ms:
                join(key, value, timestamp, headers)
                return
            try:
                raw_key, raw_value = serialize_key(key), serialize_value(value)
            except Exception:  # noqa: BLE001 - a serde may raise anything
                report_unfit(key, value)
                return
            message = context.message
            if message is None:
                put(raw_key, raw_value, timestamp, headers)
            else:
                topic, partition = message.topic() or "", message.partition() or 0
                origin = (topic, partition, message.offset() or 0)
                put(raw_key, raw_value, timestamp, headers, origin)
            if timestamp > stream_time:
                stream_time = timestamp
            for waiting in leave_until(stream_time - grace_period_ms):
                present.waiting = waiting
                context.message = present
                timestamp, _, raw_key, raw_value, headers, _, _ = waiting
                try:
                    key, value = read_key(raw_key), read_value(raw_value)
                except Exception as error:  # noqa: BLE001 - a serde may raise anything
                    report_error(error, name)
                    continue
                join(key, value, timestamp, headers)
            context.message = message

        def report_unfit(key: Any, value: Any) -> None:
            try:
                _serialized(serialize_key, key, name, "key")
                _serialized(serialize_value, value, name, "value")
            except SerializationError as error:
                report_error(error, name)

        return step


def _serialized(serialize: Callable[[Any], bytes], data: Any, topic: str, part: str) -> bytes:
    try:
        return serialize(data)
    except Exception:  # noqa: BLE001 - a serde may raise anything
        return serialize_or_raise(serialize, data, topic, part)
