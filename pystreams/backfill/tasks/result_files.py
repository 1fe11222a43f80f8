"""Results as Parquet files, written by the workers that make them; Spark decides which ones count.

Every run of a Spark partition writes to a directory of its own. When its files are closed it gives
Spark one row, which names the directory. However often a partition runs (retries, speculative
copies), Spark hands the driver the row of one run; the driver moves that run's files to their
places and deletes all others:

    stage-0.<attempt>/_written/<run>/kind=0/name=out/task=3/000000.parquet
    stage-0.<attempt>/kind=0/name=out/task=3/000000-<run>.parquet

A run that is late has no row in Spark, and what it still writes is in no stage: it may make its
directory anew, below `_written` or in an attempt that is no more, and nothing reads there. Such an
attempt goes with the next driver (`directory.StagingDirectory.held`). The columns of
`rows.RESULT_TYPE` that the path tells are not in the files.

Rejected: rows to Spark's own Parquet writer. Its bookkeeping for each row, beside Arrow's way
there, cost more than processing the record.
"""

from __future__ import annotations

import contextlib
import shutil
import uuid
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import pyarrow as pa

from pystreams.backfill.plan.rows import ResultBatch, place_of
from pystreams.backfill.staging.errors import StagingError, told
from pystreams.errors import StreamsError

if TYPE_CHECKING:
    from pyarrow.parquet import ParquetWriter

WRITTEN_TYPE = "run string, files int, rows bigint, dropped bigint"
"""What a run gives Spark: the name of its directory, how many files are there, their rows, and how
many records its tasks have dropped."""

_WRITTEN = "_written"
_BYTES_MAX = (1 << 31) - 1
"""Of a column: Arrow counts them by int32."""
_HEADERS_TYPE = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
_SCHEMA = pa.schema(
    [
        ("partition", pa.int32()),
        ("sequence", pa.int64()),
        ("timestamp", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", _HEADERS_TYPE),
    ]
)
_WRITTEN_SCHEMA = pa.schema(
    [("run", pa.string()), ("files", pa.int32()), ("rows", pa.int64()), ("dropped", pa.int64())]
)


class WrittenRun(NamedTuple):
    """What a run has told of itself; see `WRITTEN_TYPE`."""

    run: str
    files: int
    rows: int
    dropped: int

    def row(self) -> pa.RecordBatch:
        """Return it as a row of `WRITTEN_TYPE`."""
        return pa.RecordBatch.from_pylist([self._asdict()], schema=_WRITTEN_SCHEMA)


class _Place(NamedTuple):
    """Where rows go: all of one kind and name of one task."""

    kind: int
    name: str
    task: int


class ResultFiles:
    """The files of one run; of the worker's thread.

    Args:
        attempt: The directory of the stage's attempt; exists.
        staging: The staging directory, for messages.
        row_group_bytes: What waits for one place before it is written.
        waiting_max_bytes: What waits for all places together, at most.
        open_files_max: How many files are open at once.
    """

    def __init__(
        self,
        attempt: Path,
        staging: Path,
        *,
        row_group_bytes: int = 4 << 20,
        waiting_max_bytes: int = 64 << 20,
        open_files_max: int = 200,
    ) -> None:
        self._row_group_bytes = row_group_bytes
        self._waiting_max_bytes = waiting_max_bytes
        self._open_files_max = open_files_max
        self._run = uuid.uuid4().hex[:12]
        self._directory = attempt / _WRITTEN / self._run
        self._staging = staging
        self._waiting: dict[_Place, list[pa.RecordBatch]] = {}
        self._waiting_bytes: dict[_Place, int] = {}
        self._open: dict[_Place, ParquetWriter] = {}
        self._files: dict[_Place, int] = {}
        self._rows = 0

    def write(self, results: ResultBatch) -> None:
        """Take results; those of one kind, name and task stay in their order.

        Raises:
            StagingError: A file can't be written.
        """
        place = _Place(int(results.kind), results.name, results.task)
        batch = arrow_batch(results)
        self._rows += batch.num_rows
        self._waiting.setdefault(place, []).append(batch)
        waiting = self._waiting_bytes.get(place, 0) + batch.nbytes
        self._waiting_bytes[place] = waiting
        if waiting >= self._row_group_bytes:
            self._write_group(place)
        elif sum(self._waiting_bytes.values()) > self._waiting_max_bytes:
            self._write_all()

    def finish(self, dropped: int = 0) -> WrittenRun:
        """Close all files; return what Spark is told.

        Args:
            dropped: How many records the tasks have dropped.

        Raises:
            StagingError: A file can't be written.
        """
        self._write_all()
        self._close_files()
        return WrittenRun(self._run, sum(self._files.values()), self._rows, dropped)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Delete what a run that failed has written."""
        if kind is not None:
            with contextlib.suppress(StagingError):
                self._close_files()
            shutil.rmtree(self._directory, ignore_errors=True)

    def _write_all(self) -> None:
        for place in list(self._waiting):
            self._write_group(place)

    def _write_group(self, place: _Place) -> None:
        """Write what waits for a place as one row group; more where a batch alone is too large."""
        table = pa.Table.from_batches(self._waiting.pop(place))
        rows = 2 * self._row_group_bytes * len(table) // self._waiting_bytes.pop(place)
        with told(self._staging):
            self._writer(place).write_table(table, row_group_size=max(rows, 1))

    def _writer(self, place: _Place) -> ParquetWriter:
        """Return the open file of a place; with too many open, the others are closed first."""
        from pyarrow.parquet import ParquetWriter

        writer = self._open.get(place)
        if writer is None:
            if len(self._open) >= self._open_files_max:
                self._close_files()
            number = self._files.get(place, 0)
            self._files[place] = number + 1
            directory = self._directory / place_of(*place)
            directory.mkdir(parents=True, exist_ok=True)
            file = directory / f"{number:06}.parquet"
            writer = ParquetWriter(file, _SCHEMA, use_dictionary=["partition"])
            self._open[place] = writer
        return writer

    def _close_files(self) -> None:
        with told(self._staging):
            while self._open:
                _, writer = self._open.popitem()
                writer.close()


def move_into_place(attempt: Path, written: Sequence[WrittenRun]) -> None:
    """Keep the files of the runs that Spark has taken, and nothing else; by the driver.

    Raises:
        StagingError: Files are missing, or can't be moved.
    """
    for run, count, *_ in written:
        directory = attempt / _WRITTEN / run
        with told(attempt.parent):
            files = sorted(directory.glob("kind=*/name=*/task=*/*.parquet"))
            if len(files) != count:
                raise StagingError(
                    f"a worker has written {count} files to {directory}, and {len(files)} are seen "
                    "here: mount the staging directory under the same path on all workers; if it "
                    "is, another driver removes files there: end it, and start again"
                )
            for file in files:
                place = attempt / file.parent.relative_to(directory)
                place.mkdir(parents=True, exist_ok=True)
                file.rename(place / f"{file.stem}-{run}.parquet")
    shutil.rmtree(attempt / _WRITTEN, ignore_errors=True)


def arrow_batch(results: ResultBatch) -> pa.RecordBatch:
    """Return results as Arrow has them, without the columns that the path tells."""
    records = results.records
    count = len(records)
    # A column at a time: `zip` of thousands of records costs five times as much.
    keys, values, timestamps, headers = ([record[at] for record in records] for at in range(4))
    columns = [
        _integers(results.partitions, np.int32),
        _integers(np.arange(results.sequence, results.sequence + count), np.int64),
        _integers(timestamps, np.int64),
        _bytes(keys),
        _bytes(values),
        _headers(headers) if any(headers) else pa.nulls(count, _HEADERS_TYPE),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)


# Columns are made of buffers: the first `pa.array` of a process imports pandas, which costs each
# worker more than a second.


def _integers(values: Any, of_type: type[np.signedinteger[Any]]) -> pa.Array:
    numbers = np.asarray(values, of_type)
    buffers = [None, pa.py_buffer(numbers)]
    return pa.Array.from_buffers(pa.from_numpy_dtype(of_type), len(numbers), buffers)


def _headers(values: Sequence[Any]) -> pa.Array:
    each = list(chain.from_iterable(values))
    names = _bytes([name.encode() for name, _ in each])
    texts = pa.Array.from_buffers(pa.string(), len(each), names.buffers())
    pairs = pa.StructArray.from_arrays(
        [texts, _bytes([content for _, content in each])], fields=list(_HEADERS_TYPE.value_type)
    )
    counts = np.fromiter(map(len, values), np.int32, len(values))
    ends = np.zeros(len(values) + 1, np.int32)
    np.cumsum(counts, out=ends[1:])
    present = pa.py_buffer(np.packbits(counts > 0, bitorder="little"))
    buffers = [present, pa.py_buffer(ends)]
    return pa.Array.from_buffers(_HEADERS_TYPE, len(values), buffers, children=[pairs])


def _bytes(values: Sequence[Any]) -> pa.Array:
    present = None
    try:
        joined = b"".join(values)
        own = values
    except TypeError:
        is_present = np.array([value is not None for value in values])
        present = pa.py_buffer(np.packbits(is_present, bitorder="little"))
        own = [value or b"" for value in values]
        joined = b"".join(own)
    if len(joined) > _BYTES_MAX:
        raise StreamsError(
            f"{len(values)} results that are written at once have {len(joined)} bytes of keys or "
            f"of values, and Arrow takes {_BYTES_MAX}: make values smaller"
        )
    ends = np.zeros(len(values) + 1, np.int32)
    np.cumsum(np.fromiter(map(len, own), np.int32, len(values)), out=ends[1:])
    buffers = [present, pa.py_buffer(ends), pa.py_buffer(joined)]
    return pa.Array.from_buffers(pa.binary(), len(values), buffers)
