"""Workers that die, disks that are full and files that are damaged, in the middle of a stage."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from pystreams import StreamsConfig
from pystreams.backfill import ArchiveSource, StagePhase, StageProgress
from pystreams.backfill import run as run_backfill
from pystreams.backfill.execution.stage_runner import BackfillError
from pystreams.backfill.plan.backfill_plan import BackfillPlan
from pystreams.backfill.spark.failures import BackfillTaskError, WorkerFailureError
from pystreams.backfill.spark.pickling import pack
from pystreams.backfill.tasks.record_counts import TakenRecords
from pystreams.backfill.tasks.worker import StageHistory, StageJob, run_tasks
from pystreams.testing.simulation import ManualClock
from pystreams.topology.plan.topology_plan import TopologyPlan
from tests.backfill.in_process import run
from tests.backfill.sources.covered import CONFIG, made_up
from tests.backfill.spark.on_spark import run_on_spark, write_archive
from tests.backfill.spark.test_failures_on_spark import counting, two_stages
from tests.backfill.spark.test_on_spark import in_order

ROWS = made_up("in", 7, 200, num_partitions=2)


def files_in(directory: Path) -> set[str]:
    """The files that a stopped backfill has left, its lock aside."""
    return {file.name for file in directory.iterdir()} - {".lock"}


def test_worker_that_is_killed_after_some_results_is_replaced_and_each_result_is_there_once(
    spark: Any, tmp_path: Path
) -> None:
    killed = tmp_path / "killed"
    seen = [0]

    def die_once(_key: str, value: str) -> str:
        seen[0] += 1
        if seen[0] == 70 and not killed.exists():
            killed.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return value

    done, found = run_on_spark(counting(die_once), CONFIG, ROWS, {"in": 2}, tmp_path)

    expected = run(counting(lambda _, value: value), CONFIG, ROWS, {"in": 2}, tmp_path / "expected")
    assert killed.exists()
    assert in_order(found) == in_order(expected)
    assert done.outputs == {"out": sum(row.value is not None for row in ROWS)}


def test_code_that_ends_its_worker_is_told_with_what_to_look_at(spark: Any, tmp_path: Path) -> None:
    def leave(_key: str, value: str) -> str:
        os._exit(3)

    with pytest.raises(BackfillError, match="A process that ran tasks died: killed for want of"):
        run_on_spark(counting(leave), CONFIG, ROWS, {"in": 2}, tmp_path)

    assert files_in(tmp_path / "staging") == {"begun.json"}


def test_damaged_values_are_told_with_their_file_when_they_are_read(
    spark: Any, tmp_path: Path
) -> None:
    """Only topic, partition, offset and time are looked at before: the rest is read by tasks."""
    archive = write_archive(ROWS, tmp_path / "archive")
    file = archive / "rows.parquet"
    group = parquet.read_metadata(file).row_group(0)
    value = next(
        column
        for column in map(group.column, range(group.num_columns))
        if column.path_in_schema == "value"
    )
    first = value.dictionary_page_offset or value.data_page_offset
    content = bytearray(file.read_bytes())
    content[first : first + value.total_compressed_size] = bytes(value.total_compressed_size)
    file.write_bytes(content)

    with pytest.raises(BackfillError, match=r"stage 0 failed in Spark(.|\n)*rows\.parquet"):
        run_backfill(
            counting(lambda _, value: value),
            CONFIG,
            source=ArchiveSource(str(archive), gaps_allowed=True),
            output=tmp_path / "staging",
        )

    assert files_in(tmp_path / "staging") == {"begun.json"}


def test_full_disk_is_told_and_the_backfill_goes_on_when_there_is_room(
    spark: Any, tmp_path: Path, small_disk: Path
) -> None:
    archive = ArchiveSource(str(write_archive(ROWS, tmp_path / "archive")), gaps_allowed=True)
    ballast = small_disk / "ballast"
    told: list[tuple[int, StagePhase]] = []

    def fill_in_second_stage(now: StageProgress) -> None:
        told.append((now.position, now.phase))
        if now.position == 1 and now.phase is StagePhase.BEGUN:
            ballast.write_bytes(bytes(os.statvfs(small_disk).f_bavail * 4096))

    def go_on(progress: Any) -> Any:
        return run_backfill(
            two_stages(), CONFIG, source=archive, output=small_disk / "staged", progress=progress
        )

    with pytest.raises(BackfillTaskError, match=r"the disk is full: free some space"):
        go_on(fill_in_second_stage)
    assert files_in(small_disk / "staged") == {"begun.json", "stage-0"}

    ballast.unlink()
    told.clear()
    done = go_on(lambda now: told.append((now.position, now.phase)))
    assert told[0] == (0, StagePhase.STAGED_BEFORE)
    assert told[-1] == (1, StagePhase.DONE)
    assert done.outputs["out"] > 0


def test_worker_that_does_not_see_the_staging_directory_says_so(tmp_path: Path) -> None:
    """On another machine, without the mount: its results would be missing without a word."""
    plan = TopologyPlan(counting(lambda _, value: value), "app")
    config = StreamsConfig.of({"bootstrap.servers": "none:9092", **CONFIG})
    whole = BackfillPlan.of(plan, config, {"in": 1})
    job = StageJob(
        whole,
        whole.stages[0],
        StageHistory({}, gaps_allowed=False),
        0,
        staging=tmp_path / "nowhere",
        attempt=tmp_path / "nowhere" / "stage-0.attempt",
    )
    columns: list[Any] = [[None], [0], [None], [None], [None], [None]]
    arrays = [pa.array(column) for column in columns]
    arrays.append(pa.array([None], pa.list_(pa.struct([("key", pa.string())]))))
    taken = TakenRecords(tmp_path / "0", ManualClock())
    marker = pa.RecordBatch.from_arrays(arrays, names=[f"column {n}" for n in range(7)])

    with pytest.raises(
        WorkerFailureError, match=r"nowhere is not there on .*mount it under the same path"
    ):
        list(run_tasks(pack(job, "the topology"), [marker], taken))
