"""Of Spark's own directories nothing stays where a backfill is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from pystreams.backfill.spark.leftovers import working_directory_kept


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def content(directory: Path) -> set[str]:
    return {str(path.relative_to(directory)) for path in directory.rglob("*")}


def test_directories_of_spark_are_removed_when_it_fails_too(here: Path) -> None:
    def fail() -> None:
        with working_directory_kept():
            (here / "artifacts" / "spark-1").mkdir(parents=True)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()

    assert content(here) == set()


def test_directory_of_the_user_stays(here: Path) -> None:
    (here / "artifacts").mkdir()
    with working_directory_kept():
        (here / "artifacts" / "spark-1").mkdir()

    assert content(here) == {"artifacts"}


def test_what_has_something_in_it_stays(here: Path) -> None:
    with working_directory_kept():
        for name in ("spark-1", "spark-2"):
            (here / "artifacts" / name).mkdir(parents=True)
        (here / "artifacts" / "spark-2" / "file").write_text("uploaded")

    assert content(here) == {"artifacts", "artifacts/spark-2", "artifacts/spark-2/file"}


def test_directory_that_another_spark_uses_stays(here: Path) -> None:
    (here / "artifacts" / "spark-1").mkdir(parents=True)
    with working_directory_kept():
        (here / "artifacts" / "spark-2").mkdir()

    assert content(here) == {"artifacts", "artifacts/spark-1"}
