"""What goes wrong in a worker: retried without a trace, or told with its place and cure."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from pystreams import StreamsBuilder, Topology, TopologyError, serdes
from pystreams.backfill import ArchiveSource, StagePhase
from pystreams.backfill import run as run_backfill
from pystreams.backfill.plan.rows import Result, ResultKind
from pystreams.backfill.spark.failures import BackfillTaskError
from pystreams.backfill.staging.directory import read_manifest
from pystreams.backfill.staging.errors import StagingError
from tests.backfill.in_process import Row, run
from tests.backfill.sources.covered import CONFIG, COUNT, TEXT, made_up
from tests.backfill.spark.on_spark import run_on_spark, write_archive
from tests.backfill.spark.test_on_spark import in_order

ROWS = made_up("in", 7, 60, num_partitions=2)


def counting(look: Callable[[str, Any], Any]) -> Topology:
    """Counts values by key, after a look at each record."""
    builder = StreamsBuilder()
    stream = builder.stream("in", **TEXT).map_values(look, with_key=True)
    stream.group_by_key().count(name="counts").to_stream().to("out", **COUNT)
    return builder.build()


def test_task_that_fails_on_its_first_attempt_leaves_one_result(spark: Any, tmp_path: Path) -> None:
    before = leftovers(spark)
    failed = tmp_path / "failed"

    def fail_once(key: str, value: str) -> str:
        if not failed.exists():
            failed.touch()
            raise ConnectionError("the first attempt only")
        return value

    done, found = run_on_spark(counting(fail_once), CONFIG, ROWS, {"in": 2}, tmp_path)

    expected = run(counting(lambda _, value: value), CONFIG, ROWS, {"in": 2}, tmp_path / "expected")
    assert failed.exists()
    assert in_order(found) == in_order(expected)
    assert done.outputs == {"out": sum(row.value is not None for row in ROWS)}
    assert leftovers(spark) == before


def leftovers(spark: Any) -> set[Path]:
    """Directories of tasks that are still there, those of workers that another test killed too."""
    environment = spark.sparkContext._jvm.org.apache.spark.SparkEnv.get()
    directories = list(environment.blockManager().diskBlockManager().localDirsString())
    assert directories
    return {found for directory in directories for found in Path(directory).glob("pystreams-*")}


def test_error_of_the_user_s_code_names_task_record_and_line(spark: Any, tmp_path: Path) -> None:
    before = leftovers(spark)
    bad = next(row for row in ROWS if row.partition == 1 and row.offset == 5)

    def refuse(key: str, value: str) -> str:
        if key == bad.key.decode() and value == "sesame":
            raise ValueError(f"no {value}")
        return value

    rows = [
        Row("in", 1, 5, row.timestamp, row.key, b"sesame") if row is bad else row for row in ROWS
    ]
    with pytest.raises(BackfillTaskError) as raised:
        run_on_spark(counting(refuse), CONFIG, rows, {"in": 2}, tmp_path)

    error = raised.value
    assert (error.task_id, error.topic, error.partition, error.offset) == ("0_1", "in", 1, 5)
    assert error.error == "ProcessingError"
    assert "no sesame" in str(error)
    assert "test_failures_on_spark.py" in error.user_traceback
    assert error.user_traceback.endswith("ValueError: no sesame")
    assert "org.apache.spark" not in str(error)
    # That of 0_0 may be there: Spark has asked it to end, and does not wait for that.
    left = {found.name for found in leftovers(spark) - before}
    assert not [name for name in left if not name.startswith("pystreams-0_0-")]
    with pytest.raises(StagingError, match="not complete: run it again"):
        read_manifest(tmp_path / "staging")


def test_record_that_can_t_be_decoded_is_named(spark: Any, tmp_path: Path) -> None:
    rows = [Row("in", 0, 0, 1, b"k", b"\xff\xfe"), Row("in", 0, 1, 2, b"k", b"v")]

    with pytest.raises(BackfillTaskError, match=r"can't read the value .* in-0 offset 0") as raised:
        run_on_spark(counting(lambda _, value: value), CONFIG, rows, {"in": 1}, tmp_path)

    assert raised.value.error == "SerializationError"
    assert (raised.value.topic, raised.value.partition, raised.value.offset) == ("in", 0, 0)


def test_records_that_can_t_be_decoded_are_skipped_as_live_if_the_handler_says_so(
    spark: Any, tmp_path: Path
) -> None:
    """In each partition one is the first, one in the middle, and one the last of the history."""
    rows = [replace(row, value=row.value or b"v") for row in ROWS]
    ends = {row.partition: row.offset for row in rows}
    bad = {(part, offset) for part, end in ends.items() for offset in (0, 5, end)}
    spoilt = [
        replace(row, value=b"\xff\xfe") if (row.partition, row.offset) in bad else row
        for row in rows
    ]
    config = {**CONFIG, "default.deserialization.exception.handler": "continue"}
    topology = counting(lambda _, value: value)
    done, found = run_on_spark(topology, config, spoilt, {"in": 2}, tmp_path)

    with capture_logs() as logs:
        expected = run(topology, config, spoilt, {"in": 2}, tmp_path / "expected")
    assert in_order(found) == in_order(expected)
    assert done.outputs == {"out": len(rows) - len(bad)}
    read = {result.partition: result.sequence for result in found if result.kind is ResultKind.END}
    assert read == {partition: end + 1 for partition, end in ends.items()}
    skipped = [line for line in logs if line["event"] == "record skipped"]
    assert {(line["partition"], line["offset"]) for line in skipped} == bad
    assert {(line["topic"], line["stage"]) for line in skipped} == {("in", "deserialization")}
    dropped = [line for line in logs if line["event"] == "records dropped"]
    assert [(line["task"], line["records"]) for line in dropped] == [("0_0", 3), ("0_1", 3)]


def test_skipped_record_keeps_nobody_waiting(spark: Any, tmp_path: Path) -> None:
    """Its timestamp is far ahead; the record behind it is taken in its turn, as in a live run."""
    builder = StreamsBuilder()
    builder.stream("left", **TEXT).merge(builder.stream("right", **TEXT)).to("out", **TEXT)
    topology, partitions = builder.build(), {"left": 1, "right": 1}
    bad = Row("left", 0, 1, 1_000_000, b"k", b"\xff\xfe")
    rows = [
        *(Row("left", 0, number, number, b"k", b"left %d" % number) for number in (0, 2)),
        *(Row("right", 0, number, number, b"k", b"right %d" % number) for number in range(200)),
    ]
    config = {**CONFIG, "deserialization.exception.handler": "continue"}
    _, found = run_on_spark(topology, config, [*rows, bad], partitions, tmp_path)

    expected = run(topology, CONFIG, rows, partitions, tmp_path / "expected")
    assert outputs(found) == outputs(expected)
    assert outputs(found)[3] == b"left 2"


def outputs(results: list[Result]) -> list[bytes | None]:
    return [result.value for result in results if result.kind is ResultKind.OUTPUT]


def test_topology_that_holds_a_lock_is_refused_with_the_cure(spark: Any, tmp_path: Path) -> None:
    lock = threading.Lock()

    def guarded(key: str, value: str) -> str:
        with lock:
            return value

    with pytest.raises(TopologyError, match=r"can't be sent to Spark's workers.*lock.*init"):
        run_on_spark(counting(guarded), CONFIG, ROWS, {"in": 2}, tmp_path)


def test_record_for_a_topic_that_was_read_already_is_refused(spark: Any, tmp_path: Path) -> None:
    topology = Topology()
    topology.add_source("source", "in", **TEXT)
    topology.add_sink("sink", lambda *_: "in", "source", **TEXT)

    with pytest.raises(TopologyError, match=r"records to topic 'in', which .* read already"):
        run_on_spark(topology, CONFIG, ROWS, {"in": 2}, tmp_path)


def two_stages() -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream("in", **TEXT).filter(lambda _, value: value is not None)
    grouped = stream.group_by(lambda _, value: value, name="by-value", **TEXT)
    grouped.count(name="counts").to_stream().to("out", **COUNT)
    return builder.build()


def test_run_again_does_what_is_missing_and_nothing_else(spark: Any, tmp_path: Path) -> None:
    archive = ArchiveSource(str(write_archive(ROWS, tmp_path / "archive")))
    output = tmp_path / "staging"
    first = run_backfill(two_stages(), CONFIG, source=archive, output=output)

    def again() -> tuple[Any, dict[int, StagePhase]]:
        told: dict[int, StagePhase] = {}
        result = run_backfill(
            two_stages(),
            CONFIG,
            source=archive,
            output=output,
            progress=lambda now: told.update({now.position: now.phase}),
        )
        return result, told

    complete, told = again()
    assert complete.manifest == first.manifest
    assert told == {0: StagePhase.STAGED_BEFORE, 1: StagePhase.STAGED_BEFORE}

    (output / "manifest.json").unlink()
    (output / "stage-1" / "_stage.json").unlink()
    resumed, told = again()
    assert told == {0: StagePhase.STAGED_BEFORE, 1: StagePhase.DONE}
    assert (resumed.outputs, resumed.state) == (first.outputs, first.state)
    assert resumed.manifest.started_ms == first.manifest.started_ms
    # What publishing asks: where a stage came from, and what its rows were placed by.
    assert [
        now.attempt == then.attempt for now, then in zip(resumed.stages, first.stages, strict=True)
    ] == [True, False]
    assert resumed.stages[1].output_partitions == {"out": 1}
    assert [stage.ends for stage in resumed.stages] == [
        {"in": 2},
        {f"{CONFIG['application.id']}-by-value-repartition": 2},
    ]

    # As of one that was not complete; what is refused of a complete one needs no Spark.
    (output / "manifest.json").unlink()
    with pytest.raises(
        StagingError, match=r"another backfill or rescale \(its topology, number of partitions"
    ):
        run_backfill(
            counting(lambda _, value: value),
            {**CONFIG, "application.id": "app"},
            source=archive,
            output=output,
        )


def test_key_that_is_no_text_is_a_result_like_any_other(spark: Any, tmp_path: Path) -> None:
    builder = StreamsBuilder()
    raw: Any = {"key_serde": serdes.BYTES, "value_serde": serdes.BYTES}
    builder.stream("in", **raw).to("out", **raw)
    rows = [Row("in", 0, 0, 1, b"\xff\x00", b"\x80" * 70_000), Row("in", 0, 1, 2, None, None)]

    _, found = run_on_spark(builder.build(), CONFIG, rows, {"in": 1}, tmp_path)

    written = [(result.key, result.value) for result in found if result.name == "out"]
    assert written == [(b"\xff\x00", b"\x80" * 70_000), (None, None)]
