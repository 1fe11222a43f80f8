"""The global stores of a worker: filled from all that the history has of their topics.

As in a live process there is one of each in a process, all partitions in it, and tasks read it
through views. A live one follows its topics; here they end where the history does. So all records,
however old, meet the rows that there are at that end, as they would in a live application that
reads its streams from the beginning.

Filled when a task asks for one, which processors do before their first record: a process whose
stages have none to do with them reads nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from pystreams.backfill.plan.backfill_plan import BackfillPlan
from pystreams.backfill.plan.partition_bounds import PartitionBounds
from pystreams.backfill.sources.history import PartitionReader
from pystreams.backfill.tasks.task_input import Offsets, messages_of
from pystreams.ids import TopicPartition
from pystreams.kernel.loggers import get_logger
from pystreams.record import ConsumedMessage
from pystreams.runtime.core.global_task import GlobalTask
from pystreams.runtime.core.task_settings import TaskSettings
from pystreams.runtime.settings import global_task_settings
from pystreams.stores.contracts.state_store import StateStore

_ROWS_AT_A_TIME = 1000
_WITHOUT_LIMIT_BYTES = 64 << 20

_log = get_logger("pystreams.backfill")


@dataclass(frozen=True, slots=True)
class GlobalHistory:
    """What global stores are filled from.

    Attributes:
        run: Another text for each run of a driver: stores are shared within one.
        bounds: These partitions, and what is to be read of each.
    """

    run: str
    reader: PartitionReader
    bounds: Mapping[TopicPartition, PartitionBounds]


@dataclass(frozen=True, slots=True)
class StagedRows:
    """Reads rows that the driver has had written for the workers. Implements `PartitionReader`.

    Attributes:
        path: A directory of Parquet files, columns of `rows.HISTORY_TYPE`, sorted; below one for
            each topic and, in it, partition.
        gaps_allowed: Whether offsets may be missing.
    """

    path: Path
    gaps_allowed: bool

    @staticmethod
    def place_of(partition: TopicPartition) -> Path:
        """Return where the files of a partition are, below the directory."""
        return Path(f"of_topic={partition.topic}", f"of_partition={partition.partition}")

    def read(
        self,
        partition: TopicPartition,
        bounds: PartitionBounds,
    ) -> Generator[Sequence[ConsumedMessage]]:
        """Return the records of a partition; see `PartitionReader`.

        Raises:
            StreamsError: An offset is there twice, or is missing.
        """
        from pyarrow.parquet import ParquetFile

        offsets = Offsets(gaps_allowed=self.gaps_allowed)
        for path in sorted((self.path / self.place_of(partition)).glob("*.parquet")):
            with ParquetFile(path) as file:
                for rows in file.iter_batches(_ROWS_AT_A_TIME):
                    messages = messages_of(partition, rows)
                    offsets.check(partition, [message.offset() for message in messages])
                    yield messages


@dataclass(slots=True)
class FilledGlobalStores:
    """Global stores, filled when the first is asked for; of one thread.

    Attributes:
        now_ms: The wall-clock time of the whole backfill (ms).
        root: Returns the directory in which they have one of their own.
    """

    plan: BackfillPlan
    settings: TaskSettings
    history: GlobalHistory
    now_ms: int
    root: Callable[[], Path]
    _open: contextlib.ExitStack = field(default_factory=contextlib.ExitStack, init=False)
    _task: GlobalTask | None = field(default=None, init=False)

    def find(self, name: str) -> StateStore:
        """Return a store, filled.

        Raises:
            StreamsError: As in a live run: a record can't be decoded, the user's code raised.
        """
        if self._task is None:
            with contextlib.ExitStack() as opening:
                task = self._filled(opening)
                self._open = opening.pop_all()
            self._task = task
        return self._task.state.stores()[name]

    def close(self) -> None:
        """Close and delete the stores; those asked for later are filled anew."""
        self._task = None
        self._open.close()

    def _filled(self, opening: contextlib.ExitStack) -> GlobalTask:
        root = TemporaryDirectory(prefix="pystreams-global-", dir=self.root())
        directory = Path(opening.enter_context(root))
        settings = global_task_settings(self.plan.config, self.settings)
        task = GlobalTask(self.plan.topology, settings, self.plan.num_partitions)
        opening.callback(task.close)
        task.state.open(directory)
        task.start(self.now_ms)
        limit = self.plan.config.statestore_uncommitted_max_bytes
        limit = _WITHOUT_LIMIT_BYTES if limit < 0 else limit
        for partition, has in sorted(self.history.bounds.items()):
            with contextlib.closing(self.history.reader.read(partition, has)) as batches:
                for messages in batches:
                    task.process(partition, messages, self.now_ms)
                    if task.state.uncommitted_bytes() > limit:
                        task.state.commit()
        task.state.commit()
        records = sum(task.consumed_records.values())
        _log.info("global stores filled", records=records, dropped=task.dropped_records)
        return task
