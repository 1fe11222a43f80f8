"""Java's class data archive for the tests' Spark, which halves its start.

Java takes an archive only with the class path it was made with, and Spark's has this checkout in
it: so it is made here, once a checkout. `python -m tests.spark_classes` makes it where there is
none; without it Spark starts as it does elsewhere. The jars of Spark's Kafka connector are fetched
on the way: here, rather than within a test's time limit.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import tempfile
from pathlib import Path
from typing import Any

_BUILD = Path(__file__).parents[1] / "build"
_END_S = 120.0
BRIEF = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For a Java of few rows: compiling hot code well would take longer than running it."""
_QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off"
"""Without it a Java that can't use or write an archive says so on its standard output."""


def java_options() -> str:
    """Return the options of a Spark that is brief, or has few rows."""
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        made = _archive()
        return f"{BRIEF} {_QUIET} -XX:SharedArchiveFile={made}" if made.exists() else BRIEF
    return BRIEF


def _archive() -> Path:
    """Return where the archive is, or would be. Java itself refuses one of another Java."""
    return _BUILD / f"spark-{importlib.metadata.version('pyspark')}.jsa"


def make() -> None:
    """Do a little of what the tests do, in a Java that writes down the classes it has loaded."""
    from pystreams.backfill.spark.connector_jars import kafka_session

    _BUILD.mkdir(exist_ok=True)
    recorded = _archive().with_suffix(f".{os.getpid()}")
    options = f"{BRIEF} {_QUIET} -XX:ArchiveClassesAtExit={recorded}"
    with (
        tempfile.TemporaryDirectory() as directory,
        kafka_session("local[1]", {"spark.driver.extraJavaOptions": options}) as session,
    ):
        gateway: Any = session.sparkContext._gateway
        rows = session.createDataFrame([(b"k", 1), (b"l", 2)], "key binary, number int")
        rows.write.partitionBy("number").parquet(f"{directory}/rows")
        rows = session.read.parquet(f"{directory}/rows").repartition(2, "key")
        rows.mapInArrow(lambda batches: batches, rows.schema).groupBy("key").count().collect()
    gateway.proc.stdin.close()  # Java ends as it does with the program that started it.
    gateway.proc.wait(_END_S)
    with contextlib.suppress(FileNotFoundError):  # Not every Java writes archives.
        recorded.replace(_archive())


if __name__ == "__main__" and not _archive().exists():
    from pystreams.backfill.spark.session import SparkNotAvailableError
    from pystreams.kernel.maven import ArtifactError

    with contextlib.suppress(ArtifactError, SparkNotAvailableError):  # Its tests will tell.
        make()
