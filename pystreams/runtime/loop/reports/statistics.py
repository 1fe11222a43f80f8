"""What a running application can tell about itself: plain, frozen numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadStatistics:
    """One stream thread, at one moment.

    Attributes:
        tasks_restoring: Tasks on their way there.
        processed_records: Records processed since the thread started.
        dropped_records: Records dropped since the thread started.
        calls_again: How often functions were called again with a record since then.
        lag_records: Records known to wait, buffered ones included; None when nothing is known: so
            that nothing waits is known for no longer than 5 s without another look.
        restored_records: Records restored since the thread started.
        restore_remaining_records: Offsets still to restore, at most.
        max_uncommitted_bytes: The most they ever held.
        unread_partitions: Partitions of the topology that nobody in the group reads, as far as
            this thread has seen.
    """

    tasks_running: int = 0
    tasks_restoring: int = 0
    processed_records: int = 0
    dropped_records: int = 0
    calls_again: int = 0
    commits: int = 0
    lag_records: int | None = None
    restored_records: int = 0
    restore_remaining_records: int = 0
    uncommitted_bytes: int = 0
    max_uncommitted_bytes: int = 0
    cached_bytes: int = 0
    unread_partitions: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics(ThreadStatistics):
    """A whole application, at one moment: the sums over its threads.

    Of the most ever held, and of what each sees of the whole group, it is the most of them.

    Attributes:
        state: The client's state; of several processes how many are in which.
    """

    state: str
    threads: int


def total(state: str, threads: Sequence[ThreadStatistics]) -> Statistics:
    """Add the statistics of all threads of an application up."""
    return Statistics(state=state, threads=len(threads), **_sums(threads))


def together(state: str, processes: Sequence[Statistics]) -> Statistics:
    """Add the statistics of several processes up.

    Args:
        state: What to call the state they are in.
    """
    threads = sum(process.threads for process in processes)
    return Statistics(state=state, threads=threads, **_sums(processes))


def _sums(parts: Sequence[ThreadStatistics]) -> dict[str, Any]:
    sums: dict[str, Any] = {
        name: sum(getattr(part, name) for part in parts) for name in _FIELDS - _NO_SUMS
    }
    lags = [part.lag_records for part in parts if part.lag_records is not None]
    unknown = any(part.tasks_running and part.lag_records is None for part in parts)
    # What is known of some says that records wait, and never alone that none does.
    sums["lag_records"] = None if unknown and not sum(lags) else sum(lags) if lags else None
    for name in _MOST:
        sums[name] = max((getattr(part, name) for part in parts), default=0)
    return sums


_FIELDS = {field.name for field in fields(ThreadStatistics)}
_MOST = {"max_uncommitted_bytes", "unread_partitions"}
_NO_SUMS = {"lag_records"} | _MOST
