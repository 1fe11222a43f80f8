"""A slice of an application's input: which offsets it is, and its records in the order of time.

The records of a partition come in the order of offsets; of the partitions' next records that with
the smallest timestamp comes first, as a task takes them. So none comes late that did not come late
in its own partition.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from pystreams.ids import TopicPartition
from pystreams.record import ConsumedMessage
from pystreams.runtime.ports import AdminPort, RestoreConsumerPort

_POLL_RECORDS = 1_000
_POLL_TIMEOUT_S = 0.5
_WAITING_MAX = 10_000
"""So many records of a partition wait, at most and one poll more, for those of the others."""


class Span(NamedTuple):
    """Offsets of a partition: from the first one, to before the end."""

    first: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceBounds:
    """Where a slice begins and ends.

    Attributes:
        from_ms: The first record at or after this time (ms) is the first; None for all there are.
        to_ms: The first record at or after this time (ms) is not in it; None for all there are.
        first_offsets: Where partitions begin, if `from_ms` is None.
    """

    from_ms: int | None = None
    to_ms: int | None = None
    first_offsets: Mapping[TopicPartition, int] | None = None


def spans_of(
    admin: AdminPort, partitions: list[TopicPartition], bounds: SliceBounds
) -> dict[TopicPartition, Span]:
    """Return which offsets of partitions a slice is, as far as they are committed now.

    Raises:
        RetriableClientError: No answer in time.
    """
    held = admin.offset_ranges(partitions)
    ends = {partition: held[partition].end for partition in partitions}
    firsts = {partition: held[partition].beginning for partition in partitions}
    if bounds.from_ms is not None:
        firsts = ends | admin.offsets_at(dict.fromkeys(partitions, bounds.from_ms))
    elif bounds.first_offsets is not None:
        wanted = bounds.first_offsets
        firsts = {at: max(first, wanted.get(at, first)) for at, first in firsts.items()}
    if bounds.to_ms is not None:
        ends |= admin.offsets_at(dict.fromkeys(partitions, bounds.to_ms))
    return {at: Span(min(firsts[at], ends[at]), ends[at]) for at in partitions}


def records_by_time(
    consumer: RestoreConsumerPort, spans: Mapping[TopicPartition, Span]
) -> Iterator[ConsumedMessage]:
    """Give the records of a slice, those of all partitions in the order of time.

    Args:
        consumer: In no group; nothing is assigned to it but this.

    Raises:
        OffsetOutOfRangeError: The broker does not hold a record any more.
    """
    reading = _Reading(consumer, spans)
    waiting = reading.waiting
    while True:
        while any(not waiting[partition] for partition in reading.unfinished):
            reading.poll()
        heads = [(queue[0].timestamp()[1], at) for at, queue in waiting.items() if queue]
        if not heads:
            return
        yield waiting[min(heads)[1]].popleft()


class _Reading:
    """Reads partitions, each up to its end, and lets those rest of which much waits.

    Attributes:
        waiting: What was read, and not given yet.
        unfinished: The partitions that were not read to their end.
    """

    def __init__(self, consumer: RestoreConsumerPort, spans: Mapping[TopicPartition, Span]) -> None:
        self._consumer = consumer
        self._spans = spans
        self._next = {partition: span.first for partition, span in spans.items()}
        self.waiting: dict[TopicPartition, deque[ConsumedMessage]] = {at: deque() for at in spans}
        self.unfinished = {at for at, span in spans.items() if span.first < span.end}

    def poll(self) -> None:
        """Take what has come."""
        wanted = {
            partition: self._next[partition]
            for partition in self.unfinished
            if len(self.waiting[partition]) < _WAITING_MAX
        }
        self._consumer.assign(wanted)
        for batch in self._consumer.poll(_POLL_RECORDS, _POLL_TIMEOUT_S):
            self._take(batch.partition, batch.messages)
            if batch.end_reached_at is not None:
                # The last offsets may be those of transactions' markers, which no record has.
                self.unfinished.discard(batch.partition)

    def _take(self, partition: TopicPartition, messages: list[ConsumedMessage]) -> None:
        end = self._spans[partition].end
        for message in messages:
            offset = message.offset() or 0
            self._next[partition] = offset + 1
            if offset < end and partition in self.unfinished:
                self.waiting[partition].append(message)
            if offset + 1 >= end:
                self.unfinished.discard(partition)
