"""The staging of a move: one stage a sub-topology, in a directory in the format of a backfill's."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pystreams.backfill.plan.identity import BackfillIdentity
from pystreams.backfill.plan.rows import ResultKind
from pystreams.backfill.publishing.publication import PartitionHistory
from pystreams.backfill.rescaling.move_plan import MovedSubtopology, MovePlan, RescaleRefusedError
from pystreams.backfill.sources.history import WantedTopics
from pystreams.backfill.sources.kafka_source import KafkaSource
from pystreams.backfill.spark.failures import failure_in, spark_words
from pystreams.backfill.staging.directory import Manifest, StagedStage, StagingDirectory
from pystreams.backfill.staging.stage_files import check_complete, counted
from pystreams.errors import StreamsError
from pystreams.ids import TopicPartition
from pystreams.kernel.loggers import get_logger

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_log = get_logger("pystreams.backfill")


class RescaleError(StreamsError):
    """State could not be moved for a reason outside of it: Spark, its workers, a disk."""


@dataclass(frozen=True, slots=True)
class Staging:
    """Stages one move; used once.

    Attributes:
        begins: Where the new application begins to read.
        directory: The staging directory; held.
        started_ms: When it was begun (ms since the epoch).
    """

    plan: MovePlan
    begins: Mapping[TopicPartition, PartitionHistory]
    source: KafkaSource
    directory: StagingDirectory
    identity: BackfillIdentity
    started_ms: int

    def run(self, spark: SparkSession) -> None:
        """Stage what is missing, and make the whole valid.

        Raises:
            RescaleRefusedError: A store is not partitioned by its keys.
            RescaleError: Spark failed.
            HistoryError: Spark can't read from Kafka.
            StagingError: The directory can't be written.
        """
        topics = tuple(
            changelog.topic for part in self.plan.subtopologies for changelog in part.changelogs
        )
        records = self.source.read(spark, WantedTopics(topics, ())).frame()
        done = [
            self.directory.finished_stage(position) or self._stage(spark, records, position, part)
            for position, part in enumerate(self.plan.subtopologies)
        ]
        seconds = sum(stage.seconds for stage in done)
        self.directory.finish(Manifest(self.identity, tuple(done), self.started_ms, seconds))

    def _stage(
        self, spark: SparkSession, records: DataFrame, position: int, part: MovedSubtopology
    ) -> StagedStage:
        from pystreams.backfill.rescaling.moved_rows import moved_rows

        started = time.monotonic()
        attempt = self.directory.new_attempt(position)
        rows = moved_rows(spark, records, part, self.begins)
        try:
            written = write_rows(rows, attempt)
        except Exception as error:  # noqa: BLE001 - pyspark's, or py4j's where it has none
            raise _failed(error, part) from None
        staged = self._staged(position, part, attempt, time.monotonic() - started)
        check_complete(attempt, staged.num_rows, written)
        _log.info("state moved", subtopology=part.id, tasks=part.new_tasks, rows=dict(staged.state))
        return self.directory.finish_stage(staged, attempt)

    def _staged(
        self, position: int, part: MovedSubtopology, attempt: Path, seconds: float
    ) -> StagedStage:
        state = counted(attempt, ResultKind.STATE)
        return StagedStage(
            position=position,
            subtopology=part.id,
            topics=tuple(topic.new_name for topic in part.topics),
            num_tasks=part.new_tasks,
            records=sum(state.values()),
            seconds=seconds,
            state=state,
            ends=counted(attempt, ResultKind.END),
            attempt=attempt.name,
        )


def write_rows(rows: DataFrame, attempt: Path) -> int:
    """Write results as Spark's own Parquet writer does; return how many rows it has written."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

    written = Observation()
    counted_rows = rows.observe(written, F.count(F.lit(1)).alias("rows"))
    writer = counted_rows.write.mode("overwrite").partitionBy("kind", "name", "task")
    # By a file's bytes its reader knows how many rows to take at a time; a dictionary hides them.
    writer.option("parquet.enable.dictionary", "false").parquet(f"file://{attempt.resolve()}")
    return int(written.get["rows"])


def _failed(error: Exception, part: MovedSubtopology) -> StreamsError:
    failure = failure_in(str(error))
    if failure is not None:
        return RescaleRefusedError(str(failure))
    return RescaleError(
        f"the state of sub-topology {part.id} can't be moved; start again when the cause is gone, "
        f"and it goes on with this one. Spark says:\n{spark_words(error)}"
    )
