"""A Spark session that reads Kafka."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pystreams.backfill.spark.connector_jars import with_connector
from pystreams.backfill.spark.session import require_pyspark, spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def kafka_session(
    master: str | None = None, spark_conf: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """Give a session with Spark's Kafka connector; see `session.spark_session`.

    A session that is active already must have the connector from its start.

    Raises:
        ConfigError: As `spark_session` and `with_connector`.
        ArtifactError: The connector can't be downloaded.
        SparkNotAvailableError: pyspark or Java is missing, or Spark did not start.
    """
    require_pyspark()
    from pyspark.sql import SparkSession

    conf = dict(spark_conf or {})
    if SparkSession.getActiveSession() is None:
        conf = with_connector(conf)
    with spark_session(master, conf) as spark:
        yield spark
