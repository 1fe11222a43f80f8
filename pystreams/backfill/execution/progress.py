"""How far a backfill is, told while a stage runs.

`StageWatch` asks once a second: the workers' counts (`record_counts`) for records, and, until tasks
take records, Spark's status tracker for the tasks that read and sort them. `StageMeter` makes rates
and times of it, for a `Teller`.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Self

from pystreams.backfill.tasks.record_counts import StageCounts
from pystreams.backfill.teller import Teller
from pystreams.kernel.clock import Clock
from pystreams.kernel.rate import RateMeter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_INTERVAL_S = 1.0
_RATE_WINDOW_S = 10.0
_GROUP = "spark.jobGroup.id"
_DESCRIPTION = "spark.job.description"


class StagePhase(Enum):
    """What a stage is doing."""

    BEGUN = "begun"
    READING = "reading"
    """No record has been taken: workers start, and Spark sorts what comes through it."""
    PROCESSING = "processing"
    """Tasks take records, and results are written."""
    DONE = "done"
    STAGED_BEFORE = "staged before"
    """It was complete before, and is not run again."""


@dataclass(frozen=True, slots=True)
class StageProgress:
    """How far a stage is.

    Attributes:
        position: The stage, from 0.
        topics: What it reads.
        records: How many records it reads; an upper bound where only offsets are known (Kafka).
        taken: How many records its tasks have taken; all when it is done.
        spark_tasks: While reading: how many of Spark's tasks are done, and how many there are;
            None when Spark does not say.
        seconds: How long it has been running, or took (s).
        records_per_second: While processing, over the last 10 seconds; when done, over all of it;
            None when there is nothing to say.
    """

    position: int
    num_stages: int
    topics: tuple[str, ...]
    records: int
    phase: StagePhase = StagePhase.BEGUN
    taken: int = 0
    spark_tasks: tuple[int, int] | None = None
    seconds: float = 0.0
    records_per_second: float | None = None

    @property
    def seconds_left(self) -> float | None:
        """How long the tasks need for the rest at this rate (s); None when nobody can tell."""
        if self.phase is not StagePhase.PROCESSING or not self.records_per_second:
            return None
        return max(0, self.records - self.taken) / self.records_per_second

    def done(self, seconds: float, *, before: bool = False) -> StageProgress:
        """Return the progress of the stage when it is done.

        Args:
            seconds: How long it took (s).
            before: Whether it was an earlier run that did it.
        """
        return replace(
            self,
            phase=StagePhase.STAGED_BEFORE if before else StagePhase.DONE,
            taken=self.records,
            spark_tasks=None,
            seconds=seconds,
            records_per_second=self.records / seconds if seconds > 0 else None,
        )


class StageMeter:
    """Makes the progress of one stage out of counts and times.

    Args:
        now_ms: When it begins, by the monotonic clock (ms).
    """

    def __init__(self, begun: StageProgress, now_ms: float) -> None:
        self._begun = begun
        self._began_ms = now_ms
        self._rate = RateMeter(_RATE_WINDOW_S)

    def progress(
        self, taken: int, spark_tasks: tuple[int, int] | None, now_ms: float
    ) -> StageProgress:
        """Return how far it is.

        Args:
            taken: How many records the tasks have taken.
            now_ms: The time, by the monotonic clock (ms).
        """
        seconds = (now_ms - self._began_ms) / 1000
        now = replace(self._begun, taken=min(taken, self._begun.records), seconds=seconds)
        if not taken:
            return replace(now, phase=StagePhase.READING, spark_tasks=spark_tasks)
        # From the first records on: the reading before is no part of the rate.
        rate = self._rate.rate(taken, seconds)
        return replace(now, phase=StagePhase.PROCESSING, records_per_second=rate or None)


class StageWatch:
    """Tells how far a stage is while its Spark job runs; a context manager around the job.

    It tells from a thread of its own, and never after the block. That thread is the only one that
    looks at the counts.
    """

    def __init__(
        self,
        begun: StageProgress,
        counts: StageCounts,
        spark_tasks: Callable[[], tuple[int, int] | None],
        tell: Teller[StageProgress],
        clock: Clock,
    ) -> None:
        self._counts = counts
        self._spark_tasks = spark_tasks
        self._tell = tell
        self._clock = clock
        self._meter = StageMeter(begun, clock.monotonic_ms())
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="backfill-progress", daemon=True)

    def __enter__(self) -> Self:
        """Begin to tell."""
        self._counts.prepare()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Tell no more."""
        self._ended.set()
        self._thread.join()
        self._counts.remove()

    def _run(self) -> None:
        while not self._ended.wait(_INTERVAL_S):
            taken = self._counts.records()
            spark_tasks = None if taken else self._spark_tasks()
            self._tell(self._meter.progress(taken, spark_tasks, self._clock.monotonic_ms()))


class SparkJobs:
    """The Spark jobs of one stage: a group of their own, by which their tasks can be counted.

    Spark's own pages show the description. Of one thread, but for `tasks`.

    Args:
        name: The group's name, which no other has.
        description: For Spark's pages.
    """

    def __init__(self, spark: SparkSession, name: str, description: str) -> None:
        self._context = spark.sparkContext
        self._name = name
        self._description = description

    @contextlib.contextmanager
    def grouped(self) -> Iterator[None]:
        """Put the jobs of this thread into the group; what was set before is set again after."""
        wanted = {_GROUP: self._name, _DESCRIPTION: self._description}
        before = {key: self._context.getLocalProperty(key) for key in wanted}
        self._set(wanted)
        try:
            yield
        finally:
            # A session that died can't be set back, and what it died of is raised already.
            with contextlib.suppress(Exception):
                self._set(before)

    def tasks(self) -> tuple[int, int] | None:
        """Return how many tasks of what runs now are done, and how many there are.

        None when nothing runs, or Spark does not answer.
        """
        done = of = 0
        try:
            tracker = self._context.statusTracker()
            for job in tracker.getJobIdsForGroup(self._name):
                info = tracker.getJobInfo(job)
                for stage in info.stageIds if info is not None else ():
                    tasks = tracker.getStageInfo(stage)
                    if tasks is not None and tasks.numActiveTasks:
                        done += tasks.numCompletedTasks
                        of += tasks.numTasks
        except Exception:  # noqa: BLE001 - whatever py4j raises of a session that ends
            return None
        return (done, of) if of else None

    def _set(self, properties: Mapping[str, str | None]) -> None:
        for key, value in properties.items():
            # None takes it away, which the annotation there does not know.
            self._context.setLocalProperty(key, value)  # type: ignore[arg-type]
