"""A backfill on Spark, with history and results as the tests without Spark have them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from pystreams import Topology
from pystreams.backfill import ArchiveSource, BackfillResult, run
from pystreams.backfill.plan.rows import Result, ResultKind
from pystreams.backfill.staging.directory import StagedStage, StagingDirectory
from tests.backfill.in_process import SCHEMA, Row


def write_archive(rows: Sequence[Row], path: Path) -> Path:
    """Write rows as Parquet, in no order."""
    path.mkdir(parents=True)
    shuffled = sorted(rows, key=lambda row: (row.offset % 7, -row.offset))
    columns: Any = zip(
        *(
            (
                row.topic,
                row.partition,
                row.offset,
                row.timestamp,
                row.key,
                row.value,
                [{"key": key, "value": value} for key, value in row.headers] or None,
            )
            for row in shuffled
        ),
        strict=True,
    )
    arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    parquet.write_table(pa.Table.from_arrays(arrays, schema=SCHEMA), path / "rows.parquet")
    return path


def run_on_spark(
    topology: Topology,
    config: Mapping[str, object],
    rows: Sequence[Row],
    num_partitions: Mapping[str, int],
    directory: Path,
) -> tuple[BackfillResult, list[Result]]:
    """Run a backfill in the session that is active; return what it says, and all its results."""
    archive = write_archive(rows, directory / "archive")
    source = ArchiveSource(str(archive), num_partitions=num_partitions, gaps_allowed=True)
    done = run(topology, config, source=source, output=directory / "staging")
    return done, results_of(done)


def results_of(done: BackfillResult) -> list[Result]:
    """Return all rows, stage by stage and task by task; in a task by kind and name."""
    return staged_results(done.path, done.stages)


def staged_results(path: Path, stages: Sequence[StagedStage]) -> list[Result]:
    """Return all rows of a staging directory; see `results_of`."""
    staging = StagingDirectory(path)
    return [
        result
        for stage, files in ((stage, staging.files(stage.position)) for stage in stages)
        for task in range(stage.num_tasks)
        for kind in ResultKind
        for name in files.names(kind, task)
        for result in files.rows(kind, name, task)
    ]
