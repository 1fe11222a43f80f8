"""How times are written into Parquet files: as microseconds, which all readers read alike.

Spark's own way (INT96) is read by others as nanoseconds, which end in 2262: what is later comes
back as another time, in silence.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NAME = "spark.sql.parquet.outputTimestampType"


@contextmanager
def times_in_microseconds(spark: SparkSession) -> Iterator[None]:
    """Let a session, which may be the user's own, write times so within the block."""
    before = spark.conf.get(_NAME)
    spark.conf.set(_NAME, "TIMESTAMP_MICROS")
    try:
        yield
    finally:
        if before is not None:
            spark.conf.set(_NAME, before)
