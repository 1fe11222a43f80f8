"""Spark's Kafka connector, and sessions that have it.

Pinned jars from Maven Central are given to a session as `spark.jars`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module, resources
from typing import TYPE_CHECKING

from pystreams.backfill.spark.session import require_pyspark, spark_session
from pystreams.errors import ConfigError
from pystreams.kernel import maven

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONNECTOR_VERSION = "4.0.0"
"""The Spark that the pinned jars are of; a connector runs on its own minor version."""

_CONNECTOR = "spark-sql-kafka-0-10"
_SETTINGS = ("spark.jars", "spark.jars.packages")


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


def with_connector(spark_conf: Mapping[str, str]) -> dict[str, str]:
    """Return Spark's configuration with the connector's jars, unless it names a connector itself.

    Raises:
        ConfigError: pyspark is of a version that the pinned jars do not fit.
        ArtifactError: A jar can't be downloaded, or differs from the pinned one.
    """
    if any(_CONNECTOR in spark_conf.get(name, "") for name in _SETTINGS):
        return dict(spark_conf)
    version = str(import_module("pyspark").__version__)
    if version.split(".")[:2] != CONNECTOR_VERSION.split(".")[:2]:
        raise ConfigError(
            f"the Kafka connector that pystreams brings is Spark {CONNECTOR_VERSION}'s, and "
            f"pyspark is {version}: name yours with --spark-conf "
            f"spark.jars.packages=org.apache.spark:{_CONNECTOR}_2.13:{version}, or install "
            f"pyspark=={CONNECTOR_VERSION}"
        )
    pins = resources.files(__package__).joinpath("spark_kafka_jars.sha256").read_text("utf-8")
    files = maven.fetch(
        maven.parse_artifacts(pins), title=f"Spark's Kafka connector {CONNECTOR_VERSION}"
    )
    own = [jar for jar in spark_conf.get("spark.jars", "").split(",") if jar]
    return {**spark_conf, "spark.jars": ",".join([*own, *map(str, files)])}
