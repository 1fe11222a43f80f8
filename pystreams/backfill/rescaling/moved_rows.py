"""State on its way to its new partitions, on Spark: rows of a backfill's results.

    changelogs --Kafka source--> state --key's new partition--> rows by new task, one order a store

A row that does not lie where Kafka's default partitioner puts its key among the old number of
partitions shows that the store is partitioned by something else; it fails the move. (With one old
partition there is nothing to be seen: all keys lie there.)

A store's rows stand in the order of their timestamps, so that a versioned store takes each of them
when it is restored; those of a window store in the order of their keys, in which values of one key
and window follow one another as they were put.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from pystreams.backfill.plan.rows import RESULT_TYPE, Result, ResultKind
from pystreams.backfill.plan.store_changelogs import StoreChangelog
from pystreams.backfill.publishing.publication import PartitionHistory
from pystreams.backfill.rescaling.move_plan import MovedSubtopology, RescaleRefusedError
from pystreams.backfill.spark.changelog_state import current_state, record_key
from pystreams.backfill.spark.failures import WorkerFailureError
from pystreams.backfill.spark.shuffle_salts import salts_of
from pystreams.ids import TaskId, TopicPartition
from pystreams.kernel.partitioner import partition_of
from pystreams.runtime.cluster.committed_offsets import with_numbers


def moved_rows(
    spark: SparkSession,
    records: DataFrame,
    part: MovedSubtopology,
    begins: Mapping[TopicPartition, PartitionHistory],
) -> DataFrame:
    """Return a sub-topology's state and ends by new task, sorted as they are to be staged.

    Args:
        records: The records of all changelogs, columns of `rows.HISTORY_TYPE`.
        begins: Where the new application begins to read.
    """
    frames = [_state_rows(records, part, changelog) for changelog in part.changelogs]
    rows = reduce(DataFrame.unionByName, frames, _end_rows(spark, part, begins))
    salts = F.array(*map(F.lit, salts_of(part.new_tasks)))
    rows = rows.withColumn("salt", F.element_at(salts, F.col("task") + 1))
    rows = rows.repartition(part.new_tasks, "salt")
    in_turn = Window.partitionBy("salt", "kind", "name", "task").orderBy("turn", "key", "offset")
    # Ends have their sequence, the next offset.
    number = F.row_number().over(in_turn) - 1
    rows = rows.withColumn("sequence", F.coalesce("sequence", number).cast("bigint"))
    return rows.sortWithinPartitions("kind", "name", "task", "sequence").select(*Result._fields)


def _state_rows(records: DataFrame, part: MovedSubtopology, changelog: StoreChangelog) -> DataFrame:
    own = records.filter(F.col("topic") == changelog.topic)
    state = current_state(own, changelog)
    number = _new_partition(part, changelog)
    by_key = changelog.spec.kind.ordered_by_key
    return state.withColumn("number", number).select(
        F.lit(int(ResultKind.STATE)).alias("kind"),
        F.col("number").alias("task"),
        F.lit(changelog.store).alias("name"),
        F.col("number").alias("partition"),
        F.lit(None).cast("bigint").alias("sequence"),
        "timestamp",
        "key",
        "value",
        "headers",
        (F.lit(0) if by_key else F.col("timestamp")).cast("bigint").alias("turn"),
        "offset",
    )


def _new_partition(part: MovedSubtopology, changelog: StoreChangelog) -> Column:
    if part.keeps_partitions:
        return F.col("partition")
    # Workers get what the function names, so it names no serdes.
    old, new, subtopology = part.old_tasks, part.new_tasks, part.id
    store, topic = changelog.store, changelog.topic

    def moved(key: bytearray, partition: int, offset: int) -> int:
        data = bytes(key)
        expected = partition_of(data, old)
        if expected != partition:
            error = RescaleRefusedError(
                f"store {store!r} is not partitioned by its keys with Kafka's default partitioner: "
                f"the key of {topic}-{partition} at offset {offset} would be in "
                f"partition {expected} of {old}. So nobody knows where its state belongs: build "
                "it anew with `pystreams backfill`, under the new application.id"
            )
            raise WorkerFailureError.of(error, TaskId(subtopology, partition))
        return partition_of(data, new)

    return F.udf(moved, "int")(_placing_key(changelog), F.col("partition"), F.col("offset"))


def _placing_key(changelog: StoreChangelog) -> Column:
    """Return the key that decides where a row lies, such as the foreign one of a subscription."""
    key = record_key(changelog)
    if not changelog.spec.length_prefixed_keys:
        return key
    length = F.conv(F.hex(key.substr(1, 4)), 16, 10).cast("int")
    return key.substr(F.lit(5), length)


def _end_rows(
    spark: SparkSession,
    part: MovedSubtopology,
    begins: Mapping[TopicPartition, PartitionHistory],
) -> DataFrame:
    rows: Sequence[tuple[object, ...]] = [
        (
            int(ResultKind.END),
            number,
            topic.new_name,
            number,
            begins[TopicPartition(topic.new_name, number)].next_offset,
            begins[TopicPartition(topic.new_name, number)].partition_time,
            None,
            with_numbers(b"", begins[TopicPartition(topic.new_name, number)].numbers) or None,
            None,
            0,
            0,
        )
        for topic in part.topics
        for number in range(topic.new_count)
    ]
    return spark.createDataFrame(rows, f"{RESULT_TYPE}, turn bigint, offset bigint")
