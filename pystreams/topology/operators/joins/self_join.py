"""Joins a stream with itself out of one store, which holds each record once.

A record is joined with those before it, first as the left one, then as the right one, and with
itself where it stands in the order of time: what a join of the stream with its copy makes.

Source: Kafka Streams' `KStreamKStreamSelfJoin`. Spec: KIP-862.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pystreams.errors import SerializationError
from pystreams.record import Headers
from pystreams.topology.contracts.operator import NodeContext, Step
from pystreams.topology.operators.joins.stream_stream_join import PairJoiner


@dataclass(frozen=True, slots=True)
class SelfJoinOperator:
    """The join; it is below the node that keeps the records, and sees each before it is kept.

    Attributes:
        before_ms: How much earlier than the left record the right one may be (ms, inclusive).
        after_ms: How much later (ms, inclusive).
        retention_ms: How far behind the stream time a record may be to be joined with itself (ms,
            exclusive, and one more).
    """

    store: str
    join: PairJoiner
    before_ms: int
    after_ms: int
    retention_ms: int

    def attach(self, node: NodeContext) -> Step:
        """Return the step."""
        near = node.task.store_kind(self.store).values_near(node.task.store(self.store))
        join, before_ms, after_ms = self.join, self.before_ms, self.after_ms
        kept_ms = self.retention_ms - 1
        forward, report_error, name = node.forward, node.task.report_error, node.name
        record_dropped = node.task.record_dropped
        stream_time = -1

        def step(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            nonlocal stream_time
            if key is None or value is None:
                record_dropped(name, "null key or value")
                return
            stream_time = max(stream_time, timestamp)
            try:
                as_left = [
                    (other_time, value, other)
                    for other_time, other in near(
                        key, timestamp - before_ms, max(0, timestamp + after_ms)
                    )
                ]
                as_right = [
                    (other_time, other, value)
                    for other_time, other in near(
                        key, timestamp - after_ms, max(0, timestamp + before_ms)
                    )
                ]
            except SerializationError as error:
                report_error(error, name)
                return
            if timestamp > stream_time - kept_ms:
                earlier = sum(other_time <= timestamp for other_time, _, _ in as_right)
                as_right.insert(earlier, (timestamp, value, value))
            for other_time, left, right in (*as_left, *as_right):
                try:
                    joined = join(key, left, right)
                except Exception as error:  # noqa: BLE001 - the user's code may raise anything
                    report_error(error, name)
                    return
                forward(key, joined, max(other_time, timestamp), headers)

        return step
