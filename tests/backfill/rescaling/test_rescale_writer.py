"""Moved state as Spark's own writer stages it: counted by who wrote it, read in small parts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pystreams.backfill.plan.rows import RESULT_TYPE, ResultKind
from pystreams.backfill.rescaling.state_staging import write_rows
from pystreams.backfill.staging.stage_files import StageFiles, counted


def test_rows_are_counted_where_they_are_written_and_large_ones_are_read_few_at_a_time(
    spark: Any, tmp_path: Path
) -> None:
    """All values are the same, which a dictionary would store once."""
    state, end = int(ResultKind.STATE), int(ResultKind.END)
    value = bytearray(10_000)
    columns = state, 0, "counts", 0
    rows: list[Any] = [(*columns, at, 1, b"k%d" % at, value, None) for at in range(300)]
    rows += [(end, 0, "in", 0, 9, 1, None, None, None)]
    frame = spark.createDataFrame(rows, RESULT_TYPE)

    written = write_rows(frame, tmp_path / "attempt")

    assert written == 301
    assert counted(tmp_path / "attempt", ResultKind.STATE) == {"counts": 300}
    assert counted(tmp_path / "attempt", ResultKind.END) == {"in": 1}
    stage = StageFiles.of(tmp_path / "attempt", batch_bytes=100_000)
    found = stage.batches(ResultKind.STATE, "counts", 0, ["value"])
    assert max(batch.num_rows for batch in found) <= 10
