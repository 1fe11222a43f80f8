"""Which archives of Spark's Python code a worker does without."""

from __future__ import annotations

from pathlib import Path

from pystreams.backfill.spark.worker_daemon import archives_of_spark


def a_file(path: Path) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    return str(path)


def test_archives_beside_the_directory_with_the_same_are_left_out(tmp_path: Path) -> None:
    a_file(tmp_path / "pyspark" / "__init__.py")
    a_file(tmp_path / "py4j" / "__init__.py")
    archives = [a_file(tmp_path / "pyspark/python/lib/pyspark.zip")]
    archives += [a_file(tmp_path / "pyspark/jars/spark-core.jar")]
    users_own = a_file(tmp_path / "own.zip")

    assert archives_of_spark([*archives, users_own, str(tmp_path)]) == archives


def test_archives_of_another_spark_stay(tmp_path: Path) -> None:
    a_file(tmp_path / "installed" / "pyspark" / "__init__.py")
    a_file(tmp_path / "installed" / "py4j" / "__init__.py")
    archive = a_file(tmp_path / "home" / "python/lib/pyspark.zip")

    assert archives_of_spark([archive, str(tmp_path / "installed")]) == []


def test_archives_that_nothing_else_is_there_for_stay(tmp_path: Path) -> None:
    archive = a_file(tmp_path / "pyspark/python/lib/pyspark.zip")

    assert archives_of_spark([archive, str(tmp_path / "empty")]) == []
