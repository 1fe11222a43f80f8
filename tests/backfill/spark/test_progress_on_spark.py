"""Progress within a stage: it moves while tasks run, ends at all records, counts nothing twice.

Tasks wait in the user's code until the driver has told how far they are: nothing here depends on
how fast a machine is.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pystreams import StreamsBuilder, Topology
from pystreams.backfill import ArchiveSource, BackfillResult, StagePhase, StageProgress, run
from tests.backfill.in_process import Row
from tests.backfill.sources.covered import CONFIG, COUNT, TEXT
from tests.backfill.spark.on_spark import write_archive

RECORDS = 120
FIRST_BATCH = 49
"""Of the 50 rows that the session's Arrow batches have, the first one is the marker."""
DEADLINE_S = 240.0
ROWS = [Row("in", 0, offset, offset, b"k", str(offset).encode()) for offset in range(RECORDS)]


def looking(look: Callable[[str, str], str]) -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream("in", **TEXT).map_values(look, with_key=True)
    stream.group_by_key().count(name="counts").to_stream().to("out", **COUNT)
    return builder.build()


def wait_for(file: Path) -> None:
    deadline_s = time.monotonic() + DEADLINE_S
    while not file.exists():
        assert time.monotonic() < deadline_s, f"{file} did not come"
        time.sleep(0.02)


class Told:
    """Takes note of what is told; makes the file that tasks wait for once some records are taken.

    Args:
        seen: The file.
    """

    def __init__(self, seen: Path) -> None:
        self._seen = seen
        self.all: list[tuple[StageProgress, threading.Thread]] = []

    def __call__(self, now: StageProgress) -> None:
        self.all.append((now, threading.current_thread()))
        if now.phase is StagePhase.PROCESSING:
            self._seen.touch()

    def of(self, phase: StagePhase) -> list[StageProgress]:
        return [now for now, _ in self.all if now.phase is phase]


def backfill(topology: Topology, told: Told, directory: Path) -> BackfillResult:
    source = ArchiveSource(str(write_archive(ROWS, directory / "archive")))
    output = directory / "staging"
    return run(topology, CONFIG, source=source, output=output, progress=told)


def test_progress_moves_within_a_stage_and_ends_at_all_records(spark: Any, tmp_path: Path) -> None:
    seen = tmp_path / "seen"

    def wait_at_the_end(_key: str, value: str) -> str:
        if value == str(RECORDS - 1):
            wait_for(seen)
        return value

    told = Told(seen)
    done = backfill(looking(wait_at_the_end), told, tmp_path)

    phases = [now.phase for now, _ in told.all]
    assert phases[0] is StagePhase.BEGUN
    assert phases[-1] is StagePhase.DONE
    taken = [now.taken for now, _ in told.all]
    assert taken == sorted(taken)
    assert told.of(StagePhase.PROCESSING)[0].taken in {FIRST_BATCH, FIRST_BATCH + 50}
    assert (taken[-1], told.all[-1][0].records) == (RECORDS, RECORDS)
    assert done.outputs == {"out": RECORDS}
    # Begin and end come in the caller's thread, the rest in one of the backfill's own.
    here = threading.current_thread()
    in_between = {now.phase for now, thread in told.all if thread is not here}
    assert in_between <= {StagePhase.READING, StagePhase.PROCESSING}
    assert {now.phase for now, thread in told.all if thread is here} == {
        StagePhase.BEGUN,
        StagePhase.DONE,
    }
    assert sorted(file.name for file in done.path.iterdir() if "stage" in file.name) == ["stage-0"]


def test_task_that_is_tried_again_is_not_counted_twice(spark: Any, tmp_path: Path) -> None:
    seen, failed = tmp_path / "seen", tmp_path / "failed"

    def fail_then_wait(_key: str, value: str) -> str:
        if value == str(RECORDS - 1):
            if not failed.exists():
                failed.touch()
                raise ConnectionError("the first attempt only")
            wait_for(seen)
        return value

    told = Told(seen)
    done = backfill(looking(fail_then_wait), told, tmp_path)

    # Whichever attempt has written it: as many as whole batches hold, once.
    assert {now.taken for now in told.of(StagePhase.PROCESSING)} <= {
        FIRST_BATCH,
        FIRST_BATCH + 50,
        RECORDS,
    }
    assert failed.exists()
    assert done.outputs == {"out": RECORDS}


def test_jobs_of_a_session_that_was_there_keep_their_group(spark: Any, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    spark.sparkContext.setJobGroup("mine", "my jobs")
    try:
        backfill(looking(lambda _, value: value), Told(seen), tmp_path)
        assert spark.sparkContext.getLocalProperty("spark.jobGroup.id") == "mine"
        assert spark.sparkContext.getLocalProperty("spark.job.description") == "my jobs"
    finally:
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)
        spark.sparkContext.setLocalProperty("spark.job.description", None)
