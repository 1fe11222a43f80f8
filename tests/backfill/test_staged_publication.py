"""What a staging directory holds, as what is published; Parquet without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from pystreams import serdes
from pystreams.backfill.hand_over import PublishingRefusedError
from pystreams.backfill.history import PartitionBounds
from pystreams.backfill.publication import PartitionHistory, PublishingCommand
from pystreams.backfill.rescale import rescaled_publication
from pystreams.backfill.rows import Result, ResultKind
from pystreams.backfill.staged_publication import edge_topics, staged_publication
from pystreams.backfill.staging import (
    BackfillIdentity,
    Manifest,
    StagedStage,
    StagingDirectory,
)
from pystreams.backfill.staging_troubles import StagingError
from pystreams.ids import TaskId, TopicPartition
from pystreams.topology.builder import StreamsBuilder
from pystreams.topology.plan import TopologyPlan

TYPES: Any = {"key_serde": serdes.STRING, "value_serde": serdes.STRING}
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def plan_of(application_id: str = "app", extra: str | None = None) -> TopologyPlan:
    builder = StreamsBuilder()
    source = builder.stream("in", **TYPES)
    source.to("middle", **TYPES)
    source.group_by(lambda _, value: value, name="by-value", **TYPES).count(name="counts")
    builder.stream("middle", **TYPES).to("out", **TYPES)
    if extra is not None:
        builder.stream(extra, **TYPES).to("out", **TYPES)
    return TopologyPlan(builder.build(), application_id)


def row(kind: ResultKind, name: str, sequence: int, value: bytes, time_ms: int = 5) -> Result:
    return Result(kind, 0, name, 0, sequence, time_ms, b"k", value, (("h", None),))


def write(staging: StagingDirectory, position: int, rows: Sequence[Result]) -> None:
    """Write rows as Spark lays them out, a file each."""
    for number, one in enumerate(rows):
        directory = (
            staging.stage_path(position) / f"kind={int(one.kind)}/name={one.name}/task={one.task}"
        )
        directory.mkdir(parents=True, exist_ok=True)
        columns = {
            "partition": pa.array([one.partition], pa.int32()),
            "sequence": pa.array([one.sequence], pa.int64()),
            "timestamp": pa.array([one.timestamp], pa.int64()),
            "key": pa.array([one.key], pa.binary()),
            "value": pa.array([one.value], pa.binary()),
            "headers": pa.array([[{"key": k, "value": v} for k, v in one.headers]], HEADERS),
        }
        parquet.write_table(pa.table(columns), directory / f"part-{number:05}.parquet")


def stage(
    position: int, subtopology: int, topic: str, outputs: dict[str, int], state: dict[str, int]
) -> StagedStage:
    return StagedStage(position, subtopology, (topic,), None, 1, 0, 0.0, outputs, state)


ROWS = [
    row(ResultKind.OUTPUT, "middle", 0, b"1"),
    row(ResultKind.OUTPUT, "middle", 1, b"2"),
    row(ResultKind.OUTPUT, "app-by-value-repartition", 0, b"3"),
]


@pytest.fixture
def staged(tmp_path: Path) -> Path:
    plan = plan_of()
    counts = {"in": 1, "middle": 1, "app-by-value-repartition": 1}
    bounds = {TopicPartition("in", 0): PartitionBounds(10, 25, 12)}
    identity = BackfillIdentity.of(plan, counts, {0: 1, 1: 1, 2: 1}, bounds)
    staging = StagingDirectory(tmp_path / "staged")
    staging.begin(identity, 77)
    repartition = "app-by-value-repartition"
    write(staging, 0, [*ROWS, row(ResultKind.END, "in", 22, b"", 9)])
    state = [row(ResultKind.STATE, "counts", number, b"c") for number in range(2)]
    write(staging, 1, [*state, row(ResultKind.END, repartition, 1, b"", 8)])
    stages = (
        stage(0, 0, "in", {"middle": 2, repartition: 1}, {}),
        stage(1, 1, repartition, {}, {"counts": 2}),
        stage(2, 2, "middle", {}, {}),
    )
    staging.finish(Manifest(identity, stages, 77, 1.0))
    return staging.path


def test_rows_come_by_kind_and_name_and_from_any_place_on(staged: Path) -> None:
    first, second, _ = staged_publication(staged, plan_of(), with_outputs=True).tasks
    rows = list(first.rows(0))

    assert [(one.name, one.value) for one in rows] == [("middle", b"1"), ("middle", b"2")]
    assert rows[0].headers == (("h", None),)
    assert [list(first.rows(number)) for number in range(4)] == [rows[n:] for n in range(4)]
    assert [one.kind for one in second.rows(0)] == [ResultKind.STATE] * 2


def test_outputs_that_are_not_published_are_not_read(staged: Path) -> None:
    for file in staged.glob("stage-*/kind=0/name=*/task=*/*.parquet"):
        content = bytearray(file.read_bytes())
        content[4:20] = bytes(16)
        file.write_bytes(content)

    first, second, _ = staged_publication(staged, plan_of(), with_outputs=False).tasks

    assert list(first.rows(0)) == []
    assert [one.kind for one in second.rows(0)] == [ResultKind.STATE] * 2


def test_history_goes_up_to_its_bound_even_if_the_last_offsets_are_no_records(staged: Path) -> None:
    publication = staged_publication(staged, plan_of(), with_outputs=True)
    histories = {
        partition: history
        for task in publication.tasks
        for partition, history in task.histories.items()
    }

    assert histories[TopicPartition("in", 0)] == PartitionHistory(10, 25, 9)
    assert histories[TopicPartition("app-by-value-repartition", 0)].partition_time == 8
    assert histories[TopicPartition("middle", 0)] == PartitionHistory(0, 0)
    assert [task.task_id for task in publication.tasks] == [TaskId(n, 0) for n in range(3)]


def test_topics_between_sub_topologies_are_edges() -> None:
    assert edge_topics(plan_of()) == {"middle", "app-by-value-repartition"}


def test_staged_rescale_reads_topics_in_the_middle_on_and_says_what_it_is(staged: Path) -> None:
    publication = rescaled_publication(staged, plan_of())

    assert publication.edge_topics == {"app-by-value-repartition"}
    assert publication.command is PublishingCommand.RESCALE


def test_id_is_the_same_whenever_it_is_read_and_another_for_another_run(staged: Path) -> None:
    ids = {staged_publication(staged, plan_of(), with_outputs=True).id for _ in range(2)}
    manifest = (staged / "manifest.json").read_text()
    (staged / "manifest.json").write_text(manifest.replace('"started_ms": 77', '"started_ms": 78'))

    assert len(ids | {staged_publication(staged, plan_of(), with_outputs=True).id}) == 2


def test_other_application_or_topology_is_refused(staged: Path) -> None:
    with pytest.raises(PublishingRefusedError, match="results for application"):
        staged_publication(staged, plan_of("other"), with_outputs=True)
    with pytest.raises(PublishingRefusedError, match="topology is not the one"):
        staged_publication(staged, plan_of(extra="more"), with_outputs=True)


def test_unfinished_directory_is_refused(staged: Path) -> None:
    (staged / "manifest.json").unlink()

    with pytest.raises(StagingError, match="not complete: run it again"):
        staged_publication(staged, plan_of(), with_outputs=True)


def test_results_that_are_not_all_there_are_refused_with_what_to_delete(staged: Path) -> None:
    next((staged / "stage-1").rglob("name=counts/*/*.parquet")).unlink()

    with pytest.raises(
        StagingError, match=r"stage-1 holds 1 records of counts, and 2 were staged.*Delete"
    ):
        staged_publication(staged, plan_of(), with_outputs=True)


def test_results_with_more_than_was_staged_are_refused(staged: Path) -> None:
    file = next((staged / "stage-0").rglob("name=middle/*/*.parquet"))
    file.with_name("again.parquet").write_bytes(file.read_bytes())

    with pytest.raises(StagingError, match=r"stage-0 holds 3 records of middle, and 2 were staged"):
        staged_publication(staged, plan_of(), with_outputs=True)


def test_damaged_file_is_refused_by_name(staged: Path) -> None:
    file = next((staged / "stage-0").rglob("name=middle/*/*.parquet"))
    file.write_bytes(b"PAR1" + bytes(100))

    with pytest.raises(StagingError, match=rf"{file.name} can't be read \(ArrowInvalid.*stage-0"):
        staged_publication(staged, plan_of(), with_outputs=True)
