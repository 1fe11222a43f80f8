"""How long the loop works before it looks up: to commit, to poll, to let another task go on.

What a record costs is the user's code's business: a microsecond, or a second that waits for an
answer. So runs of records are cut by the time they take, commits come due between runs, and the
group is polled while there is still work. Otherwise slow code would outlast the broker's patience
(`max.poll.interval.ms`, `transaction.timeout.ms`), the same records would be processed again and
take as long again, for ever.

A run is as long as those of its partitions before let expect: what another task costs says nothing
of it. Of a run that goes over several partitions each is supposed to have taken all the time: a
fast side of a join may be taken for a slow one while they alternate, never a slow one for a fast
one. Not cut is the flush of a record cache, with the code behind it.

Was: the `numIterations` of Kafka's StreamThread, which a run takes of each task, halved when the
next poll or commit comes near. Differs from Kafka: time is looked at after each run of one task,
not of all.
"""

from __future__ import annotations

from collections.abc import Mapping

from pystreams.ids import TopicPartition
from pystreams.kernel.clock import Clock

RUN_RECORDS = 1000
"""The most records a task takes in one run."""
_RUN_MS = 100.0
"""What a run is to take at most, as far as its records cost what those before it cost."""
_GROWTH = 4
_POLL_MS = 1000.0
_EMPTY_MS = 5000.0


class LoopTiming:
    """Tells one stream thread how far to go; belongs to the thread.

    Args:
        clock: The clock; asked twice a run.
        commit_interval_ms: `commit.interval.ms`.

    Attributes:
        committed_ms: When the last commit ended, on the monotonic clock (ms).
        emptied_ms: When the consumer last had nothing more to hand on, on that clock (ms).
    """

    def __init__(self, clock: Clock, commit_interval_ms: int) -> None:
        self._clock = clock
        self._commit_interval_ms = commit_interval_ms
        self._run_records: dict[TopicPartition, int] = {}
        self.committed_ms = self._polled_ms = self._run_began_ms = clock.monotonic_ms()
        self.emptied_ms = self._brought_ms = self._polled_ms

    def run_records(self, partition: TopicPartition) -> int:
        """Return how many of a partition's records a run may take, if it takes no others."""
        return self._run_records.get(partition, 1)

    def begin_run(self) -> None:
        """Take note that a run begins."""
        self._run_began_ms = self._clock.monotonic_ms()

    def end_run(self, taken: Mapping[TopicPartition, int]) -> None:
        """Learn from a run that has ended how long the next ones may be.

        Args:
            taken: How many records of each partition the run took.
        """
        took_ms = self._clock.monotonic_ms() - self._run_began_ms
        for partition, records in taken.items():
            wanted = min(RUN_RECORDS, _GROWTH * self._run_records.get(partition, 1))
            if took_ms * wanted > _RUN_MS * records:
                wanted = max(1, int(_RUN_MS * records / took_ms))
            self._run_records[partition] = wanted

    def polled(self) -> None:
        """Take note that the group was polled."""
        self._polled_ms = self._clock.monotonic_ms()

    def brought(self, records: int, *, idle: bool, limit: int) -> None:
        """Take note of what a poll brought.

        That of a thread with no records brings less than it may when there is no more; else
        partitions may be paused whose records come first. None at all may have another reason, as
        a commit that is not settled: that counts when it lasts, and so does nothing else where
        `max.poll.records` is 1.

        Args:
            idle: Whether the thread had no record to process.
            limit: How many records it may bring.
        """
        if records:
            self._brought_ms = self._polled_ms
        lasts = self._polled_ms - self._brought_ms >= _EMPTY_MS
        if idle and (0 < records < limit or lasts):
            self.emptied_ms = self._polled_ms

    def poll_due(self) -> bool:
        """Return whether the group is to be polled before anything else is processed."""
        return self._clock.monotonic_ms() - self._polled_ms >= _POLL_MS

    def committed(self) -> None:
        """Take note that a commit has ended."""
        self.committed_ms = self._clock.monotonic_ms()

    def until_commit_ms(self) -> float:
        """Return how long it is until a commit is due (ms); 0 when it is."""
        since_ms = self._clock.monotonic_ms() - self.committed_ms
        return max(0.0, self._commit_interval_ms - since_ms)
