"""Rows in the files of a stage: read some megabytes at a time, and counted.

The rows of one kind and name of a task lie in files that follow one another by name
(`result_files`); each file is row groups. A group is read by itself, and in parts where it is
large, as those of Spark's own writer are: what is in memory at a time depends on bytes, not on how
many rows have them. Reads Parquet with pyarrow; Spark is not needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pystreams.backfill.rows import Result, ResultKind, place_of
from pystreams.backfill.staging_troubles import StagingError, readable

if TYPE_CHECKING:
    import pyarrow as pa

_BATCH_BYTES = 4 << 20
_BATCH_RECORDS = 10_000
"""As a restore has them."""
_READ_BYTES = 1 << 20
_COLUMNS = ("partition", "sequence", "timestamp", "key", "value", "headers")


def batches_of(
    stage: Path, kind: ResultKind, name: str, task: int, columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Return some columns of a task's rows of one kind and name, in order.

    Raises:
        StagingError: A file is damaged or gone; names it.
    """
    from pyarrow import parquet

    for file in sorted((stage / place_of(kind, name, task)).glob("*.parquet")):
        # So that a column's part of a group is not read as a whole, as it is by default.
        as_needed = {"buffer_size": _READ_BYTES, "pre_buffer": False}
        with readable(file, stage), parquet.ParquetFile(file, **as_needed) as opened:
            for number in range(opened.num_row_groups):
                group = opened.metadata.row_group(number)
                row_bytes = group.total_byte_size // max(group.num_rows, 1) + 1
                records = min(_BATCH_RECORDS, max(1, _BATCH_BYTES // row_bytes))
                yield from opened.iter_batches(records, row_groups=[number], columns=list(columns))


def rows_of(stage: Path, kind: ResultKind, name: str, task: int) -> Iterator[Result]:
    """Return a task's rows of one kind and name, in order.

    Raises:
        StagingError: A file is damaged or gone; names it.
    """
    for batch in batches_of(stage, kind, name, task, _COLUMNS):
        for row in zip(*(batch.column(one).to_pylist() for one in _COLUMNS)):  # noqa: B905
            headers = tuple((one["key"], one["value"]) for one in row[-1] or ())
            yield Result._make((kind, task, name, *row[:-1], headers))


def counted(stage: Path, kind: ResultKind) -> dict[str, int]:
    """Return how many rows of a kind a stage's directory holds, by name; reads the files' ends.

    Raises:
        StagingError: A file is damaged; names it.
    """
    from pyarrow import parquet

    found: dict[str, int] = {}
    for file in stage.glob(f"kind={int(kind)}/name=*/task=*/*.parquet"):
        name = file.parent.parent.name.partition("=")[2]
        with readable(file, stage):
            found[name] = found.get(name, 0) + parquet.read_metadata(file).num_rows
    return dict(sorted(found.items()))


def check_complete(attempt: Path, found: int, written: int) -> None:
    """See that all rows are there which were written; by the driver.

    Args:
        attempt: The directory of the stage's attempt.
        found: How many rows its files have.
        written: How many rows those who wrote them know of.

    Raises:
        StagingError: Somebody else has removed or added files.
    """
    if found != written:
        raise StagingError(
            f"{written} rows were written to {attempt}, and {found} are there: somebody else "
            "removes or adds files, as a driver on another machine does whose lock this file "
            f"system does not show. End what else works in {attempt.parent}, and start again"
        )
