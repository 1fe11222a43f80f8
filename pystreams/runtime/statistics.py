"""What a running application can tell about itself: plain, frozen numbers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ThreadStatistics:
    """One stream thread, at one moment.

    Attributes:
        tasks_running: Tasks that process.
        tasks_restoring: Tasks on their way there.
        processed_records: Records processed since the thread started.
        dropped_records: Records dropped by running tasks.
        commits: Commits since the thread started.
        lag_records: Records known to wait, buffered ones included; None when nothing is known.
        restored_records: Records restored since the thread started.
        restore_remaining_records: Offsets still to restore, at most.
        uncommitted_bytes: What stores hold uncommitted.
        max_uncommitted_bytes: The most they ever held.
        cached_bytes: What record caches hold back.
    """

    tasks_running: int = 0
    tasks_restoring: int = 0
    processed_records: int = 0
    dropped_records: int = 0
    commits: int = 0
    lag_records: int | None = None
    restored_records: int = 0
    restore_remaining_records: int = 0
    uncommitted_bytes: int = 0
    max_uncommitted_bytes: int = 0
    cached_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Statistics:
    """A whole application, at one moment: the sums over its threads.

    Attributes:
        state: The client's state.
        threads: Stream threads alive.
        records_processed: Records processed since the start.
        records_dropped: Records dropped by running tasks.
        tasks_running: Tasks that process.
        tasks_restoring: Tasks on their way there.
        commits: Commits since the start.
        lag_records: Records known to wait; None when nothing is known.
        restored_records: Records restored since the start.
        restore_remaining_records: Offsets still to restore, at most.
        uncommitted_bytes: What stores hold uncommitted.
        max_uncommitted_bytes: The most a thread ever held.
        cached_bytes: What record caches hold back.
    """

    state: str
    threads: int
    records_processed: int
    records_dropped: int
    tasks_running: int
    tasks_restoring: int
    commits: int
    lag_records: int | None
    restored_records: int
    restore_remaining_records: int
    uncommitted_bytes: int
    max_uncommitted_bytes: int
    cached_bytes: int


def total(state: str, threads: list[ThreadStatistics]) -> Statistics:
    """Add the statistics of all threads up."""
    lags = [one.lag_records for one in threads if one.lag_records is not None]
    return Statistics(
        state=state,
        threads=len(threads),
        records_processed=sum(one.processed_records for one in threads),
        records_dropped=sum(one.dropped_records for one in threads),
        tasks_running=sum(one.tasks_running for one in threads),
        tasks_restoring=sum(one.tasks_restoring for one in threads),
        commits=sum(one.commits for one in threads),
        lag_records=sum(lags) if lags else None,
        restored_records=sum(one.restored_records for one in threads),
        restore_remaining_records=sum(one.restore_remaining_records for one in threads),
        uncommitted_bytes=sum(one.uncommitted_bytes for one in threads),
        max_uncommitted_bytes=max((one.max_uncommitted_bytes for one in threads), default=0),
        cached_bytes=sum(one.cached_bytes for one in threads),
    )
