"""The rows of global tables on their way to the workers, each of which reads them whole.

From Kafka workers read them for themselves. What only Spark can read it writes once, sorted, into
the staging directory, which every worker reaches; there it stays while the backfill runs.
"""

from __future__ import annotations

import shutil
import uuid
from pathlib import Path

from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from pystreams.backfill.plan.backfill_plan import BackfillPlan
from pystreams.backfill.sources.history import History
from pystreams.backfill.staging.directory import StagingDirectory
from pystreams.backfill.tasks.global_history import GlobalHistory, StagedRows


class GlobalRows:
    """What the global stores of one run are filled from; used by its driver.

    Args:
        history: What it reads.
        staging: Where rows are put for the workers.
    """

    def __init__(self, plan: BackfillPlan, history: History, staging: StagingDirectory) -> None:
        self._topics = plan.topology.global_topics()
        self._history = history
        self._path = staging.new_global_rows()
        self._found: GlobalHistory | None = None

    def found(self) -> GlobalHistory | None:
        """Return what workers read, None without global stores; rows are written the first time."""
        if self._topics and self._found is None:
            self._found = self._made()
        return self._found

    def remove(self) -> None:
        """Remove what was written."""
        shutil.rmtree(self._path, ignore_errors=True)

    def _made(self) -> GlobalHistory:
        history = self._history
        bounds = {
            partition: has
            for partition, has in history.bounds.items()
            if partition.topic in self._topics and has.records
        }
        reader = history.reader
        if reader is None:
            path = self._path.resolve()
            self._write(path, max(len(bounds), 1))
            reader = StagedRows(path, history.gaps_allowed)
        return GlobalHistory(uuid.uuid4().hex, reader, bounds)

    def _write(self, path: Path, num_partitions: int) -> None:
        """Write a file a partition; its place says which (`StagedRows.place_of`)."""
        own = self._history.frame().filter(F.col("topic").isin(self._topics))
        own = own.repartition(num_partitions, "topic", "partition")
        own = own.withColumns({"of_topic": F.col("topic"), "of_partition": F.col("partition")})
        own = own.sortWithinPartitions("of_topic", "of_partition", "offset")
        own.write.partitionBy("of_topic", "of_partition").parquet(f"file://{path}")
