"""Windows that brokers have deleted before they were closed.

    stream time T ......... closed before T - (size + grace)
    wall clock ............ deleted before now - (size + grace) - additional

A changelog of windows or sessions has a `retention.ms`, which brokers hold against the wall clock.
Where the stream is no further behind that than `windowstore.changelog.additional.retention.ms`,
all they have deleted had closed. Else rows of open windows may be among it: of records dated years
ago, or after an outage of days. A store that has them on its disk loses nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from pystreams.kernel.loggers import get_logger
from pystreams.runtime.cluster.committed_offsets import CommittedOffset, decode_partition_time
from pystreams.runtime.state.state_manager import ProcessorStateManager

_log = get_logger("pystreams.restore")


def tell_deleted_windows(
    state: ProcessorStateManager, committed: Iterable[CommittedOffset], now_ms: int
) -> None:
    """Warn of stores that are restored without rows that may be of open windows.

    Args:
        state: That of a task whose restore begins.
        committed: What is committed of its input, with the times it has come to.
        now_ms: The wall clock.
    """
    deleted = state.take_deleted()
    stream_time = max((decode_partition_time(each.metadata) for each in committed), default=-1)
    behind_ms = now_ms - stream_time
    if stream_time < 0 or behind_ms <= state.settings.additional_retention_ms:
        return
    for changelog, (first, end) in deleted.items():
        _log.warning(
            "open windows may be lost: the broker has deleted rows that the state store had not",
            task=str(state.task_id),
            store=state.store_of(changelog),
            changelog=str(changelog),
            offsets_gone=f"{first} to {end - 1}",
            stream_time_is_behind=str(timedelta(seconds=behind_ms // 1000)),
            reason="the topic's retention.ms counts by the wall clock, windows close by the time "
            "of records",
            cure=f"raise retention.ms of topic {changelog.topic!r} by so much; for topics that are "
            "still to be created set windowstore.changelog.additional.retention.ms. What is lost "
            "`pystreams reset` or `pystreams backfill` make anew of the input",
        )
