"""The daemon of Spark's Python workers, with a stopwatch around the stages of a backfill's tasks.

Given to Spark as `spark.python.daemon.module`; the product is not changed. Each task leaves a file
of JSON in the directory that BENCHMARK_TIMINGS names.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from pyspark import daemon

from benchmarks.apps.stopwatch import StageTime, Stopwatch
from benchmarks.harness import backfill_stages as stages
from pystreams.backfill.sources.partition_reader import KafkaPartitionReader
from pystreams.backfill.tasks import task_input as feeding
from pystreams.backfill.tasks import worker
from pystreams.backfill.tasks.history_task import HistoryTask
from pystreams.backfill.tasks.record_counts import TakenRecords
from pystreams.backfill.tasks.result_files import ResultFiles
from pystreams.runtime.core.task import StreamTask

CALLS: list[tuple[Any, str, str]] = [
    (feeding, "messages_of", stages.TO_MESSAGES),
    (StreamTask, "add_records", stages.DECODE),
    (StreamTask, "process", stages.PROCESS),
    (HistoryTask, "_commit", stages.COMMIT),
    (ResultFiles, "write", stages.TO_PARQUET),
    (ResultFiles, "finish", stages.TO_PARQUET),
]
GENERATORS: list[tuple[Any, str, str]] = [
    (HistoryTask, "_outputs", stages.NUMBERED),
    (HistoryTask, "_state", stages.STATE),
    (KafkaPartitionReader, "read", stages.FROM_KAFKA),
]


class TimedTasks:
    """Times the tasks of one Spark partition after the other; a worker has one thread."""

    def __init__(self) -> None:
        self._stopwatch = Stopwatch(with_cpu=True)
        for owner, attribute, stage in CALLS:
            self._stopwatch.wrap(owner, attribute, stage)
        for owner, attribute, stage in GENERATORS:
            setattr(owner, attribute, self._timed_generator(getattr(owner, attribute), stage))
        self._stopwatch.watch_garbage_collection()
        self._run_tasks = worker.run_tasks

    def run_tasks(
        self, payload: bytes, batches: Iterable[Any], taken: TakenRecords
    ) -> Iterator[Any]:
        """Stand in for the product's function."""
        stopwatch = self._stopwatch
        stopwatch.reset()
        given = self._timed(iter(batches), self._stage(stages.FROM_SPARK))
        to_spark = self._stage(stages.TO_SPARK)
        stopwatch.enter(self._stage(stages.ALL_ELSE))
        for result in self._run_tasks(payload, given, taken):
            stopwatch.enter(to_spark)
            yield result
            stopwatch.leave()
        stopwatch.leave()
        times = {
            name: {"wall_ns": stage.wall_ns, "cpu_ns": stage.cpu_ns}
            for name, stage in stopwatch.stages.items()
        }
        file = Path(os.environ["BENCHMARK_TIMINGS"]) / f"{uuid.uuid4()}.json"
        file.write_text(json.dumps(times), "utf-8")

    def _stage(self, name: str) -> StageTime:
        return self._stopwatch.stages.setdefault(name, StageTime())

    def _timed(self, given: Iterator[Any], stage: StageTime) -> Iterator[Any]:
        while True:
            self._stopwatch.enter(stage)
            try:
                one = next(given)
            except StopIteration:
                return
            finally:
                self._stopwatch.leave()
            yield one

    def _timed_generator(
        self, function: Callable[..., Iterator[Any]], stage: str
    ) -> Callable[..., Iterator[Any]]:
        time_of = self._stage(stage)
        return lambda *arguments: self._timed(function(*arguments), time_of)


if __name__ == "__main__":
    # Workers are forked from here, and find the function by its name.
    setattr(worker, "run_tasks", TimedTasks().run_tasks)  # noqa: B010 - mypy rightly dislikes it
    daemon.manager()
