"""Stages on Spark, one after the other: rows in, tasks in the workers, results staged.

Each stage is one Spark job: a shuffle that brings each task's rows together, unless workers read
them themselves (`stage_rows`), and the tasks in Python (`worker`), which write what they give
(`result_files`). A stage that has been staged completely is not run again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from pystreams.backfill.execution.global_rows import GlobalRows
from pystreams.backfill.execution.progress import SparkJobs, StageProgress, StageWatch
from pystreams.backfill.execution.stage_rows import ROWS, StageInput, in_task_order
from pystreams.backfill.plan.backfill_plan import BackfillPlan
from pystreams.backfill.plan.partition_bounds import PartitionBounds
from pystreams.backfill.plan.rows import HISTORY_TYPE, RESULT_TYPE, ResultKind
from pystreams.backfill.plan.stages import Stage
from pystreams.backfill.plan.turns import in_order_of_stages
from pystreams.backfill.sources.history import History, PartitionReader
from pystreams.backfill.spark.failures import cure_in, failure_in, spark_words
from pystreams.backfill.spark.leftovers import make_ready_for_queries
from pystreams.backfill.spark.pickling import pack
from pystreams.backfill.spark.worker_logging import worker_set_up
from pystreams.backfill.staging.directory import StagedStage, StagingDirectory
from pystreams.backfill.staging.errors import told
from pystreams.backfill.staging.stage_files import check_complete, counted
from pystreams.backfill.tasks.event_times import add_event_times, needs_event_times
from pystreams.backfill.tasks.global_history import GlobalHistory
from pystreams.backfill.tasks.record_counts import StageCounts, TakenRecords
from pystreams.backfill.tasks.result_files import WRITTEN_TYPE, WrittenRun, move_into_place
from pystreams.backfill.tasks.worker import StageHistory, StageJob, run_reading_tasks, run_tasks
from pystreams.backfill.teller import Teller
from pystreams.errors import StreamsError, TopologyError
from pystreams.ids import TopicPartition, all_partitions
from pystreams.kernel.clock import Clock
from pystreams.runtime.cluster.committed_offsets import CommittedOffset, encode_partition_time


class BackfillError(StreamsError):
    """A backfill failed for a reason that is not a record's: Spark, its workers, a disk."""


@dataclass
class Execution:
    """Runs the stages of one backfill; used once.

    Attributes:
        history: What it reads.
        started_ms: The wall-clock time of the whole backfill (ms).
        clock: Tells how long stages take.
        tell: Told how far stages are.
    """

    spark: SparkSession
    plan: BackfillPlan
    history: History
    staging: StagingDirectory
    started_ms: int
    clock: Clock
    tell: Teller[StageProgress]
    _done: list[StagedStage] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        internal = self.plan.topology.repartition_topics().keys()
        self._bounds = {
            partition: has
            for partition, has in self.history.bounds.items()
            if partition[0] not in internal
        }
        self._global_rows = GlobalRows(self.plan, self.history, self.staging)

    def run(self) -> list[StagedStage]:
        """Run all stages that are not staged yet; return what all of them did.

        Raises:
            BackfillTaskError: A task failed: a record can't be decoded, the user's code raised.
            BackfillError: Spark failed.
            TopologyError: The topology can't be sent to workers, or wrote to a topic that has been
                read already.
        """
        try:
            return self._run_all()
        finally:
            self._global_rows.remove()

    def _run_all(self) -> list[StagedStage]:
        for position, stage in enumerate(self.plan.stages):
            staged = self.staging.finished_stage(position)
            begun = StageProgress(
                position, len(self.plan.stages), stage.topics, self._num_records(stage)
            )
            if staged is None:
                staged = self._run_and_note(stage, begun)
            else:
                self.tell(begun.done(staged.seconds, before=True))
            self._done.append(staged)
        return self._done

    # ------------------------------------------------------------------ one stage

    def _run_and_note(self, stage: Stage, begun: StageProgress) -> StagedStage:
        """Run a stage, telling how far it is; return what it did."""
        position = begun.position
        self.tell(begun)
        started = self.clock.monotonic_ms()
        attempt = self.staging.new_attempt(position)
        # Beside it, by a name with which it goes when nobody else removes it.
        counts = StageCounts(attempt.with_name(f"{attempt.name}.progress"))
        jobs = self._jobs(begun)
        with jobs.grouped(), StageWatch(begun, counts, jobs.tasks, self.tell, self.clock):
            runs = self._run_stage(position, stage, attempt, str(counts.directory))
        seconds = (self.clock.monotonic_ms() - started) / 1000
        staged = self._staged(position, stage, attempt, begun.records, seconds)
        check_complete(attempt, staged.num_rows, sum(run.rows for run in runs))
        staged = replace(staged, dropped=sum(run.dropped for run in runs))
        self._refuse_late_records(position, staged)
        staged = self.staging.finish_stage(staged, attempt)
        self.tell(begun.done(seconds))
        return staged

    def _jobs(self, begun: StageProgress) -> SparkJobs:
        application_id = self.plan.topology.application_id
        name = f"pystreams-backfill-{application_id}-{self.started_ms}-{begun.position}"
        of = f"stage {begun.position + 1} of {begun.num_stages}"
        return SparkJobs(self.spark, name, f"backfill of {application_id}: {of}")

    def _run_stage(
        self, position: int, stage: Stage, attempt: Path, counts: str
    ) -> list[WrittenRun]:
        """Run a stage's tasks; put in place what the runs have written that Spark has taken.

        Returns:
            What these runs tell.
        """
        written = self._written_rows(stage)
        reader = self.history.reader if written is None else None
        with told(self.staging.path):
            attempt.mkdir()
        try:
            global_history = self._global_rows.found()
        except Exception as error:  # noqa: BLE001 - pyspark's, or py4j's where it has none
            raise _failed(error, position) from None
        job = self._job(stage, attempt, reader, global_history)
        payload = pack(job, "the topology (or its configuration)")
        num_tasks = self.plan.partitions.num_tasks[stage.subtopology.id]
        if reader is not None:
            collect = self._read_in_workers(payload, num_tasks, counts)
        else:
            given = StageInput(
                self._history_rows(stage),
                written,
                len(stage.topics),
                num_tasks,
                self._behind(stage),
                _asking(payload) if needs_event_times(job) else None,
                in_order_of_stages(self.plan.topology, self.plan.stages),
            )
            collect = self._fed_by_spark(payload, given, counts)
        try:
            taken = [WrittenRun(*row) for row in collect()]
        except Exception as error:  # noqa: BLE001 - pyspark's, or py4j's where it has none
            raise _failed(error, position) from None
        move_into_place(attempt, taken)
        return taken

    def _read_in_workers(
        self, payload: bytes, num_tasks: int, counts: str
    ) -> Callable[[], Sequence[Sequence[Any]]]:
        """Return what runs tasks that read for themselves, each in a Spark partition of its own.

        By numbers, without rows: the first query of a session takes Java seconds to get ready for.
        """
        numbers = self.spark.sparkContext.parallelize(range(num_tasks), num_tasks)
        return numbers.mapPartitions(
            lambda own: run_reading_tasks(payload, own, TakenRecords.here(counts))
        ).collect

    def _fed_by_spark(
        self, payload: bytes, given: StageInput, counts: str
    ) -> Callable[[], Sequence[Sequence[Any]]]:
        """Return what runs tasks whose rows come through Spark."""
        return (
            in_task_order(self.spark, given)
            .mapInArrow(
                lambda batches: run_tasks(payload, batches, TakenRecords.here(counts)), WRITTEN_TYPE
            )
            .collect
        )

    def _job(
        self,
        stage: Stage,
        attempt: Path,
        reader: PartitionReader | None,
        global_history: GlobalHistory | None,
    ) -> StageJob:
        """Return what workers are given; inner topics begin at 0."""
        counts = {topic: self.plan.num_partitions.get(topic, 1) for topic in stage.topics}
        start = {
            at: CommittedOffset(
                self._bounds[at].first if at in self._bounds else 0, encode_partition_time(-1)
            )
            for at in all_partitions(stage.topics, counts)
        }
        own = {at: has for at, has in self._bounds.items() if at.topic in stage.topics}
        bounds = {} if reader is None else own
        return StageJob(
            self.plan,
            stage,
            StageHistory(start, self.history.gaps_allowed, reader, bounds),
            self.started_ms,
            self.staging.path,
            attempt.resolve(),
            worker_set_up(),
            global_history,
        )

    def _history_rows(self, stage: Stage) -> DataFrame | None:
        topics = sorted({topic for topic, _ in self._bounds if topic in stage.topics})
        if not topics:
            return None
        return self.history.frame().filter(F.col("topic").isin(topics))

    def _written_rows(self, stage: Stage) -> DataFrame | None:
        """Return what earlier stages wrote for the topics of this one."""
        found: list[DataFrame] = []
        for earlier in self._done:
            topics = sorted(earlier.outputs.keys() & set(stage.topics))
            if not topics:
                continue
            path = self.staging.stage_path(earlier.position).resolve()
            make_ready_for_queries(self.spark)
            rows = self.spark.read.schema(RESULT_TYPE).parquet(f"file://{path}")
            rows = rows.filter(
                (F.col("kind") == int(ResultKind.OUTPUT)) & F.col("name").isin(topics)
            )
            written = rows.select(
                F.col("name").alias("topic"),
                "partition",
                F.lit(None).cast("bigint").alias("offset"),
                "timestamp",
                "key",
                "value",
                "headers",
                F.lit(earlier.position).alias("stage"),
                "task",
                F.col("sequence").alias("place"),
            )
            found.append(written.select(*ROWS))
        return reduce(DataFrame.unionByName, found) if found else None

    def _behind(self, stage: Stage) -> dict[TopicPartition, PartitionBounds]:
        """Return the bounds of topics that have a history and are written as well."""
        written = {topic for earlier in self._done for topic in earlier.outputs}
        return {
            partition: has
            for partition, has in self._bounds.items()
            if partition.topic in written and partition.topic in stage.topics
        }

    # ------------------------------------------------------------------ around it

    def _num_records(self, stage: Stage) -> int:
        of_history = sum(
            has.records for partition, has in self._bounds.items() if partition[0] in stage.topics
        )
        written = sum(
            earlier.outputs.get(topic, 0) for earlier in self._done for topic in stage.topics
        )
        return of_history + written

    def _staged(
        self, position: int, stage: Stage, attempt: Path, records: int, seconds: float
    ) -> StagedStage:
        outputs = counted(attempt, ResultKind.OUTPUT)
        return StagedStage(
            position=position,
            subtopology=stage.subtopology.id,
            topics=stage.topics,
            only_topic=stage.only_topic,
            num_tasks=self.plan.partitions.num_tasks[stage.subtopology.id],
            records=records,
            seconds=seconds,
            outputs=outputs,
            output_partitions={topic: self.plan.num_partitions.get(topic, 1) for topic in outputs},
            state=counted(attempt, ResultKind.STATE),
            ends=counted(attempt, ResultKind.END),
            attempt=attempt.name,
        )

    def _refuse_late_records(self, position: int, staged: StagedStage) -> None:
        """Refuse records for a topic that is read by this stage or an earlier one.

        Raises:
            TopologyError: A sink with a topic extractor has written some.
        """
        read = {topic for stage in self.plan.stages[: position + 1] for topic in stage.topics}
        late = sorted(read & staged.outputs.keys())
        if late:
            raise TopologyError(
                f"sub-topology {staged.subtopology} wrote {staged.outputs[late[0]]} records to "
                f"topic {late[0]!r}, which the backfill has read already: a topic extractor must "
                "not choose a topic that is read before its own sub-topology. Give the topic a "
                "sink of its own, by name"
            )


def _asking(payload: bytes) -> Callable[[DataFrame], DataFrame]:
    def add(frame: DataFrame) -> DataFrame:
        columns = f"{HISTORY_TYPE}, waits bigint"
        return frame.mapInArrow(lambda batches: add_event_times(payload, batches), columns)

    return add


def _failed(error: Exception, position: int) -> StreamsError:
    """Return the error to raise for one of Spark's, without Java's stack where it is a task's."""
    failure = failure_in(str(error))
    if failure is not None:
        return failure
    cure = cure_in(str(error)) or "Run the backfill again when the cause is gone"
    return BackfillError(
        f"stage {position} failed in Spark. {cure}. Started again, the backfill goes on with this "
        f"stage. Spark says:\n{spark_words(error)}"
    )
