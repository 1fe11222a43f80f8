"""The metrics of a client itself: its state, its threads, the memory its stores share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from pystreams.config import StreamsConfig
from pystreams.kernel.installed_version import installed_version
from pystreams.metrics import MetricName, MetricValue
from pystreams.metrics.definitions import CLIENT_GROUP, DEAD_LETTER_STAGES
from pystreams.runtime.application.troubles import STALLED_READS, TroubleKind
from pystreams.runtime.application.watchdog import Watchdog
from pystreams.stores.engines.rocksdb import MEMORY


@dataclass(frozen=True, slots=True)
class Lives:
    """What of a client lives, and what has died.

    Attributes:
        failed_threads: Stream threads that an error has ended.
        restarts: How often its process was killed and started again.
    """

    alive_threads: int
    failed_threads: int
    restarts: int


def client_metrics(
    config: StreamsConfig,
    client_id: str,
    *,
    state: tuple[str, int],
    lives: Lives,
    watchdog: Watchdog,
    dead_letters: Mapping[str, int],
) -> dict[MetricName, MetricValue]:
    """Return the metrics of one client.

    Args:
        client_id: The value of their tag.
        state: Its state, by name and by Kafka's number.
        lives: Which of its threads live, and how often its process did not.
        dead_letters: How many records became dead letters, by stage.
    """
    standing_still = Counter(trouble.kind for trouble in watchdog.troubles)
    name, number = state
    memory = MEMORY.usage()
    values: dict[str, MetricValue] = {
        "version": installed_version(),
        "application-id": config.application_id,
        "state": name,
        "client-state": number,
        "alive-stream-threads": lives.alive_threads,
        "failed-stream-threads": lives.failed_threads,
        "process-restarts-total": lives.restarts,
        "blocked-stream-threads": standing_still[TroubleKind.BLOCKED_THREAD],
        "stalled-tasks": standing_still[TroubleKind.STALLED_TASK],
        "stalled-standby-tasks": standing_still[TroubleKind.STALLED_STANDBY],
        "stalled-reads": sum(standing_still[kind] for kind in STALLED_READS),
        "troubles-total": watchdog.begun.total(),
        **{f"{stage}-dead-letters-total": dead_letters[stage] for stage in DEAD_LETTER_STAGES},
        "recording-level": config.metrics_recording_level.number,
        "block-cache-usage": memory.block_cache,
        "block-cache-pinned-usage": memory.pinned,
        "block-cache-capacity": memory.block_cache_capacity,
        "size-all-mem-tables": memory.write_buffers,
        "mem-tables-capacity": memory.write_buffers_capacity,
    }
    tags = (("client-id", client_id),)
    return {MetricName(name, CLIENT_GROUP, tags): value for name, value in values.items()}
