"""What a stream thread and its tasks are doing, for other threads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf

from pystreams.ids import TaskId, TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskMetadata:
    """One task, active or standby, at one moment.

    Attributes:
        state: Where it is in its life: "restoring", "running", ...; "standby" for one that is
            kept warm.
        partitions: What it reads, or would read.
        processed_records: Records processed since it is here.
        lag_records: Records known to wait; None when nothing is known: so that none waits is not
            known any more when its thread has not gone round its loop for 5 s. Of a standby the
            offsets of its changelogs that it is behind, at most.
        awaited: Partitions and changelogs that hold something to be read, as far as is known, of
            which nothing is here, and the next offset of each, None if that is not known: while
            that stays the same nothing comes. Those whose broker does not say where they end, too.
        lag_by_topic: The same, by topic, of those of which it is known; nothing of a standby.
        lag_ms: How long ago the oldest record that waits was written, by its timestamp (ms). While
            the rest is on its way, how long ago the last one processed was; of a task that had
            none to do, how long it is known that some wait. 0 if none waits, None when
            nothing is known, and of a standby.
        progressed_ms: When it was last seen to have processed something, on the wall clock (ms);
            None if it has not since it is here.
        stream_time_ms: The highest timestamp it has seen (ms), -1 for none.
        stores: Its stores' names.
        changelogs: The stores that have changelogs, by these.
        restored_offsets: The next offsets to restore of those that restore, or are kept warm.
        busy_ms_by_node: How long each node of the topology has worked itself, while that was
            measured (ms): always at DEBUG, else in some runs while somebody asks; see
            `KafkaStreams.measure_nodes`. A node that does nothing itself is left out.
        records_by_edge: How many records each node gave which other one, at DEBUG: from "" what
            came while no node was at work.
    """

    task_id: TaskId
    state: str
    partitions: tuple[TopicPartition, ...]
    processed_records: int
    lag_records: int | None
    stream_time_ms: int
    stores: tuple[str, ...]
    changelogs: Mapping[TopicPartition, str]
    restored_offsets: Mapping[TopicPartition, int]
    lag_by_topic: Mapping[str, int] = field(default_factory=dict)
    awaited: Mapping[TopicPartition, int | None] = field(default_factory=dict)
    lag_ms: float | None = None
    progressed_ms: int | None = None
    busy_ms_by_node: Mapping[str, float] = field(default_factory=dict)
    records_by_edge: Mapping[tuple[str, str], int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadMetadata:
    """One stream thread, at one moment.

    Attributes:
        silent_ms: How long ago it last went round its loop (ms).
        max_poll_interval_ms: After how long the group gives its partitions to others (ms).
        standby_tasks: What it keeps warm for other processes, or before it joins the group.
        warms_up: Whether it has not joined the group yet, and restores what is to come to it.
        warm_up_records: How many changelog records are left of that, at most; None if not known.
        waits_for: For which members of the group it waits before it has its share, in words;
            nothing if for nobody.
        awaited: As that of tasks; of the topics of global stores.
        emptied_ms: When its consumer last had nothing more to hand on, on the monotonic clock (ms):
            until then others' records may have come before those of a partition.
        restores_emptied_ms: The same of the consumer that reads changelogs.
        silent: Input partitions, or those of global topics, whose broker does not say where they
            end.
        at_work: The task and the record that it processes at this moment; nothing if none.
    """

    thread_name: str
    silent_ms: float
    max_poll_interval_ms: int
    active_tasks: tuple[TaskMetadata, ...]
    standby_tasks: tuple[TaskMetadata, ...] = ()
    warms_up: bool = False
    warm_up_records: int | None = None
    waits_for: str = ""
    at_work: str = ""
    emptied_ms: float = inf
    restores_emptied_ms: float = inf
    silent: frozenset[TopicPartition] = frozenset()
    awaited: Mapping[TopicPartition, int | None] = field(default_factory=dict)
