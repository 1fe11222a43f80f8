"""What a Spark worker does for one partition of a stage; without Spark."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pystreams import (
    StateStoreCorruptedError,
    StreamsBuilder,
    StreamsConfig,
    TopicPartition,
    serdes,
)
from pystreams.backfill.plan.backfill_plan import BackfillPlan
from pystreams.backfill.plan.identity import BackfillIdentity
from pystreams.backfill.plan.partition_bounds import PartitionBounds
from pystreams.backfill.spark.failures import WorkerFailureError, failure_in
from pystreams.backfill.spark.pickling import pack
from pystreams.backfill.spark.worker_logging import worker_set_up, workers_log_by
from pystreams.backfill.staging.directory import StagingDirectory
from pystreams.backfill.tasks.record_counts import TakenRecords
from pystreams.backfill.tasks.worker import StageHistory, StageJob, run_reading_tasks
from pystreams.cli.display.logs import configure_logging, set_up_in_workers
from pystreams.testing.simulation import ManualClock
from pystreams.topology.plan.topology_plan import TopologyPlan
from tests.backfill.in_process import Row
from tests.backfill.spark.test_reading_in_workers import RowReader

PARTITION = TopicPartition("in", 3)
VALUES = [b"one", b"\xff\xfe", b"three"]
"""The second is no UTF-8."""


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StageJob:
    """A stage that skips what it can't decode."""
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    builder = StreamsBuilder()
    text: Any = {"key_serde": serdes.STRING, "value_serde": serdes.STRING}
    builder.stream("in", **text).to("out", **text)
    config = StreamsConfig.of(
        {
            "application.id": "app",
            "bootstrap.servers": "none:9092",
            "default.deserialization.exception.handler": "LogAndContinueExceptionHandler",
        }
    )
    plan = TopologyPlan(builder.build(), "app")
    counts = {"in": 4}
    staging = StagingDirectory(tmp_path / "staged")
    staging.begin(BackfillIdentity.of(plan, counts, {0: 4}, {}), 1)
    attempt = staging.new_attempt(0)
    attempt.mkdir()
    rows = [Row("in", 3, offset, offset, b"k", value) for offset, value in enumerate(VALUES)]
    bounds = {PARTITION: PartitionBounds(0, len(rows), len(rows))}
    whole = BackfillPlan.of(plan, config, counts)
    history = StageHistory({}, gaps_allowed=True, reader=RowReader(rows), bounds=bounds)
    return StageJob(whole, whole.stages[0], history, 0, staging.path, attempt)


def run(job: StageJob) -> dict[str, Any]:
    """Run its last task; return what it tells Spark."""
    taken = TakenRecords(job.staging / "counts", ManualClock())
    (told,) = run_reading_tasks(pack(job, "the job"), [3], taken)
    return told._asdict()


def test_workers_log_as_the_program_does_that_runs_the_backfill(
    job: StageJob, capsys: pytest.CaptureFixture[str]
) -> None:
    run(replace(job, set_up_logging=set_up_in_workers("info", "json")))

    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    (skipped,) = [line for line in lines if line["message"] == "record skipped"]
    assert (skipped["level"], skipped["task"], skipped["offset"]) == ("warning", "0_3", 1)


def test_records_that_are_skipped_count_as_dropped(job: StageJob) -> None:
    told = run(job)

    assert (told["rows"], told["dropped"]) == (len(VALUES), 1), "two outputs and the end"


def test_a_store_that_is_damaged_is_told_with_its_files_and_what_to_do(
    job: StageJob, tmp_path: Path
) -> None:
    is_whole = tmp_path / "another disk"
    files = "/spark/rocksdb/counts: Corruption: block checksum mismatch"

    def meets_damage(value: str) -> str:
        if not is_whole.exists():
            raise StateStoreCorruptedError("counts", f"can't be read: damaged ({files})")
        return value

    builder = StreamsBuilder()
    text: Any = {"key_serde": serdes.STRING, "value_serde": serdes.STRING}
    builder.stream("in", **text).map_values(meets_damage).group_by_key().count(name="counts")
    config = job.backfill.config
    whole = BackfillPlan.of(TopologyPlan(builder.build(), "app"), config, {"in": 4})
    counting = replace(job, backfill=whole, stage=whole.stages[0])

    with pytest.raises(WorkerFailureError) as told:
        run(counting)
    failure = str(failure_in(str(told.value)))
    assert failure.startswith(f"task 0_3: state store 'counts': can't be read: damaged ({files})")
    assert failure.endswith("run the backfill again, which goes on with this stage")

    is_whole.touch()
    assert run(counting)["rows"] == 2, "one count, and the end"


def test_logging_of_workers_is_chosen_for_a_block() -> None:
    chosen = partial(configure_logging, "error", "json")
    with workers_log_by(chosen):
        assert worker_set_up() is chosen

    assert worker_set_up() is None
