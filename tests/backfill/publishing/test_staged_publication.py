"""What a staging directory holds, as what is published; Parquet without Spark."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from pystreams import Headers, StreamsBuilder, StreamsConfig, TaskId, TopicPartition, serdes
from pystreams.backfill.plan.fingerprint import declared_configuration
from pystreams.backfill.plan.identity import BackfillIdentity
from pystreams.backfill.plan.partition_bounds import PartitionBounds
from pystreams.backfill.plan.rows import Result, ResultKind, place_of
from pystreams.backfill.plan.turns import with_turn
from pystreams.backfill.publishing.hand_over import PublishingRefusedError
from pystreams.backfill.publishing.publication import (
    PartitionHistory,
    Publication,
    PublishingCommand,
)
from pystreams.backfill.publishing.staged_publication import edge_topics, staged_publication
from pystreams.backfill.rescaling.rescale_state import rescaled_publication
from pystreams.backfill.staging.directory import (
    Manifest,
    StagedStage,
    StagingDirectory,
    read_manifest,
)
from pystreams.backfill.staging.errors import StagingError
from pystreams.backfill.staging.results import StagedResults
from pystreams.backfill.staging.stage_files import counted
from pystreams.topology.plan.topology_plan import TopologyPlan

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


def write(attempt: Path, rows: Sequence[Result]) -> None:
    """Write rows where a stage has them, a file each."""
    for number, row in enumerate(rows):
        directory = attempt / place_of(row.kind, row.name, row.task)
        directory.mkdir(parents=True, exist_ok=True)
        columns = {
            "partition": pa.array([row.partition], pa.int32()),
            "sequence": pa.array([row.sequence], pa.int64()),
            "timestamp": pa.array([row.timestamp], pa.int64()),
            "key": pa.array([row.key], pa.binary()),
            "value": pa.array([row.value], pa.binary()),
            "headers": pa.array([[{"key": k, "value": v} for k, v in row.headers]], HEADERS),
        }
        parquet.write_table(pa.table(columns), directory / f"part-{number:05}.parquet")


def stage(
    staging: StagingDirectory,
    position: int,
    subtopology: int,
    topic: str,
    rows: Sequence[Result] = (),
) -> StagedStage:
    """Stage the rows of a sub-topology as a driver does."""
    attempt = staging.new_attempt(position)
    attempt.mkdir()
    write(attempt, rows)
    outputs = counted(attempt, ResultKind.OUTPUT)
    found = StagedStage(
        position=position,
        subtopology=subtopology,
        topics=(topic,),
        only_topic=None,
        num_tasks=1,
        records=0,
        seconds=0.0,
        outputs=outputs,
        output_partitions=dict.fromkeys(outputs, 3),
        state=counted(attempt, ResultKind.STATE),
        ends=counted(attempt, ResultKind.END),
        attempt=attempt.name,
    )
    return staging.finish_stage(found, attempt)


ROWS = [
    row(ResultKind.OUTPUT, "middle", 0, b"1"),
    row(ResultKind.OUTPUT, "middle", 1, b"2"),
    row(ResultKind.OUTPUT, "app-by-value-repartition", 0, b"3"),
]
REPARTITION = "app-by-value-repartition"


def identity() -> BackfillIdentity:
    counts = {"in": 1, "middle": 1, REPARTITION: 1}
    bounds = {TopicPartition("in", 0): PartitionBounds(10, 25, 12)}
    return BackfillIdentity.of(plan_of(), counts, {0: 1, 1: 1, 2: 1}, bounds)


def publication_of(staged: Path, plan: TopologyPlan, *, with_outputs: bool) -> Publication:
    return staged_publication(StagedResults.whole(staged), plan, with_outputs=with_outputs)


def run_second_stage(staging: StagingDirectory) -> StagedStage:
    state = [row(ResultKind.STATE, "counts", number, b"c") for number in range(2)]
    return stage(staging, 1, 1, REPARTITION, [*state, row(ResultKind.END, REPARTITION, 1, b"", 8)])


def staged_in(path: Path) -> Path:
    """Stage results of three sub-topologies; return where."""
    staging = StagingDirectory(path / "staged")
    staging.begin(identity(), 77)
    stages = (
        stage(staging, 0, 0, "in", [*ROWS, row(ResultKind.END, "in", 22, b"", 9)]),
        run_second_stage(staging),
        stage(staging, 2, 2, "middle"),
    )
    staging.finish(Manifest(identity(), stages, 77, 1.0))
    return staging.path


@pytest.fixture
def staged(tmp_path: Path) -> Path:
    return staged_in(tmp_path)


def test_results_over_computed_offsets_are_not_published(tmp_path: Path) -> None:
    staging = StagingDirectory(tmp_path / "staged")
    finish(staging, replace(identity(), computed_offsets=True))

    with pytest.raises(PublishingRefusedError, match=r"archive without offsets.*write_dataset"):
        publication_of(staging.path, plan_of(), with_outputs=False)


def test_results_over_guessed_partitions_are_not_published(tmp_path: Path) -> None:
    staging = StagingDirectory(tmp_path / "staged")
    finish(staging, replace(identity(), guessed_partitions=True))

    with pytest.raises(PublishingRefusedError, match=r"without partitions.*with Kafka's part"):
        publication_of(staging.path, plan_of(), with_outputs=False)


def test_state_that_the_application_would_read_with_another_serde_is_not_published(
    tmp_path: Path,
) -> None:
    staging = StagingDirectory(tmp_path / "staged")
    text = declared_configuration(configured(**{"default.value.serde": "string"}))
    finish(staging, replace(identity(), configuration=text))
    results, plan = StagedResults.whole(staging.path), plan_of()
    numbers = declared_configuration(configured(**{"default.value.serde": "long"}))

    assert staged_publication(results, plan, text, with_outputs=False).tasks == []
    with pytest.raises(PublishingRefusedError, match=r"another default\.value\.serde: "):
        staged_publication(results, plan, numbers, with_outputs=False)


def configured(**values: object) -> StreamsConfig:
    return StreamsConfig.of({"application.id": "app", "bootstrap.servers": "none:9092", **values})


def finish(staging: StagingDirectory, of: BackfillIdentity) -> None:
    staging.begin(of, 77)
    staging.finish(Manifest(of, (), 77, 1.0))


def test_rows_come_by_kind_and_name_and_from_any_place_on(staged: Path) -> None:
    first, second, _ = publication_of(staged, plan_of(), with_outputs=True).tasks
    rows = list(first.rows(0))

    assert [(row.name, row.value) for row in rows] == [("middle", b"1"), ("middle", b"2")]
    assert rows[0].headers == (("h", None),)
    assert [list(first.rows(number)) for number in range(4)] == [rows[n:] for n in range(4)]
    assert [row.kind for row in second.rows(0)] == [ResultKind.STATE] * 2


@pytest.mark.parametrize("own", [(), (("h", b"1"),)], ids=["no other header", "another header"])
def test_turns_are_not_published(own: Headers, tmp_path: Path) -> None:
    headers = with_turn((b"k", b"1", 5, own), 7)[3]
    staging = StagingDirectory(tmp_path)
    staging.begin(identity(), 77)
    in_turn = row(ResultKind.OUTPUT, "middle", 0, b"1")._replace(headers=headers)
    stages = (
        stage(staging, 0, 0, "in", [in_turn, row(ResultKind.END, "in", 22, b"", 9)]),
        run_second_stage(staging),
        stage(staging, 2, 2, "middle"),
    )
    staging.finish(Manifest(identity(), stages, 77, 1.0))

    first, *_ = publication_of(tmp_path, plan_of(), with_outputs=True).tasks

    assert [row.headers for row in first.rows(0)] == [own]


def test_outputs_that_are_not_published_are_not_read(staged: Path) -> None:
    for file in staged.glob("stage-*/kind=0/name=*/task=*/*.parquet"):
        content = bytearray(file.read_bytes())
        content[4:20] = bytes(16)
        file.write_bytes(content)

    first, second, _ = publication_of(staged, plan_of(), with_outputs=False).tasks

    assert list(first.rows(0)) == []
    assert [row.kind for row in second.rows(0)] == [ResultKind.STATE] * 2


def test_history_goes_up_to_its_bound_even_if_the_last_offsets_are_no_records(staged: Path) -> None:
    publication = publication_of(staged, plan_of(), with_outputs=True)
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
    publication = rescaled_publication(StagedResults.whole(staged), plan_of())

    assert publication.edge_topics == {"app-by-value-repartition"}
    assert publication.command is PublishingCommand.RESCALE


def test_id_is_the_same_whenever_it_is_read_and_another_when_a_stage_was_run_again(
    staged: Path,
) -> None:
    first, again = (publication_of(staged, plan_of(), with_outputs=True).id for _ in range(2))
    staging, manifest = StagingDirectory(staged), read_manifest(staged)
    shutil.rmtree(staging.stage_path(1))
    stages = manifest.stages[0], run_second_stage(staging), manifest.stages[2]
    staging.finish(Manifest(identity(), stages, 77, 1.0))
    other = publication_of(staged, plan_of(), with_outputs=True).id

    assert first == again != other
    assert first.split("-")[0] == other.split("-")[0]


def test_stage_that_was_run_again_by_a_driver_that_was_killed_then_is_refused(
    staged: Path,
) -> None:
    """The manifest is of the rows before: a publication that goes on by it would mix the two."""
    staging = StagingDirectory(staged)
    shutil.rmtree(staging.stage_path(1))
    run_second_stage(staging)

    with pytest.raises(StagingError, match=r"stage-1 is not the stage that manifest\.json lists"):
        publication_of(staged, plan_of(), with_outputs=True)


def test_partition_counts_by_which_outputs_were_placed_are_known(staged: Path) -> None:
    publication = publication_of(staged, plan_of(), with_outputs=True)

    assert publication.written == {("middle", 3)}


def test_other_application_or_topology_is_refused(staged: Path) -> None:
    with pytest.raises(PublishingRefusedError, match="results for application"):
        publication_of(staged, plan_of("other"), with_outputs=True)
    with pytest.raises(PublishingRefusedError, match="topology is not the one"):
        publication_of(staged, plan_of(extra="more"), with_outputs=True)


def test_unfinished_directory_is_refused(staged: Path) -> None:
    (staged / "manifest.json").unlink()

    with pytest.raises(StagingError, match="not complete: run it again"):
        publication_of(staged, plan_of(), with_outputs=True)


def test_results_that_are_not_all_there_are_refused_with_what_to_delete(staged: Path) -> None:
    next((staged / "stage-1").rglob("name=counts/*/*.parquet")).unlink()

    with pytest.raises(
        StagingError, match=r"stage-1 holds 1 records of counts, and 2 were staged.*Delete"
    ):
        publication_of(staged, plan_of(), with_outputs=True)


def test_lost_end_of_a_partition_is_refused(staged: Path) -> None:
    """Without it nobody knows the partition's time: windows that are closed would open again."""
    next((staged / "stage-0").rglob("kind=2/name=in/*/*.parquet")).unlink()

    with pytest.raises(
        StagingError, match=r"stage-0 holds 0 ends of partitions of in, and 1 were staged.*Delete"
    ):
        publication_of(staged, plan_of(), with_outputs=False)


def test_results_with_more_than_was_staged_are_refused(staged: Path) -> None:
    file = next((staged / "stage-0").rglob("name=middle/*/*.parquet"))
    file.with_name("again.parquet").write_bytes(file.read_bytes())

    with pytest.raises(StagingError, match=r"stage-0 holds 3 records of middle, and 2 were staged"):
        publication_of(staged, plan_of(), with_outputs=True)


def test_damaged_file_is_refused_by_name(staged: Path) -> None:
    file = next((staged / "stage-0").rglob("name=middle/*/*.parquet"))
    file.write_bytes(b"PAR1" + bytes(100))

    with pytest.raises(StagingError, match=rf"{file.name} can't be read \(ArrowInvalid.*stage-0"):
        publication_of(staged, plan_of(), with_outputs=True)
