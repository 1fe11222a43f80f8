"""What runs in Spark's Python workers: tasks over the rows of one Spark partition.

The rows come sorted by task and, within a task, as it is to take them; before them all stands one
row without a topic, the marker, so that a task without history runs too (its processors are
initialised, and its end is told). Most often a Spark partition is one task.

An error leaves as a line of JSON within the exception's text, which Spark carries to the driver;
`failures` reads it there.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa

from pystreams.backfill.failures import WorkerFailureError
from pystreams.backfill.history_task import HistoryTask, HistoryTaskSettings
from pystreams.backfill.rows import HistoryMessage, Result
from pystreams.backfill.shipping import unpack
from pystreams.backfill.stages import Stage
from pystreams.backfill.staging import begun_identity
from pystreams.config import StreamsConfig
from pystreams.errors import StreamsError
from pystreams.ids import TaskId, TopicPartition
from pystreams.partitioner import partition_of
from pystreams.runtime.core.offsets import CommittedOffset
from pystreams.runtime.settings import task_settings
from pystreams.topology.plan import TopologyPlan

_ROWS_PER_BATCH = 4096
_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
_SCHEMA = pa.schema(
    [
        ("kind", pa.int32()),
        ("task", pa.int32()),
        ("name", pa.string()),
        ("partition", pa.int32()),
        ("sequence", pa.int64()),
        ("timestamp", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", _HEADERS),
    ]
)


Batch = dict[TopicPartition, list[HistoryMessage]]
"""Records of one task, by partition: some that follow one another in the order it takes them."""


@dataclass(frozen=True, slots=True)
class StageJob:
    """What a worker needs to run the tasks of a stage.

    Attributes:
        plan: The topology's plan.
        config: The configuration.
        stage: What runs.
        num_partitions: Partition counts of all topics that are known.
        start: Where partitions begin that have no records before.
        now_ms: The wall-clock time of the whole backfill (ms).
        gaps_allowed: Whether offsets may be missing.
        staging: The staging directory, which every worker must reach.
    """

    plan: TopologyPlan
    config: StreamsConfig
    stage: Stage
    num_partitions: Mapping[str, int]
    start: Mapping[TopicPartition, CommittedOffset]
    now_ms: int
    gaps_allowed: bool
    staging: Path

    def settings(self) -> HistoryTaskSettings:
        """Return what its tasks share."""
        counts = self.num_partitions

        def choose(topic: str, key: bytes | None, task: int) -> int:
            count = counts.get(topic, 1)
            return task % count if key is None else partition_of(key, count)

        return HistoryTaskSettings(
            task_settings(self.config, num_partitions=lambda topic: counts.get(topic, 1)),
            choose,
            self.config.statestore_uncommitted_max_bytes,
            self.config.statestore_cache_max_bytes,
            self.now_ms,
        )


def run_tasks(payload: bytes, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Run the tasks of one Spark partition.

    Args:
        payload: A packed `StageJob`.
        batches: History, sorted by task and as each is to take it.

    Raises:
        WorkerFailureError: A task failed; holds what the driver tells the user.
    """
    job: StageJob = unpack(payload)
    settings = job.settings()
    for number, parts in groupby(_by_task(batches), key=lambda part: part[0]):
        task_id = TaskId(job.stage.subtopology.id, number)
        try:
            yield from _in_batches(_run_task(job, settings, task_id, parts))
        except Exception as error:
            raise WorkerFailureError.of(error, task_id) from error


def _run_task(
    job: StageJob,
    settings: HistoryTaskSettings,
    task_id: TaskId,
    parts: Iterator[tuple[int, Batch]],
) -> Iterator[Result]:
    """Run one task, with stores in a directory that goes when it ends, however it ends.

    The directory is below `spark.local.dir`, in what Spark removes when the executor ends: there
    go the remains of a worker that was killed.
    """
    _require_staging(job.staging)
    number = task_id.partition
    counts = job.num_partitions
    partitions = [
        TopicPartition(topic, number) for topic in job.stage.topics if number < counts.get(topic, 1)
    ]
    start = {one: job.start[one] for one in partitions if one in job.start}
    offsets = _Offsets(gaps_allowed=job.gaps_allowed)
    root = _local_directory(number)
    with (
        TemporaryDirectory(prefix=f"pystreams-{task_id}-", dir=root) as directory,
        contextlib.ExitStack() as closing,
    ):
        task = HistoryTask(
            task_id, job.plan, job.stage, partitions, Path(directory), settings, start
        )
        closing.callback(_close_after_failure, task)
        for _, batch in parts:
            for partition, messages in batch.items():
                offsets.check(partition, messages)
            yield from task.feed(batch)
        yield from task.finish()


def _require_staging(staging: Path) -> None:
    """See that this worker writes where the driver will look for results.

    Raises:
        StreamsError: It does not; what it wrote would be missing without a word.
    """
    if begun_identity(staging) is None:
        raise StreamsError(
            f"the staging directory {staging} is not there on {socket.gethostname()}, where a "
            "worker runs: mount it under the same path on all workers, or choose one that is"
        )


def _local_directory(number: int) -> Path:
    """Return one of the directories that Spark gives its workers; tasks are spread over them."""
    directories = os.environ["SPARK_LOCAL_DIRS"].split(",")
    return Path(directories[number % len(directories)])


def _close_after_failure(task: HistoryTask) -> None:
    """Close; what the user's `close` raises must not hide what failed before."""
    with contextlib.suppress(StreamsError):
        task.close()


class _Offsets:
    """Sees that each offset of a partition comes once and, unless gaps may be, none is missing."""

    def __init__(self, *, gaps_allowed: bool) -> None:
        self._gaps_allowed = gaps_allowed
        self._next: dict[TopicPartition, int] = {}

    def check(self, partition: TopicPartition, messages: Sequence[HistoryMessage]) -> None:
        """Look at the next records of one partition, in order.

        Raises:
            StreamsError: An offset is there twice, or missing.
        """
        offsets = [message.offset() for message in messages]
        first, last = offsets[0], offsets[-1]
        expected = self._next.get(partition, first)
        self._next[partition] = last + 1
        in_a_row = first == expected and offsets == list(range(first, last + 1))
        if in_a_row:
            return
        for offset in offsets:
            if offset < expected:
                raise StreamsError(
                    f"{partition} has offset {offset} more than once in the history: "
                    "remove the copies"
                )
            if offset > expected and not self._gaps_allowed:
                raise StreamsError(
                    f"{partition} has a gap: offset {expected - 1} is followed by {offset}. Add "
                    "the missing records, or allow gaps (gaps_allowed=True)"
                )
            expected = offset + 1


def _by_task(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, Batch]]:
    """Return (task's number, records by partition) for the rows of each task in each batch."""
    for batch in batches:
        columns = [column.to_pylist() for column in batch.columns[:6]]
        headers = headers_of(batch.column(6))
        topics, numbers = columns[0], columns[1]
        begin = 0
        for number, group in groupby(numbers):
            end = begin + sum(1 for _ in group)
            rows = [column[begin:end] for column in (*columns, headers)]
            yield number, _by_partition(number, topics[begin:end], rows)
            begin = end


def _by_partition(number: int, topics: Sequence[str | None], rows: Sequence[list[Any]]) -> Batch:
    """Return the messages of each topic; markers are none."""
    messages = map(HistoryMessage, *rows)
    found: dict[str | None, list[HistoryMessage]] = {topic: [] for topic in dict.fromkeys(topics)}
    if len(found) == 1:
        found[topics[0]].extend(messages)
    else:
        for topic, message in zip(topics, messages, strict=True):
            found[topic].append(message)
    return {
        TopicPartition(topic, number): taken for topic, taken in found.items() if topic is not None
    }


def headers_of(column: pa.Array) -> list[Any]:
    """Return headers as a message has them: a list of pairs, or None where there are none."""
    if column.null_count == len(column):
        return [None] * len(column)
    return [
        [(header["key"], header["value"]) for header in headers] if headers else None
        for headers in column.to_pylist()
    ]


def _in_batches(results: Iterator[Result]) -> Iterator[pa.RecordBatch]:
    """Return results as Arrow has them, so many rows at a time."""
    waiting: list[Result] = []
    for result in results:
        waiting.append(result)
        if len(waiting) == _ROWS_PER_BATCH:
            yield _batch(waiting)
            waiting.clear()
    if waiting:
        yield _batch(waiting)


def _batch(results: Sequence[Result]) -> pa.RecordBatch:
    *columns, headers = zip(*results, strict=True)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, _SCHEMA, strict=False)]
    arrays.append(pa.array([found or None for found in headers], _HEADERS))
    return pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA)
