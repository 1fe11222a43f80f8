"""Joins the records of two streams that have one key and lie near each other in time.

    left stream  --> window --> join of the left side  --+
                       v             ^                   +--> merge
                    store ------.    | looks into        |
                                 X                       |
                    store ------'    | looks into        |
                       ^             v                   |
    right stream --> window --> join of the right side --+

A record first looks for partners among the other stream's records, then is kept for those to come.
So each pair is joined once, by the later of the two to arrive. A result carries the later time.

A record that is older than the stores' retention (the window's size and the grace period) is not
kept: the store counts it as dropped. One without a value joins nothing and is counted; so is one
without a key.

Source: Kafka Streams' `KStreamJoinWindow` and `KStreamKStreamJoin`. Differs from Kafka: records
without a value are not logged (Kafka's store ignores them, its changelog does not).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pystreams.errors import SerializationError
from pystreams.record import Headers
from pystreams.topology.contracts.operator import NodeContext, Step

PairJoiner = Callable[[Any, Any, Any], Any]
"""Called with (key, value of this side, value of the other side), one of which may be None."""


class JoinTime:
    """The time of one join in one task, shared by its sides. Was: TimeTracker.

    Attributes:
        stream_time: The highest timestamp (ms) of either side; -1 before the first.
        earliest: No record that is held back is worth a look before stream time is beyond this
            time (ms), the window and the grace period; None when nothing was found or put.
        latest: No record that is held back is later (ms).
        next_look_ms: When may be looked again (monotonic ms).
        idle_time: Where silence has moved the stream time (ms); -1 if it never has.
    """

    __slots__ = ("earliest", "idle_time", "latest", "next_look_ms", "stream_time")

    def __init__(self) -> None:
        self.stream_time = -1
        self.earliest: int | None = None
        self.latest = -1
        self.next_look_ms = 0
        self.idle_time = -1


@dataclass(frozen=True, slots=True)
class JoinWindowOperator:
    """Keeps the records of one stream for the other side's join, after this side's had them.

    Attributes:
        store: The name of the window store, which retains duplicates.
        silence_of: The store of what is held back, where silence may let go of it: a record that
            is late then is dropped; None where none is.
        grace_period_ms: How far behind that stream time a record may be.
    """

    store: str
    silence_of: str | None = None
    grace_period_ms: int = 0

    def attach(self, node: NodeContext) -> Step:
        """Return the step."""
        if self.silence_of is None:
            return self._keeping(node)
        keep, name, record_dropped = self._keeping(node), node.name, node.task.record_dropped
        time: JoinTime = node.task.shared(self.silence_of, JoinTime)
        grace_period_ms = self.grace_period_ms

        def step(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if timestamp + grace_period_ms < time.idle_time and key is not None:
                record_dropped(name, "expired window")
            else:
                keep(key, value, timestamp, headers)

        return step

    def _keeping(self, node: NodeContext) -> Step:
        put = node.task.store(self.store).put
        forward, record = node.forward, node.task.record
        report_error, name = node.task.report_error, node.name

        def step(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            forward(key, value, timestamp, headers)
            if key is not None and value is not None:
                record.timestamp, record.headers = timestamp, headers
                try:
                    put(key, value, timestamp)
                except Exception as error:  # noqa: BLE001 - a serde may raise anything
                    report_error(error, name)

        return step


@dataclass(frozen=True, slots=True)
class StreamStreamJoinOperator:
    """One side of an inner join.

    Attributes:
        other_store: The window store of the other side's records.
        before_ms: How much earlier than this side's record the other's may be (ms, inclusive).
        after_ms: How much later (ms, inclusive).
    """

    other_store: str
    join: PairJoiner
    before_ms: int
    after_ms: int

    def attach(self, node: NodeContext) -> Step:
        """Return the step."""
        task = node.task
        near = task.store_kind(self.other_store).values_near(task.store(self.other_store))
        join, before_ms, after_ms = self.join, self.before_ms, self.after_ms
        forward, report_error, name = node.forward, node.task.report_error, node.name
        record_dropped = node.task.record_dropped

        def step(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if key is None or value is None:
                record_dropped(name, "null key or value")
                return
            try:
                # Of a window that ends before time 0 Kafka looks at the first millisecond.
                for other_time, other in near(
                    key, timestamp - before_ms, max(0, timestamp + after_ms)
                ):
                    try:
                        joined = join(key, value, other)
                    except Exception as error:  # noqa: BLE001 - the user's code may raise anything
                        report_error(error, name)
                        return
                    forward(key, joined, max(other_time, timestamp), headers)
            except SerializationError as error:
                # The other side's store; what failed further down was reported there.
                report_error(error, name)

        return step
