"""Every metric there is: group, name, kind, unit, level and meaning.

The single source: what is read is checked against it, docs/metrics.md is made of it, and the names
in Prometheus follow from it. Groups and names are Kafka Streams'. What is missing here Kafka has
and pystreams has not; what Kafka has not is marked in its text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from typing import NamedTuple

from pystreams.metrics.recording import RecordingLevel

MetricValue = float | int | str
"""A number in the metric's unit, or a text where the unit is `TEXT`."""

CLIENT_GROUP = "stream-metrics"
THREAD_GROUP = "stream-thread-metrics"
TASK_GROUP = "stream-task-metrics"
NODE_GROUP = "stream-processor-node-metrics"
TOPIC_GROUP = "stream-topic-metrics"
STATE_UPDATER_GROUP = "stream-state-updater-metrics"
STATE_GROUP = "stream-state-metrics"

STATE_ID_SUFFIX = "-state-id"
"""End of the tag that names a store: `rocksdb-state-id`, `in-memory-window-state-id`, ..."""

GROUP_TAGS = {
    CLIENT_GROUP: ("client-id",),
    THREAD_GROUP: ("thread-id",),
    TASK_GROUP: ("thread-id", "task-id"),
    NODE_GROUP: ("thread-id", "task-id", "processor-node-id"),
    TOPIC_GROUP: ("thread-id", "task-id", "topic-name"),
    STATE_GROUP: ("thread-id", "task-id", f"<store type>{STATE_ID_SUFFIX}"),
    STATE_UPDATER_GROUP: ("thread-id",),
}
"""The tags of each group's metrics, in this order."""

DEAD_LETTER_STAGES = ("deserialization", "processing", "production")
"""Where a record fails that becomes a dead letter."""

OPERATIONS = (
    "put",
    "put-if-absent",
    "put-all",
    "get",
    "delete",
    "fetch",
    "all",
    "range",
    "prefix-scan",
    "remove",
    "restore",
)
"""What a store's methods are metered as; a store declares which method is which."""


class Unit(Enum):
    """What a value counts; the text is what docs/metrics.md calls it."""

    COUNT = "number"
    PER_SECOND = "per second"
    BYTES = "bytes"
    MILLISECONDS = "ms"
    NANOSECONDS = "ns"
    TEXT = "text"


class Kind(Enum):
    """How a value moves."""

    GAUGE = "gauge"
    """Up and down."""
    COUNTER = "counter"
    """Up only, from 0 at the start of what its tags name."""


class MetricName(NamedTuple):
    """Identity of one metric. Was: MetricName.

    Attributes:
        name: As `uncommitted-bytes`.
        group: As `stream-state-metrics`.
        tags: What it is measured on, (tag, value) in the order of `GROUP_TAGS`.
    """

    name: str
    group: str
    tags: tuple[tuple[str, str], ...]

    def tag(self, name: str) -> str | None:
        """Return the value of a tag, or None."""
        return dict(self.tags).get(name)


@dataclass(frozen=True, slots=True)
class MetricDefinition:
    """What one metric means.

    Attributes:
        level: The lowest recording level it is there at.
    """

    group: str
    name: str
    doc: str
    unit: Unit = Unit.COUNT
    kind: Kind = Kind.GAUGE
    level: RecordingLevel = RecordingLevel.INFO


def _counted(group: str, stem: str, what: str) -> Iterator[MetricDefinition]:
    """Yield a total and its rate."""
    total, rate = f"{stem}-total", f"{stem}-rate"
    yield MetricDefinition(group, total, f"{what}.", Unit.COUNT, Kind.COUNTER)
    yield MetricDefinition(group, rate, f"What {total} grows by per second.", Unit.PER_SECOND)


def _client() -> Iterator[MetricDefinition]:
    gauge = partial(MetricDefinition, CLIENT_GROUP)
    counter = partial(gauge, kind=Kind.COUNTER)
    yield gauge("version", "Version of pystreams.", Unit.TEXT)
    yield gauge("application-id", "The application's id.", Unit.TEXT)
    yield gauge("state", "State of the client, by name.", Unit.TEXT)
    yield gauge(
        "client-state",
        "State of the client: 0 CREATED, 1 REBALANCING, 2 RUNNING, 3 PENDING_SHUTDOWN, "
        "4 NOT_RUNNING, 5 PENDING_ERROR, 6 ERROR.",
    )
    yield gauge("alive-stream-threads", "Stream threads that run.")
    yield gauge("failed-stream-threads", "Stream threads that an error has ended.")
    yield counter(
        "process-restarts-total",
        "How often this process, one of several, was killed, or stopped alone, and started again "
        "(run --processes). Not in Kafka.",
    )
    yield gauge(
        "blocked-stream-threads",
        "Stream threads that have not gone round their loop for 10 s. Not in Kafka.",
    )
    yield gauge(
        "stalled-tasks", "Tasks that records wait for, and that took none for 60 s. Not in Kafka."
    )
    yield gauge(
        "stalled-reads",
        "Tasks, restoring ones too, and global topics that for 60 s got nothing of a partition "
        "that holds more, or is silent. Not in Kafka.",
    )
    yield gauge(
        "stalled-standby-tasks",
        "Standbys that are behind, and have read nothing for 60 s. Not in Kafka.",
    )
    yield counter(
        "troubles-total",
        "How often the watchdog found something standing still. Not in Kafka.",
    )
    for stage in DEAD_LETTER_STAGES:
        yield counter(
            f"{stage}-dead-letters-total",
            f"Records that handlers of {stage} errors have sent to dead letter topics; "
            "one that comes again counts again. Not in Kafka.",
        )
    yield gauge("recording-level", "Level metrics are recorded at: 0 INFO, 1 DEBUG, 2 TRACE.")
    shared = "all RocksDB stores of the process together (Kafka: one store)"
    yield gauge(
        "block-cache-usage",
        f"Blocks, indexes and filters in the cache of {shared}.",
        Unit.BYTES,
    )
    yield gauge(
        "block-cache-capacity",
        "Limit of block-cache-usage: statestore.rocksdb.block.cache.bytes.",
        Unit.BYTES,
    )
    yield gauge("block-cache-pinned-usage", "The part of it that is in use now.", Unit.BYTES)
    yield gauge("size-all-mem-tables", f"Memtables of {shared}.", Unit.BYTES)
    yield gauge(
        "mem-tables-capacity",
        "What memtables are flushed for when they grow beyond it: "
        "statestore.rocksdb.write.buffer.bytes. Not in Kafka.",
        Unit.BYTES,
    )


def _thread() -> Iterator[MetricDefinition]:
    gauge = partial(MetricDefinition, THREAD_GROUP)
    yield from _counted(THREAD_GROUP, "process", "Records processed, by tasks that left as well")
    yield from _counted(THREAD_GROUP, "commit", "Commits of at least one task")
    yield gauge(
        "commit-latency-avg",
        "Time of such a commit, on average: caches flushed, Kafka commit, stores committed.",
        Unit.MILLISECONDS,
    )
    yield gauge("commit-latency-max", "The longest of them.", Unit.MILLISECONDS)
    yield gauge(
        "commit-latency-p99",
        "What 99 of 100 of them did not exceed, of the last 200. Not in Kafka.",
        Unit.MILLISECONDS,
    )
    yield from _counted(THREAD_GROUP, "poll", "Polls of the consumer")
    yield gauge("poll-records-avg", "Records of a poll, on average.")
    yield gauge("poll-records-max", "Records of the biggest poll.")
    yield from _counted(THREAD_GROUP, "task-created", "Tasks made")
    yield from _counted(THREAD_GROUP, "task-closed", "Tasks closed")
    yield gauge(
        "unread-partitions",
        "Partitions of the topology that nobody in the group reads, as this thread saw last; each "
        "sees the whole group: take the maximum, not the sum. Not in Kafka.",
    )


def _task() -> Iterator[MetricDefinition]:
    gauge = partial(MetricDefinition, TASK_GROUP)
    yield from _counted(TASK_GROUP, "process", "Records processed (not in Kafka)")
    yield from _counted(
        TASK_GROUP,
        "dropped-records",
        "Records dropped: by operations, stores, exception handlers, timestamp extractors",
    )
    yield from _counted(
        TASK_GROUP,
        "calls-again",
        "Calls of functions again with a record they have failed with (retry=, and retries= of "
        "map_values_async; not in Kafka)",
    )
    yield gauge("active-buffer-count", "Records that wait in the task.")
    yield gauge(
        "input-buffer-bytes-total",
        "What the records take that wait in the task; see input.buffer.max.bytes.",
        Unit.BYTES,
    )
    yield gauge(
        "records-lag",
        "Records known to wait for the task, on the broker or in the task; missing while nothing "
        "is known (Kafka: of the consumer, by partition). A second old at most, half a minute "
        "where fetches have no answers; of a thread's partitions that rest, 200 a second are "
        "looked at. While a thread stands still it is what waited before; 0 is missing then.",
    )
    yield gauge(
        "records-lag-time",
        "How long ago the oldest record that waits for the task was written, by its timestamp. "
        "While the rest is on its way, how long ago the last one processed was; of a task that had "
        "none to do, how long it is known that some wait. 0 when none waits; missing as "
        "records-lag is. Not in Kafka.",
        Unit.MILLISECONDS,
    )
    yield gauge(
        "record-e2e-latency-avg",
        "How old records were, by their timestamps, when the task had processed them: of the first "
        "and the last one of each run, on average (Kafka: of each record, by node).",
        Unit.MILLISECONDS,
    )
    for name, which in (("min", "lowest"), ("max", "highest")):
        doc = f"The {which} of them."
        yield gauge(f"record-e2e-latency-{name}", doc, Unit.MILLISECONDS)
    yield gauge(
        "cache-size-bytes-total",
        "What the record caches of the task's stores hold back.",
        Unit.BYTES,
    )
    yield from _counted(TASK_GROUP, "restore", "Changelog records restored")
    yield gauge(
        "restore-remaining-records-total",
        "Changelog offsets still to restore, at most.",
    )
    yield from _counted(TASK_GROUP, "update", "Changelog records applied by a standby task")
    yield gauge(
        "update-remaining-records-total",
        "Changelog offsets that a standby task is behind, at most. Not in Kafka.",
    )


def _state_updater() -> Iterator[MetricDefinition]:
    gauge = partial(MetricDefinition, STATE_UPDATER_GROUP)
    yield gauge("active-restoring-tasks", "Tasks that restore, or are about to.")
    yield gauge("standby-updating-tasks", "Tasks kept warm for other processes.")


def _node() -> Iterator[MetricDefinition]:
    for definition in _counted(NODE_GROUP, "process", "Records the node was given"):
        yield replace(definition, level=RecordingLevel.DEBUG)
    yield MetricDefinition(
        NODE_GROUP,
        "busy-ms-total",
        "How long the node worked itself, without what it calls of other nodes; a source's work is "
        "to read and deserialize. Not in Kafka.",
        Unit.MILLISECONDS,
        Kind.COUNTER,
        RecordingLevel.DEBUG,
    )


def _topic() -> Iterator[MetricDefinition]:
    counter = partial(MetricDefinition, TOPIC_GROUP, kind=Kind.COUNTER)
    yield counter(
        "records-consumed-total",
        "Records taken from the consumer for the task, those it drops included; after a rollback "
        "they come again and count again.",
    )
    yield counter(
        "records-produced-total",
        "Records handed to the producer by the task, those of an aborted transaction included. "
        "Changelogs count as well, which they don't in Kafka.",
    )


def _state() -> Iterator[MetricDefinition]:
    gauge = partial(MetricDefinition, STATE_GROUP)
    yield gauge("uncommitted-bytes", "Keys and values that wait for the commit.", Unit.BYTES)
    yield from _counted(
        STATE_GROUP, "restored-records", "Changelog records restored into the store (not in Kafka)"
    )
    yield gauge(
        "restore-remaining-records-total",
        "Changelog offsets still to restore into the store, at most; by the rate above it tells "
        "how long that takes. Kafka has it of tasks only.",
    )
    yield gauge(
        "estimate-num-keys",
        "About how many entries the store has committed, as its engine estimates; after changes of "
        "the same keys more than there are. Kafka has it of RocksDB stores only.",
    )
    yield gauge(
        "total-sst-files-size",
        "What the store's files take on disk; 0 in memory. Kafka has it of RocksDB stores only.",
        Unit.BYTES,
    )
    yield gauge("commit-rate", "Commits of the store, per second.", Unit.PER_SECOND)
    yield from _latencies("commit", "a commit of the store", RecordingLevel.INFO)
    yield gauge(
        "num-open-iterators",
        "Iterators of processors that are neither exhausted nor closed. At DEBUG, where the calls "
        "that open them are metered; at INFO in Kafka.",
        level=RecordingLevel.DEBUG,
    )
    for operation in OPERATIONS:
        meaning = f"Calls of {operation}"
        if operation == "restore":
            meaning = "Batches restored (Kafka: openings of the store)"
        yield gauge(
            f"{operation}-rate",
            f"{meaning}, per second.",
            Unit.PER_SECOND,
            level=RecordingLevel.DEBUG,
        )
        what = "a batch" if operation == "restore" else "a call"
        if operation in {"fetch", "all", "range", "prefix-scan"}:
            what = "a call, up to the end of its iterator if it returns one"
        yield from _latencies(operation, what, RecordingLevel.DEBUG)

    for name, what, unit in (
        ("suppression-buffer-count", "Changes that a suppression holds back", Unit.COUNT),
        (
            "suppression-buffer-size",
            "Their bytes, as BufferConfig.max_bytes counts them",
            Unit.BYTES,
        ),
    ):
        for end, of in (("avg", "on average"), ("max", "at most")):
            text = f"{what}, {of}; sampled at commits."
            yield gauge(f"{name}-{end}", text, unit, level=RecordingLevel.DEBUG)


def _latencies(operation: str, what: str, level: RecordingLevel) -> Iterator[MetricDefinition]:
    for end, doc in (("avg", f"Time of {what}, on average."), ("max", "The longest of them.")):
        name = f"{operation}-latency-{end}"
        yield MetricDefinition(STATE_GROUP, name, doc, Unit.NANOSECONDS, level=level)


DEFINITIONS = (
    *_client(),
    *_thread(),
    *_state_updater(),
    *_task(),
    *_node(),
    *_topic(),
    *_state(),
)
"""Every metric there is, group by group."""

_BY_NAME = {(definition.group, definition.name): definition for definition in DEFINITIONS}


def definition_of(name: MetricName) -> MetricDefinition:
    """Return what a metric means."""
    return _BY_NAME[name.group, name.name]
