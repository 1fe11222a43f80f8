"""How far the restore of a thread is, and what is told of that while it lasts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pystreams.ids import TopicPartition
from pystreams.kernel.clock import Clock
from pystreams.kernel.loggers import get_logger
from pystreams.runtime.tasks.restoring.changelog_restore import ChangelogRestore

_log = get_logger("pystreams.restore")

_LOG_EVERY_MS = 10_000


@dataclass(frozen=True, slots=True)
class RestoreProgress:
    """How far the restore of a thread is.

    Attributes:
        changelogs: Changelogs still restoring.
        restored_records: Records applied since the thread started.
        remaining_records: Offsets still to go, at most.
    """

    changelogs: int
    restored_records: int
    remaining_records: int


class ProgressLog:
    """Tells how a restore goes on, every ten seconds.

    Args:
        clock: For rates.

    Attributes:
        emptied_ms: When the consumer last had nothing more to hand on, on the monotonic clock (ms).
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.emptied_ms = clock.monotonic_ms()
        self._restored_before = 0
        self._started_ms = 0.0
        self._logged_ms = 0.0
        self._logged: RestoreProgress | None = None

    def begins(self, restored_records: int) -> None:
        """Take note that a restore begins.

        Args:
            restored_records: What was restored before it.
        """
        self._started_ms = self._logged_ms = self._clock.monotonic_ms()
        self._restored_before = restored_records

    def brought(self, records: int, limit: int) -> None:
        """Take note of what a poll brought that may bring so many records: far less is all."""
        if records < limit // 2:
            self.emptied_ms = self._clock.monotonic_ms()

    def seconds(self) -> float:
        """Return how long ago the restore began (s)."""
        return (self._clock.monotonic_ms() - self._started_ms) / 1000

    def log_if_due(
        self, progress: RestoreProgress, restores: Mapping[TopicPartition, ChangelogRestore]
    ) -> None:
        """Log how far it is, if the last time is a while ago."""
        now = self._clock.monotonic_ms()
        if now - self._logged_ms < _LOG_EVERY_MS:
            return
        self._logged_ms = now
        before, self._logged = self._logged, progress
        if progress == before:
            positions = {
                str(changelog): restore.next_offset for changelog, restore in restores.items()
            }
            _log.warning("restore stands still", next_offsets=positions)
            return
        restored = progress.restored_records - self._restored_before
        rate = restored / max(self.seconds(), 1e-3)
        _log.info(
            "still restoring",
            changelogs=progress.changelogs,
            records_per_s=round(rate),
            remaining_records=progress.remaining_records,
            seconds_left=round(progress.remaining_records / max(rate, 1)),
        )
