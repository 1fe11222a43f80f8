"""The rows of a history, counted and checked in one pass before any is processed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING

from pystreams.backfill.plan.partition_bounds import PartitionBounds
from pystreams.backfill.sources.history import History, HistoryError, WantedTopics, without_later
from pystreams.ids import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row

_OTHER_PARTITIONER = (
    "Or the partition is wrong: the archive has none, and it was computed from the key as Kafka's "
    "default partitioner does. Who wrote the topic may have another (librdkafka's default is "
    "another). Then name the column that holds Kafka's partition, or run the backfill over Kafka"
)
_MUST_BE_SET = ("topic", "partition", "offset", "timestamp")


def examined(
    frame: DataFrame,
    wanted: WantedTopics,
    num_partitions: Mapping[str, int],
    *,
    gaps_allowed: bool,
    broker_partitions: Mapping[str, int] | None = None,
    computed_partitions: bool = False,
) -> History:
    """Count and check records; the one pass over them before they are processed.

    Args:
        frame: Columns of `rows.HISTORY_TYPE`.
        wanted: Topics to keep.
        num_partitions: Partition counts that the user has given; a topic without one gets as many
            as the history shows. A topic that is named here may be without records.
        gaps_allowed: Whether offsets may be missing.
        broker_partitions: Partition counts that brokers tell; a topic that is named only here must
            have records, unless the topology writes them.
        computed_partitions: Whether the partitions are not the topic's own, but computed. Then
            copies of offsets are looked for here, else when records are processed.

    Raises:
        HistoryError: A record has no topic, partition, offset or timestamp, or a header without
            key; an offset is there twice, or is missing; a partition is beyond the topic's; a topic
            has no records.
    """
    rows = _counted(frame, with_copies=computed_partitions)
    found_topics = {row.topic for row in rows if row.topic is not None}
    given = num_partitions.keys()
    num_partitions = {**num_partitions, **(broker_partitions or {})}
    num_partitions = without_later(
        num_partitions, wanted.came_later(num_partitions.keys() - found_topics)
    )
    topics = wanted.among([*found_topics, *num_partitions])
    if any(row.unset and (row.topic is None or row.topic in topics) for row in rows):
        raise _unset_error(frame, topics)
    if any(row.nameless and row.topic in topics for row in rows):
        raise _nameless_error(frame, topics)
    may_be_empty = given | (wanted.written & num_partitions.keys())
    absent = sorted({*wanted.names, *topics} - found_topics - may_be_empty)
    if absent:
        raise _absent_error(absent[0], found_topics, num_partitions)
    bounds = {
        TopicPartition(row.topic, row.partition): PartitionBounds(
            row.first, row.last + 1, row.records
        )
        for row in rows
        if row.topic in topics
    }
    counts = dict(num_partitions)
    for topic, number in bounds:
        if topic not in num_partitions:
            counts[topic] = max(counts.get(topic, 0), number + 1)
        elif number >= num_partitions[topic]:
            raise HistoryError(
                f"the history has records of {topic}-{number}, but topic {topic!r} has "
                f"{num_partitions[topic]} partitions: correct num_partitions"
            )
    kept = frame.filter(frame["topic"].isin(topics))
    copied = {TopicPartition(row.topic, row.partition) for row in rows if row.copies}
    for partition, has in bounds.items():
        span = has.end - has.first
        is_wrong = has.records > span or (has.records < span and not gaps_allowed)
        if is_wrong or partition in copied:
            wrong = _wrong_offsets(kept, partition, gaps_allowed=gaps_allowed)
            raise HistoryError(f"{wrong}. {_OTHER_PARTITIONER}" if computed_partitions else wrong)
    return History(lambda: kept, bounds, counts, gaps_allowed)


def _absent_error(
    topic: str, found_topics: AbstractSet[str], num_partitions: Mapping[str, int]
) -> HistoryError:
    found = ", ".join(sorted(found_topics)) or "none"
    count = num_partitions.get(topic, "...")
    return HistoryError(
        f"the history has no records of topic {topic!r} (topics in it: {found}): add them, or, if "
        f"the topic is meant to be empty, say how many partitions it has: --partitions "
        f"{topic}={count}, from Python num_partitions={{{topic!r}: {count}}}"
    )


def _counted(frame: DataFrame, *, with_copies: bool) -> list[Row]:
    """Return one row a partition: topic, partition, first, last, records, unset, nameless, copies.

    Args:
        frame: Columns of `rows.HISTORY_TYPE`.
        with_copies: Whether to count records with an offset that another has, which costs a
            shuffle of all offsets; else none are counted.
    """
    from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

    copies = F.count("offset") - F.count_distinct("offset") if with_copies else F.lit(0)
    return (
        frame.groupBy("topic", "partition")
        .agg(
            F.min("offset").alias("first"),
            F.max("offset").alias("last"),
            F.count(F.lit(1)).alias("records"),
            F.count(F.when(_is_unset(frame), 1)).alias("unset"),
            F.count(F.when(_has_nameless_header(frame), 1)).alias("nameless"),
            copies.alias("copies"),
        )
        .collect()
    )


def _is_unset(frame: DataFrame) -> Column:
    missing = frame[_MUST_BE_SET[0]].isNull()
    for column in _MUST_BE_SET[1:]:
        missing = missing | frame[column].isNull()
    return missing | (frame["partition"] < 0) | (frame["offset"] < 0)


def _unset_error(frame: DataFrame, topics: Sequence[str]) -> HistoryError:
    from pyspark.sql import functions as F  # noqa: N812

    wanted = frame["topic"].isNull() | frame["topic"].isin(list(topics))
    rows = frame.filter(wanted & _is_unset(frame))
    found = rows.withColumn("file", F.input_file_name()).first()
    assert found is not None, "counted before"
    wrong = next(
        name
        for name in _MUST_BE_SET
        if found[name] is None or (name in {"partition", "offset"} and found[name] < 0)
    )
    where = f" in {found['file']}" if found["file"] else ""
    return HistoryError(
        f"column {wrong!r} is {'empty' if found[wrong] is None else 'negative'} for a record{where}"
        f" (topic {found['topic']!r}, partition {found['partition']}, offset {found['offset']}, "
        f"timestamp {found['timestamp']}): leave such rows out of the history, or correct them"
    )


def _has_nameless_header(frame: DataFrame) -> Column:
    """Return whether a header of a record is null, or its key.

    Of headers only the keys are read: Spark takes no more of a Parquet file.
    """
    from pyspark.sql import functions as F  # noqa: N812

    return F.exists(frame["headers"]["key"], lambda key: key.isNull())


def _nameless_error(frame: DataFrame, topics: Sequence[str]) -> HistoryError:
    from pyspark.sql import functions as F  # noqa: N812

    rows = frame.filter(frame["topic"].isin(list(topics)) & _has_nameless_header(frame))
    found = rows.select("topic", "partition", "offset", F.input_file_name().alias("file")).first()
    assert found is not None, "counted before"
    where = f" in {found['file']}" if found["file"] else ""
    return HistoryError(
        f"a header of a record{where} has no key ({found['topic']}-{found['partition']}, offset "
        f"{found['offset']}): give it one, leave that header out of the archive, or say that there "
        "are none (columns={'headers': None})"
    )


def _wrong_offsets(frame: DataFrame, partition: TopicPartition, *, gaps_allowed: bool) -> str:
    """Say which offset is the first that is there twice or missing."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812

    before = F.lag("offset").over(Window.orderBy("offset"))
    own = frame.filter((F.col("topic") == partition.topic) & (F.col("partition") == partition[1]))
    pairs = own.select("offset", before.alias("before"), F.input_file_name().alias("file"))
    wrong = F.col("offset") == F.col("before")
    if not gaps_allowed:
        wrong = wrong | (F.col("offset") > F.col("before") + 1)
    found = pairs.filter(wrong).orderBy("offset").first()
    assert found is not None, "the count of records says so"
    where = f" ({found['file']})" if found["file"] else ""
    if found["offset"] == found["before"]:
        return (
            f"{partition} has offset {found['offset']} more than once{where}: remove the copies, "
            "which would be processed twice"
        )
    return (
        f"{partition} has a gap: offset {found['before']} is followed by {found['offset']}{where}. "
        "Add the missing records, or allow gaps (--gaps-allowed, gaps_allowed=True) if the topic "
        "is compacted or written by transactions"
    )
