"""Global stores of a backfill: what fills them, in each worker, once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from pystreams import StreamsBuilder, StreamsConfig, StreamsError, TopicPartition
from pystreams.backfill import KafkaSource
from pystreams.backfill.plan.backfill_plan import BackfillPlan
from pystreams.backfill.plan.identity import BackfillIdentity
from pystreams.backfill.plan.partition_bounds import PartitionBounds
from pystreams.backfill.plan.rows import ResultKind
from pystreams.backfill.sources.history import WantedTopics
from pystreams.backfill.spark.failures import WorkerFailureError
from pystreams.backfill.spark.pickling import pack
from pystreams.backfill.staging.directory import StagingDirectory
from pystreams.backfill.tasks import worker
from pystreams.backfill.tasks.global_history import GlobalHistory, StagedRows
from pystreams.backfill.tasks.record_counts import TakenRecords
from pystreams.backfill.tasks.result_files import move_into_place
from pystreams.backfill.tasks.worker import StageHistory, StageJob, run_reading_tasks
from pystreams.testing.simulation import (
    Faults,
    Lifeline,
    ManualClock,
    SimulatedBroker,
    SimulatedClients,
)
from pystreams.topology.plan.topology_plan import TopologyPlan
from tests.backfill.in_process import Row, batch_of
from tests.backfill.sources.covered import TEXT
from tests.backfill.spark.test_reading_in_workers import RowReader

PEOPLE = TopicPartition("people", 0)
CONFIG = {"application.id": "app", "bootstrap.servers": "none:9092"}


def greeting() -> TopologyPlan:
    """Each record meets the row of its value."""
    builder = StreamsBuilder()
    people = builder.global_table("people", name="people", **TEXT)
    visits = builder.stream("visits", **TEXT)
    visits.join(people, lambda _, name: name, lambda _, row: f"hello {row}").to("out", **TEXT)
    return TopologyPlan(builder.build(), "app")


def row(topic: str, partition: int, offset: int, key: str, value: str) -> Row:
    return Row(topic, partition, offset, offset, key.encode(), value.encode())


def job_of(tmp_path: Path, people: RowReader, run: str) -> StageJob:
    """Two tasks, each with a visit of somebody whose row came long after it."""
    plan = greeting()
    counts = {"visits": 2, "people": 1}
    staging = StagingDirectory(tmp_path / "staged")
    staging.begin(BackfillIdentity.of(plan, {"visits": 2}, {0: 2}, {}), 1)
    attempt = staging.new_attempt(0)
    attempt.mkdir()
    visits = RowReader([row("visits", number, 0, "v", "ann") for number in (0, 1)])
    bounds = {TopicPartition("visits", number): PartitionBounds(0, 1, 1) for number in (0, 1)}
    whole = BackfillPlan.of(plan, StreamsConfig.of(CONFIG), counts)
    return StageJob(
        whole,
        whole.stages[0],
        StageHistory({}, gaps_allowed=True, reader=visits, bounds=bounds),
        0,
        staging.path,
        attempt,
        global_history=GlobalHistory(run, people, {PEOPLE: PartitionBounds(0, 9, 2)}),
    )


@pytest.fixture
def of_worker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """The global stores of this process, which has none yet."""
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    monkeypatch.setattr(worker, "_global_stores", {})
    yield worker._global_stores
    for stores in worker._global_stores.values():
        stores.close()


def outputs(job: StageJob, tasks: list[int]) -> list[bytes | None]:
    taken = TakenRecords(job.staging / "counts", ManualClock())
    runs = list(run_reading_tasks(pack(job, "the job"), tasks, taken))
    move_into_place(job.attempt, runs)
    return [
        value
        for file in sorted(job.attempt.glob(f"kind={int(ResultKind.OUTPUT)}/*/*/*.parquet"))
        for value in parquet.read_table(file).column("value").to_pylist()
    ]


def test_tasks_of_a_worker_share_stores_that_hold_the_whole_history(
    of_worker: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    people = RowReader([row("people", 0, 7, "ann", "Ann"), row("people", 0, 8, "ann", "Anna")])
    job = job_of(tmp_path, people, "first")
    # Readers are pickled on their way: what they note is noted in another object.
    monkeypatch.setattr(worker, "unpack", lambda _: job)

    assert outputs(job, [0, 1]) == [b"hello Anna", b"hello Anna"]

    assert people.closed == [PEOPLE], "read once"


def test_stores_of_a_run_before_are_closed_and_removed(of_worker: Any, tmp_path: Path) -> None:
    outputs(job_of(tmp_path, RowReader([row("people", 0, 1, "ann", "Ann")]), "first"), [0])
    (before,) = tmp_path.glob("pystreams-global-*")
    again = job_of(tmp_path, RowReader([row("people", 0, 1, "ann", "Anna")]), "second")

    assert outputs(again, [0]) == [b"hello Anna"]

    assert not before.exists()
    assert list(of_worker) == ["second"]


def test_row_that_can_t_be_read_fails_the_task_and_leaves_nothing(
    of_worker: Any, tmp_path: Path
) -> None:
    broken = RowReader([replace(row("people", 0, 1, "ann", ""), value=b"\xff")])

    with pytest.raises(WorkerFailureError, match="people"):
        outputs(job_of(tmp_path, broken, "first"), [0])

    assert list(tmp_path.glob("pystreams-global-*")) == []


def test_ends_of_global_topics_are_fixed_with_the_others_and_tell_backfills_apart() -> None:
    broker = SimulatedBroker(ManualClock(), Faults(0))
    broker.create_topic("visits", 1)
    broker.create_topic("people", 1)
    plan = greeting()
    admin = SimulatedClients(broker, Lifeline("driver", broker.faults)).admin()
    source = KafkaSource("none:9092", admin)

    def identity(wanted: WantedTopics) -> BackfillIdentity:
        return BackfillIdentity.of(plan, {"visits": 1}, {1: 1}, source.bounds(wanted)[1])

    broker.produce("people", b"ann", b"Ann", 1)
    begun = identity(WantedTopics.of(plan, None))
    broker.produce("people", b"ann", b"Anna", 2)

    assert begun.bounds["people-0"] == (0, 1, 1)
    assert identity(WantedTopics.of(plan, begun)) == begun, "what is begun keeps its ends"
    assert identity(WantedTopics.of(plan, None)).fingerprint != begun.fingerprint


def test_rows_that_were_staged_for_workers_come_back_in_order(tmp_path: Path) -> None:
    rows = [row("people", 0, offset, "ann", str(offset)) for offset in (3, 4, 9)]
    reader = StagedRows(tmp_path, gaps_allowed=True)
    place = tmp_path / reader.place_of(PEOPLE)
    place.mkdir(parents=True)
    parquet.write_table(pa.Table.from_batches([batch_of(rows)]), place / "rows.parquet")
    has = PartitionBounds(3, 10, 3)

    found = [message.offset() for batch in reader.read(PEOPLE, has) for message in batch]

    assert found == [3, 4, 9]
    with pytest.raises(StreamsError, match="has a gap"):
        list(replace(reader, gaps_allowed=False).read(PEOPLE, has))
