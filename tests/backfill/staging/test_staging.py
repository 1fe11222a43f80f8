"""A staging directory with more than one driver, killed drivers, and disks that give trouble."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pystreams import TopicPartition
from pystreams.backfill.plan.identity import BackfillIdentity
from pystreams.backfill.plan.partition_bounds import PartitionBounds
from pystreams.backfill.plan.rows import ResultBatch, ResultKind
from pystreams.backfill.staging.directory import (
    StagedStage,
    StagingDirectory,
    begun_identity,
    read_manifest,
)
from pystreams.backfill.staging.errors import _CURES, StagingError, do_again
from pystreams.backfill.tasks.result_files import ResultFiles
from pystreams.topology.plan.topology_plan import TopologyPlan
from tests.backfill.sources.covered import two_repartitions

HOLD = """
import sys, time
from pathlib import Path
from pystreams.backfill.staging.directory import StagingDirectory

with StagingDirectory(Path(sys.argv[1])).held():
    print("held", flush=True)
    sys.stdin.read()
"""


def identity() -> BackfillIdentity:
    plan = TopologyPlan(two_repartitions(), "app")
    bounds = {TopicPartition("left", 0): PartitionBounds(0, 9, 9)}
    return BackfillIdentity.of(plan, {"left": 1}, {0: 1}, bounds)


def stage(records: int) -> StagedStage:
    return StagedStage(
        position=0,
        subtopology=0,
        topics=("left",),
        only_topic=None,
        num_tasks=1,
        records=records,
        seconds=1.0,
        outputs={},
        output_partitions={},
        state={},
        ends={},
        attempt="stage-0.one",
    )


@pytest.fixture
def staging(tmp_path: Path) -> StagingDirectory:
    return StagingDirectory(tmp_path / "staged")


def test_second_driver_is_refused_until_the_first_is_through(staging: StagingDirectory) -> None:
    with staging.held():
        with (
            pytest.raises(StagingError, match=rf"process {os.getpid()} on .*let it finish"),
            staging.held(),
        ):
            pass
        staging.begin(identity(), 1)
    with staging.held():
        assert staging.begin(identity(), 2) == 1


def test_bound_by_a_time_must_be_the_one_it_was_begun_with(staging: StagingDirectory) -> None:
    asked = {"the end of left": "2025-01-31T00:00:00+00:00"}
    with staging.held():
        staging.begin(identity(), 1, asked)

        assert staging.begin(identity(), 2, asked) == 1
        assert staging.begin(identity(), 2) == 1, "left out"
        with pytest.raises(StagingError, match=r"to be 2025-02-01, .*begun with 2025-01-31T00"):
            staging.begin(identity(), 2, {"the end of left": "2025-02-01"})
        with pytest.raises(StagingError, match=r"the start of left .*begun without a time"):
            staging.begin(identity(), 2, {"the start of left": "2025-01-01"})


def test_killed_driver_leaves_no_lock(staging: StagingDirectory) -> None:
    driver = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(staging.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with driver:
        assert driver.stdout is not None
        assert driver.stdout.readline() == "held\n"
        with pytest.raises(StagingError, match=f"process {driver.pid}"), staging.held():
            pass
        driver.send_signal(signal.SIGKILL)
    with staging.held():
        assert staging.begin(identity(), 5) == 5


def test_what_killed_drivers_wrote_is_cleared_away_and_whole_stages_are_kept(
    staging: StagingDirectory,
) -> None:
    with staging.held():
        staging.begin(identity(), 1)
        whole, part = staging.new_attempt(0), staging.new_attempt(1)
        for directory in (whole, part):
            directory.mkdir()
            (directory / "part.parquet").touch()
        staging.finish_stage(stage(7), whole)

    with staging.held():
        assert not part.exists()
        assert staging.finished_stage(0) == stage(7)
        assert (staging.stage_path(0) / "part.parquet").exists()


def test_of_two_drivers_that_do_not_see_each_other_the_first_one_s_stage_counts(
    staging: StagingDirectory,
) -> None:
    staging.begin(identity(), 1)
    first, second = staging.new_attempt(0), staging.new_attempt(0)
    for name, directory in (("first", first), ("second", second)):
        directory.mkdir()
        (directory / f"{name}.parquet").touch()

    assert staging.finish_stage(stage(7), second) == stage(7)
    assert staging.finish_stage(stage(8), first) == stage(7)
    assert [file.name for file in staging.stage_path(0).glob("*.parquet")] == ["second.parquet"]
    assert not first.exists()


class Overtaken(StagingDirectory):
    """A driver's view, in which another one finishes right after it was seen that none had."""

    def overtake_with(self, attempt: Path) -> None:
        self.other = attempt

    def finished_stage(self, position: int) -> StagedStage | None:
        found = super().finished_stage(position)
        if found is None:
            StagingDirectory(self.path).finish_stage(stage(7), self.other)
        return found


@pytest.mark.parametrize("has_remains", [False, True])
def test_what_a_driver_takes_for_the_stage_is_what_is_there_whoever_was_first_by_a_moment(
    staging: StagingDirectory, has_remains: bool
) -> None:
    """The remains of a stage that somebody began to delete are in the way, or nothing is."""
    staging.begin(identity(), 1)
    other, own = staging.new_attempt(0), staging.new_attempt(0)
    for name, directory in (("other", other), ("own", own)):
        directory.mkdir()
        (directory / f"{name}.parquet").touch()
    if has_remains:
        staging.stage_path(0).mkdir()
        (staging.stage_path(0) / "remains.parquet").touch()
    driver = Overtaken(staging.path)
    driver.overtake_with(other)

    taken = driver.finish_stage(stage(8), own)

    assert taken == staging.finished_stage(0) == stage(7 if has_remains else 8)
    left = {file.name for file in staging.path.rglob("*.parquet")}
    assert left == {"other.parquet"} if has_remains else {"own.parquet", "other.parquet"}


def test_of_two_drivers_that_begin_at_once_one_claims_the_directory(
    staging: StagingDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without locks; the other one finds, when it writes, that it is another history's."""
    later = BackfillIdentity.of(TopologyPlan(two_repartitions(), "app"), {"left": 1}, {0: 1}, {})
    refuse = StagingDirectory._refuse_foreign_files

    def overtaken(this: StagingDirectory) -> None:
        refuse(this)
        monkeypatch.undo()
        StagingDirectory(this.path).begin(identity(), 1)

    monkeypatch.setattr(StagingDirectory, "_refuse_foreign_files", overtaken)
    with pytest.raises(StagingError, match="its history differ"):
        staging.begin(later, 2)

    assert begun_identity(staging.path) == identity()
    assert [file.name for file in staging.path.iterdir()] == ["begun.json"]


def test_troubles_are_told_in_words_that_fit_a_rescale_too(tmp_path: Path) -> None:
    staging = StagingDirectory(tmp_path / "staged")
    staging.begin(identity(), 1)
    other = BackfillIdentity.of(TopologyPlan(two_repartitions(), "other"), {}, {}, {})
    (tmp_path / "thesis.txt").touch()
    (tmp_path / "manifest.json").write_text('{"format_version": 1}')

    told = [
        told_by(lambda: staging.begin(other, 2)),
        told_by(lambda: read_manifest(staging.path)),
        told_by(lambda: read_manifest(tmp_path)),
        told_by(lambda: read_manifest(tmp_path / "nowhere")),
        told_by(lambda: StagingDirectory(tmp_path).begin(identity(), 1)),
        *(f"{cure}" for cure in _CURES.values()),
        do_again(staging.stage_path(0)),
    ]
    with staging.held():
        told.append(told_by(lambda: staging.held().__enter__()))

    assert [text for text in told if "backfill" in text.replace("backfill or rescale", "")] == []


def told_by(fails: Callable[[], object]) -> str:
    with pytest.raises(StagingError) as raised:
        fails()
    return str(raised.value)


def test_without_locks_nothing_of_another_driver_is_removed(
    staging: StagingDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with staging.held():
        staging.begin(identity(), 1)
        attempt = staging.new_attempt(0)
        attempt.mkdir()
        with staging.held():
            assert attempt.exists()
    assert attempt.exists()


def test_directory_in_which_nothing_was_begun_is_gone_afterwards(staging: StagingDirectory) -> None:
    with staging.held():
        assert staging.path.is_dir()
    assert not staging.path.exists()


def test_driver_killed_while_it_begins_leaves_a_directory_that_can_be_used(
    staging: StagingDirectory,
) -> None:
    staging.path.mkdir()
    (staging.path / ".begun.json.unfinished").write_text('{"format_ver')

    with staging.held():
        assert staging.begin(identity(), 3) == 3


def test_removed_directory_is_gone(staging: StagingDirectory) -> None:
    staging.begin(identity(), 1)

    staging.remove()

    assert list(staging.path.parent.iterdir()) == []


def test_file_in_the_way_is_told_with_a_cure(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with (
            pytest.raises(StagingError, match=r"can't be used \(.*\): a file is in the way"),
            StagingDirectory(path).held(),
        ):
            pass


def test_full_disk_is_told_with_a_cure(tmp_path: Path, small_disk: Path) -> None:
    (small_disk / "ballast").write_bytes(bytes(os.statvfs(small_disk).f_bavail * 4096))
    with (
        pytest.raises(StagingError, match="the disk is full: free some space"),
        StagingDirectory(small_disk / "staged").held(),
    ):
        pass


def test_worker_that_is_late_for_its_stage_leaves_only_what_the_next_driver_clears_away(
    tmp_path: Path,
) -> None:
    staging = StagingDirectory(tmp_path / "staging")
    with staging.held():
        attempt = staging.new_attempt(0)
        attempt.mkdir()
        late = ResultFiles(attempt, staging.path)
        late.write(ResultBatch(ResultKind.OUTPUT, 0, "out", [0], 0, [(b"k", b"v", 1, ())]))
        staging.finish_stage(stage(7), attempt)
    late.finish()
    was_made_again = attempt.exists()

    with staging.held():
        left = sorted(str(file.relative_to(staging.path)) for file in staging.path.rglob("*"))

    assert was_made_again
    assert left == [".lock", "stage-0", "stage-0/_stage.json"]
