"""The metrics of one stream thread, of its tasks and of their stores.

Nothing is counted here that is not counted anyway: totals are read from their owners, and the rate
of a total is what it has grown in the last windows (`TotalsHistory`). What the loop adds is a look
at the clock per poll and per commit.

Threads: the loop calls `polled` and `committed`; `read` may be called from any thread. It reads
live objects without a lock: each number is right, two of them may be from moments apart. Stores
belong to their task's thread: what they say is on their meters, but for the estimate of their
entries, which any thread may ask.

Source: Kafka Streams' `ThreadMetrics`, `TaskMetrics`, `StateStoreMetrics`, `TopicMetrics`.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path

from pystreams.ids import TaskId
from pystreams.kernel.clock import Clock
from pystreams.metrics import MetricName, MetricValue, Recording, SampledValues, TotalsHistory
from pystreams.metrics.definitions import (
    NODE_GROUP,
    STATE_GROUP,
    STATE_ID_SUFFIX,
    STATE_UPDATER_GROUP,
    TASK_GROUP,
    THREAD_GROUP,
    TOPIC_GROUP,
)
from pystreams.runtime.core.global_task import GlobalTask
from pystreams.runtime.core.node_meters import NodeMeter
from pystreams.runtime.core.task import StreamTask
from pystreams.runtime.loop.reports.thread_report import Lag
from pystreams.runtime.state.global_state import GLOBAL_TASK_ID
from pystreams.runtime.tasks.restoring.restorer import Restorer
from pystreams.runtime.tasks.task_manager import TaskManager
from pystreams.stores.accounting.metered import StoreMeters
from pystreams.stores.contracts.state_store import StateStore
from pystreams.stores.files.sizes import sst_bytes

_NS_PER_MS = 1e6
_COMMITS = 200
"""How many commits the percentile is of."""

Tag = tuple[str, str]
Tags = tuple[Tag, ...]
_Total = tuple[str, str, str, Tag | None]
"""Its name, group, task ("" for the thread's) and a tag of its own. A plain tuple: of a thousand
tasks, the names alone would take longer than all else that is done for a look at the totals."""
Metrics = dict[MetricName, MetricValue]


class ThreadMetrics:
    """Metrics of one thread."""

    def __init__(
        self,
        name: str,
        manager: TaskManager,
        restorer: Restorer,
        recording: Recording,
        clock: Clock,
    ) -> None:
        self._tags: Tags = (("thread-id", name),)
        self._manager = manager
        self._restorer = restorer
        self._clock = clock
        self._polls = recording.sampled()
        self._commits = recording.sampled()
        self._commits_ms: deque[float] = deque(maxlen=_COMMITS)
        self._history = TotalsHistory[_Total](
            recording.window_ms, recording.num_samples, clock.monotonic_ms()
        )

    def polled(self, records: int) -> None:
        """Record a poll that brought so many records; called by the loop in each iteration."""
        now_ms = self._clock.monotonic_ms()
        self._polls.record(records, now_ms)
        self._history.sample(now_ms, self._totals)

    def committed(self, started_ms: float, ended_ms: float) -> None:
        """Record a commit of tasks, from its start to its end."""
        self._commits.record(ended_ms - started_ms, ended_ms)
        self._commits_ms.append(ended_ms - started_ms)

    def read(self, unread_partitions: int, lags: Mapping[TaskId, Lag]) -> Metrics:
        """Return all metrics as they are now; callable from any thread.

        Args:
            unread_partitions: How many of the topology's partitions nobody in the group reads.
            lags: What waits, by task; without those of which nothing is known.
        """
        now_ms = self._clock.monotonic_ms()
        metrics: Metrics = dict(self._thread(now_ms))
        metrics[MetricName("unread-partitions", THREAD_GROUP, self._tags)] = unread_partitions
        metrics.update(self._state_updater())
        for counted, total in self._totals().items():
            name = self._name_of(counted)
            metrics[name] = total
            rate = name._replace(name=f"{name.name.removesuffix('-total')}-rate")
            metrics[rate] = self._history.rate(counted, total, now_ms)
        restoring = self._restorer.remaining_of_stores()
        for task in self._tasks():
            remaining = restoring.get(task.task_id, {})
            metrics.update(self._task(task, sum(remaining.values())))
            if task.task_id in lags:
                tags = self._task_tags(task)
                metrics[MetricName("records-lag", TASK_GROUP, tags)] = lags[task.task_id].records
                metrics[MetricName("records-lag-time", TASK_GROUP, tags)] = lags[task.task_id].ms
            stores = task.state_manager.stores()
            for store, meters in task.state_manager.meters().items():
                tags = self._store_tags(task, store, meters)
                metrics.update(_store(tags, meters))
                left = MetricName("restore-remaining-records-total", STATE_GROUP, tags)
                metrics[left] = remaining.get(store, 0)
                files = task.state_manager.directory / "rocksdb" / store
                metrics.update(_size(tags, stores[store], files))
        return metrics

    def _store_tags(self, task: StreamTask, store: str, meters: StoreMeters) -> Tags:
        return (*self._task_tags(task), _store_tag(store, meters))

    def _tasks(self) -> list[StreamTask]:
        return list(self._manager.tasks.values())

    def _task_tags(self, task: StreamTask) -> Tags:
        return (*self._tags, ("task-id", str(task.task_id)))

    def _totals(self) -> dict[_Total, float]:
        """Return the totals that have a rate."""
        manager = self._manager
        tasks = self._tasks()
        running = sum(task.counts.processed for task in tasks)
        totals: dict[_Total, float] = {
            ("process-total", THREAD_GROUP, "", None): manager.closed_records + running,
            ("task-created-total", THREAD_GROUP, "", None): manager.created_tasks,
            ("task-closed-total", THREAD_GROUP, "", None): manager.closed_tasks,
        }
        for task_id, standby in list(manager.standbys.kept.items()):
            updated = standby.state.manager.restored_records
            totals["update-total", TASK_GROUP, str(task_id), None] = updated
        for task in tasks:
            of, counts, state = str(task.task_id), task.counts, task.state_manager
            totals["process-total", TASK_GROUP, of, None] = counts.processed
            totals["dropped-records-total", TASK_GROUP, of, None] = counts.dropped
            totals["calls-again-total", TASK_GROUP, of, None] = counts.calls_again
            totals["restore-total", TASK_GROUP, of, None] = state.restored_records
            for node, meter in _node_meters(task):
                totals["process-total", NODE_GROUP, of, _node_tag(node)] = meter.records
            for store, meters in state.meters().items():
                tag, restored = _store_tag(store, meters), meters.restored_records
                totals["restored-records-total", STATE_GROUP, of, tag] = restored
        return totals

    def _name_of(self, counted: _Total) -> MetricName:
        name, group, task_id, tag = counted
        tags = (*self._tags, ("task-id", task_id)) if task_id else self._tags
        return MetricName(name, group, tags if tag is None else (*tags, tag))

    def _thread(self, now_ms: float) -> Iterator[tuple[MetricName, MetricValue]]:
        def named(name: str) -> MetricName:
            return MetricName(name, THREAD_GROUP, self._tags)

        polls, commits = self._polls.read(now_ms), self._commits.read(now_ms)
        yield named("poll-total"), self._polls.count
        yield named("poll-rate"), polls.rate
        yield named("poll-records-avg"), polls.average
        yield named("poll-records-max"), polls.maximum
        yield named("commit-total"), self._commits.count
        yield named("commit-rate"), commits.rate
        yield named("commit-latency-avg"), commits.average
        yield named("commit-latency-max"), commits.maximum
        yield named("commit-latency-p99"), _p99(list(self._commits_ms))

    def _state_updater(self) -> Iterator[tuple[MetricName, MetricValue]]:
        """Yield what is restored and kept warm."""
        manager = self._manager
        restoring = len(manager.tasks) - len(manager.running())
        lags = manager.standbys.lags()
        for name, value in (
            ("active-restoring-tasks", restoring),
            ("standby-updating-tasks", len(lags)),
        ):
            yield MetricName(name, STATE_UPDATER_GROUP, self._tags), value
        for task_id, lag in lags.items():
            tags = (*self._tags, ("task-id", str(task_id)))
            if lag is not None:
                yield MetricName("update-remaining-records-total", TASK_GROUP, tags), lag

    def _task(
        self, task: StreamTask, remaining_records: int
    ) -> Iterator[tuple[MetricName, MetricValue]]:
        tags = self._task_tags(task)
        meters = task.state_manager.meters().values()
        cached_bytes = sum(meter.cached_bytes for meter in meters)
        yield MetricName("active-buffer-count", TASK_GROUP, tags), task.buffered_records()
        buffered_bytes = task.counts.buffered_bytes()
        yield MetricName("input-buffer-bytes-total", TASK_GROUP, tags), buffered_bytes
        yield MetricName("cache-size-bytes-total", TASK_GROUP, tags), cached_bytes
        yield MetricName("restore-remaining-records-total", TASK_GROUP, tags), remaining_records
        latencies = task.counts.latencies.read(self._clock.monotonic_ms())
        yield MetricName("record-e2e-latency-avg", TASK_GROUP, tags), latencies.average
        yield MetricName("record-e2e-latency-min", TASK_GROUP, tags), latencies.minimum
        yield MetricName("record-e2e-latency-max", TASK_GROUP, tags), latencies.maximum
        for name, by_topic in (
            ("records-consumed-total", dict(task.counts.consumed)),
            ("records-produced-total", task.counts.produced()),
        ):
            for topic, records in by_topic.items():
                yield MetricName(name, TOPIC_GROUP, (*tags, ("topic-name", topic))), records
        for node, meter in _node_meters(task):
            yield MetricName("busy-ms-total", NODE_GROUP, (*tags, _node_tag(node))), meter.busy_ms


def _node_tag(node: str) -> Tag:
    return ("processor-node-id", node)


def _store_tag(store: str, meters: StoreMeters) -> Tag:
    return (f"{meters.store_type}{STATE_ID_SUFFIX}", store)


def _node_meters(task: StreamTask) -> list[tuple[str, NodeMeter]]:
    nodes = task.counts.nodes
    return list(nodes.by_node.items()) if nodes.always else []


def global_metrics(name: str, task: GlobalTask, remaining_records: int) -> Metrics:
    """Return the metrics of the global stores of a process; callable from any thread.

    Args:
        remaining_records: How many offsets are still to go until they are filled, at most.
    """
    tags: Tags = (("thread-id", name), ("task-id", str(GLOBAL_TASK_ID)))
    remaining = MetricName("restore-remaining-records-total", TASK_GROUP, tags)
    dropped = MetricName("dropped-records-total", TASK_GROUP, tags)
    metrics: Metrics = {remaining: remaining_records, dropped: task.dropped_records}
    for topic, records in task.consumed_records.copy().items():
        of_topic = (*tags, ("topic-name", topic))
        metrics[MetricName("records-consumed-total", TOPIC_GROUP, of_topic)] = records
    for store, meters in task.state.meters().items():
        metrics.update(_store((*tags, _store_tag(store, meters)), meters))
    return metrics


def _store(tags: Tags, meters: StoreMeters) -> Iterator[tuple[MetricName, MetricValue]]:
    def named(name: str) -> MetricName:
        return MetricName(name, STATE_GROUP, tags)

    now_ms = meters.monotonic_ms()
    yield named("uncommitted-bytes"), meters.uncommitted_bytes
    yield from _latencies(tags, "commit", meters.commits, now_ms)
    if meters.debug:
        yield named("num-open-iterators"), meters.open_iterators
        for operation, latencies in list(meters.operations.items()):
            yield from _latencies(tags, operation, latencies, now_ms)
        for name, values in list(meters.samples.items()):
            reading = values.read(now_ms)
            yield named(f"{name}-avg"), reading.average
            yield named(f"{name}-max"), reading.maximum


def _size(tags: Tags, store: StateStore, files: Path) -> Metrics:
    sizes: Metrics = {MetricName("total-sst-files-size", STATE_GROUP, tags): sst_bytes(files)}
    if (entries := store.estimated_entries()) is not None:
        sizes[MetricName("estimate-num-keys", STATE_GROUP, tags)] = entries
    return sizes


def _p99(values: list[float]) -> float:
    """Return what 99 of 100 values do not exceed; NaN of none."""
    if not values:
        return math.nan
    return sorted(values)[math.ceil(len(values) * 0.99) - 1]


def _latencies(
    tags: Tags, operation: str, latencies: SampledValues, now_ms: float
) -> Iterator[tuple[MetricName, MetricValue]]:
    """Yield rate, average (ns) and maximum (ns) of an operation that was recorded in ms."""
    reading = latencies.read(now_ms)
    yield MetricName(f"{operation}-rate", STATE_GROUP, tags), reading.rate
    average, maximum = reading.average * _NS_PER_MS, reading.maximum * _NS_PER_MS
    yield MetricName(f"{operation}-latency-avg", STATE_GROUP, tags), average
    yield MetricName(f"{operation}-latency-max", STATE_GROUP, tags), maximum
