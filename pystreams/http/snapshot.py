"""What a process shows of itself, as plain values: the API and the page read the same.

Rates are of the last seconds: the numbers are looked at once a second, while somebody asks.
"""

from __future__ import annotations

import threading
from collections import deque
from importlib.metadata import version
from typing import Any, NamedTuple

from pystreams.kernel.clock import SystemClock
from pystreams.metrics import MetricName, MetricValue
from pystreams.runtime.application.kafka_streams import KafkaStreams

_RATES_OVER_S = 5.0
_LOOK_EVERY_S = 1.0


class _Look(NamedTuple):
    """The numbers that grow, at one moment."""

    at_s: float
    processed: int
    by_topic: dict[tuple[str, str], float]
    by_task: dict[str, int]


class Snapshots:
    """Makes snapshots of one application. Safe to use from any thread.

    Args:
        streams: The application.
    """

    def __init__(self, streams: KafkaStreams) -> None:
        self._streams = streams
        self._lock = threading.Lock()
        self._looks: deque[_Look] = deque()
        self._clock = SystemClock()
        self._began_ms = self._clock.monotonic_ms()
        self._latest: dict[str, Any] = {}
        self._latest_s = float("-inf")

    def latest(self) -> dict[str, Any]:
        """Return a snapshot that is a second old at most."""
        with self._lock:
            if self._clock.monotonic_ms() / 1000 - self._latest_s >= _LOOK_EVERY_S:
                self._latest = self._make()
                self._latest_s = self._clock.monotonic_ms() / 1000
            return self._latest

    def _make(self) -> dict[str, Any]:
        streams = self._streams
        metrics = streams.metrics()
        threads = streams.metadata_for_local_threads()
        tasks = [(thread, task) for thread in threads for task in thread.active_tasks]
        numbers = streams.statistics()
        look = _Look(
            self._clock.monotonic_ms() / 1000,
            numbers.processed_records,
            _by_topic(metrics),
            {str(task.task_id): task.processed_records for _, task in tasks},
        )
        before = self._look_before(look)
        seconds = max(look.at_s - before.at_s, 1e-9)

        def rate(now: float, then: float) -> float:
            return round(max(0.0, now - then) / seconds, 1)

        config = streams.config
        return {
            "application_id": config.application_id,
            "version": version("pystreams-kafka"),
            "state": streams.state.value,
            "error": None if streams.error is None else str(streams.error),
            "uptime_s": round((self._clock.monotonic_ms() - self._began_ms) / 1000, 1),
            "guarantee": config.processing_guarantee.value,
            "threads": numbers.threads,
            "processed_records": numbers.processed_records,
            "processed_per_s": rate(look.processed, before.processed),
            "dropped_records": numbers.dropped_records,
            "lag_records": numbers.lag_records,
            "unread_partitions": numbers.unread_partitions,
            "commits": numbers.commits,
            "commit_interval_ms": config.commit_interval_ms,
            "commit_latency_max_ms": _highest(metrics, "commit-latency-max", "thread"),
            "uncommitted_bytes": numbers.uncommitted_bytes,
            "uncommitted_max_bytes": config.statestore_uncommitted_max_bytes,
            "restore": {
                "tasks": numbers.tasks_restoring,
                "restored_records": numbers.restored_records,
                "remaining_records": numbers.restore_remaining_records,
            },
            "topics": [
                {
                    "topic": topic,
                    "direction": direction,
                    "records": count,
                    "records_per_s": rate(count, before.by_topic.get((direction, topic), count)),
                }
                for (direction, topic), count in sorted(look.by_topic.items())
            ],
            "tasks": [
                {
                    "task": str(task.task_id),
                    "thread": thread.thread_name,
                    "state": task.state,
                    "partitions": [str(partition) for partition in task.partitions],
                    "processed_records": task.processed_records,
                    "processed_per_s": rate(
                        task.processed_records,
                        before.by_task.get(str(task.task_id), task.processed_records),
                    ),
                    "lag_records": task.lag_records,
                    "stream_time_ms": task.stream_time_ms,
                    "stores": list(task.stores),
                }
                for thread, task in tasks
            ],
            "stores": _stores(metrics),
        }

    def _look_before(self, look: _Look) -> _Look:
        """Return the look that rates are counted from, and keep this one."""
        looks = self._looks
        looks.append(look)
        while len(looks) > 2 and look.at_s - looks[1].at_s >= _RATES_OVER_S:
            looks.popleft()
        return looks[0]


def _by_topic(metrics: Any) -> dict[tuple[str, str], float]:
    """Return the records read and written, by direction and topic."""
    found: dict[tuple[str, str], float] = {}
    directions = {"records-consumed-total": "in", "records-produced-total": "out"}
    for name, value in metrics.items():
        direction = directions.get(name.name)
        if direction is not None:
            key = direction, dict(name.tags)["topic-name"]
            found[key] = found.get(key, 0) + value
    return found


def _highest(metrics: Any, name: str, group: str) -> float | None:
    values = [
        value
        for metric, value in metrics.items()
        if metric.name == name and group in metric.group and isinstance(value, float)
    ]
    known = [value for value in values if value == value]  # noqa: PLR0124 - NaN: nothing was measured
    return max(known, default=None)


def _stores(metrics: dict[MetricName, MetricValue] | Any) -> list[dict[str, Any]]:
    """Return what is measured of each store, a row a task."""
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for metric, value in metrics.items():
        tags = dict(metric.tags)
        store = next((tag for key, tag in tags.items() if key.endswith("state-id")), None)
        if store is None:
            continue
        row = rows.setdefault((store, tags.get("task-id", "")), {})
        if isinstance(value, int | float) and value == value:  # noqa: PLR0124 - no NaN in JSON
            row[metric.name.replace("-", "_")] = value
    return [
        {"store": store, "task": task, **row} for (store, task), row in sorted(rows.items()) if row
    ]
