"""The records that a task processes next, in one go: of one queue, or of several in their order.

What is done once for many records (admission, measuring, sending, looks at the clock) is done once
a run. So a run is as long as it can be known: it goes over all queues in which records wait, and
ends with the last record of the queue that is the first to have none left. What comes next is
decided when the task has looked whether more has arrived.

Taking always the smallest head gives the order of a merge, even where timestamps fall within a
queue: a record behind a later one of its queue counts as that late. Between equals the first queue
comes first. So one stable sort gives the order, of lists that are sorted already. Who knows another
order than that of the timestamps gives a number for each record (`Order`), which counts for its
time here.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate, repeat
from typing import Protocol

from pystreams.ids import TopicPartition
from pystreams.record import ConsumedMessage
from pystreams.runtime.core.queues.record_queue import (
    RECORD_OVERHEAD_BYTES,
    Item,
    RecordQueue,
    message_of,
    timestamp_of,
)
from pystreams.topology.contracts.operator import Step

_ROUNDING = 1e-9

Order = Callable[[Item], int]
"""Returns what puts a record in order with those of other queues."""


class Run(Protocol):
    """What a task processes next; of no use any more once it was taken."""

    def __len__(self) -> int:
        """Return how many records it has; at least one."""

    def length_to_time(self, time: int) -> int:
        """Return how many records end with the first one at or after `time` (ms)."""

    def length_within(self, run_records: Callable[[TopicPartition], int]) -> int:
        """Return how many records a run may have, one at least.

        Args:
            run_records: How many it might have if they all were of one partition.
        """

    def run_length_of_small(self, limit: int, size_bytes: float) -> int:
        """Return how many records come before one that is larger than a size; see `RecordQueue`."""

    def input_bytes(self, count: int) -> int:
        """Return the bytes of the first `count` records, overhead included."""

    def take(self, count: int) -> tuple[list[Item], Iterable[Step]]:
        """Move past the first `count` records; return them, and what each is given to."""

    def put_back(self, count: int) -> None:
        """Let the last `count` records taken wait again."""

    def taken(self) -> Mapping[RecordQueue, int]:
        """Return how many records were taken of each queue, and not put back."""

    def ends(self) -> Iterable[tuple[RecordQueue, ConsumedMessage, ConsumedMessage]]:
        """Return the first and the last message of those, for each queue that has some."""


class QueueRun:
    """A run of one queue.

    Args:
        count: How many of its next records.
    """

    __slots__ = ("_count", "_queue", "_taken")

    def __init__(self, queue: RecordQueue, count: int) -> None:
        self._queue = queue
        self._count = count
        self._taken: list[Item] = []

    def __len__(self) -> int:
        return self._count

    def length_to_time(self, time: int) -> int:
        """See `Run`."""
        return self._queue.run_length_to_time(self._count, time)

    def length_within(self, run_records: Callable[[TopicPartition], int]) -> int:
        """See `Run`."""
        return min(self._count, run_records(self._queue.partition))

    def run_length_of_small(self, limit: int, size_bytes: float) -> int:
        """See `Run`."""
        return self._queue.run_length_of_small(limit, size_bytes)

    def input_bytes(self, count: int) -> int:
        """See `Run`."""
        return self._queue.input_bytes(count)

    def take(self, count: int) -> tuple[list[Item], Iterable[Step]]:
        """See `Run`."""
        self._taken = taken = self._queue.take(count)
        self._count = len(taken)
        return taken, repeat(self._queue.step)

    def put_back(self, count: int) -> None:
        """See `Run`."""
        self._queue.put_back(count)
        self._count -= count

    def taken(self) -> Mapping[RecordQueue, int]:
        """See `Run`."""
        return {self._queue: self._count}

    def ends(self) -> Iterable[tuple[RecordQueue, ConsumedMessage, ConsumedMessage]]:
        """See `Run`."""
        first, last = self._taken[0], self._taken[self._count - 1]
        yield self._queue, message_of(first), message_of(last)


class MergedRun:
    """A run of several queues.

    Args:
        queues: The queues, none of them empty; the first one wins a tie.
        limit: At most so many records.
        order: What counts for their times.
    """

    __slots__ = ("_items", "_queues", "_sources")

    def __init__(
        self, queues: Sequence[RecordQueue], limit: int, order: Order = timestamp_of
    ) -> None:
        self._queues = queues
        parts = [queue.waiting(limit) for queue in queues]
        times = [list(accumulate(map(order, part), max)) for part in parts]
        last_time, first_drained = min(
            (of_queue[-1], number) for number, of_queue in enumerate(times)
        )
        items: list[Item] = []
        keys: list[int] = []
        sources: list[RecordQueue] = []
        for number, (queue, part, of_queue) in enumerate(zip(queues, parts, times, strict=True)):
            before_it = bisect_right if number <= first_drained else bisect_left
            count = before_it(of_queue, last_time)
            items += part[:count]
            keys += of_queue[:count]
            sources += [queue] * count
        merged = sorted(range(len(keys)), key=keys.__getitem__)
        del merged[limit:]
        self._items = [items[position] for position in merged]
        self._sources = [sources[position] for position in merged]

    def __len__(self) -> int:
        return len(self._items)

    def length_to_time(self, time: int) -> int:
        """See `Run`."""
        for position, item in enumerate(self._items):
            if timestamp_of(item) >= time:
                return position + 1
        return len(self._items)

    def length_within(self, run_records: Callable[[TopicPartition], int]) -> int:
        """See `Run`."""
        records = {queue: run_records(queue.partition) for queue in self._queues}
        fewest = min(records.values())
        if len(self._items) <= fewest or fewest == max(records.values()):
            return min(len(self._items), fewest)
        left = 1.0
        for position, source in enumerate(self._sources):
            left -= 1 / records[source]
            if left < -_ROUNDING:
                return max(1, position)
        return len(self._items)

    def run_length_of_small(self, limit: int, size_bytes: float) -> int:
        """See `Run`."""
        limit = min(limit, len(self._items))
        largest = max(queue.largest_bytes(limit) for queue in self._queues)
        if largest + RECORD_OVERHEAD_BYTES <= size_bytes:
            return limit
        sizes = {queue: iter(queue.sizes(limit)) for queue in self._queues}
        for position, source in enumerate(self._sources[:limit]):
            if next(sizes[source]) + RECORD_OVERHEAD_BYTES > size_bytes:
                return position
        return limit

    def input_bytes(self, count: int) -> int:
        """See `Run`."""
        return sum(queue.input_bytes(records) for queue, records in self._counts(count).items())

    def take(self, count: int) -> tuple[list[Item], Iterable[Step]]:
        """See `Run`."""
        del self._items[count:], self._sources[count:]
        for queue, records in self._counts(count).items():
            queue.take(records)
        return self._items, [queue.step for queue in self._sources]

    def put_back(self, count: int) -> None:
        """See `Run`."""
        back = self._sources[len(self._sources) - count :]
        del self._sources[len(self._sources) - count :]
        for queue in self._queues:
            records = back.count(queue)
            if records:
                queue.put_back(records)

    def taken(self) -> Mapping[RecordQueue, int]:
        """See `Run`."""
        return self._counts(len(self._sources))

    def ends(self) -> Iterable[tuple[RecordQueue, ConsumedMessage, ConsumedMessage]]:
        """See `Run`."""
        sources, items = self._sources, self._items
        backwards = sources[::-1]
        for queue in self.taken():
            first, last = sources.index(queue), len(sources) - 1 - backwards.index(queue)
            yield queue, message_of(items[first]), message_of(items[last])

    def _counts(self, count: int) -> dict[RecordQueue, int]:
        """Return how many of the first `count` records are of each queue that has some of them."""
        first = self._sources[:count]
        counts = {queue: first.count(queue) for queue in self._queues}
        return {queue: records for queue, records in counts.items() if records}
