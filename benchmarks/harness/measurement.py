"""One run of one program, measured from outside.

    start processes -> watch the group's committed offsets -> stop processes -> check the output

The clock starts with the first commit that is seen, and stops with the one that reaches the end
of the input; the rate is the records between those two. So it leaves out start-up (imports, a
JVM, joining the group) and the first commit interval, and it counts a record when it is
committed, not when it was read: the same for every program.
"""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness.cluster import Cluster, GroupProgress
from benchmarks.harness.output_check import check_output
from benchmarks.harness.processes import Cost, Program, ProgramError
from benchmarks.harness.programs import Engine, Job, floor_changelog

POLL_S = 0.02
_STALLED_S = 120.0


@dataclass(frozen=True, slots=True)
class Input:
    """A loaded input topic and the truth about it."""

    topic: str
    partitions: int
    records: int
    truth: Counter[bytes]


@dataclass(frozen=True, slots=True)
class Case:
    """What a row of the table is about.

    Attributes:
        engine: What runs.
        guarantee: The processing guarantee.
        cache_bytes: Its record cache.
        processes: How many processes, and partitions.
        operators: Stateless operators before the count.
    """

    engine: Engine
    guarantee: str
    cache_bytes: int
    processes: int
    operators: int

    @property
    def every_count(self) -> bool:
        """Whether the output must hold every count of a key."""
        return self.cache_bytes == 0


@dataclass(frozen=True, slots=True)
class Run:
    """What one run gave.

    Attributes:
        records_per_s: Records a second, between the first commit seen and the last.
        measured_records: How many records that covers.
        measured_s: How long that took (s).
        startup_s: From the start of the first process to the first commit seen (s).
        whole_s: From the start of the first process to the commit that reaches the end (s).
        cost: CPU time and memory of all processes, start-up included.
        cpu_s_per_million: CPU seconds a million records of the whole input.
        output_records: Records in the output topic.
    """

    records_per_s: float
    measured_records: int
    measured_s: float
    startup_s: float
    whole_s: float
    cost: Cost
    cpu_s_per_million: float
    output_records: int


@dataclass(frozen=True, slots=True)
class Bench:
    """Where runs happen.

    Attributes:
        cluster: The broker.
        directory: For state and logs; each run gets a directory of its own in it.
        commit_ms: Commit interval of all programs (ms).
        before_check: Called with the job before its output is checked.
    """

    cluster: Cluster
    directory: Path
    commit_ms: int
    before_check: Callable[[Job], None] = lambda _job: None

    def job(self, case: Case, source: Input, app: str) -> Job:
        """Create what a run of a case needs and return its job."""
        directory = self.directory / app
        directory.mkdir(parents=True)
        for process in range(case.processes):
            # Quix wants the parent to exist, RocksDB makes its own.
            (directory / str(process)).parent.mkdir(exist_ok=True)
        job = Job(
            bootstrap=self.cluster.bootstrap_servers,
            app=app,
            input=source.topic,
            output=f"{app}-output",
            state=directory,
            guarantee=case.guarantee,
            commit_ms=self.commit_ms,
            cache_bytes=case.cache_bytes,
            operators=case.operators,
        )
        self.cluster.create_topic(job.output, source.partitions)
        if case.engine.name == "floor":
            self.cluster.create_topic(floor_changelog(job), source.partitions)
        return job

    def run(self, case: Case, source: Input, app: str) -> Run:
        """Run a case once, check its output, and clean up.

        Raises:
            ProgramError: A process ended by itself, hung, or made no progress.
            WrongOutputError: The output is not what the input demands.
        """
        job = self.job(case, source, app)
        programs = [
            Program.start(case.engine.command(job, number), job.state / f"process-{number}.log")
            for number in range(case.processes)
        ]
        try:
            progress = watch_to_end(self.cluster, job, source, programs)
            costs = [program.stop() for program in programs]
        finally:
            for program in programs:
                program.kill()
        self.before_check(job)
        output_records = check_output(
            self.cluster, job.output, source.truth, every_count=case.every_count
        )
        self.cluster.keep_only([source.topic])
        shutil.rmtree(job.state, ignore_errors=True)
        cost = Cost(
            sum(cost.user_s for cost in costs),
            sum(cost.system_s for cost in costs),
            sum(cost.peak_bytes for cost in costs),
        )
        return Run(
            records_per_s=progress.records / progress.seconds,
            measured_records=progress.records,
            measured_s=progress.seconds,
            startup_s=progress.startup_s,
            whole_s=progress.whole_s,
            cost=cost,
            cpu_s_per_million=cost.cpu_s / source.records * 1e6,
            output_records=output_records,
        )


@dataclass(frozen=True, slots=True)
class Progress:
    """Committed records between the first commit seen and the end."""

    records: int
    seconds: float
    startup_s: float
    whole_s: float


def watch_to_end(
    cluster: Cluster, job: Job, source: Input, programs: list[Program], *, skip: float | None = None
) -> Progress:
    """Watch a group's committed offsets until they reach the end of the input.

    Args:
        cluster: The broker.
        job: What the group does.
        source: Its input.
        programs: The processes, which must stay alive.
        skip: The clock starts when this share of the input is committed. With one process that is
            the first commit; with several it is a fifth, because they start and join one by one.

    Raises:
        ProgramError: A process has ended, or nothing was committed for two minutes.
    """
    if skip is None:
        skip = 0.0 if len(programs) == 1 else 0.2
    threshold = max(1, int(source.records * skip))
    began_s: float | None = None
    first = before = 0
    startup_s = 0.0
    changed_s = time.perf_counter()
    with GroupProgress(cluster, job.app, source.topic, source.partitions) as group:
        while True:
            for program in programs:
                program.watch()
            committed = group.committed_records()
            now_s = time.perf_counter()
            if committed > before:
                if not before:
                    startup_s = now_s - programs[0].started_s
                before, changed_s = committed, now_s
            if began_s is None and committed >= threshold:
                began_s, first = now_s, committed
            if began_s is not None and committed >= source.records:
                break
            if now_s - changed_s > _STALLED_S:
                tail = programs[0].log_tail()
                message = f"nothing committed for {_STALLED_S:g} s, at {committed}:\n{tail}"
                raise ProgramError(message)
            time.sleep(POLL_S)
    if committed == first:
        raise ProgramError("the input is so short that the first commit seen was the last: more!")
    whole_s = now_s - programs[0].started_s
    return Progress(committed - first, now_s - began_s, startup_s, whole_s)
