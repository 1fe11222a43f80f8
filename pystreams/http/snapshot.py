"""What a process shows of itself, as plain values: the API and the page read the same.

Rates are of the last seconds: the numbers are looked at once a second, while somebody asks.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from pystreams.http.health import Health
from pystreams.http.node_figures import NodeFigures
from pystreams.http.troubles import Troubles
from pystreams.kernel.clock import SystemClock
from pystreams.kernel.installed_version import installed_version
from pystreams.metrics import MetricName, MetricValue
from pystreams.metrics.definitions import TASK_GROUP
from pystreams.runtime.application.group_processes import GroupProcess
from pystreams.runtime.application.kafka_streams import KafkaStreams
from pystreams.runtime.loop.reports.statistics import Statistics
from pystreams.runtime.loop.reports.thread_metadata import TaskMetadata, ThreadMetadata

_RATES_OVER_S = 5.0
_LOOK_EVERY_S = 1.0


class _Look(NamedTuple):
    """The numbers that grow, at one moment; what is not in it yet has begun at 0."""

    at_s: float
    processed: int
    restored: int
    by_topic: dict[tuple[str, str], float]
    by_part: dict[tuple[str, str, str], float]
    by_task: dict[str, int]
    by_store: dict[tuple[str, str], int]


class Snapshots:
    """Makes snapshots of one application. Safe to use from any thread."""

    def __init__(self, streams: KafkaStreams) -> None:
        self._streams = streams
        self._lock = threading.Lock()
        self._looks: deque[_Look] = deque()
        self._clock = SystemClock()
        self._nodes = NodeFigures()
        self._troubles = Troubles(streams)
        self._began_ms = self._clock.monotonic_ms()
        self._latest: dict[str, Any] = {}
        self._latest_s = float("-inf")

    def latest(self) -> dict[str, Any]:
        """Return a snapshot that is a second old at most, and of the present state."""
        with self._lock:
            is_old = self._clock.monotonic_ms() / 1000 - self._latest_s >= _LOOK_EVERY_S
            if is_old or self._latest["state"] != self._streams.state.value:
                self._streams.measure_nodes()
                self._latest = self._make()
                self._latest_s = self._clock.monotonic_ms() / 1000
            return self._latest

    def _make(self) -> dict[str, Any]:
        streams = self._streams
        metrics, threads = streams.metrics(), streams.metadata_for_local_threads()
        tasks = [(thread, task) for thread in threads for task in thread.active_tasks]
        numbers, stores = streams.statistics(), _stores(metrics)
        look = _Look(
            self._clock.monotonic_ms() / 1000,
            numbers.processed_records,
            numbers.restored_records,
            _by_topic(metrics),
            _by_part(metrics),
            {str(task.task_id): task.processed_records for _, task in tasks},
            {_key(row): row.get("restored_records_total", 0) for row in stores},
        )
        before = self._look_before(look)
        seconds = max(look.at_s - before.at_s, 1e-9)

        def rate(now: float, then: float) -> float:
            return round(max(0.0, now - then) / seconds, 1)

        config, now_ms = streams.config, self._clock.now_ms()
        restores = _restores(metrics)
        rows = [
            {**_task(thread, task, now_ms), **restores.get(str(task.task_id), {})}
            for thread, task in tasks
        ]
        for row in rows:
            then = before.by_task.get(row["task"], 0)
            row["processed_per_s"] = rate(row["processed_records"], then)
        return {
            "application_id": config.application_id,
            "version": installed_version(),
            "at_ms": now_ms,
            "state": streams.state.value,
            "error": None if streams.error is None else str(streams.error),
            "not_ready": Health(streams).not_ready(),
            "uptime_s": round((self._clock.monotonic_ms() - self._began_ms) / 1000, 1),
            "guarantee": config.processing_guarantee.value,
            "threads": numbers.threads,
            "processed_records": numbers.processed_records,
            "processed_per_s": rate(look.processed, before.processed),
            "dropped_records": numbers.dropped_records,
            "calls_again": numbers.calls_again,
            "lag_records": numbers.lag_records,
            "lag_ms": _longest(task.lag_ms for _, task in tasks),
            "lag_as_of_ms": min((row["lag_as_of_ms"] for row in rows), default=None),
            "unread_partitions": numbers.unread_partitions,
            **self._troubles.now(),
            "commits": numbers.commits,
            "commit_interval_ms": config.commit_interval_ms,
            **_latencies(metrics),
            "uncommitted_bytes": numbers.uncommitted_bytes,
            "uncommitted_max_bytes": config.statestore_uncommitted_max_bytes,
            "restore": _restore(numbers, rate(look.restored, before.restored)),
            "topics": _topics(look, before, rate),
            "tasks": rows,
            "standby_tasks": _standby_tasks(threads, now_ms),
            "processes": _processes(streams.group_processes()),
            "subtopologies": _parts(
                tasks,
                [
                    (*key, rate(count, before.by_part.get(key, 0)))
                    for key, count in sorted(look.by_part.items())
                ],
                self._nodes.look(look.at_s, [task for _, task in tasks], metrics),
            ),
            "stores": _with_restores(stores, look, before, rate),
        }

    def _look_before(self, look: _Look) -> _Look:
        """Return the look that rates are counted from, and keep this one."""
        looks = self._looks
        if looks and look.at_s - looks[-1].at_s < _LOOK_EVERY_S / 2:
            # The state has changed: rates of so short a time would be those of a moment.
            return looks[0] if len(looks) > 1 else look
        looks.append(look)
        while len(looks) > 2 and look.at_s - looks[1].at_s >= _RATES_OVER_S:
            looks.popleft()
        return looks[0]


def _topics(
    look: _Look, before: _Look, rate: Callable[[float, float], float]
) -> list[dict[str, Any]]:
    return [
        {
            "topic": topic,
            "direction": direction,
            "records": count,
            "records_per_s": rate(count, before.by_topic.get((direction, topic), 0)),
        }
        for (direction, topic), count in sorted(look.by_topic.items())
    ]


def _task(thread: ThreadMetadata, task: TaskMetadata, now_ms: int) -> dict[str, Any]:
    return {
        "task": str(task.task_id),
        "thread": thread.thread_name,
        "state": task.state,
        "partitions": [str(partition) for partition in task.partitions],
        "processed_records": task.processed_records,
        "lag_records": task.lag_records,
        "lag_ms": None if task.lag_ms is None else round(task.lag_ms),
        "lag_as_of_ms": round(now_ms - thread.silent_ms),
        "progressed_ms": task.progressed_ms,
        "stream_time_ms": task.stream_time_ms,
        "stores": list(task.stores),
    }


def _standby_tasks(threads: Sequence[ThreadMetadata], now_ms: int) -> list[dict[str, Any]]:
    return [
        {**_task(thread, task, now_ms), "processed_per_s": 0.0}
        for thread in threads
        for task in thread.standby_tasks
    ]


def _restore(numbers: Statistics, records_per_s: float) -> dict[str, Any]:
    remaining = numbers.restore_remaining_records
    return {
        "tasks": numbers.tasks_restoring,
        "restored_records": numbers.restored_records,
        **_time_left(remaining, records_per_s),
    }


def _with_restores(
    stores: list[dict[str, Any]], look: _Look, before: _Look, rate: Callable[[float, float], float]
) -> list[dict[str, Any]]:
    """Return rows of stores, and in each how far its restore has come."""
    found = []
    for row in stores:
        restored = look.by_store[_key(row)]
        records_per_s = rate(restored, before.by_store.get(_key(row), 0))
        found.append({**row, "restore": _restore_of_store(row, records_per_s)})
    return found


def _key(row: dict[str, Any]) -> tuple[str, str]:
    return row["store"], row["task"]


def _restore_of_store(row: dict[str, Any], records_per_s: float) -> dict[str, Any] | None:
    """Return how far the restore of a task's store has come; None while there is none."""
    remaining = row.get("restore_remaining_records_total", 0)
    if not remaining:
        return None
    return {
        "restored_records": row["restored_records_total"],
        **_time_left(remaining, records_per_s),
    }


def _time_left(remaining: int, records_per_s: float) -> dict[str, Any]:
    return {
        "remaining_records": remaining,
        "records_per_s": records_per_s,
        "left_s": round(remaining / records_per_s, 1) if records_per_s else None,
    }


def _by_topic(metrics: Any) -> dict[tuple[str, str], float]:
    """Return the records read and written, by direction and topic."""
    found: dict[tuple[str, str], float] = {}
    for (direction, _, topic), count in _by_part(metrics).items():
        found[direction, topic] = found.get((direction, topic), 0) + count
    return found


def _by_part(metrics: Any) -> dict[tuple[str, str, str], float]:
    """Return the records read and written, by direction, sub-topology and topic."""
    found: dict[tuple[str, str, str], float] = {}
    directions = {"records-consumed-total": "in", "records-produced-total": "out"}
    for name, value in metrics.items():
        direction = directions.get(name.name)
        if direction is not None:
            tags = dict(name.tags)
            part, _, _ = tags.get("task-id", "").partition("_")
            key = direction, part, tags["topic-name"]
            found[key] = found.get(key, 0) + value
    return found


def _parts(
    tasks: Any,
    rates: list[tuple[str, str, str, float]],
    nodes: dict[int, dict[str, dict[str, Any]]],
) -> list[dict[str, Any]]:
    """Return what the tasks of each sub-topology do together."""
    parts: dict[int, dict[str, Any]] = {}
    for _, task in tasks:
        part = task.task_id.subtopology
        row = parts.setdefault(
            part,
            {
                "subtopology": part,
                "tasks": 0,
                "lag_records": None,
                "lags": {},
                "unknown": set(),
                "in": {},
                "out": {},
                "nodes": nodes.get(part, {}),
            },
        )
        row["tasks"] += 1
        if task.lag_records is not None:
            row["lag_records"] = (row["lag_records"] or 0) + task.lag_records
        for topic, lag in task.lag_by_topic.items():
            row["lags"][topic] = row["lags"].get(topic, 0) + lag
        row["unknown"].update({at.topic for at in task.partitions} - task.lag_by_topic.keys())
    for row in parts.values():
        # What is known of some tasks says that records wait, and never alone that none does.
        unknown = row.pop("unknown")
        row["lags"] = {
            topic: lag for topic, lag in row["lags"].items() if lag or topic not in unknown
        }
        if unknown and not row["lag_records"]:
            row["lag_records"] = None
    for direction, number, topic, records_per_s in rates:
        if number.isdigit() and int(number) in parts:
            parts[int(number)][direction][topic] = records_per_s
    return [parts[part] for part in sorted(parts)]


def _processes(found: Sequence[GroupProcess] | None) -> list[dict[str, Any]] | None:
    if found is None:
        return None
    return [
        {
            "process": process.name,
            "host": process.host,
            "address": None if process.host_info is None else str(process.host_info),
            "is_here": process.is_here,
            "threads": process.threads,
            "tasks": [str(task) for task in process.tasks],
            "topics": list(process.topics),
            "runs_another_topology": process.runs_another_topology,
        }
        for process in found
    ]


def _latencies(metrics: Any) -> dict[str, float | None]:
    return {
        "commit_latency_max_ms": _highest(metrics, "commit-latency-max", "thread"),
        "commit_latency_p99_ms": _highest(metrics, "commit-latency-p99", "thread"),
        "e2e_latency_avg_ms": _highest(metrics, "record-e2e-latency-avg", "task"),
        "e2e_latency_max_ms": _highest(metrics, "record-e2e-latency-max", "task"),
    }


def _longest(lags_ms: Iterable[float | None]) -> int | None:
    known = [lag_ms for lag_ms in lags_ms if lag_ms is not None]
    return round(max(known)) if known else None


def _restores(metrics: Any) -> dict[str, dict[str, int]]:
    """Return how far the restore of each task has come."""
    names = {
        "restore-total": "restored_records",
        "restore-remaining-records-total": "restore_remaining_records",
    }
    rows: dict[str, dict[str, int]] = {}
    for metric, value in metrics.items():
        if metric.group == TASK_GROUP and metric.name in names:
            rows.setdefault(metric.tag("task-id"), {})[names[metric.name]] = int(value)
    return rows


def _highest(metrics: Any, name: str, group: str) -> float | None:
    values = [
        value
        for metric, value in metrics.items()
        if metric.name == name and group in metric.group and isinstance(value, int | float)
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
