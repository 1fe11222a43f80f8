"""What runs in Spark's Python workers: tasks over the rows of one Spark partition.

The rows come sorted by task and, within a task, as it is to take them; before them all stands one
row without a topic, the marker, so that a task without history runs too (its processors are
initialised, and its end is told). Most often a Spark partition is one task. Where the stage has a
reader, there are no rows: the worker is given the numbers of tasks, and reads their partitions
itself (`run_reading_tasks`). Results go to files (`result_files`).

An error leaves as a line of JSON within the exception's text, which Spark carries to the driver;
`failures` reads it there.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, groupby
from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.compute as pc

from pystreams.backfill.plan.backfill_plan import BackfillPlan
from pystreams.backfill.plan.partition_bounds import PartitionBounds
from pystreams.backfill.plan.rows import PARTITION
from pystreams.backfill.plan.stages import Stage
from pystreams.backfill.sources.history import PartitionReader
from pystreams.backfill.spark.failures import WorkerFailureError
from pystreams.backfill.spark.pickling import unpack
from pystreams.backfill.spark.worker_logging import SetUp
from pystreams.backfill.staging.directory import begun_identity
from pystreams.backfill.tasks.global_history import FilledGlobalStores, GlobalHistory
from pystreams.backfill.tasks.history_task import HistoryTask, HistoryTaskSettings
from pystreams.backfill.tasks.key_partitions import partitions_of
from pystreams.backfill.tasks.record_counts import TakenRecords
from pystreams.backfill.tasks.result_files import ResultFiles, WrittenRun
from pystreams.backfill.tasks.task_input import fed_by_reader, fed_with_rows
from pystreams.errors import StreamsError, TaskCorruptedError, damage_in
from pystreams.ids import TaskId, TopicPartition
from pystreams.kernel.garbage_collection import collected_seldom
from pystreams.runtime.adapters.event_loop import EventLoop
from pystreams.runtime.cluster.committed_offsets import CommittedOffset
from pystreams.runtime.core.global_stores import GlobalStores
from pystreams.runtime.core.task_settings import TaskSettings
from pystreams.runtime.settings import of_one_thread, task_settings

_ROWS_AT_A_TIME = 1000
_DAMAGE_CURE = (
    "A task of a backfill has no changelog to rebuild it from; its stores go when it ends. Look at "
    "the disk and the memory, or name another disk with --spark-conf spark.local.dir=..., and run "
    "the backfill again, which goes on with this stage"
)

_global_stores: dict[str, FilledGlobalStores] = {}
"""Those of this process, by their run: tasks come one after the other, in one thread."""


@dataclass(frozen=True, slots=True)
class StageHistory:
    """What a stage reads, and how.

    Attributes:
        start: Where partitions begin that have no records before.
        gaps_allowed: Whether offsets may be missing.
        reader: Reads the partitions in the worker; None when Spark gives their rows.
    """

    start: Mapping[TopicPartition, CommittedOffset]
    gaps_allowed: bool
    reader: PartitionReader | None = None
    bounds: Mapping[TopicPartition, PartitionBounds] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StageJob:
    """What a worker needs to run the tasks of a stage.

    Attributes:
        stage: What runs.
        history: What it reads.
        started_ms: The wall-clock time of the whole backfill (ms).
        staging: The staging directory, which every worker must reach.
        attempt: The directory in it that this attempt of the stage writes to.
        set_up_logging: What each worker calls first; see `worker_logging`.
        global_history: What global stores are filled from; None where there are none.
    """

    backfill: BackfillPlan
    stage: Stage
    history: StageHistory
    started_ms: int
    staging: Path
    attempt: Path
    set_up_logging: SetUp | None = None
    global_history: GlobalHistory | None = None

    def settings(self) -> HistoryTaskSettings:
        """Return what its tasks share."""
        config, counts = self.backfill.config, self.backfill.num_partitions

        def choose(topic: str, keys: Sequence[bytes | None], task: int) -> list[int]:
            count = counts.get(topic, 1)
            return partitions_of(keys, count, without_key=task % count)

        settings = task_settings(
            # History has been processed before: what failed of it then is in the queue already.
            replace(config, errors_dead_letter_queue_topic_name=None),
            num_partitions=lambda topic: counts.get(topic, 1),
            async_calls=EventLoop().calls,
        )
        settings = replace(settings, stores=replace(settings.stores, damage_cure=_DAMAGE_CURE))
        own = of_one_thread(settings, config.statestore_read_cache_max_bytes)
        if self.global_history is not None:
            stores = _global_stores_here(self, self.global_history, settings)
            own = replace(own, global_stores=GlobalStores(stores.find))
        return HistoryTaskSettings(
            own,
            choose,
            config.statestore_uncommitted_max_bytes,
            config.statestore_cache_max_bytes,
            self.started_ms,
        )


def run_tasks(
    payload: bytes, batches: Iterable[pa.RecordBatch], taken: TakenRecords
) -> Iterator[pa.RecordBatch]:
    """Run the tasks of one Spark partition.

    Args:
        payload: A packed `StageJob`.
        batches: History, sorted by task and as each is to take it.

    Returns:
        One row of `result_files.WRITTEN_TYPE`, when all is written.

    Raises:
        WorkerFailureError: A task failed; holds what the driver tells the user.
    """
    parts = groupby(_by_task(taken.of_batches(batches)), key=itemgetter(0))
    of_tasks = ((number, (rows for _, rows in own)) for number, own in parts)
    yield _run(unpack(payload), of_tasks, taken).row()


def run_reading_tasks(
    payload: bytes, numbers: Iterable[int], taken: TakenRecords
) -> Iterator[WrittenRun]:
    """Run tasks of a stage that reads its partitions here.

    Args:
        payload: A packed `StageJob` with a reader.

    Returns:
        One row, when all is written.

    Raises:
        WorkerFailureError: As by `run_tasks`.
    """
    run = _run(unpack(payload), ((number, iter(())) for number in numbers), taken)
    taken.end()
    yield run


def _run(
    job: StageJob,
    rows_of_tasks: Iterable[tuple[int, Iterator[pa.RecordBatch]]],
    taken: TakenRecords,
) -> WrittenRun:
    if job.set_up_logging is not None:
        job.set_up_logging()
    settings = job.settings()
    subtopology = job.stage.subtopology.id
    task_id = TaskId(subtopology, 0)
    dropped = 0
    with collected_seldom(), ResultFiles(job.attempt, job.staging) as files:
        try:
            for number, rows in rows_of_tasks:
                task_id = TaskId(subtopology, number)
                dropped += _run_task(job, settings, task_id, rows, taken, files)
            return files.finish(dropped)
        except Exception as error:
            told, damage = error, damage_in(error)
            if damage is not None:
                told = TaskCorruptedError(task_id, damage.with_cure(_DAMAGE_CURE))
            raise WorkerFailureError.of(told, task_id) from error


def _run_task(
    job: StageJob,
    settings: HistoryTaskSettings,
    task_id: TaskId,
    rows: Iterator[pa.RecordBatch],
    taken: TakenRecords,
    files: ResultFiles,
) -> int:
    """Run one task, with stores in a directory that goes when it ends, however it ends.

    The directory is below `spark.local.dir`, in what Spark removes when the executor ends: there
    go the remains of a worker that was killed.

    Returns:
        How many records it has dropped.
    """
    _require_staging(job.staging)
    number = task_id.partition
    history, counts = job.history, job.backfill.num_partitions
    partitions = [
        TopicPartition(topic, number) for topic in job.stage.topics if number < counts.get(topic, 1)
    ]
    start = {
        partition: history.start[partition]
        for partition in partitions
        if partition in history.start
    }
    root = _local_directory(number)
    with (
        TemporaryDirectory(prefix=f"pystreams-{task_id}-", dir=root) as directory,
        contextlib.ExitStack() as closing,
    ):
        task = HistoryTask(
            task_id, job.backfill.topology, job.stage, partitions, Path(directory), settings, start
        )
        closing.callback(_close_after_failure, task)
        if history.reader is None:
            given = fed_with_rows(task, number, rows, gaps_allowed=history.gaps_allowed)
        else:
            bounds = {
                partition: history.bounds[partition]
                for partition in partitions
                if partition in history.bounds
            }
            given = fed_by_reader(task, history.reader, bounds, taken)
        for results in chain(given, task.finish()):
            files.write(results)
        return task.dropped_records


def _global_stores_here(
    job: StageJob, history: GlobalHistory, settings: TaskSettings
) -> FilledGlobalStores:
    """Return the global stores of this process; those of a run before are closed."""
    if history.run not in _global_stores:
        while _global_stores:
            _global_stores.popitem()[1].close()
        _global_stores[history.run] = FilledGlobalStores(
            job.backfill, settings, history, job.started_ms, lambda: _local_directory(0)
        )
    return _global_stores[history.run]


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


def _by_task(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Return (task's number, some rows), one after the other.

    Few at a time, so that most objects made of them are gone before the garbage collector looks.
    """
    for batch in batches:
        runs = pc.run_end_encode(batch.column(PARTITION))
        begin = 0
        for end, number in zip(runs.run_ends.to_pylist(), runs.values.to_pylist(), strict=True):
            while begin < end:
                count = min(end - begin, _ROWS_AT_A_TIME)
                yield number, batch.slice(begin, count)
                begin += count
