"""The results in a staging directory are looked at once, and kept from drivers meanwhile."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from pystreams import TaskId
from pystreams.backfill.plan.rows import ResultKind
from pystreams.backfill.publishing.staged_publication import staged_publication
from pystreams.backfill.publishing.staged_state import staged_state
from pystreams.backfill.staging.directory import StagingDirectory
from pystreams.backfill.staging.errors import StagingError
from pystreams.backfill.staging.results import StagedResults, kept_results
from tests.backfill.publishing.test_staged_publication import plan_of, staged_in

LOCK = ".lock"


@pytest.fixture
def staged(tmp_path: Path) -> Path:
    return staged_in(tmp_path)


def test_rows_of_a_stage_that_goes_afterwards_are_no_empty_ones(staged: Path) -> None:
    """As when a second operator deletes it to run it again, while the first publishes."""
    results = StagedResults.whole(staged)
    first, second, _ = staged_publication(results, plan_of(), with_outputs=True).tasks
    shutil.rmtree(staged / "stage-1")

    assert len(list(first.rows(0))) == first.num_rows == 2
    assert second.num_rows == 2
    with pytest.raises(StagingError, match=r"is gone, and was there before.*bring back"):
        list(second.rows(0))


def test_rows_behind_those_that_have_gone_are_not_given_in_their_place(staged: Path) -> None:
    """As while a directory is being deleted: its mark would tell of rows that never came."""
    results = StagedResults.whole(staged)
    task = staged_publication(results, plan_of(), with_outputs=True).tasks[0]
    min((staged / "stage-0").rglob("name=middle/*/*.parquet")).unlink()

    rows = task.rows(0)
    with pytest.raises(StagingError, match="is gone"):
        next(rows)


def test_state_of_a_stage_that_goes_afterwards_is_no_empty_one(staged: Path) -> None:
    read = staged_state(StagedResults.whole(staged))
    shutil.rmtree(staged / "stage-1")

    with pytest.raises(StagingError, match="is gone"):
        list(read(TaskId(1, 0), "counts"))


def test_stage_in_the_place_of_another_is_not_read_for_it(staged: Path) -> None:
    results = StagedResults.whole(staged)
    file = next((staged / "stage-1").rglob("name=counts/*/*.parquet"))
    more = next((staged / "stage-0").rglob("kind=0/name=middle/*/*.parquet"))
    shutil.copy(more, file.with_name("another.parquet"))
    file.unlink()

    with pytest.raises(StagingError, match=f"{file.name} is gone"):
        list(results.files[1].rows(ResultKind.STATE, "counts", 0))


def test_drivers_are_kept_out_while_results_are_published_and_publishers_are_not(
    staged: Path,
) -> None:
    with kept_results(staged) as results, kept_results(staged):
        assert set(results.files) == {0, 1, 2}
        with (
            pytest.raises(StagingError, match=f"runs in {staged} .process {os.getpid()} on"),
            StagingDirectory(staged).held(),
        ):
            pass
    with StagingDirectory(staged).held():
        assert results.path == staged


def test_results_that_a_driver_works_on_are_not_published(staged: Path) -> None:
    with (
        StagingDirectory(staged).held(),
        pytest.raises(StagingError, match="another backfill or rescale runs in"),
        kept_results(staged),
    ):
        pass


def test_directory_that_can_not_be_written_is_read_all_the_same(
    staged: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where results are mounted to be published by another machine."""
    opened = os.open

    def read_only(path: Any, *arguments: Any) -> int:
        if Path(path).name == LOCK:
            raise OSError(errno.EROFS, "Read-only file system")
        return opened(path, *arguments)

    monkeypatch.setattr(os, "open", read_only)
    with capture_logs() as logs, kept_results(staged) as results:
        assert set(results.files) == {0, 1, 2}

    assert [line["event"] for line in logs] == ["results are read without a lock"]


def test_directory_of_somebody_else_gets_no_lock_file(tmp_path: Path) -> None:
    with pytest.raises(StagingError, match="holds no results"), kept_results(tmp_path):
        pass

    assert list(tmp_path.iterdir()) == []
