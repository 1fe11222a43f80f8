"""The rows of a stage, as its tasks take them: one Spark shuffle, then sorts within partitions.

`PartitionGroup` merges the partitions of a task by their heads: the smallest timestamp first, and
among equal ones the first partition by name. A record is taken as soon as it is at the head and
nothing smaller is; so it waits for the highest timestamp that stands before it in its own
partition, itself included, and for nothing else. Therefore sorting by

    (highest timestamp so far in the partition, topic, offset)

gives the same order. Example, timestamps of two partitions: a: 5 3 9, b: 4 6. The heads give
b4 a5 a3 b6 a9; the keys are a: 5 5 9, b: 4 6, and sorted they give the same.

Rows come from the history and, for topics between sub-topologies, from what earlier stages wrote.
There each upstream task's records are a sequence, and the sequences are merged by their heads as
partitions are: by (highest timestamp so far in the sequence, stage, task, place). The
place in the merged order is the record's offset, behind the history's own if the topic has any.
Records that a sub-topology has made for itself have a turn (`plan.turns`), which counts for their
timestamps; they come behind all others of that time, because those may be what they are made of,
and by the stages that have written them.

The shuffle is by a salt that leads each task to a Spark partition of its own (`shuffle_salts`). All
window functions partition by it, so Spark adds no other shuffle:

    rows -> salt -> repartition(tasks, salt) -> highest time so far -> offsets -> sort -> tasks

A stage that reads one topic needs no times, one that reads no written topic no offsets. With a
timestamp extractor of the user's own, the highest time so far is found in Python (`event_times`).

Where workers read their partitions themselves (`partition_reader`), a stage has no rows.

Spec: KIP-353; `pystreams.runtime.core.queues.partition_group`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from pystreams.backfill.plan.partition_bounds import PartitionBounds
from pystreams.backfill.plan.rows import HEADERS_TYPE
from pystreams.backfill.sources.archive import COLUMNS
from pystreams.backfill.spark.shuffle_salts import salts_of
from pystreams.ids import TopicPartition

_TYPES = {
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "bigint",
    "key": "binary",
    "value": "binary",
    "headers": HEADERS_TYPE,
    "stage": "int",
    "task": "int",
    "place": "bigint",
}
ROWS = tuple(_TYPES)
"""Columns of a stage's rows: those of the history, and `stage`, `task` and `place`, which tell who
wrote a record and as which of its own; rows of the history have -1, -1 and their offset."""


@dataclass(frozen=True, slots=True)
class StageInput:
    """What a stage reads.

    Attributes:
        history: Rows of the history, columns of `HISTORY_TYPE`; None where it reads none.
        written: Rows of earlier stages, columns `ROWS`, offsets empty; None where it reads
            none.
        behind: Bounds of the history of topics that are written as well.
        event_times: Returns the frame with the column `waits` added, from rows sorted by partition,
            topic and offset; None where the records' own timestamps count.
        topics_in_turn: Topics whose records have a turn, in the order of the stages that write
            them.
        partitions_in_order: Whether each partition of the history comes as one Spark partition, in
            the order of its offsets.
    """

    history: DataFrame | None
    written: DataFrame | None
    num_topics: int
    num_tasks: int
    behind: Mapping[TopicPartition, PartitionBounds] = field(default_factory=dict)
    event_times: Callable[[DataFrame], DataFrame] | None = None
    topics_in_turn: Sequence[str] = ()


def in_task_order(spark: SparkSession, given: StageInput) -> DataFrame:
    """Return the rows with columns of `HISTORY_TYPE`, sorted by task and as each takes them.

    Before the rows of each task stands its marker; see `_marker_rows`.
    """
    rows = _marker_rows(spark, given.num_tasks)
    if given.history is not None:
        origin = (F.lit(-1).alias("stage"), F.lit(-1).alias("task"), F.col("offset").alias("place"))
        rows = rows.unionByName(given.history.select(*COLUMNS, *origin))
    if given.written is not None:
        rows = rows.unionByName(given.written)
    salts = F.array(*map(F.lit, salts_of(given.num_tasks)))
    rows = rows.withColumn("salt", F.element_at(salts, F.col("partition") + 1))
    rows = rows.repartition(given.num_tasks, "salt")
    if given.num_topics == 1 and given.written is None:
        ordered = rows.sortWithinPartitions("partition", "offset")
    else:
        ordered = _merged(rows, given)
    return ordered.select(*COLUMNS)


def _marker_rows(spark: SparkSession, num_tasks: int) -> DataFrame:
    """Return for each task a row with nothing but its number in `partition`.

    A task runs when there is a row of it, and one without history runs too. Nulls sort first,
    whatever a row is sorted by.
    """
    columns = {name: F.lit(None).cast(kind) for name, kind in _TYPES.items()}
    columns["partition"] = F.col("id").cast("int")
    numbers = spark.range(0, num_tasks, 1, numPartitions=1)
    return numbers.select(*(column.alias(name) for name, column in columns.items()))


def _merged(rows: DataFrame, given: StageInput) -> DataFrame:
    """Return rows of several sequences in the order in which their heads are taken."""
    sequence = Window.partitionBy("salt", "topic", "partition", "stage", "task").orderBy("place")
    has_turn = F.col("topic").isin(list(given.topics_in_turn)) & (F.col("stage") >= 0)
    time = F.when(has_turn, _turn()).otherwise(F.col("timestamp"))
    rows = rows.withColumn("waits", F.max(time).over(sequence))
    if given.written is not None:
        rows = _with_offsets(rows, given.behind)
    if given.num_topics == 1:
        return rows.sortWithinPartitions("partition", "offset")
    if given.event_times is not None:
        in_turn = rows.drop("waits").sortWithinPartitions("partition", "topic", "offset")
        rows = given.event_times(in_turn.select(*COLUMNS))
    ranks = {topic: rank for rank, topic in enumerate(given.topics_in_turn, 1)}
    # A number alone would be the number of a column.
    rank = [_looked_up(ranks, F.col("topic"))] if ranks else []
    return rows.sortWithinPartitions("partition", "waits", *rank, "topic", "offset")


def _turn() -> Column:
    """Return a row's turn: the last header."""
    turn = F.element_at("headers", -1)["value"]
    return F.conv(F.hex(turn), 16, -10).cast("bigint")


def _with_offsets(rows: DataFrame, behind: Mapping[TopicPartition, PartitionBounds]) -> DataFrame:
    """Number the written records of each partition in merged order, behind its history."""
    written = F.col("stage") >= 0
    merged = Window.partitionBy("salt", "topic", "partition", written)
    number = F.row_number().over(merged.orderBy("waits", "stage", "task", "place")) - 1
    ends = {str(partition): has.end for partition, has in behind.items()}
    base = _looked_up(ends, F.concat_ws("-", "topic", "partition"))
    rows = rows.withColumn(
        "offset", F.when(written, base + number).otherwise(F.col("offset")).cast("bigint")
    )
    if behind:
        # What is written stands behind all of the partition's history, and waits for it.
        partition = Window.partitionBy("salt", "topic", "partition").orderBy("offset")
        rows = rows.withColumn("waits", F.max("waits").over(partition))
    return rows


def _looked_up(numbers: Mapping[str, int], name: Column) -> Column:
    """Return a number for each row by a name of it, 0 where there is none."""
    if not numbers:
        return F.lit(0)
    pairs: list[Any] = []
    for named, number in numbers.items():
        pairs += [F.lit(named), F.lit(number)]
    return F.coalesce(F.element_at(F.create_map(*pairs), name), F.lit(0))
