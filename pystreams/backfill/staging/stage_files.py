"""Rows in the files of a stage: read some megabytes at a time, and counted.

The rows of one kind and name of a task lie in files that follow one another by name
(`result_files`); each file is row groups. A group is read by itself, and in parts where it is
large, as those of Spark's own writer are: what is in memory at a time depends on bytes, not on how
many rows have them. Reads Parquet with pyarrow; Spark is not needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

from pystreams.backfill.plan.rows import Result, ResultKind
from pystreams.backfill.staging.errors import StagingError, check_unchanged, readable

if TYPE_CHECKING:
    import pyarrow as pa

_BATCH_BYTES = 4 << 20
_BATCH_RECORDS = 10_000
"""As a restore has them."""
_READ_BYTES = 1 << 20
_COLUMNS = ("partition", "sequence", "timestamp", "key", "value", "headers")


class StagedFile(NamedTuple):
    """A file of rows, as it was when its stage was looked at.

    Attributes:
        num_rows: How many rows it has, by its own end.
    """

    path: Path
    num_rows: int


@dataclass(frozen=True, slots=True)
class StageFiles:
    """The files of a stage as they were when it was looked at, and no others.

    What is read of them is all that they held then, or an error: whoever goes on reading for hours
    never takes files that are gone for rows that never were.

    Attributes:
        files: Its files by kind, name and task; those of one task's kind and name in their order.
        batch_bytes: How much is read of them at a time.
    """

    stage: Path
    files: Mapping[tuple[int, str, int], Sequence[StagedFile]]
    batch_bytes: int

    @classmethod
    def of(
        cls,
        stage: Path,
        kinds: Iterable[ResultKind] = ResultKind,
        *,
        batch_bytes: int = _BATCH_BYTES,
    ) -> Self:
        """Look at a stage's directory; reads the ends of its files.

        Raises:
            StagingError: A file is damaged; names it.
        """
        from pyarrow import parquet

        found: dict[tuple[int, str, int], list[StagedFile]] = {}
        for kind in kinds:
            for file in sorted(stage.glob(f"kind={int(kind)}/name=*/task=*/*.parquet")):
                name, task = (part.partition("=")[2] for part in file.parts[-3:-1])
                with readable(file, stage):
                    num_rows = parquet.read_metadata(file).num_rows
                found.setdefault((kind, name, int(task)), []).append(StagedFile(file, num_rows))
        return cls(stage, found, batch_bytes)

    def counts(self, kind: ResultKind) -> dict[str, int]:
        """Return how many rows of a kind there are, by name."""
        counts: dict[str, int] = {}
        for (kind_of_file, name, _), files in self.files.items():
            if kind_of_file == kind:
                counts[name] = counts.get(name, 0) + sum(file.num_rows for file in files)
        return dict(sorted(counts.items()))

    def names(self, kind: ResultKind, task: int) -> list[str]:
        """Return the topics or stores that a task has rows of, sorted."""
        return sorted(name for kind_, name, task_ in self.files if (kind_, task_) == (kind, task))

    def num_rows(self, kind: ResultKind, name: str, task: int) -> int:
        """Return how many rows of one kind and name a task has."""
        return sum(file.num_rows for file in self.files.get((kind, name, task), ()))

    def batches(
        self, kind: ResultKind, name: str, task: int, columns: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        """Return some columns of a task's rows of one kind and name, in order.

        Raises:
            StagingError: A file is damaged, gone or another one by now; names it.
        """
        from pyarrow import parquet

        for file, num_rows in self.files.get((kind, name, task), ()):
            # So that a column's part of a group is not read as a whole, as it is by default.
            as_needed = {"buffer_size": _READ_BYTES, "pre_buffer": False}
            with (
                readable(file, self.stage),
                parquet.ParquetFile(file, **as_needed) as opened,
            ):
                check_unchanged(file, self.stage, opened.metadata.num_rows, num_rows)
                for number in range(opened.num_row_groups):
                    group = opened.metadata.row_group(number)
                    row_bytes = group.total_byte_size // max(group.num_rows, 1) + 1
                    records = min(_BATCH_RECORDS, max(1, self.batch_bytes // row_bytes))
                    yield from opened.iter_batches(
                        records, row_groups=[number], columns=list(columns)
                    )

    def rows(self, kind: ResultKind, name: str, task: int) -> Iterator[Result]:
        """Return a task's rows of one kind and name, in order, some megabytes in memory at a time.

        Raises:
            StagingError: A file is damaged, gone or another one by now; names it.
        """
        for batch in self.batches(kind, name, task, _COLUMNS):
            for row in zip(*(batch.column(column).to_pylist() for column in _COLUMNS)):  # noqa: B905
                headers = tuple((header["key"], header["value"]) for header in row[-1] or ())
                yield Result._make((kind, task, name, *row[:-1], headers))


def counted(stage: Path, kind: ResultKind) -> dict[str, int]:
    """Return how many rows of a kind a stage's directory holds, by name; reads the files' ends.

    Raises:
        StagingError: A file is damaged; names it.
    """
    return StageFiles.of(stage, [kind]).counts(kind)


def check_complete(attempt: Path, found: int, written: int) -> None:
    """See that all rows are there which were written; by the driver.

    Args:
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
