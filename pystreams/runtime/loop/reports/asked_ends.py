"""Where partitions end of which nothing comes, as brokers say when they are asked.

What waits in a partition is known from fetches. Where fetches have no answers, as behind a network
that swallows them or at a broker that hangs, nothing is known to wait, and a task that should read
looks like one that has read all. So the ends of partitions are asked for now and then: beside the
thread, which never waits for that, and so many at a time, however many there are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future
from itertools import islice

from pystreams.ids import TopicPartition
from pystreams.kernel.loggers import get_logger
from pystreams.runtime.cluster.committed_offsets import OffsetRange
from pystreams.runtime.ports import ConsumerPort
from pystreams.runtime.tasks.task_manager import TaskManager
from pystreams.runtime.tasks.thread_parts import ThreadParts

_log = get_logger("pystreams.thread")

_EVERY_MS = 30_000
_AT_A_TIME = 500
"""About so many partitions are asked for each time."""


class AskedEnds:
    """Asks for the ends of one thread's partitions; owned by it."""

    def __init__(
        self, parts: ThreadParts, manager: TaskManager, consumer: Callable[[], ConsumerPort]
    ) -> None:
        self._admin, self._clock = parts.admin, parts.clock
        self._make_pool = parts.make_waiting_pool
        self._manager = manager
        self._consumer = consumer
        self._pool: Executor | None = None
        self._asked: Future[dict[TopicPartition, OffsetRange]] | None = None
        self._next_task = 0
        self._look_at_ms = self._clock.monotonic_ms() + _EVERY_MS

    def check(self) -> None:
        """Ask when it is time, and tell the consumer what was answered; never waits."""
        now_ms = self._clock.monotonic_ms()
        if now_ms < self._look_at_ms:
            return
        if self._asked is None:
            if not (partitions := self._in_turn()):
                self._look_at_ms = now_ms + _EVERY_MS
                return
            if self._pool is None:
                self._pool = self._make_pool()
            self._asked = self._pool.submit(self._admin.offset_ranges, partitions)
        if self._asked.done():
            asked, self._asked = self._asked, None
            self._look_at_ms = now_ms + _EVERY_MS
            if (error := asked.exception()) is None:
                self._consumer().note_ends(_ends(asked.result()))
            else:
                _log.debug("ends of partitions are not known", why=str(error))

    def close(self) -> None:
        """Ask no more; an answer is not waited for."""
        if self._pool is not None:
            self._pool.shutdown(wait=False)
            self._pool = None

    def _in_turn(self) -> list[TopicPartition]:
        """Return the partitions of the tasks whose turn it is."""
        running = self._manager.running()
        found: list[TopicPartition] = []
        first = self._next_task if self._next_task < len(running) else 0
        for task in islice(running, first, None):
            if len(found) >= _AT_A_TIME:
                break
            found += task.partitions
            first += 1
        self._next_task = first
        return found


def _ends(ranges: Mapping[TopicPartition, OffsetRange]) -> dict[TopicPartition, int]:
    return {partition: held.end for partition, held in ranges.items()}
