"""How far a backfill is: what workers count, what the driver makes of it, and whom it tells."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from structlog.testing import capture_logs

from pystreams import TaskId
from pystreams.backfill import PublishingProgress, StagePhase, StageProgress
from pystreams.backfill.execution.progress import StageMeter
from pystreams.backfill.publishing.progress import PublishingMeter
from pystreams.backfill.publishing.publication import PublishedRecords
from pystreams.backfill.tasks.record_counts import StageCounts, TakenRecords
from pystreams.backfill.teller import Teller
from pystreams.testing.simulation import ManualClock

BEGUN = StageProgress(0, 2, ("in",), 1000)


def batch(topics: list[str | None]) -> pa.RecordBatch:
    """Rows of a stage, as far as counting looks at them."""
    return pa.record_batch({"topic": pa.array(topics, pa.string())})


def count(directory: Path, partition: int, batches: list[pa.RecordBatch]) -> None:
    """Take all batches of a Spark partition."""
    for _ in TakenRecords(directory / str(partition), ManualClock()).of_batches(batches):
        pass


@pytest.fixture
def counts(tmp_path: Path) -> StageCounts:
    made = StageCounts(tmp_path / "counts")
    made.prepare()
    return made


def test_reading_has_no_rate_and_processing_has_that_of_the_last_seconds() -> None:
    meter = StageMeter(BEGUN, now_ms=5000.0)

    reading = meter.progress(0, (3, 8), 9000.0)
    meter.progress(100, None, 10_000.0)
    processing = meter.progress(300, None, 12_000.0)

    assert (reading.phase, reading.seconds) == (StagePhase.READING, 4.0)
    assert (reading.spark_tasks, reading.seconds_left) == ((3, 8), None)
    assert (processing.phase, processing.taken, processing.seconds) == (
        StagePhase.PROCESSING,
        300,
        7.0,
    )
    assert processing.records_per_second == 100.0
    assert processing.seconds_left == 7.0


def test_without_growth_nobody_can_tell_the_time_left() -> None:
    meter = StageMeter(BEGUN, now_ms=0.0)
    first = meter.progress(100, None, 1000.0)
    still = meter.progress(100, None, 2000.0)

    assert (first.records_per_second, first.seconds_left) == (None, None)
    assert (still.records_per_second, still.seconds_left) == (None, None)


def test_taken_is_never_more_than_there_are() -> None:
    """A partition of Kafka's may hold more when it is read than when it was counted."""
    assert StageMeter(BEGUN, 0.0).progress(1001, None, 1000.0).taken == 1000


def test_done_stage_has_taken_all_and_tells_its_own_rate() -> None:
    done = BEGUN.done(4.0)
    before = BEGUN.done(4.0, before=True)

    assert (done.phase, done.taken, done.records_per_second) == (StagePhase.DONE, 1000, 250.0)
    assert (before.phase, before.seconds_left) == (StagePhase.STAGED_BEFORE, None)
    assert BEGUN.done(0.0).records_per_second is None


def test_counts_of_all_partitions_add_up_and_rows_without_topic_are_no_records(
    counts: StageCounts,
) -> None:
    count(counts.directory, 0, [batch([None, "in", "in"]), batch(["in"])])
    count(counts.directory, 1, [batch([None])])

    assert counts.records() == 3


def test_partition_that_runs_again_counts_once(counts: StageCounts) -> None:
    taken = TakenRecords(counts.directory / "0", ManualClock())
    first = taken.of_batches([batch(["in"] * 5), batch(["in"] * 5)])
    next(first)
    next(first)
    before = counts.records()
    count(counts.directory, 0, [batch(["in"] * 2)])
    again = counts.records()
    count(counts.directory, 0, [batch(["in"] * 5), batch(["in"] * 5)])

    assert (before, again) == (5, 5)
    # It has said before that there is no more: its file is not read again.
    assert counts.records() == 5


def test_file_is_written_once_a_second_and_at_the_end(tmp_path: Path) -> None:
    clock = ManualClock()
    file = tmp_path / "0"
    seen = []
    for _ in TakenRecords(file, clock).of_batches([batch(["in"])] * 4):
        seen.append(StageCounts(tmp_path).records())
        clock.advance_ms(600)

    # After the first at 0.6 s, the third at 1.8 s, and the last.
    assert seen == [0, 1, 1, 3]
    assert StageCounts(tmp_path).records() == 4


def test_file_that_is_being_written_and_a_directory_that_is_gone_are_no_trouble(
    counts: StageCounts,
) -> None:
    count(counts.directory, 0, [batch(["in"])])
    (counts.directory / "1").write_bytes(b"\x00\x00")
    assert counts.records() == 1

    counts.remove()
    count(counts.directory, 2, [batch(["in"])])
    assert counts.records() == 1
    assert not counts.directory.exists()


def test_what_a_killed_driver_left_is_not_counted(counts: StageCounts) -> None:
    count(counts.directory, 7, [batch(["in"] * 9)])
    again = StageCounts(counts.directory)
    again.prepare()

    assert again.records() == 0


def test_callback_that_raises_is_logged_once_and_not_called_again() -> None:
    calls = []

    def display(now: StageProgress) -> None:
        calls.append(now)
        raise ValueError("no terminal")

    tell = Teller(display)
    with capture_logs() as logs:
        tell(BEGUN)
        tell(BEGUN.done(1.0))

    assert calls == [BEGUN]
    assert [line["event"] for line in logs] == [
        "progress is not told any more: its callback raised an error"
    ]


def test_publishing_counts_what_an_earlier_run_did_but_not_into_its_rate() -> None:
    clock = ManualClock()
    told: list[PublishingProgress] = []
    meter = PublishingMeter(1000, told.append, clock)
    meter.published(PublishedRecords(TaskId(0, 0), 600, by_earlier_run=True))
    clock.advance_ms(2000)
    meter.published(PublishedRecords(TaskId(0, 1), 100, by_earlier_run=False))

    first, last = told
    assert (first.records, first.records_per_second, first.seconds_left) == (600, None, None)
    assert (last.records, last.of_records, last.seconds) == (700, 1000, 2.0)
    assert (last.records_per_second, last.seconds_left) == (50.0, 6.0)
