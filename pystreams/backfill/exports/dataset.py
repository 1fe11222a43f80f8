"""The results of a backfill as a data set: Parquet for any reader, keys and values typed.

    dataset/outputs/<topic>/*.parquet   partition, task, sequence, timestamp, key, value, headers
    dataset/stores/<store>/*.parquet    the columns of `pystreams export`, by the store's kind

Times are as in an export: null for one that has no date. A topic's keys and values are columns of
the type of its sink's serde, as `typed_columns` says, but for those of topics that a topic
extractor chose, which stay binary. It appears all at once, and knows which results it was made of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pystreams.backfill.exports.dataset_place import check_replaceable, num_rows, replaced
from pystreams.backfill.exports.typed_columns import typed
from pystreams.backfill.exports.written_times import times_in_microseconds
from pystreams.backfill.plan.fingerprint import declared_configuration
from pystreams.backfill.plan.rows import RESULT_TYPE, ResultKind
from pystreams.backfill.plan.store_changelogs import StoreChangelog, changelogs_of
from pystreams.backfill.plan.turns import TURN_HEADER
from pystreams.backfill.publishing.identity_checks import check_identity
from pystreams.backfill.spark.failures import cure_in, spark_words
from pystreams.backfill.spark.session import spark_session
from pystreams.backfill.spark.shared_paths import local_path
from pystreams.backfill.staging.directory import (
    Manifest,
    StagedStage,
    StagingDirectory,
    read_manifest,
)
from pystreams.backfill.staging.errors import StagingError
from pystreams.backfill.staging.results import check_whole
from pystreams.config import Source, StreamsConfig
from pystreams.serdes import Serde, filled, filled_value
from pystreams.topology.graph.topology import Topology
from pystreams.topology.plan.topology_plan import TopologyPlan

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

OUTPUTS = "outputs"
STORES = "stores"


@dataclass(frozen=True, slots=True)
class Dataset:
    """What was written.

    Attributes:
        outputs: Rows, by topic.
        stores: Rows, by store.
    """

    path: Path
    outputs: Mapping[str, int]
    stores: Mapping[str, int]


def write_dataset(
    staging: Path | str,
    topology: Topology,
    config: Mapping[str, object] | StreamsConfig,
    path: Path | str,
    *,
    master: str | None = None,
    spark_conf: Mapping[str, str] | None = None,
) -> Dataset:
    """Write what a backfill has staged as a data set, a directory a topic and a store.

    Topics are the user's, those between sub-topologies left out; stores are those with a changelog.
    A data set at the path is replaced, when all is written; anything else there is left alone.

    Args:
        staging: A complete staging directory.
        config: The application's configuration, for default serdes.
        path: Where the data set is to be; to be reached by this path from all workers.
        master: Spark's master; see `session.spark_session`.
        spark_conf: More of Spark's configuration.

    Raises:
        StagingError: The staging directory is not complete or in use, the path holds something
            else than a data set, or the data set can't be written.
        PublishingRefusedError: The results are of another application, topology or configuration.
        SparkNotAvailableError: pyspark or Java is missing.
    """
    staging, path = local_path(staging), local_path(path)
    manifest = read_manifest(staging)
    if not isinstance(config, StreamsConfig):
        no_broker = {"bootstrap.servers": "none:9092"}
        config = StreamsConfig.from_sources([Source("", config), Source("", no_broker)])
    plan = TopologyPlan(topology, config.application_id)
    check_identity(staging, manifest.identity, plan, declared_configuration(config))
    check_replaceable(path)
    with StagingDirectory(staging).held():
        check_whole(StagingDirectory(staging), manifest)
        with spark_session(master, spark_conf) as spark, replaced(path, staging) as unfinished:
            writing = _Writing(spark, StagingDirectory(staging), manifest, plan, config, unfinished)
            return Dataset(path, writing.outputs(), writing.stores())


@dataclass(frozen=True, slots=True)
class _Writing:
    """Writes one data set."""

    spark: SparkSession
    staging: StagingDirectory
    manifest: Manifest
    plan: TopologyPlan
    config: StreamsConfig
    path: Path

    def outputs(self) -> dict[str, int]:
        """Write the output records; return how many there are, by topic."""
        internal = self.plan.repartition_topics().keys()
        written = {topic for stage in self.manifest.stages for topic in stage.outputs}
        return {topic: self._topic(topic) for topic in sorted(written - internal)}

    def stores(self) -> dict[str, int]:
        """Write the final state; return how many rows there are, by store."""
        tasks = self.manifest.identity.num_tasks
        counts = {
            self.plan.changelog_topic(builder.name): tasks[str(part.id)]
            for part in self.plan.subtopologies
            for builder in self.plan.logged_stores(part)
        }
        changelogs = changelogs_of(self.plan, counts)
        return {changelog.store: self._store(changelog) for changelog in changelogs}

    def _topic(self, topic: str) -> int:
        from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

        from pystreams.backfill.exports.columns import time_of

        stages = [stage for stage in self.manifest.stages if topic in stage.outputs]
        rows = self._rows(stages, ResultKind.OUTPUT, topic)
        key_serde, value_serde = self._serdes_of(topic)
        decoded = rows.select(
            "partition",
            "task",
            "sequence",
            time_of(F.col("timestamp")).alias("timestamp"),
            typed(rows["key"], key_serde).alias("key"),
            typed(rows["value"], value_serde).alias("value"),
            _without_turns(rows["headers"]).alias("headers"),
        )
        return self._write(decoded, OUTPUTS, topic)

    def _store(self, changelog: StoreChangelog) -> int:
        from pystreams.backfill.exports.columns import exported
        from pystreams.backfill.spark.changelog_state import current_state

        whole = [
            stage
            for stage in self.manifest.stages
            if stage.subtopology == changelog.subtopology and stage.only_topic is None
        ]
        rows = self._rows(whole, ResultKind.STATE, changelog.store)
        state = current_state(rows.withColumnRenamed("sequence", "offset"), changelog)
        defaults = self.config.default_key_serde, self.config.default_value_serde
        columns = exported(state, changelog, *changelog.spec.filled_serdes(*defaults))
        return self._write(columns, STORES, changelog.store)

    def _rows(self, stages: Sequence[StagedStage], kind: ResultKind, name: str) -> DataFrame:
        from pyspark.sql import functions as F  # noqa: N812

        paths = [self.staging.stage_path(stage.position).resolve() for stage in stages]
        of_stages = [
            self.spark.read.schema(RESULT_TYPE).parquet(f"file://{path}") for path in paths
        ]
        rows = reduce(lambda some, more: some.unionByName(more), of_stages)
        return rows.filter((F.col("kind") == int(kind)) & (F.col("name") == name))

    def _write(self, rows: DataFrame, kind: str, name: str) -> int:
        """Write one directory; return how many rows it has."""
        from pyspark.sql import Observation
        from pyspark.sql import functions as F  # noqa: N812

        directory = self.path / kind / name
        written = Observation()
        counted_rows = rows.observe(written, F.count(F.lit(1)).alias("rows"))
        try:
            with times_in_microseconds(self.spark):
                counted_rows.write.parquet(f"file://{directory.resolve()}")
        except Exception as error:  # noqa: BLE001 - pyspark's, or py4j's where it has none
            cure = cure_in(str(error)) or "Run the backfill again when the cause is gone"
            raise StagingError(
                f"the data set of {name!r} can't be written. {cure}: it goes on with this. Spark "
                f"says:\n{spark_words(error)}"
            ) from None
        return num_rows(directory, int(written.get["rows"]))

    def _serdes_of(self, topic: str) -> tuple[Serde[Any] | None, Serde[Any] | None]:
        """Return the serdes of a topic's sinks; None where they differ, or nobody knows."""
        sinks = self.plan.written_topics().get(topic, [])
        default_key, default_value = self.config.default_key_serde, self.config.default_value_serde
        return (
            _only_one([filled(sink.key_serde, default_key) for sink in sinks]),
            _only_one(
                [filled_value(sink.value_serde, default_value, default_key) for sink in sinks]
            ),
        )


def _without_turns(headers: Column) -> Column:
    """Return the headers of output records without the turns that a backfill has given some."""
    from pyspark.sql import functions as F  # noqa: N812

    own = F.when(F.size(headers) > 1, F.slice(headers, 1, F.size(headers) - 1))
    is_turn = F.element_at(headers, -1)["key"] == TURN_HEADER
    return F.when(F.coalesce(is_turn, F.lit(False)), own).otherwise(headers)


def _only_one(found: Sequence[Serde[Any] | None]) -> Serde[Any] | None:
    return found[0] if found and all(serde is found[0] for serde in found) else None
