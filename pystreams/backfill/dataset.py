"""The outputs of a backfill as a data set: Parquet for any reader, keys and values typed.

    dataset/counts/*.parquet    partition int, task int, sequence bigint, timestamp timestamp,
                                key, value, headers

A topic's keys and values are columns of the type of its sink's serde, as `typed_columns` says, but
for those of topics that a topic extractor chose, which stay binary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pystreams.backfill.rows import RESULT_TYPE, ResultKind
from pystreams.backfill.spark import spark_session
from pystreams.backfill.staging import StagingDirectory, read_manifest
from pystreams.backfill.typed_columns import typed
from pystreams.config import StreamsConfig
from pystreams.serdes import Serde
from pystreams.topology.nodes import SinkNode
from pystreams.topology.plan import TopologyPlan
from pystreams.topology.topology import Topology

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def write_dataset(
    staging: Path,
    topology: Topology,
    config: Mapping[str, object],
    path: Path,
    *,
    master: str | None = None,
    spark_conf: Mapping[str, str] | None = None,
) -> dict[str, int]:
    """Write what a backfill has staged for the user's topics as a data set.

    What is at the path is replaced, topic by topic.

    Args:
        staging: A complete staging directory.
        topology: The topology it is of.
        config: The application's configuration, for default serdes.
        path: Where each topic gets a directory.
        master: Spark's master; see `spark.spark_session`.
        spark_conf: More of Spark's configuration.

    Returns:
        Records written, by topic.

    Raises:
        StagingError: The staging directory is not complete.
        SparkNotAvailableError: pyspark or Java is missing.
    """
    manifest = read_manifest(staging)
    settings = StreamsConfig.of({"bootstrap.servers": "none:9092", **config})
    plan = TopologyPlan(topology, settings.application_id)
    written: dict[str, int] = {}
    internal = plan.repartition_topics().keys()
    for stage in manifest.stages:
        for topic, count in stage.outputs.items():
            if topic not in internal:
                written[topic] = written.get(topic, 0) + count
    with spark_session(master, spark_conf) as spark:
        for topic in written:
            positions = [stage.position for stage in manifest.stages if topic in stage.outputs]
            rows = _rows(spark, StagingDirectory(staging), topic, positions)
            key_serde, value_serde = _serdes_of(plan, settings, topic)
            decoded = rows.withColumns(
                {"key": typed(rows["key"], key_serde), "value": typed(rows["value"], value_serde)}
            )
            decoded.write.mode("overwrite").parquet(f"file://{(path / topic).resolve()}")
    return written


def _rows(
    spark: SparkSession, staging: StagingDirectory, topic: str, positions: list[int]
) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

    paths = [f"file://{staging.stage_path(position).resolve()}" for position in positions]
    frames = [spark.read.schema(RESULT_TYPE).parquet(one) for one in paths]
    rows = frames[0]
    for frame in frames[1:]:
        rows = rows.unionByName(frame)
    rows = rows.filter((F.col("kind") == int(ResultKind.OUTPUT)) & (F.col("name") == topic))
    return rows.select(
        "partition",
        "task",
        "sequence",
        F.timestamp_millis("timestamp").alias("timestamp"),
        "key",
        "value",
        "headers",
    )


def _serdes_of(
    plan: TopologyPlan, settings: StreamsConfig, topic: str
) -> tuple[Serde[Any] | None, Serde[Any] | None]:
    """Return the serdes of a topic's sinks; None where they differ, or nobody knows."""
    sinks = [
        node
        for node in plan.topology.nodes.values()
        if isinstance(node, SinkNode) and node.topic == topic
    ]
    return (
        _only_one([sink.key_serde or settings.default_key_serde for sink in sinks]),
        _only_one([sink.value_serde or settings.default_value_serde for sink in sinks]),
    )


def _only_one(found: Sequence[Serde[Any] | None]) -> Serde[Any] | None:
    return found[0] if found and all(one is found[0] for one in found) else None
