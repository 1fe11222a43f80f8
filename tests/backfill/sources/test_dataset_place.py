"""A data set appears at once, whatever was there before and whoever is killed meanwhile."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from pystreams.backfill.exports.dataset_place import (
    check_replaceable,
    is_dataset_of,
    num_rows,
    replaced,
)
from pystreams.backfill.staging.errors import StagingError
from tests.backfill.publishing.killed_replacing import replace, staging_of, what_is_at


def test_data_set_is_replaced_by_the_next_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    first, second = staging_of(tmp_path, "first"), staging_of(tmp_path, "second")
    place = tmp_path / "sets" / "dataset"

    replace(place, first)
    assert is_dataset_of(place, first)
    replace(place, second)

    assert what_is_at(place, [first, second]) == "second"
    assert list(place.parent.iterdir()) == [place]


def test_writing_that_fails_leaves_the_data_set_of_before(tmp_path: Path) -> None:
    first, second = staging_of(tmp_path, "first"), staging_of(tmp_path, "second")
    place = tmp_path / "dataset"
    replace(place, first)

    with pytest.raises(ZeroDivisionError), replaced(place, second):
        raise ZeroDivisionError

    assert what_is_at(place, [first, second]) == "first"


def test_place_that_is_a_link_stays_one(tmp_path: Path) -> None:
    staging, disk = staging_of(tmp_path, "first"), tmp_path / "disk" / "large"
    disk.mkdir(parents=True)
    place = tmp_path / "dataset"
    place.symlink_to(disk)

    replace(place, staging)
    replace(place, staging)

    assert place.is_symlink()
    assert what_is_at(disk, [staging]) == "first"
    assert list(disk.parent.iterdir()) == [disk]


def test_writer_killed_at_any_moment_leaves_a_whole_data_set_or_none_and_the_next_one_writes(
    tmp_path: Path,
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.backfill.publishing.killed_replacing", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    moments = json.loads(done.stdout)

    after_kills = [then for then, _, _ in moments]
    assert after_kills[0] == "old"
    assert after_kills[-1] == "new"
    assert after_kills.count(None) == 1, "between the two renames"
    assert sorted(after_kills, key=["old", None, "new"].index) == after_kills
    assert after_kills.count("new") > 5, "also while the old one is deleted"
    assert all(rest == ["last", ["dataset"]] for _, *rest in moments)


@pytest.mark.parametrize("name", ["thesis.tex", ".hidden"])
def test_place_with_other_files_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / name).touch()

    with pytest.raises(StagingError, match=r"that are not of a backfill's data set: move them"):
        check_replaceable(tmp_path)

    assert (tmp_path / name).exists()


def test_place_that_is_empty_or_not_there_or_has_a_data_set_is_taken(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    check_replaceable(empty)
    check_replaceable(tmp_path / "not" / "there")
    replace(empty, staging_of(tmp_path, "staged"))

    check_replaceable(empty)


def test_rows_that_workers_have_written_elsewhere_are_missed(tmp_path: Path) -> None:
    for number in range(2):
        parquet.write_table(pa.table({"n": [1, 2, 3]}), tmp_path / f"part-{number}.parquet")

    assert num_rows(tmp_path, 6) == 6
    with pytest.raises(
        StagingError, match=r"written 9 rows to .*, and 6 are seen here: mount the data set's"
    ):
        num_rows(tmp_path, 9)
