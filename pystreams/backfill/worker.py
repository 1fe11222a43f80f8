"""What runs in Spark's Python workers: tasks over the rows of one Spark partition.

The rows come sorted by task and, within a task, as it is to take them; before them all stands one
row without a topic, the marker, so that a task without history runs too (its processors are
initialised, and its end is told). Most often a Spark partition is one task.

An error leaves as a line of JSON within the exception's text, which Spark carries to the driver;
`failures` reads it there.
"""

from __future__ import annotations

import contextlib
import gc
import os
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pystreams.backfill.failures import WorkerFailureError
from pystreams.backfill.history_task import HistoryTask, HistoryTaskSettings
from pystreams.backfill.rows import HistoryMessage, ResultBatch
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

_KEYS_REMEMBERED = 1 << 16
"""So many keys' partitions are remembered: hashing one costs as much as processing a record."""

_ROWS_AT_A_TIME = 1000

_TOPIC, _PARTITION, _OFFSET, _TIMESTAMP, _KEY, _VALUE, _HEADERS = range(7)
"""Columns of the history, in the order of `rows.HISTORY_TYPE`."""

_HEADERS_TYPE = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
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
        ("headers", _HEADERS_TYPE),
    ]
)


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

        remembered = lru_cache(_KEYS_REMEMBERED)(partition_of)

        def choose(topic: str, keys: Sequence[bytes | None], task: int) -> list[int]:
            count = counts.get(topic, 1)
            return [task % count if key is None else remembered(key, count) for key in keys]

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
    with _collector_spared():
        for number, parts in groupby(_by_task(batches), key=lambda part: part[0]):
            task_id = TaskId(job.stage.subtopology.id, number)
            try:
                yield from map(_arrow_batch, _run_task(job, settings, task_id, parts))
            except Exception as error:
                raise WorkerFailureError.of(error, task_id) from error


@contextlib.contextmanager
def _collector_spared() -> Iterator[None]:
    """Keep what is there already, all imported code, out of the garbage collector's rounds."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _run_task(
    job: StageJob,
    settings: HistoryTaskSettings,
    task_id: TaskId,
    parts: Iterator[tuple[int, pa.RecordBatch]],
) -> Iterator[ResultBatch]:
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
        for _, rows in parts:
            batch: dict[TopicPartition, list[HistoryMessage]] = {}
            for partition, own in _by_partition(number, rows):
                offsets.check(partition, own.column(_OFFSET).to_numpy().tolist())
                batch[partition] = messages_of(partition, own)
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

    def check(self, partition: TopicPartition, offsets: list[int]) -> None:
        """Look at the offsets of the next records of one partition, in order.

        Raises:
            StreamsError: An offset is there twice, or missing.
        """
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


def _by_task(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Return (task's number, some rows), one after the other.

    Few at a time, so that most objects made of them are gone before the garbage collector looks.
    """
    for batch in batches:
        runs = pc.run_end_encode(batch.column(_PARTITION))
        begin = 0
        for end, number in zip(runs.run_ends.to_pylist(), runs.values.to_pylist(), strict=True):
            while begin < end:
                count = min(end - begin, _ROWS_AT_A_TIME)
                yield number, batch.slice(begin, count)
                begin += count


def _by_partition(
    number: int, rows: pa.RecordBatch
) -> Iterator[tuple[TopicPartition, pa.RecordBatch]]:
    """Return the rows of each topic; markers are of none."""
    encoded = rows.column(_TOPIC).dictionary_encode()
    topics = encoded.dictionary.to_pylist()
    if len(topics) == 1 and not encoded.null_count:
        yield TopicPartition(topics[0], number), rows
        return
    for code, topic in enumerate(topics):
        yield TopicPartition(topic, number), rows.filter(pc.equal(encoded.indices, code))


def messages_of(partition: TopicPartition, rows: pa.RecordBatch) -> list[HistoryMessage]:
    """Return the messages of one partition: a column at a time, because a value at a time is slow.

    Through numpy, whose lists of integers and bytes take a tenth of the time of Arrow's own.
    """
    offsets, timestamps = (rows.column(at).to_numpy().tolist() for at in (_OFFSET, _TIMESTAMP))
    keys, values = (
        rows.column(at).to_numpy(zero_copy_only=False).tolist() for at in (_KEY, _VALUE)
    )
    headers = headers_of(rows.column(_HEADERS))
    return HistoryMessage.of_columns(partition, offsets, timestamps, keys, values, headers)


def headers_of(column: pa.Array) -> list[Any]:
    """Return headers as a message has them: a list of pairs, or None where there are none."""
    if column.null_count == len(column):
        return [None] * len(column)
    return [
        [(header["key"], header["value"]) for header in headers] if headers else None
        for headers in column.to_pylist()
    ]


def _arrow_batch(results: ResultBatch) -> pa.RecordBatch:
    """Return results as Arrow has them."""
    values, keys, timestamps, headers = zip(*results.records, strict=True)
    count = len(values)
    sequences = range(results.sequence, results.sequence + count)
    columns = [
        pa.repeat(pa.scalar(int(results.kind), pa.int32()), count),
        pa.repeat(pa.scalar(results.task, pa.int32()), count),
        pa.repeat(results.name, count),
        pa.array(results.partitions, pa.int32()),
        pa.array(sequences, pa.int64()),
        pa.array(timestamps, pa.int64()),
        pa.array(keys, pa.binary()),
        pa.array(values, pa.binary()),
        pa.array([found or None for found in headers], _HEADERS_TYPE)
        if any(headers)
        else pa.nulls(count, _HEADERS_TYPE),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)
