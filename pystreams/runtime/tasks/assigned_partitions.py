"""The partitions that one thread is assigned, and the tasks that they make.

Which partitions a task needs follows from the topics' partition counts. Where some that are
assigned are not known yet, brokers are asked, and may not answer: then the assignment waits. The
loop goes on, and asks again, for as long as a task may fail.
"""

from __future__ import annotations

from collections.abc import Iterable

from pystreams.errors import NO_ANSWER, BrokerNotAvailableError, StreamsError
from pystreams.ids import TaskId, TopicPartition, by_topic
from pystreams.kernel.loggers import get_logger
from pystreams.runtime.tasks.thread_parts import ThreadParts
from pystreams.topology.plan.partition_plan import partitions_of_tasks

_log = get_logger("pystreams.tasks")

_ASKED_AGAIN_AFTER_MS = 1_000
_TOLD_EVERY_MS = 10_000


class AssignedPartitions:
    """Owned by its thread.

    Attributes:
        partitions: What is assigned; to be read.
    """

    def __init__(self, parts: ThreadParts) -> None:
        self.partitions: set[TopicPartition] = set()
        self._plan, self._clock = parts.plan, parts.clock
        self._partition_counts = parts.partition_counts
        self._timeout_ms = parts.settings.task_timeout_ms
        self._waits_since_ms: float | None = None
        self._ask_at_ms = 0.0
        self._told_ms = 0.0

    @property
    def waits(self) -> bool:
        """Whether it is not known which tasks the partitions make; any thread may ask."""
        return self._waits_since_ms is not None

    @property
    def is_to_be_asked(self) -> bool:
        """Whether they wait, and it is time to ask brokers again."""
        return self.waits and self._clock.monotonic_ms() >= self._ask_at_ms

    def add(self, partitions: Iterable[TopicPartition]) -> None:
        """Take partitions."""
        self.partitions.update(partitions)

    def remove(self, partitions: Iterable[TopicPartition]) -> None:
        """Give partitions up."""
        self.partitions.difference_update(partitions)

    def clear(self) -> None:
        """Give all partitions up."""
        self.partitions.clear()
        self._waits_since_ms = None

    def tasks(self) -> dict[TaskId, list[TopicPartition]] | None:
        """Return the tasks all of whose partitions are assigned; None while no broker tells.

        A static member that comes back with another topology is given what it had before: of
        topics that this one does not read the broker need not be asked.

        Raises:
            BrokerNotAvailableError: None has for `task.timeout.ms`.
        """
        known = [part for part in self.partitions if self._plan.source_of_topic(part.topic)]
        asked_ms = self._clock.monotonic_ms()
        try:
            counts = self._partition_counts(known)
        except NO_ANSWER as error:
            self._wait(error, known, asked_ms)
            return None
        self._waits_since_ms = None
        return {
            task_id: needed
            for task_id, needed in partitions_of_tasks(self._plan, counts).items()
            if self.partitions.issuperset(needed)
        }

    def _wait(self, error: StreamsError, known: list[TopicPartition], asked_ms: float) -> None:
        now_ms = self._clock.monotonic_ms()
        first = self._waits_since_ms is None
        since_ms = self._waits_since_ms = now_ms if first else self._waits_since_ms
        assert since_ms is not None
        if now_ms - since_ms > self._timeout_ms:
            message = (
                f"partitions {by_topic(known)} are assigned, and no broker has told for "
                f"{self._timeout_ms} ms (task.timeout.ms) which tasks they make; last error: "
                f"{error}"
            )
            raise BrokerNotAvailableError(message) from error
        # The tasks that run have as long as they stood still.
        self._ask_at_ms = now_ms + max(now_ms - asked_ms, _ASKED_AGAIN_AFTER_MS)
        if first or now_ms - self._told_ms >= _TOLD_EVERY_MS:
            self._told_ms = now_ms
            _log.warning(
                "assigned partitions wait for the broker",
                partitions=by_topic(known),
                why=str(error),
            )
