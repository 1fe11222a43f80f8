"""One restart after SIGKILL, measured from outside.

    load -> count all of it -> (more records, killed in the middle of them) -> SIGKILL
         -> feed -> start again -> first new commit -> stop -> check the output

The time is from the start of the second process to the first commit of a record that the first
one had not committed: imports, joining the group, restoring, processing, committing.
"""

from __future__ import annotations

import json
import re
import shutil
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.harness.cluster import Cluster, GroupProgress
from benchmarks.harness.measurement import POLL_S, Bench, Case, Input, watch_to_end
from benchmarks.harness.output_check import check_output
from benchmarks.harness.processes import Program, ProgramError
from benchmarks.harness.programs import Job
from benchmarks.harness.workload import Workload

_DONE_TIMEOUT_S = 300.0


@dataclass(frozen=True, slots=True)
class Restart:
    """What one restart gave.

    Attributes:
        first_commit_s: From the start of the process to the first new commit (s).
        restored_records: Changelog records it read for that.
        changelog_records: End of the changelog when it was killed: all that a rebuild would read,
            before compaction (and the markers of transactions, which count as one each).
        uncommitted_records: Input that the killed process had not committed.
    """

    first_commit_s: float
    restored_records: int
    changelog_records: int
    uncommitted_records: int


@dataclass(frozen=True, slots=True)
class KillPlan:
    """When the process is killed, and what it finds afterwards.

    Attributes:
        busy: Kill it while it processes; else when it has committed everything and waits.
        fed_records: Records that come while it runs (busy) and while it is down.
        keys: How many different keys they have.
        value_bytes: Length of their values.
    """

    busy: bool
    fed_records: int
    keys: int
    value_bytes: int

    def feed(self, bench: Bench, source: Input, seed: int) -> None:
        """Add records to the input, and to the truth about it."""
        workload = Workload(self.fed_records, self.keys, self.value_bytes, seed=seed)
        source.truth.update(workload.load(bench.cluster.bootstrap_servers, source.topic))


def restart(bench: Bench, case: Case, source: Input, app: str, plan: KillPlan) -> Restart:
    """Run a case to the end of its input, kill it, start it again.

    Raises:
        ProgramError: A process ended by itself, or did not come back.
        WrongOutputError: The output is not what the input demands, after all that.
    """
    job = bench.job(case, source, app)
    grown = Input(source.topic, source.partitions, source.records, Counter(source.truth))
    command = case.engine.command(job, 0)
    first = Program.start(command, job.state / "first.log")
    try:
        watch_to_end(bench.cluster, job, source, [first])
        if plan.busy:
            plan.feed(bench, grown, seed=1)
            _await_commit(bench.cluster, job, grown, first, lambda now: now > source.records)
    finally:
        first.kill()
    with GroupProgress(bench.cluster, job.app, grown.topic, grown.partitions) as group:
        committed = group.committed_records()
    changelog = sum(bench.cluster.end_offsets(f"{app}-counts-changelog"))
    plan.feed(bench, grown, seed=2)
    end = sum(bench.cluster.end_offsets(grown.topic))
    second = Program.start(command, job.state / "second.log")
    try:
        _await_commit(bench.cluster, job, grown, second, lambda now: now > committed)
        first_commit_s = time.perf_counter() - second.started_s
        _await_commit(bench.cluster, job, grown, second, lambda now: now >= end)
        second.stop()
        restored = restored_records(second.log_text())
    finally:
        second.kill()
    check_output(bench.cluster, job.output, grown.truth, every_count=case.every_count)
    bench.cluster.keep_only([])
    shutil.rmtree(job.state, ignore_errors=True)
    return Restart(first_commit_s, restored, changelog, end - plan.fed_records - committed)


def restored_records(log: str) -> int:
    """Return what a program says it has restored, in its last words.

    Raises:
        ProgramError: It does not say.
    """
    for line in reversed(log.splitlines()):
        if line.startswith("{"):
            return int(json.loads(line)["restored_records"])
        java = re.fullmatch(r"restored_records=(\d+)", line)
        if java:
            return int(java.group(1))
    raise ProgramError(f"it does not tell how many records it restored:\n{log}")


def seconds_to_commit(cluster: Cluster, job: Job, program: Program, beyond: int) -> float:
    """Wait until more than so many input records are committed; return how long after its start.

    The input has one partition.

    Raises:
        ProgramError: The program ended by itself, or commits nothing.
    """
    source = Input(job.input, 1, 0, Counter())
    _await_commit(cluster, job, source, program, lambda now: now > beyond)
    return time.perf_counter() - program.started_s


def _await_commit(
    cluster: Cluster, job: Job, source: Input, program: Program, reached: Callable[[int], bool]
) -> None:
    began_s = time.perf_counter()
    with GroupProgress(cluster, job.app, source.topic, source.partitions) as group:
        while not reached(group.committed_records()):
            program.watch()
            if time.perf_counter() - began_s > _DONE_TIMEOUT_S:
                raise ProgramError(f"no commit in {_DONE_TIMEOUT_S:g} s:\n{program.log_tail()}")
            time.sleep(POLL_S)
