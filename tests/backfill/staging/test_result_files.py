"""Results that workers write: only what Spark has taken gets its place, in order, however much."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from pyarrow import parquet

from pystreams.backfill.plan.rows import ResultBatch, ResultKind
from pystreams.backfill.staging.directory import StagingDirectory
from pystreams.backfill.staging.errors import StagingError
from pystreams.backfill.staging.stage_files import counted
from pystreams.backfill.tasks.result_files import (
    ResultFiles,
    WrittenRun,
    arrow_batch,
    move_into_place,
)
from tests.backfill.in_process import rows_of


def batch(
    first: int, count: int = 3, *, kind: ResultKind = ResultKind.OUTPUT, name: str = "out"
) -> ResultBatch:
    records = [(b"k", b"v%d" % number, number, ()) for number in range(first, first + count)]
    return ResultBatch(kind, 2, name, [number % 4 for number in range(count)], first, records)


@pytest.fixture
def attempt(tmp_path: Path) -> Path:
    directory = StagingDirectory(tmp_path).stage_path(0)
    directory.mkdir()
    return directory


def written(attempt: Path, batches: Iterable[ResultBatch], **limits: int) -> WrittenRun:
    """Write results as one run; return what it tells."""
    with ResultFiles(attempt, attempt.parent, **limits) as files:
        for batch in batches:
            files.write(batch)
        return files.finish()


def sequences(attempt: Path, kind: ResultKind = ResultKind.OUTPUT, name: str = "out") -> list[int]:
    return [row.sequence for row in StagingDirectory(attempt.parent).files(0).rows(kind, name, 2)]


def files_in(attempt: Path) -> set[str]:
    return {str(file.relative_to(attempt)) for file in attempt.rglob("*") if file.is_file()}


def test_rows_come_back_as_they_were_with_their_nulls_and_headers(attempt: Path) -> None:
    records = [
        (None, b"v", 50, (("h", b"1"), ("h", None))),
        (b"k", None, -1, ()),
        (b"", b"", 7, ()),
    ]
    given = ResultBatch(ResultKind.STATE, 2, "counts", [2, 2, 2], 40, records)

    move_into_place(attempt, [written(attempt, [given])])

    staging = StagingDirectory(attempt.parent)
    assert list(staging.files(0).rows(ResultKind.STATE, "counts", 2)) == rows_of(given)
    assert counted(attempt, ResultKind.STATE) == {"counts": 3}


def test_run_that_spark_has_not_taken_leaves_nothing(attempt: Path) -> None:
    written(attempt, [batch(0, 5)])
    taken = written(attempt, [batch(0), batch(0, kind=ResultKind.STATE, name="counts")])

    move_into_place(attempt, [taken])

    assert files_in(attempt) == {
        f"kind=0/name=out/task=2/000000-{taken[0]}.parquet",
        f"kind=1/name=counts/task=2/000000-{taken[0]}.parquet",
    }
    assert sequences(attempt) == [0, 1, 2]


def test_run_that_goes_on_after_its_time_adds_nothing(attempt: Path) -> None:
    late = ResultFiles(attempt, attempt.parent)
    late.write(batch(0))
    move_into_place(attempt, [written(attempt, [batch(0)])])

    late.write(batch(3))
    late.finish()

    assert sequences(attempt) == [0, 1, 2]
    assert counted(attempt, ResultKind.OUTPUT) == {"out": 3}


def test_run_that_fails_takes_its_files_away(attempt: Path) -> None:
    def results() -> Iterator[ResultBatch]:
        yield batch(0)
        assert not files_in(attempt)
        yield from (batch(first, 50_000) for first in range(3, 500_000, 50_000))
        assert files_in(attempt)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        written(attempt, results())

    assert files_in(attempt) == set()


def test_run_without_results_is_a_run_too(attempt: Path) -> None:
    move_into_place(attempt, [written(attempt, []), written(attempt, [batch(0)])])

    assert sequences(attempt) == [0, 1, 2]


def test_order_is_kept_over_row_groups_and_files(attempt: Path) -> None:
    """Few files may be open, and little may wait: topics of an extractor may be many."""
    group_bytes = arrow_batch(batch(0)).nbytes + 1
    names = [f"out-{number}" for number in range(5)]
    batches = [batch(first, name=name) for first in range(0, 60, 3) for name in names]

    run = written(attempt, batches, open_files_max=2, row_group_bytes=group_bytes)
    move_into_place(attempt, [run])

    for name in names:
        assert sequences(attempt, name=name) == list(range(60))
    assert len(files_in(attempt)) > len(names)


def test_rows_with_large_values_lie_in_groups_that_can_be_read_one_by_one(attempt: Path) -> None:
    records = [(b"k", bytes(1000), 1, ())] * 100
    large = ResultBatch(ResultKind.OUTPUT, 2, "out", [0] * 100, 0, records)

    move_into_place(attempt, [written(attempt, [large], row_group_bytes=10_000)])

    [file] = attempt.rglob("*.parquet")
    with parquet.ParquetFile(file) as opened:
        groups = [opened.metadata.row_group(at) for at in range(opened.num_row_groups)]
    assert sum(group.num_rows for group in groups) == 100
    assert max(group.num_rows for group in groups) < 20
    assert sequences(attempt) == list(range(100))


def test_no_more_waits_in_memory_than_there_may(attempt: Path) -> None:
    most_bytes = 10 * arrow_batch(batch(0)).nbytes
    with ResultFiles(attempt, attempt.parent, waiting_max_bytes=most_bytes) as files:
        for number in range(100):
            files.write(batch(0, name=f"out-{number}"))
        on_disk = len(files_in(attempt))
        files.finish()

    assert on_disk >= 88


def test_files_that_the_driver_does_not_see_are_told_with_the_cure(attempt: Path) -> None:
    done = written(attempt, [batch(0)])

    with pytest.raises(
        StagingError,
        match=r"has written 2 files to .* and 1 are seen here: mount the staging directory",
    ):
        move_into_place(attempt, [done._replace(files=2)])


def test_run_tells_how_many_rows_it_has_written_of_all_kinds(attempt: Path) -> None:
    batches = [batch(0, 5), batch(0, 2, kind=ResultKind.STATE), batch(0, 1, kind=ResultKind.END)]

    assert written(attempt, batches).rows == 8
    assert written(attempt, []).rows == 0


def test_disk_that_is_full_is_told_with_the_cure(small_disk: Path) -> None:
    attempt = small_disk / "stage-0"
    attempt.mkdir()

    many = (batch(number * 3000, 3000) for number in range(10_000))
    with pytest.raises(StagingError, match=r"the disk is full: free some space"):
        written(attempt, many)

    assert files_in(attempt) == set()


WRITES = """
import sys
from pathlib import Path
from pystreams.backfill.tasks.result_files import ResultFiles
from pystreams.backfill.plan.rows import ResultBatch, ResultKind

records = [(b"k", b"v", 50, (("h", b"1"),)), (None, None, -1, ())]
with ResultFiles(Path(sys.argv[1]), Path(sys.argv[1])) as files:
    files.write(ResultBatch(ResultKind.STATE, 2, "counts", [2, 2], 40, records))
    files.finish()
print("pandas" in sys.modules)
"""


def test_worker_writes_its_results_without_waiting_for_pandas(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WRITES, str(tmp_path)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (answer.stdout, answer.stderr) == ("False\n", "")
