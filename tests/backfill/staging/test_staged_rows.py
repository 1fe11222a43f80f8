"""Rows of a stage come some megabytes at a time, however large they are and however they lie."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from pystreams.backfill.plan.rows import ResultKind, place_of
from pystreams.backfill.staging.errors import StagingError
from pystreams.backfill.staging.stage_files import StageFiles, check_complete, counted

BATCH_BYTES = 100_000


def write(stage: Path, groups: Sequence[Sequence[bytes]], file: str = "0.parquet") -> None:
    directory = stage / place_of(ResultKind.STATE, "counts", 3)
    directory.mkdir(parents=True, exist_ok=True)
    schema = pa.schema([("value", pa.binary())])
    with parquet.ParquetWriter(directory / file, schema, use_dictionary=False) as writer:
        for values in groups:
            writer.write_table(pa.table({"value": list(values)}, schema=schema), len(values))


def staged(stage: Path) -> StageFiles:
    return StageFiles.of(stage, batch_bytes=BATCH_BYTES)


def batches(stage: Path) -> list[list[bytes]]:
    return [
        batch.column(0).to_pylist()
        for batch in staged(stage).batches(ResultKind.STATE, "counts", 3, ["value"])
    ]


def test_large_values_come_in_batches_of_some_bytes(tmp_path: Path) -> None:
    values = [b"%05d" % number * 2000 for number in range(200)]
    write(tmp_path, [values])

    found = batches(tmp_path)

    assert [value for batch in found for value in batch] == values
    assert max(sum(map(len, batch)) for batch in found) <= BATCH_BYTES


def test_groups_of_rows_are_not_joined_to_a_batch(tmp_path: Path) -> None:
    groups = [[b"%d" % group] * 100 for group in range(10)]
    write(tmp_path, groups[:4], "0.parquet")
    write(tmp_path, groups[4:], "1.parquet")

    assert batches(tmp_path) == groups


def test_value_that_is_larger_than_a_batch_comes_alone(tmp_path: Path) -> None:
    write(tmp_path, [[b"a" * 3 * BATCH_BYTES, b"b" * 3 * BATCH_BYTES], [b"c"]])

    assert [len(batch) for batch in batches(tmp_path)] == [1, 1, 1]


def test_small_values_come_as_many_as_a_restore_takes(tmp_path: Path) -> None:
    write(tmp_path, [[b"v"] * 25_000])

    sizes = [len(batch) for batch in batches(tmp_path)]
    assert sum(sizes) == 25_000
    assert max(sizes) == 10_000


def test_rows_that_somebody_else_has_removed_are_told(tmp_path: Path) -> None:
    """As a driver does that clears away what it takes for a dead one's: its lock is not seen."""
    write(tmp_path, [[b"v"] * 5], "0.parquet")
    write(tmp_path, [[b"v"] * 3], "1.parquet")
    check_complete(tmp_path, sum(counted(tmp_path, ResultKind.STATE).values()), 8)
    next(tmp_path.rglob("0.parquet")).unlink()

    with pytest.raises(StagingError, match=r"8 rows were written to .*, and 3 are there: somebody"):
        check_complete(tmp_path, sum(counted(tmp_path, ResultKind.STATE).values()), 8)


def test_files_are_those_that_were_there_when_the_stage_was_looked_at(tmp_path: Path) -> None:
    write(tmp_path, [[b"1"] * 5], "1.parquet")
    files = staged(tmp_path)
    write(tmp_path, [[b"0"] * 3], "0.parquet")

    found = [batch.num_rows for batch in files.batches(ResultKind.STATE, "counts", 3, ["value"])]
    assert found == [files.num_rows(ResultKind.STATE, "counts", 3)] == [5]


def test_file_that_has_other_rows_by_now_is_told_by_name(tmp_path: Path) -> None:
    write(tmp_path, [[b"v"] * 5])
    files = staged(tmp_path)
    write(tmp_path, [[b"v"] * 4])

    with pytest.raises(StagingError, match=r"0\.parquet has 4 rows, and had 5 before.*bring back"):
        list(files.batches(ResultKind.STATE, "counts", 3, ["value"]))
