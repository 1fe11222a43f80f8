"""How far publishing is: records of all tasks, rates and times."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pystreams.backfill.publishing.publication import PublishedRecords
from pystreams.ids import TaskId
from pystreams.kernel.clock import Clock
from pystreams.kernel.rate import RateMeter

_RATE_WINDOW_S = 10.0


@dataclass(frozen=True, slots=True)
class PublishingProgress:
    """How far publishing is.

    Attributes:
        records: How many records are published, those of an earlier, interrupted run included.
        of_records: How many there are to publish.
        seconds: How long this run has been publishing (s).
        records_per_second: Over the last 10 seconds; None when there is nothing to say.
    """

    task_id: TaskId
    records: int
    of_records: int
    seconds: float
    records_per_second: float | None

    @property
    def seconds_left(self) -> float | None:
        """How long the rest takes at this rate (s); None when nobody can tell."""
        if not self.records_per_second:
            return None
        return max(0, self.of_records - self.records) / self.records_per_second


class PublishingMeter:
    """Adds up what a publisher tells, and tells how far all of it is.

    Args:
        tell: Told after each transaction of records, by the publisher's thread.
    """

    def __init__(
        self, of_records: int, tell: Callable[[PublishingProgress], None], clock: Clock
    ) -> None:
        self._of_records = of_records
        self._tell = tell
        self._clock = clock
        self._began_ms = clock.monotonic_ms()
        self._rate = RateMeter(_RATE_WINDOW_S)
        self._rate.rate(0, 0.0)
        self._earlier = 0
        self._records = 0

    def published(self, found: PublishedRecords) -> None:
        """Take note of records that are published."""
        if found.by_earlier_run:
            self._earlier += found.records
        else:
            self._records += found.records
        seconds = (self._clock.monotonic_ms() - self._began_ms) / 1000
        rate = self._rate.rate(self._records, seconds)
        records = self._earlier + self._records
        self._tell(
            PublishingProgress(found.task_id, records, self._of_records, seconds, rate or None)
        )
