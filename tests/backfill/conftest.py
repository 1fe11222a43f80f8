"""One Spark session for all tests; a test that takes `spark` is marked so by itself."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pystreams.backfill.spark.session import find_spark_java, missing_modules, spark_session
from tests.spark_classes import java_options

SMALL = {
    # Tests have few rows: compiling code for them would take longer than running without.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    # And they are to see what happens at the borders of batches.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "50",
    "spark.default.parallelism": "1",
    "spark.sql.leafNodeDefaultParallelism": "1",
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": java_options(),
}


@pytest.hookimpl(tryfirst=True)  # Before pytest picks by marker.
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
            # Spark's Python side leaves the sockets it collects rows through to the collector.
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """A local session with two cores, where a task that fails is tried once more."""
    missing = missing_modules(find_spark_java().executable)
    if missing:
        pytest.skip(f"this machine's Java lacks modules that Spark needs: {', '.join(missing)}")
    with spark_session("local[2,2]", SMALL) as session:
        assert session.sparkContext.pythonExec == sys.executable
        yield session


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of a few megabytes, which gets full; needs the right to mount."""
    directory = tmp_path / "small"
    directory.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(directory)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"a disk of its own can't be mounted here: {done.stderr.strip()}")
    try:
        yield directory
    finally:
        subprocess.run(["umount", "--lazy", str(directory)], check=True)
