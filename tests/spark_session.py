"""The Spark session that tests share."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from pystreams.backfill.spark.connector_jars import kafka_session
from pystreams.backfill.spark.session import find_spark_java, missing_modules
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


@contextmanager
def small_session() -> Iterator[Any]:
    """Two cores, and Spark's Kafka connector; a task that fails is tried once more."""
    missing = missing_modules(find_spark_java().executable)
    if missing:
        pytest.skip(f"this machine's Java lacks modules that Spark needs: {', '.join(missing)}")
    with kafka_session("local[2,2]", SMALL) as session:
        assert session.sparkContext.pythonExec == sys.executable
        yield session
