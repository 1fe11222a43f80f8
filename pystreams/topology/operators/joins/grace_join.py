"""Joins a stream with a versioned table some time later, so that late updates of it still count.

A record waits in a buffer until stream time is beyond its own by the grace period, and is then
joined with the row as it was at the record's time. A record that is later than that when it comes
is joined at once; so is one without a key, which has no row to wait for. Records leave in order of
time, which may not be the order they came in.

The stream time is that of the records that wait or have waited: what is joined at once, or dropped
for want of a key or value, neither moves it nor lets others go. The newest of them is always in the
buffer, unless the grace period is 0; so after a restart the buffer tells the stream time.

While the input is silent the wall clock may move that stream time (`idle_time`); then it is
committed.

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
from pystreams.serdes import Serde, lasting_type, serialize_or_raise
from pystreams.stores.kinds.buffer.passage import Passage
from pystreams.stores.kinds.buffer.store import TimeOrderedBuffer
from pystreams.stores.kinds.buffer.waiting_record import InBytes, Waiting, WaitingMessage
from pystreams.topology.contracts.operator import STREAM_TIME_PREFIX, NodeContext, Step
from pystreams.topology.operators.idle_time import NOTHING_WAITS, go_on_while_idle
from pystreams.topology.operators.joins.stream_table_join import StreamTableJoinOperator


@dataclass(frozen=True, slots=True)
class GraceJoinOperator:
    """Joins a stream with a versioned table after a grace period.

    Attributes:
        grace_period_ms: How long records wait, in stream time.
        key_serde: How keys are kept; the configured default when None.
        value_serde: How the stream's values are kept; likewise.
        idle_timeout_ms: How long the input is silent before the wall clock moves the stream time;
            None if it never does.
    """

    join: StreamTableJoinOperator
    buffer: str
    grace_period_ms: int
    key_serde: Serde[Any] | None
    value_serde: Serde[Any] | None
    idle_timeout_ms: int | None = None

    def attach(self, node: NodeContext) -> Step:
        """Return the step."""
        task, name, grace_period_ms = node.task, node.name, self.grace_period_ms
        join, context, report_error = self.join.attach(node), task.record, task.report_error
        buffer: TimeOrderedBuffer = task.store(self.buffer)
        key_serde = task.key_serde(self.key_serde, name)
        value_serde = task.value_serde(self.value_serde, name)
        serialize_key, read_key = key_serde.serializer(name), key_serde.deserializer(name)
        serialize_value, read_value = value_serde.serializer(name), value_serde.deserializer(name)
        key_type, value_type = lasting_type(key_serde), lasting_type(value_serde)
        buffer.in_bytes = in_bytes = InBytes(
            bytes if key_type is None else serialize_key,
            bytes if value_type is None else serialize_value,
        )
        waited = WaitingMessage(in_bytes)
        task.on_init(lambda: buffer.begin(grace_period_ms))

        def step(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if key is None or value is None or timestamp < buffer.left_until:
                join(key, value, timestamp, headers)
                return
            try:
                raw_key, raw_value = serialize_key(key), serialize_value(value)
            except Exception:  # noqa: BLE001 - a serde may raise anything
                _report_unfit(node, (serialize_key, key), (serialize_value, value))
                return
            message = context.message
            leaving = buffer.exchange(
                key if type(key) is key_type else raw_key,
                value if type(value) is value_type else raw_value,
                timestamp,
                headers,
                message,
                len(raw_key) + len(raw_value),
                max(buffer.left_until, timestamp - grace_period_ms),
            )
            for waiting in leaving:
                join_read(waiting)
            context.message = message

        def join_read(waiting: Waiting) -> None:
            context.message, waited.waiting = waited, waiting
            timestamp, _, key, value, headers, _, _ = waiting
            try:
                key = key if type(key) is key_type else read_key(key)
                value = value if type(value) is value_type else read_value(value)
            except Exception as error:  # noqa: BLE001 - a serde may raise anything
                report_error(error, name)
                return
            join(key, value, timestamp, headers)

        def let_go(until: int) -> None:
            for waiting in buffer.leave_until(until):
                join_read(waiting)

        passage = Passage(
            record=context,
            waited=waited,
            grace_period_ms=grace_period_ms,
            serialize_key=serialize_key,
            serialize_value=serialize_value,
            key_type=key_type,
            value_type=value_type,
            let_go=join,
            let_go_read=join_read,
            otherwise=step,
        )
        return self._going_on_while_idle(node, buffer.passage(passage), let_go)

    def _going_on_while_idle(
        self, node: NodeContext, step: Step, let_go: Callable[[int], None]
    ) -> Step:
        """Return the step of a join whose records also leave while its input is silent.

        Args:
            let_go: Lets those go up to a later time.
        """
        if self.idle_timeout_ms is None:
            return step
        task, grace_period_ms = node.task, self.grace_period_ms
        buffer: TimeOrderedBuffer = task.store(self.buffer)
        number = f"{STREAM_TIME_PREFIX}{node.name}"
        latest = -1

        def start() -> None:
            nonlocal latest
            latest = buffer.latest_timestamp()
            reached = task.committed_number(number, -1) - grace_period_ms
            if reached > buffer.left_until:
                let_go(reached)

        def noting(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            nonlocal latest
            if timestamp > latest and key is not None and value is not None:
                latest = timestamp
            step(key, value, timestamp, headers)

        task.on_init(start)
        task.commit_number(number, lambda: buffer.left_until + grace_period_ms)
        go_on_while_idle(
            node,
            self.idle_timeout_ms,
            stream_time=lambda: buffer.left_until + grace_period_ms,
            waits_until=lambda: latest + grace_period_ms if latest >= 0 else NOTHING_WAITS,
            move_to=lambda stream_time: let_go(stream_time - grace_period_ms),
        )
        return noting


def _report_unfit(
    node: NodeContext,
    key: tuple[Callable[[Any], bytes], Any],
    value: tuple[Callable[[Any], bytes], Any],
) -> None:
    try:
        _serialized(*key, node.name, "key")
        _serialized(*value, node.name, "value")
    except SerializationError as error:
        node.task.report_error(error, node.name)


def _serialized(serialize: Callable[[Any], bytes], data: Any, topic: str, part: str) -> bytes:
    try:
        return serialize(data)
    except Exception:  # noqa: BLE001 - a serde may raise anything
        return serialize_or_raise(serialize, data, topic, part)
