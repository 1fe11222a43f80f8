"""How many records the tasks of a running stage have taken: from the workers to the driver.

A stage is one Spark job, and its tasks run for minutes or hours. Spark's own counters do not tell
how far they are: an accumulator arrives when its task has ended, and the metrics of running tasks
come with heartbeats that no public interface gives to Python. A socket of ours would have to be
reached from every worker. What all of them reach already is the staging directory. So each Spark
partition has a file there that its worker rewrites, once a second at most, and the driver adds the
files up:

    staging/_progress-0/3        9 bytes: int64 records taken, 1 when there are no more

A partition that runs twice (a retry, a speculative copy) has one file still, and the driver keeps
the highest number it has seen of each: nothing counts twice, and the sum never falls. The numbers
are for the eye. A file that can't be written or read costs the display its movement, and the
backfill nothing; so it is not told anywhere.
"""

from __future__ import annotations

import contextlib
import shutil
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pystreams.backfill.plan.rows import TOPIC
from pystreams.kernel.clock import Clock, SystemClock

if TYPE_CHECKING:
    import pyarrow as pa

_COUNT = struct.Struct(">q?")
_INTERVAL_MS = 1000.0


class TakenRecords:
    """How many records of one Spark partition have been taken, told in its file.

    Runs in a Spark worker. The directory must be there: who comes late, after the stage, finds none
    and leaves nothing behind.

    Args:
        file: The partition's file.
        clock: Tells when a second has passed.
    """

    def __init__(self, file: Path, clock: Clock) -> None:
        self._file = file
        self._clock = clock
        self._records = 0
        self._told_ms = -_INTERVAL_MS

    @classmethod
    def here(cls, directory: str) -> TakenRecords:
        """Return the counter of the Spark partition that runs here.

        Args:
            directory: Where the stage's files are.
        """
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None, "counted in a Spark worker"
        return cls(Path(directory) / str(context.partitionId()), SystemClock())

    def add(self, records: int) -> None:
        """Count records that have been taken."""
        self._records += records
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._told_ms >= _INTERVAL_MS:
            self._told_ms = now_ms
            self._write(is_all=False)

    def end(self) -> None:
        """Tell that there are no more."""
        self._write(is_all=True)

    def of_batches(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Return batches, and count their records.

        A batch has been taken when the next one is asked for.

        Args:
            batches: Columns of `rows.HISTORY_TYPE`; a row without topic is no record.
        """
        for batch in batches:
            yield batch
            self.add(batch.num_rows - batch.column(TOPIC).null_count)
        self.end()

    def _write(self, *, is_all: bool) -> None:
        with contextlib.suppress(OSError):
            self._file.write_bytes(_COUNT.pack(self._records, is_all))


class StageCounts:
    """The driver's side: the files of one stage. Of one thread at a time.

    Args:
        directory: Where they are; made and removed here.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._taken: dict[str, int] = {}
        self._ended: set[str] = set()

    def prepare(self) -> None:
        """Make the directory, without what an earlier driver has left there."""
        self.remove()
        with contextlib.suppress(OSError):
            self.directory.mkdir(parents=True)

    def remove(self) -> None:
        """Remove the directory."""
        shutil.rmtree(self.directory, ignore_errors=True)

    def records(self) -> int:
        """Return how many records have been taken so far; reads the files of what still runs."""
        with contextlib.suppress(OSError):
            for file in self.directory.iterdir():
                if file.name not in self._ended:
                    self._look_at(file)
        return sum(self._taken.values())

    def _look_at(self, file: Path) -> None:
        try:
            content = file.read_bytes()
        except OSError:
            return
        if len(content) != _COUNT.size:
            # It is being written.
            return
        records, is_all = _COUNT.unpack(content)
        self._taken[file.name] = max(records, self._taken.get(file.name, 0))
        if is_all:
            self._ended.add(file.name)
