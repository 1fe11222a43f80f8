"""The line that a thread logs once an interval: what it has done since the last."""

from __future__ import annotations

from pystreams.kernel.clock import Clock
from pystreams.kernel.loggers import get_logger
from pystreams.runtime.loop.reports.statistics import ThreadStatistics

_log = get_logger("pystreams.thread")


class SummaryLine:
    """The summaries of one thread.

    Args:
        interval_ms: How far apart they are, `log.summary.interval.ms`; below 1 there are none.
        clock: Tells when one is due.
    """

    def __init__(self, thread: str, interval_ms: int, clock: Clock) -> None:
        self._thread = thread
        self._interval_ms = interval_ms
        self._clock = clock
        self._last_ms = clock.monotonic_ms()
        self._records = 0

    def log_if_due(self, numbers: ThreadStatistics) -> None:
        """Log the line, once an interval."""
        now = self._clock.monotonic_ms()
        if self._interval_ms < 1 or now - self._last_ms < self._interval_ms:
            return
        seconds = (now - self._last_ms) / 1000
        records = numbers.processed_records - self._records
        _log.info(
            "summary",
            thread=self._thread,
            records=records,
            records_per_s=round(records / seconds),
            commits=numbers.commits,
            tasks=numbers.tasks_running,
            restoring=numbers.tasks_restoring,
            lag=numbers.lag_records,
        )
        self._last_ms = now
        self._records = numbers.processed_records
